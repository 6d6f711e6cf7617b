//! Natural batching: a lone request goes at once, and what comes while a statement is in flight goes together in the next.
//!
//! It is still an ordinary transaction, and a caller returns when its commit did. A batch that fails is asked again one by
//! one, so that a bad request fails alone; a request whose workflow somebody else has locked is left out of its batch and
//! asked alone, and nobody waits for long behind one that is alone, so that only that workflow waits.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use passbook::{Batches, Error, Result};
use tokio::sync::oneshot;

use crate::connection::Link;

/// The most requests in one statement. Larger ones gain nothing more, hold their locks longer, and make the next wait.
const MOST: usize = 128;
/// No more is added to a statement that has so many bytes of values, so that small ones do not wait for many large ones.
const MOST_BYTES: usize = 256 << 10;
/// The most statements of one kind in flight: while one waits for its commit, the next is made ready.
const FLIGHTS: usize = 2;
/// How long others wait behind a request that is made alone. It may wait for a lock as long as its holder likes, and many such
/// would leave nobody to make the writes of the others. Far longer than a commit takes.
const ALONE: Duration = Duration::from_millis(50);

/// A kind of write that can be made for many at once.
pub(crate) trait Request: Send + Sync + Sized + 'static {
    /// What one caller is answered.
    type Reply: Send + 'static;

    /// How many bytes of values it writes.
    fn bytes(&self) -> usize;

    /// Makes the writes of all in one statement and one commit. `None` for one that was left out and is to be made alone.
    fn many(link: &Link, requests: &[&Self]) -> impl Future<Output = Result<Vec<Option<Self::Reply>>>> + Send;

    /// Makes the write of one.
    fn one(&self, link: &Link) -> impl Future<Output = Result<Self::Reply>> + Send;
}

/// Collects one kind of write.
pub(crate) struct Batcher<R: Request>(Arc<Mutex<Waiting<R>>>);

struct Waiting<R: Request> {
    requests: VecDeque<Asked<R>>,
    flying: usize,
    counted: Batches,
}

impl<R: Request> Waiting<R> {
    /// How many of those in front go together.
    fn together(&self) -> usize {
        let mut bytes = 0;
        let room = |asked: &&Asked<R>| {
            let room = bytes < MOST_BYTES;
            bytes += asked.request.bytes();
            room
        };
        self.requests.iter().take(MOST).take_while(room).count()
    }
}

struct Asked<R: Request> {
    request: R,
    tell: oneshot::Sender<Result<R::Reply>>,
}

impl<R: Request> Default for Batcher<R> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Waiting {
            requests: VecDeque::new(),
            flying: 0,
            counted: Batches::default(),
        })))
    }
}

impl<R: Request> fmt::Debug for Batcher<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Batcher").field(&self.counted()).finish()
    }
}

impl<R: Request> Batcher<R> {
    fn lock(&self) -> MutexGuard<'_, Waiting<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counted(&self) -> Batches {
        let waiting = self.lock();
        let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
        Batches {
            waiting: count(waiting.requests.len()),
            in_flight: count(waiting.flying),
            ..waiting.counted
        }
    }

    /// Makes one write, together with others that are asked for meanwhile. Once asked, it is made even if this future is
    /// dropped.
    pub(crate) async fn ask(&self, link: &Arc<Link>, request: R) -> Result<R::Reply> {
        if !link.batching {
            self.lock().counted.sent(1);
            // Boxed, so that the future of a request that only waits for its batch stays small.
            return Box::pin(request.one(link)).await;
        }
        let (tell, told) = oneshot::channel();
        {
            let mut waiting = self.lock();
            waiting.requests.push_back(Asked { request, tell });
            if waiting.flying < FLIGHTS {
                waiting.flying += 1;
                tokio::spawn(Flight(Self(self.0.clone())).fly(link.clone()));
            }
        }
        told.await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the runtime shuts down; whether the write happened is unknown",
            ))
        })
    }
}

/// One statement after the other, until nothing waits.
struct Flight<R: Request>(Batcher<R>);

impl<R: Request> Drop for Flight<R> {
    fn drop(&mut self) {
        self.0.lock().flying -= 1;
    }
}

impl<R: Request> Flight<R> {
    async fn fly(self, link: Arc<Link>) {
        // What is asked for in this very turn of the runtime goes along.
        tokio::task::yield_now().await;
        loop {
            let batch: Vec<Asked<R>> = {
                let mut waiting = self.0.lock();
                let together = waiting.together();
                if together > 0 {
                    waiting.counted.sent(together);
                }
                waiting.requests.drain(..together).collect()
            };
            match batch.len() {
                0 => return,
                1 => Self::alone(&link, batch).await,
                _ => Self::together(&link, batch).await,
            }
        }
    }

    async fn together(link: &Arc<Link>, batch: Vec<Asked<R>>) {
        let requests: Vec<&R> = batch.iter().map(|asked| &asked.request).collect();
        match R::many(link, &requests).await {
            Ok(replies) => {
                let mut left_out = Vec::new();
                for (asked, reply) in batch.into_iter().zip(replies) {
                    match reply {
                        Some(reply) => drop(asked.tell.send(Ok(reply))),
                        None => left_out.push(asked),
                    }
                }
                // Each may wait for a lock as long as its holder likes; nobody waits with it.
                for asked in left_out {
                    tokio::spawn(Self::one(link.clone(), asked));
                }
            }
            Err(error) => {
                tracing::debug!(%error, requests = batch.len(), "a batch failed and is asked again one by one");
                Self::alone(link, batch).await;
            }
        }
    }

    async fn alone(link: &Arc<Link>, batch: Vec<Asked<R>>) {
        for asked in batch {
            let mut one = Box::pin(Self::one(link.clone(), asked));
            if tokio::time::timeout(ALONE, &mut one).await.is_err() {
                tokio::spawn(one);
            }
        }
    }

    async fn one(link: Arc<Link>, asked: Asked<R>) {
        let reply = asked.request.one(&link).await;
        // Nobody listens when the future that asked was dropped.
        drop(asked.tell.send(reply));
    }
}
