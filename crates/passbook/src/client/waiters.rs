//! Waiting for results, many at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::durable::Durable;
use crate::{Error, Finished, Inspect, Result, Scheduler};

/// How soon the store is asked again after somebody began to wait; it grows by half up to the store's poll.
const SOONEST: Duration = Duration::from_millis(1);
/// How many workflows are asked for in one statement.
const PAGE: usize = 1_000;

type Waiting = HashMap<String, Vec<oneshot::Sender<Result<Finished>>>>;

/// Everybody who waits through one client. While there is anyone, one task asks for all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    waiting: Waiting,
    asking: bool,
    /// Somebody new has come since the last question.
    fresh: bool,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn wait<S: Durable + Inspect>(&self, store: &S, workflow: &str) -> Result<Finished> {
        let told = {
            let mut inner = self.lock();
            let (tell, told) = oneshot::channel();
            inner.waiting.entry(workflow.to_owned()).or_default().push(tell);
            inner.fresh = true;
            if !inner.asking {
                inner.asking = true;
                let asking = Asking {
                    waiters: self.clone(),
                    over: false,
                };
                tokio::spawn(asking.run(store.clone()));
            }
            told
        };
        told.await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "nobody asks for results any more: the runtime shuts down",
            ))
        })
    }

    /// Everybody who is still waited for, or the end of the asking.
    fn asked(&self) -> Option<(Vec<String>, bool)> {
        let mut inner = self.lock();
        inner.waiting.retain(|_, tells| {
            tells.retain(|tell| !tell.is_closed());
            !tells.is_empty()
        });
        if inner.waiting.is_empty() {
            inner.asking = false;
            return None;
        }
        let fresh = std::mem::take(&mut inner.fresh);
        Some((inner.waiting.keys().cloned().collect(), fresh))
    }

    fn tell(&self, finished: &Finished) {
        for tell in self.lock().waiting.remove(&finished.workflow).unwrap_or_default() {
            let _ = tell.send(Ok(finished.clone()));
        }
    }

    fn fail(&self, error: &Error) {
        for tell in std::mem::take(&mut self.lock().waiting).into_values().flatten() {
            let _ = tell.send(Err(Error::store(format!("results cannot be waited for: {error}"))));
        }
    }
}

/// The task that asks. When it goes away, the next waiter starts another.
struct Asking {
    waiters: Waiters,
    /// Ended by itself, because nobody waits: another task may ask by now.
    over: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.over {
            let mut inner = self.waiters.lock();
            inner.asking = false;
            inner.waiting.clear();
        }
    }
}

impl Asking {
    async fn run<S: Durable + Inspect>(mut self, store: S) {
        let longest = store.scheduler().poll().max(SOONEST);
        let mut pause = SOONEST;
        while let Some((workflows, fresh)) = self.waiters.asked() {
            for page in workflows.chunks(PAGE) {
                match store.finished(page).await {
                    Ok(finished) => finished.iter().for_each(|one| self.waiters.tell(one)),
                    Err(error) if error.is_unavailable() => tracing::warn!(%error, "results cannot be read yet"),
                    Err(error) => self.waiters.fail(&error),
                }
            }
            pause = if fresh { SOONEST } else { (pause * 3 / 2).min(longest) };
            tokio::time::sleep(pause).await;
        }
        self.over = true;
    }
}
