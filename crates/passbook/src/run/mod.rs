//! What a workflow's body is given: its effects, its waits, its clock.

mod await_key;
mod inbox;
mod options;
mod state;
mod transact;

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use await_key::{Awaiting, AwaitingWithin};
pub use inbox::{Batch, Cursor};
pub use options::{Limited, Retrying, TimedOut};
pub(crate) use state::{Wait, Write};

use crate::checkpointer::{Claim, INBOX, Life};
use crate::durable::{Durable, Pass};
use crate::{Checkpointer, Error, Recorded, Result, Retry, StoreTime, Timestamp, Value};
use state::{Busy, Found, State};

/// The longest name of a step or key that a body may use, in bytes: what the library derives from it must stay under
/// [`crate::MAX_NAME_BYTES`].
const MAX_STEP_BYTES: usize = 1_000;

/// One pass of a workflow, as its body sees it.
///
/// Every verb takes a name, and the name is the key of the record: it must be used once in a pass, and it is all that
/// connects a step to what it did before. Moving a step, or adding one before it, changes nothing.
///
/// Nothing of the library's own can reach the body. A wait that cannot finish is a future that does not resolve; the
/// driver sees that nothing else is left to do and puts the body down. A lost claim, a lost store, a name used twice, a
/// value that cannot be stored, a record that does not decode: each ends the pass from outside. When a body is put
/// down, its locals are dropped, which may be at every suspension; so do not tie a compensation to `Drop`.
#[derive(Debug)]
pub struct Run<S: Durable> {
    store: S,
    workflow: String,
    lease: Duration,
    under: Mutex<Under>,
    state: State,
}

/// The pass under which a body runs now; another one after each suspension of a body that is kept.
#[derive(Debug)]
struct Under {
    token: i64,
    time: StoreTime,
    attempts: u32,
}

impl<S: Durable> Run<S> {
    pub(crate) fn new(pass: Pass, store: S) -> Self {
        Self {
            store,
            workflow: pass.claim.workflow,
            lease: pass.lease,
            under: Mutex::new(Under {
                token: pass.claim.token,
                time: pass.time,
                attempts: pass.attempts,
            }),
            state: State::new(pass.records),
        }
    }

    /// Goes on under another pass, whose records are those that came since the body was put to wait.
    pub(crate) fn resume(&self, pass: Pass) {
        *self.under() = Under {
            token: pass.claim.token,
            time: pass.time,
            attempts: pass.attempts,
        };
        self.state.resume(pass.records);
    }

    fn under(&self) -> MutexGuard<'_, Under> {
        // Nothing in here can panic half-way through a change.
        self.under.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self) -> Claim {
        Claim {
            workflow: self.workflow.clone(),
            token: self.under().token,
        }
    }

    /// The workflow's id.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// Runs an effect at least once over all passes, and records what it returned.
    ///
    /// When the record is there, the effect does not run and the recorded value is returned. An `Err` goes to the body
    /// and is not recorded: the next pass runs the effect again. If the process dies after the effect and before its
    /// record, the next pass runs it again: give gateways the [`key`](Run::key). The value that is returned is what a
    /// replay will return: it has been through the codec.
    pub async fn step<T, E>(&self, name: &str, effect: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
    {
        if let Some(value) = self.enter(name).await {
            return Ok(self.decode(name, &value).await);
        }
        let busy = self.announce(name).await;
        let value = effect().await?;
        Ok(self.keep(busy, name, &value).await)
    }

    /// Runs an effect and records its `Ok` and its `Err` alike, so that every replay takes the same way.
    pub async fn attempt<T, E>(&self, name: &str, effect: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
    {
        let outcome = self
            .step(name, async || Ok::<_, std::convert::Infallible>(effect().await))
            .await;
        match outcome {
            Ok(recorded) => recorded,
        }
    }

    /// Options of an effect: retries it in place. A wait longer than a second is a durable one: it costs no memory,
    /// and it goes on where it was after a crash.
    pub fn retry(&self, policy: Retry) -> Retrying<'_, S> {
        Retrying::new(self, policy)
    }

    /// Options of an effect: drops it after this time, and the step fails as [`TimedOut`]. The limit is per attempt and
    /// must be positive. What the effect had done by then is done.
    pub fn within(&self, limit: Duration) -> Limited<'_, S> {
        Limited::new(self, None, limit)
    }

    /// Goes on after this long, by the store's clock. The deadline is recorded when the sleep is first met, so a crash
    /// does not start it over. Costs no memory and no thread while the workflow sleeps.
    pub async fn sleep(&self, name: &str, duration: Duration) {
        self.sleep_to(name, |now| now.after(duration)).await;
    }

    /// Goes on at this moment of the store's clock, at once if it has passed.
    pub async fn sleep_until(&self, name: &str, at: impl Into<Timestamp>) {
        let at = at.into();
        self.sleep_to(name, |_| at).await;
    }

    async fn sleep_to(&self, name: &str, deadline: impl FnOnce(Timestamp) -> Timestamp) {
        let until = match self.enter(name).await {
            Some(value) => self.decode(name, &value).await,
            None => self.moment(name, deadline).await,
        };
        self.park(Wait::until(until)).await;
    }

    /// The store's time, recorded where it is read, so that every replay reads the same.
    pub async fn now(&self, name: &str) -> Timestamp {
        match self.enter(name).await {
            Some(value) => self.decode(name, &value).await,
            None => self.moment(name, |now| now).await,
        }
    }

    /// A key for a gateway that takes idempotency keys: the same on every pass of this workflow, different for every
    /// name and workflow. A UUID (version 5) of both. Not a step; it may be asked for as often as one likes.
    pub fn key(&self, name: &str) -> String {
        let of = format!("{}:{}:{name}", self.workflow.len(), self.workflow);
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, of.as_bytes()).to_string()
    }

    /// A value that another process writes under this key with [`arrive`](Durable::arrive). A key can be awaited once
    /// in a pass. Add `.within(limit)` to get `None` when nothing arrived in time.
    pub fn awaiting<T: DeserializeOwned + Send>(&self, key: impl Into<String>) -> Awaiting<'_, S, T> {
        Awaiting::new(self, key.into())
    }

    /// Takes the name for this pass. What is recorded under it, if anything is.
    async fn enter(&self, name: &str) -> Option<Value> {
        if let Err(error) = check_step(name) {
            return self
                .end(Error::refused(format!("workflow `{}`: {error}", self.workflow())))
                .await;
        }
        match self.state.enter(name) {
            Found::Recorded(value) => Some(value),
            Found::Nothing => None,
            Found::Taken => self.end(Error::duplicate(self.workflow(), name)).await,
        }
    }

    /// Marks the step as busy. After a failed pass it also tells the store what is about to run, so that a step which
    /// takes the process down can be named.
    async fn announce(&self, name: &str) -> Busy<'_> {
        let busy = self.state.busy(name);
        if self.under().attempts > 0 {
            let life = Life {
                claim: self.claim(),
                running: Some(self.state.running()),
            };
            match self.store.checkpointer().renew(&[life]).await {
                Ok(alive) if alive == [true] => {}
                Ok(_) => return self.end(Error::fenced("a step", self.workflow())).await,
                Err(error) => return self.end(error).await,
            }
        }
        busy
    }

    /// Records what an effect returned, and returns what stands there now.
    async fn keep<T>(&self, busy: Busy<'_>, name: &str, value: &T) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        let value = self.encode(name, value).await;
        // From here on the write belongs to the pass: it is made even if this future is dropped.
        let recorded = self.write(name, value).await;
        drop(busy);
        self.decode(name, &recorded.value).await
    }

    async fn write(&self, name: &str, value: Value) -> Recorded {
        let (store, claim, step) = (self.store.clone(), self.claim(), name.to_owned());
        let mut patience = Patience::new(self.lease);
        let write = async move {
            loop {
                match store.checkpointer().record(&claim, &step, &value).await {
                    Err(error) => patience.after(error).await?,
                    recorded => return recorded,
                }
            }
        };
        self.hand_over(write).await
    }

    /// Gives a write to the driver, and waits for what it wrote.
    async fn hand_over(&self, write: impl Future<Output = Result<Recorded>> + Send + 'static) -> Recorded {
        let written = self.state.push(write);
        match written.await {
            Ok(recorded) => recorded,
            // The write failed, and the driver, who knows why, is about to put this body down.
            Err(_) => std::future::pending().await,
        }
    }

    /// Records a moment that is computed from the store's time.
    async fn moment(&self, name: &str, of: impl FnOnce(Timestamp) -> Timestamp) -> Timestamp {
        let busy = self.state.busy(name);
        let at = of(self.under().time.latest());
        self.keep(busy, name, &at).await
    }

    /// Resolves with what is recorded under the key, or with nothing at the deadline; until then the pass may end here.
    async fn park(&self, wait: Wait) -> Option<Value> {
        let _parked = self.state.park(wait.clone());
        loop {
            // Before the look, so that nothing comes between.
            let resumed = self.state.resumed();
            let value = wait.key.as_ref().and_then(|key| self.state.recorded(key));
            if value.is_some() {
                return value;
            }
            let Some(deadline) = wait.deadline else {
                resumed.await;
                continue;
            };
            let now = self.under().time.earliest();
            if now >= deadline {
                return None;
            }
            // The timer serves only a pass that siblings keep alive; a pass with nothing else to do is put down at once.
            tokio::select! {
                () = resumed => {}
                () = tokio::time::sleep(now.until(deadline)) => {}
            }
        }
    }

    async fn encode<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Value {
        match Value::encode(value) {
            Ok(value) => value,
            Err(why) => {
                let error = format!(
                    "step `{name}` of workflow `{}` returned a value that cannot be kept: {why}; the effect has happened and will not be repeated by itself",
                    self.workflow()
                );
                self.end(Error::refused(error)).await
            }
        }
    }

    async fn decode<T: DeserializeOwned>(&self, name: &str, value: &Value) -> T {
        match value.decode() {
            Ok(value) => value,
            Err(why) => {
                let error = format!(
                    "step `{name}` of workflow `{}`: {why}; was the step's type changed? the record stays as it is",
                    self.workflow()
                );
                self.end(Error::undecodable(error)).await
            }
        }
    }

    /// Ends the pass from the driver's side. The body never sees it: this does not resolve.
    async fn end<T>(&self, error: Error) -> T {
        self.state.end(error);
        std::future::pending().await
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }
}

/// How long a write is asked for again while the store cannot be reached: one lease. After that another pass may hold
/// the workflow.
#[derive(Debug)]
struct Patience {
    lease: Duration,
    since: tokio::time::Instant,
    failed: u32,
}

impl Patience {
    const WAITS: Retry = Retry::times(u32::MAX)
        .first(Duration::from_millis(20))
        .cap(Duration::from_secs(1));

    fn new(lease: Duration) -> Self {
        Self {
            lease,
            since: tokio::time::Instant::now(),
            failed: 0,
        }
    }

    /// Waits a little, or gives the error back when asking again would not help or comes too late.
    async fn after(&mut self, error: Error) -> Result<()> {
        if !error.is_unavailable() || self.since.elapsed() >= self.lease {
            return Err(error);
        }
        self.failed += 1;
        tracing::warn!(%error, "the store does not answer a pass yet");
        tokio::time::sleep(Self::WAITS.wait(self.failed).unwrap_or_default()).await;
        Ok(())
    }
}

fn check_step(name: &str) -> Result<(), String> {
    if name.starts_with(':') || name.starts_with(INBOX) {
        return Err(format!(
            "the name `{name}` belongs to the store; names that begin with `:` or `{INBOX}` are reserved, choose another"
        ));
    }
    if name.len() > MAX_STEP_BYTES {
        return Err(format!(
            "a step's name has {} bytes, and the limit is {MAX_STEP_BYTES}; use a shorter one, e.g. a hash of it",
            name.len()
        ));
    }
    crate::check_name("step name", name).map_err(|error: Error| error.to_string())
}

/// What a driver needs to show of an error of the body.
pub(crate) fn message(error: &impl Display) -> String {
    // The alternate form prints the whole chain where an error type has one.
    format!("{error:#}")
}
