//! Hints between processes, by LISTEN and NOTIFY, each on a connection of its own.
//!
//! A hint is told after the commit that it speaks of and by a statement of its own, together with those that have come
//! meanwhile. It may be lost, its listener may die, a pooler may forbid LISTEN: the poll finds the work all the same.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use passbook::{Endings, Hints, Settlement, Wakeups};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::task::AbortHandle;

use crate::connection::{Asking, Link};

/// The least time between two NOTIFYs of one process, so that a busy one costs the server little.
const GAP: Duration = Duration::from_millis(10);
/// The most bytes of names in one NOTIFY; of more, it is only told that there were some. Postgres takes 8,000 in all, and JSON
/// may double them.
const MOST_BYTES: usize = 3_500;
/// How soon a listener that cannot connect tries again, at first and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

/// What the processes on one schema tell each other through. The names of channels have at most 63 bytes; two schemas that
/// share a channel tell each other what is of no use, which harms nobody.
pub(crate) fn channel(schema: Option<&str>) -> String {
    let name: String = schema.unwrap_or_default().chars().take(50).collect();
    if name.is_empty() {
        "passbook".to_owned()
    } else {
        format!("passbook:{name}")
    }
}

/// The hints of a link: within the process, and to and from others.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) within: Hints,
    /// What tells our own NOTIFYs from those of others.
    ours: u64,
    outbox: Mutex<Outbox>,
    listener: Mutex<Option<AbortHandle>>,
}

/// What is to be told to others.
#[derive(Debug, Default)]
struct Outbox {
    ready: bool,
    ended: Vec<String>,
    bytes: usize,
    /// A task is telling, and takes along what is added.
    telling: bool,
}

/// The payload of a NOTIFY.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    by: u64,
    /// Something may be ready.
    ready: bool,
    /// What has ended; `None` when that was too much to name.
    ended: Option<Vec<String>>,
}

impl Default for Telling {
    fn default() -> Self {
        Self {
            within: Hints::new(),
            // Seeded anew for each, which is random enough to know oneself by.
            ours: std::hash::RandomState::new().build_hasher().finish(),
            outbox: Mutex::default(),
            listener: Mutex::default(),
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(listener) = lock(&self.listener).take() {
            listener.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Something of this namespace may be ready, or of any. Other processes are told unless a worker of ours was waiting for it:
    /// they would find it taken.
    pub(crate) fn tell_ready(self: &Arc<Self>, namespace: Option<&str>) {
        if !self.telling.within.tell_ready(namespace) {
            self.tell(|outbox| outbox.ready = true);
        }
    }

    /// A workflow is over.
    pub(crate) fn tell_ended(self: &Arc<Self>, workflow: &str) {
        self.telling.within.tell_ended(workflow);
        self.tell_others_of(workflow);
    }

    /// A pass was settled, which may be the end of its workflow.
    pub(crate) fn tell_settled(self: &Arc<Self>, asked: Instant, workflow: &str, outcome: &Settlement, recorded: bool) {
        self.telling.within.tell_settled(asked, workflow, outcome, recorded);
        if outcome.is_over() {
            self.tell_others_of(workflow);
        }
    }

    fn tell_others_of(self: &Arc<Self>, workflow: &str) {
        self.tell(|outbox| {
            outbox.bytes += workflow.len() + 4;
            if outbox.bytes <= MOST_BYTES {
                outbox.ended.push(workflow.to_owned());
            }
        });
    }

    /// When something may be ready from now on, whoever made it so.
    pub(crate) fn wakeups(self: &Arc<Self>, namespaces: &[String]) -> Wakeups {
        self.listen();
        self.telling.within.wakeups(namespaces)
    }

    /// What ends from now on, whoever ended it.
    pub(crate) fn endings(self: &Arc<Self>) -> Endings {
        self.listen();
        self.telling.within.endings()
    }

    fn tell(self: &Arc<Self>, add: impl FnOnce(&mut Outbox)) {
        if !self.hints {
            return;
        }
        let mut outbox = lock(&self.telling.outbox);
        add(&mut outbox);
        if !std::mem::replace(&mut outbox.telling, true) {
            tokio::spawn(tell(self.clone()));
        }
    }

    /// Makes sure that somebody listens.
    fn listen(self: &Arc<Self>) {
        // Behind a pooler, LISTEN would be heard by a connection that somebody else is given next.
        if !self.hints || self.pooler {
            return;
        }
        let mut listener = lock(&self.telling.listener);
        if listener.as_ref().is_none_or(AbortHandle::is_finished) {
            *listener = Some(tokio::spawn(listen(Arc::downgrade(self))).abort_handle());
        }
    }
}

/// Tells the first at once, and what has come meanwhile together.
async fn tell(link: Arc<Link>) {
    while let Some(told) = next(&link) {
        // Names are text, so they can always be written.
        if let Ok(payload) = serde_json::to_string(&told) {
            let channel = channel(link.schema.as_deref());
            let bind = |q: Asking| q.bind(&channel).bind(&payload);
            let what = || format!("notify `{channel}`");
            if let Err(error) = link.teller.ask(&link, &link.statements.notify, bind, what).await {
                tracing::debug!(%error, "other processes find by their poll what they could not be told");
            }
        }
        tokio::time::sleep(GAP).await;
    }
}

fn next(link: &Link) -> Option<Told> {
    let mut outbox = lock(&link.telling.outbox);
    if !outbox.ready && outbox.bytes == 0 {
        outbox.telling = false;
        return None;
    }
    let Outbox {
        ready, ended, bytes, ..
    } = std::mem::replace(
        &mut *outbox,
        Outbox {
            telling: true,
            ..Outbox::default()
        },
    );
    Some(Told {
        by: link.telling.ours,
        ready,
        ended: (bytes <= MOST_BYTES).then_some(ended),
    })
}

/// Listens for as long as the link is in use.
async fn listen(link: Weak<Link>) {
    let mut pause = AGAIN[0];
    loop {
        let Err(error) = hear(&link, &mut pause).await else {
            return;
        };
        tracing::warn!(%error, "hints of other processes are not heard for now; the poll finds their work");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN[1]);
    }
}

async fn hear(link: &Weak<Link>, pause: &mut Duration) -> sqlx::Result<()> {
    let Some(strong) = link.upgrade() else {
        return Ok(());
    };
    let connect = (*strong.pool.connect_options()).clone();
    let channel = channel(strong.schema.as_deref());
    drop(strong);
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(connect);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&channel).await?;
    let mut told: Option<String> = None;
    loop {
        let Some(link) = link.upgrade() else {
            return Ok(());
        };
        match told {
            // Nobody listened until now.
            None => link.telling.within.tell_unsure(),
            Some(told) => link.telling.heard(&told),
        }
        *pause = AGAIN[0];
        drop(link);
        told = listener.try_recv().await?.map(|told| told.payload().to_owned());
    }
}

impl Telling {
    fn heard(&self, payload: &str) {
        match serde_json::from_str::<Told>(payload) {
            Ok(told) if told.by == self.ours => {}
            Ok(Told { ready, ended, .. }) => {
                if ready {
                    self.within.tell_ready(None);
                }
                match ended {
                    Some(ended) => ended.iter().for_each(|workflow| self.within.tell_ended(workflow)),
                    None => self.within.tell_unsure(),
                }
            }
            // Of another program, which need not know what we say: it has written something.
            Err(_) => {
                self.within.tell_ready(None);
            }
        }
    }
}
