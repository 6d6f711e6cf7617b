//! Waiting for results, many at a time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::durable::Durable;
use crate::hints::Ending;
use crate::{Error, Finished, Inspect, Result, Scheduler, State, Value};

/// How soon everything is asked for again when the store tells of no endings.
const SOONEST: Duration = Duration::from_millis(1);
/// How soon, when it does: a hint may be lost.
const TOLD: Duration = Duration::from_millis(50);
/// The asking for everything may take at most this part of the time, so that thousands who wait do not keep a connection busy.
const SHARE: u32 = 10;
/// How many workflows are asked for in one statement.
const PAGE: usize = 1_000;

type Waiting = HashMap<String, Vec<Waiter>>;

/// Everybody who waits through one client. While there is anyone, one task asks for all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Arc<Shared>);

#[derive(Debug)]
struct Waiter {
    since: Instant,
    tell: oneshot::Sender<Result<Finished>>,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    /// Told when somebody new has come.
    came: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: Waiting,
    /// Who has come since the last question.
    fresh: Vec<String>,
    asking: bool,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn wait<S: Durable + Inspect>(&self, store: &S, workflow: &str) -> Result<Finished> {
        let told = {
            let mut inner = self.lock();
            let (tell, told) = oneshot::channel();
            let since = Instant::now();
            let waiters = inner.waiting.entry(workflow.to_owned()).or_default();
            waiters.push(Waiter { since, tell });
            inner.fresh.push(workflow.to_owned());
            if inner.asking {
                self.0.came.notify_one();
            } else {
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

    /// Forgets who has gone. False, and the asking is over, when nobody is left.
    fn anybody(&self) -> bool {
        let mut inner = self.lock();
        inner.waiting.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.tell.is_closed());
            !waiters.is_empty()
        });
        inner.asking = !inner.waiting.is_empty();
        inner.asking
    }

    fn all(&self) -> Vec<String> {
        let mut inner = self.lock();
        inner.fresh.clear();
        inner.waiting.keys().cloned().collect()
    }

    /// Who is new.
    fn fresh(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// Those of the told that somebody waits for.
    fn awaited(&self, told: HashSet<String>) -> Vec<String> {
        let inner = self.lock();
        told.into_iter()
            .filter(|told| inner.waiting.contains_key(told))
            .collect()
    }

    fn tell(&self, finished: &Finished) {
        for waiter in self.lock().waiting.remove(&finished.workflow).unwrap_or_default() {
            let _ = waiter.tell.send(Ok(finished.clone()));
        }
    }

    /// Tells a result to those who wait since before the store was asked to write it.
    fn tell_result(&self, workflow: &str, asked: Instant, result: &Value) {
        let mut inner = self.lock();
        let Some(waiters) = inner.waiting.get_mut(workflow) else {
            return;
        };
        for waiter in waiters.extract_if(.., |waiter| waiter.since <= asked) {
            let _ = waiter.tell.send(Ok(Finished {
                workflow: workflow.to_owned(),
                state: State::Completed,
                result: Some(result.clone()),
                error: None,
            }));
        }
        if waiters.is_empty() {
            inner.waiting.remove(workflow);
        }
    }

    fn fail(&self, error: &Error) {
        for waiter in std::mem::take(&mut self.lock().waiting).into_values().flatten() {
            let _ = waiter
                .tell
                .send(Err(Error::store(format!("results cannot be waited for: {error}"))));
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

/// What to ask for next.
enum Ask {
    All,
    Some(HashSet<String>),
}

impl Asking {
    async fn run<S: Durable + Inspect>(mut self, store: S) {
        // Before the first question: what ends after its answer is told.
        let mut endings = store.endings();
        let first = if endings.is_silent() { SOONEST } else { TOLD };
        let longest = store.scheduler().poll().max(first);
        let mut pause = first;
        // However often everything may have changed.
        let mut not_before = Instant::now();
        let mut all_at = not_before + first;
        let mut ask = Ask::Some(HashSet::new());
        while self.waiters.anybody() {
            let began = Instant::now();
            match ask {
                Ask::All => {
                    self.ask(&store, &self.waiters.all()).await;
                    not_before = Instant::now() + began.elapsed() * SHARE;
                    all_at = not_before.max(Instant::now() + pause);
                    pause = (pause * 3 / 2).min(longest);
                }
                Ask::Some(told) => {
                    let fresh = self.waiters.fresh();
                    let mut some = self.waiters.awaited(told);
                    if !fresh.is_empty() || !some.is_empty() {
                        // What runs here will be told, and the store has more to do for it now than to answer questions.
                        some.extend(fresh.into_iter().filter(|fresh| !endings.expects(fresh)));
                        self.ask(&store, &some).await;
                        // Somebody new, or an end: perhaps one of many.
                        pause = first;
                        all_at = all_at.min(Instant::now() + pause.max(began.elapsed() * SHARE));
                    }
                }
            }
            ask = tokio::select! {
                ended = endings.next() => match ended {
                    Some(ended) => Ask::Some(self.take_in(ended)),
                    None if Instant::now() >= not_before => Ask::All,
                    None => {
                        all_at = not_before;
                        Ask::Some(HashSet::new())
                    }
                },
                () = self.waiters.0.came.notified() => Ask::Some(HashSet::new()),
                () = tokio::time::sleep_until(all_at.into()) => Ask::All,
            };
        }
        self.over = true;
    }

    async fn ask<S: Inspect>(&self, store: &S, workflows: &[String]) {
        for page in workflows.chunks(PAGE) {
            match store.finished(page).await {
                Ok(finished) => finished.iter().for_each(|one| self.waiters.tell(one)),
                Err(error) if error.is_unavailable() => tracing::warn!(%error, "results cannot be read yet"),
                Err(error) => self.waiters.fail(&error),
            }
        }
    }

    /// Passes on the results that were told, and returns who is over.
    fn take_in(&self, ended: Vec<Ending>) -> HashSet<String> {
        let take_in = |ended: Ending| {
            if let Some((asked, result)) = ended.result {
                self.waiters.tell_result(&ended.workflow, asked, &result);
            }
            ended.workflow
        };
        ended.into_iter().map(take_in).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    async fn is_pending<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn whoever_came_after_a_pass_was_settled_waits_for_another_end() {
        let (waiters, store) = (Waiters::default(), MemoryStore::new());
        let before = Instant::now();
        let mut waiting = std::pin::pin!(waiters.wait(&store, "w"));
        assert!(is_pending(waiting.as_mut()).await);
        let old = Value::encode("of the run before").expect("text can be kept");
        waiters.tell_result("w", before, &old);
        assert!(
            is_pending(waiting.as_mut()).await,
            "it was deleted and started again meanwhile"
        );
        let new = Value::encode("of this run").expect("text can be kept");
        waiters.tell_result("w", Instant::now(), &new);
        assert_eq!(waiting.await.expect("it is told").result, Some(new));
    }
}
