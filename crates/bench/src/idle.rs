//! What a worker with nothing to do costs.

use std::time::{Duration, Instant};

use passbook::Run;

use crate::Result;
use crate::ground::{Ground, Round};
use crate::work::Crew;

/// How long nothing is done.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Idle {
    /// Seconds of each figure.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// How many kinds of workflow the worker serves.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 20])]
    kinds: Vec<usize>,
}

/// A body that nobody starts.
async fn unused<S: passbook::Durable>(_: &Run<S>, (): ()) -> std::result::Result<(), String> {
    Ok(())
}

/// One run. A statement of an idle worker is a transaction of its own, so the server's commits count them.
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>, idle: &Idle) -> Result<()> {
    let trip = round.ground.round_trip().await?;
    round.report.add("floor: round trip", "ms", trip * 1_000.0);
    for &kinds in &idle.kinds {
        let place = format!("{}_{kinds}", round.place("idle"));
        let crew = Crew::new(round.ground, &place, round.opening(), 1, |worker| {
            (0..kinds).fold(worker, |worker, kind| {
                worker.serve(&format!("kind-{kind}"), unused::<G::Store>)
            })
        })
        .await?;
        // What a worker asks at its boot is not asked again.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (before, began) = (round.ground.counts().await?, Instant::now());
        tokio::time::sleep(Duration::from_secs_f64(idle.seconds)).await;
        let (after, took) = (round.ground.counts().await?, began.elapsed().as_secs_f64());
        crew.dismiss().await?;
        let of = |what: &str| format!("{what}, {kinds} kind(s)");
        if let Some(commits) = after.commits_since(&before) {
            // One of them was ours: the first reading of the counters.
            round
                .report
                .add(of("statements (xact_commit)"), "/s", (commits - 1.0) / took);
        }
        let percent = |cpu: f64| cpu / took * 100.0;
        round
            .report
            .add(of("CPU of this process"), "%", percent(after.own_cpu_since(&before)));
        if let Some(cpu) = after.server_cpu_since(&before) {
            round.report.add(of("CPU of the server"), "%", percent(cpu));
        }
    }
    Ok(())
}
