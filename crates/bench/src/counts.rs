//! What was counted up to one moment: by Postgres of itself, by the kernel of a process.

use std::fs;
use std::time::Duration;

use sqlx::{PgPool, Row};

use crate::Result;
use crate::report::Report;

/// What was counted up to one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// CPU seconds of this process.
    own_cpu: f64,
    server: Option<Served>,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug)]
struct Served {
    commits: f64,
    wal: f64,
    /// Row versions that an update or a delete left dead.
    dead: f64,
    /// Those of the updates that needed no index entry.
    hot: f64,
    cpu: Option<f64>,
}

impl Counts {
    /// Where there is no server, only this process counts.
    pub(crate) fn of_this_process() -> Self {
        Self {
            own_cpu: stat("self").map_or(0.0, |stat| stat.own),
            server: None,
        }
    }

    /// Reads the counters of a server too. Sessions that ran statements must be closed, since only then have they told
    /// everything.
    pub(crate) async fn of_server(pool: &PgPool) -> Result<Self> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let row = sqlx::query(
            "SELECT pg_backend_pid() AS pid, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS wal, \
             (SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()) AS commits, \
             (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables) AS dead, \
             (SELECT coalesce(sum(n_tup_hot_upd), 0)::float8 FROM pg_stat_user_tables) AS hot",
        )
        .fetch_one(pool)
        .await?;
        let served = Served {
            commits: row.get("commits"),
            wal: row.get("wal"),
            dead: row.get("dead"),
            hot: row.get("hot"),
            cpu: server_cpu(row.get("pid")),
        };
        Ok(Self {
            server: Some(served),
            ..Self::of_this_process()
        })
    }

    /// CPU seconds of this process since then.
    pub(crate) fn own_cpu_since(&self, before: &Self) -> f64 {
        self.own_cpu - before.own_cpu
    }

    /// CPU seconds of the server since then, when it runs on this machine.
    pub(crate) fn server_cpu_since(&self, before: &Self) -> Option<f64> {
        Some(self.server?.cpu? - before.server?.cpu?)
    }

    /// Commits of the server since then.
    pub(crate) fn commits_since(&self, before: &Self) -> Option<f64> {
        Some(self.server?.commits - before.server?.commits)
    }

    /// Reports what each workflow cost since then, and the CPU of them all.
    pub(crate) fn report_since(&self, before: &Self, workflows: f64, report: &mut Report) {
        if let (Some(after), Some(before)) = (self.server, before.server) {
            let each = |after: f64, before: f64| (after - before) / workflows;
            report.add("commits", "/workflow", each(after.commits, before.commits));
            report.add("WAL", "B/workflow", each(after.wal, before.wal));
            report.add("dead row versions", "/workflow", each(after.dead, before.dead));
            report.add("HOT updates", "/workflow", each(after.hot, before.hot));
        }
        report.add("CPU of this process", "s", self.own_cpu_since(before));
        if let Some(cpu) = self.server_cpu_since(before) {
            report.add("CPU of the server", "s", cpu);
        }
    }
}

/// What the kernel says of a process: its parent, its CPU seconds, and those of children that ended.
struct Stat {
    parent: i32,
    own: f64,
    ended: f64,
}

fn stat(process: &str) -> Option<Stat> {
    /// Of `/proc`, on every Linux that we know.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS,
        ended: (ticks(13)? + ticks(14)?) / TICKS,
    })
}

/// CPU seconds of the whole server, when it runs on this machine.
fn server_cpu(backend: i32) -> Option<f64> {
    let postmaster = stat(&backend.to_string())?.parent;
    let head = stat(&postmaster.to_string())?;
    let children = fs::read_dir("/proc").ok()?.filter_map(|entry| {
        let stat = stat(entry.ok()?.file_name().to_str()?)?;
        (stat.parent == postmaster).then_some(stat.own)
    });
    Some(head.own + head.ended + children.sum::<f64>())
}
