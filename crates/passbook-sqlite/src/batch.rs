//! Natural batching: a lone write goes at once, and what is asked for while a transaction is in flight goes together in the
//! next.
//!
//! It is still an ordinary transaction, and a caller returns when its commit did. A batch that cannot be written is rolled
//! back and asked again one by one, so that a bad write fails alone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use passbook::{Batches, Error, Result};
use tokio::sync::oneshot;

use crate::requests::{Recording, Sending};
use crate::settling::Settling;
use crate::{SqliteFile, Transaction};

/// The most writes of one kind in a transaction. Larger ones gain nothing more, and make the next wait.
const MOST: usize = 512;
/// No more is added to a transaction that has so many bytes of values of one kind: they are in memory several times.
const MOST_BYTES: usize = 4 << 20;

/// A kind of write that can be made for many at once.
pub(crate) trait Request: Send + Sync + Sized + 'static {
    /// What one caller is answered.
    type Reply: Send + 'static;

    /// Where requests of the kind wait.
    fn queue(waiting: &mut Waiting) -> &mut Queue<Self>;

    /// How many bytes of values it writes.
    fn bytes(&self) -> usize;

    /// Makes the writes of all, in their order. One that is refused has written nothing; an error is for all, and what was
    /// written by then is to be rolled back.
    fn make(
        requests: &[&Self],
        transaction: &mut Transaction,
    ) -> impl Future<Output = Result<Vec<Result<Self::Reply>>>> + Send;
}

/// The writes that wait for the file.
#[derive(Default)]
pub(crate) struct Batch(Mutex<Waiting>);

/// Each kind in the order in which it was asked for. What is asked for at one time by several callers has no other order.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) sendings: Queue<Sending>,
    pub(crate) recordings: Queue<Recording>,
    pub(crate) settlings: Queue<Settling>,
    /// Whether somebody sees to them.
    flying: bool,
    counted: Batches,
}

pub(crate) type Queue<R> = VecDeque<Asked<R>>;

pub(crate) struct Asked<R: Request> {
    request: R,
    since: Instant,
    tell: oneshot::Sender<Result<R::Reply>>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock();
        f.debug_struct("Batch")
            .field("sendings", &waiting.sendings.len())
            .field("recordings", &waiting.recordings.len())
            .field("settlings", &waiting.settlings.len())
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// How the writes have gone together, all kinds in one.
    pub(crate) fn counted(&self) -> Batches {
        let waiting = self.lock();
        let depth = waiting.sendings.len() + waiting.recordings.len() + waiting.settlings.len();
        Batches {
            waiting: u64::try_from(depth).unwrap_or(u64::MAX),
            in_flight: u64::from(waiting.flying),
            ..waiting.counted
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SqliteFile {
    /// Makes one write, together with others that are asked for meanwhile. Dropped before the file's lock was granted, it
    /// writes nothing; dropped later, all or nothing.
    pub(crate) async fn write<R: Request>(&self, request: R) -> Result<R::Reply> {
        if !self.batching() {
            self.batch().lock().counted.sent(1);
            return alone(self, &request).await;
        }
        let (tell, told) = oneshot::channel();
        {
            let mut waiting = self.batch().lock();
            R::queue(&mut waiting).push_back(Asked {
                request,
                since: Instant::now(),
                tell,
            });
            if !waiting.flying {
                waiting.flying = true;
                let flight = Flight {
                    file: self.clone(),
                    landed: false,
                };
                tokio::spawn(flight.fly());
            }
        }
        told.await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the runtime shuts down; whether the write happened is unknown",
            ))
        })
    }
}

/// Makes one write in a transaction of its own.
async fn alone<R: Request>(file: &SqliteFile, request: &R) -> Result<R::Reply> {
    let mut transaction = file.begin().await?;
    let reply = R::make(&[request], &mut transaction).await?.pop();
    transaction.commit().await?;
    reply.unwrap_or_else(|| Err(Error::store("a write was not answered")))
}

/// One transaction after the other, until nothing waits.
struct Flight {
    file: SqliteFile,
    landed: bool,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            // The runtime ends with this task in it. Those who wait are told so.
            let mut waiting = self.file.batch().lock();
            let counted = waiting.counted;
            *waiting = Waiting {
                counted,
                ..Waiting::default()
            };
        }
    }
}

impl Flight {
    async fn fly(mut self) {
        while !self.land() {
            let since = Instant::now();
            match self.file.begin().await {
                // Drawn only now, so that what came while the lock was waited for goes along.
                Ok(transaction) => {
                    let sheets = {
                        let mut waiting = self.file.batch().lock();
                        let sheets = waiting.draw(None);
                        waiting.counted.sent(sheets.len());
                        sheets
                    };
                    sheets.write(transaction).await;
                }
                // Who came later may wait longer.
                Err(error) => self.file.batch().lock().draw(Some(since)).fail(&error),
            }
        }
    }

    /// Ends the flight if nothing waits. Whoever asks afterwards begins another.
    fn land(&mut self) -> bool {
        let mut waiting = self.file.batch().lock();
        self.landed = waiting.sendings.is_empty() && waiting.recordings.is_empty() && waiting.settlings.is_empty();
        waiting.flying = !self.landed;
        self.landed
    }
}

impl Waiting {
    /// What goes together: all that there is room for, or all that was asked for by a moment.
    fn draw(&mut self, by: Option<Instant>) -> Sheets {
        Sheets {
            sendings: Sheet::draw(self, by),
            recordings: Sheet::draw(self, by),
            settlings: Sheet::draw(self, by),
        }
    }
}

/// What goes together in one transaction.
struct Sheets {
    sendings: Sheet<Sending>,
    recordings: Sheet<Recording>,
    settlings: Sheet<Settling>,
}

impl Sheets {
    fn len(&self) -> usize {
        self.sendings.asked.len() + self.recordings.asked.len() + self.settlings.asked.len()
    }

    async fn write(mut self, mut transaction: Transaction) {
        let file = transaction.file().clone();
        match self.make(&mut transaction).await {
            Ok(()) => match transaction.commit().await {
                Ok(()) => self.tell(),
                // Whether it happened is unknown, so nothing is asked again.
                Err(error) => self.fail(&error),
            },
            Err(error) => {
                drop(transaction);
                let asked = self.len();
                tracing::debug!(%error, asked, "a batch failed and is asked again one by one");
                self.sendings.alone(&file).await;
                self.recordings.alone(&file).await;
                self.settlings.alone(&file).await;
            }
        }
    }

    async fn make(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.sendings.make(transaction).await?;
        self.recordings.make(transaction).await?;
        self.settlings.make(transaction).await
    }

    fn tell(self) {
        self.sendings.tell();
        self.recordings.tell();
        self.settlings.tell();
    }

    fn fail(self, error: &Error) {
        self.sendings.fail(error);
        self.recordings.fail(error);
        self.settlings.fail(error);
    }
}

/// The writes of one kind in it, and what they came to.
struct Sheet<R: Request> {
    asked: Vec<Asked<R>>,
    replies: Vec<Result<R::Reply>>,
}

impl<R: Request> Sheet<R> {
    fn draw(waiting: &mut Waiting, by: Option<Instant>) -> Self {
        let queue = R::queue(waiting);
        let mut bytes = 0;
        let mut asked = Vec::new();
        while let Some(next) = queue.front() {
            let full = asked.len() == MOST || bytes >= MOST_BYTES;
            if by.map_or(full, |by| next.since > by) {
                break;
            }
            bytes += next.request.bytes();
            // One whose future was dropped leaves the queue.
            asked.extend(queue.pop_front().filter(|next| !next.tell.is_closed()));
        }
        Self {
            asked,
            replies: Vec::new(),
        }
    }

    async fn make(&mut self, transaction: &mut Transaction) -> Result<()> {
        let requests: Vec<&R> = self.asked.iter().map(|asked| &asked.request).collect();
        if !requests.is_empty() {
            self.replies = R::make(&requests, transaction).await?;
        }
        Ok(())
    }

    fn tell(self) {
        for (asked, reply) in self.asked.into_iter().zip(self.replies) {
            // Nobody listens when the future that asked was dropped.
            drop(asked.tell.send(reply));
        }
    }

    fn fail(self, error: &Error) {
        for asked in self.asked {
            let error = if error.is_unavailable() {
                Error::unavailable(error.to_string())
            } else {
                Error::store(error.to_string())
            };
            drop(asked.tell.send(Err(error)));
        }
    }

    async fn alone(self, file: &SqliteFile) {
        for asked in self.asked {
            drop(asked.tell.send(alone(file, &asked.request).await));
        }
    }
}
