//! Options of an effect, which stand before the verb.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Wait, message};
use crate::durable::Durable;
use crate::{Error, Retry, Run, Timestamp};

/// Where the waits between attempts are recorded; the rest of the key is the step's name and the number of failures.
const RETRY: &str = ":retry:";
/// A wait up to this long is made in place; a longer one is durable.
const MOMENT: Duration = Duration::from_secs(1);

/// An attempt took longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The limit.
    pub limit: Duration,
}

impl Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out after {:?}", self.limit)
    }
}

impl std::error::Error for TimedOut {}

impl From<TimedOut> for String {
    fn from(timed_out: TimedOut) -> Self {
        timed_out.to_string()
    }
}

/// Retries an effect; see [`Run::retry`].
#[derive(Debug)]
pub struct Retrying<'r, S: Durable> {
    run: &'r Run<S>,
    policy: Retry,
}

impl<'r, S: Durable> Retrying<'r, S> {
    pub(super) fn new(run: &'r Run<S>, policy: Retry) -> Self {
        Self { run, policy }
    }

    /// Adds a limit for each attempt; see [`Run::within`].
    pub fn within(self, limit: Duration) -> Limited<'r, S> {
        Limited::new(self.run, Some(self.policy), limit)
    }

    /// [`Run::step`], tried again while the policy allows it. The last error goes to the body.
    ///
    /// When the process dies, waits longer than a second go on where they were; failures with shorter waits since the
    /// last longer one are forgotten.
    pub async fn step<T, E, F>(self, name: &str, effect: impl FnMut() -> F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        self.run.retried(name, self.policy, effect).await
    }
}

/// Limits the time of an effect; see [`Run::within`].
#[derive(Debug)]
pub struct Limited<'r, S: Durable> {
    run: &'r Run<S>,
    policy: Retry,
    limit: Duration,
}

impl<'r, S: Durable> Limited<'r, S> {
    pub(super) fn new(run: &'r Run<S>, policy: Option<Retry>, limit: Duration) -> Self {
        Self {
            run,
            policy: policy.unwrap_or(Retry::times(1)),
            limit,
        }
    }

    /// [`Run::step`] with the limit for each attempt. The error type is the body's own; it says how it tells a timeout.
    pub async fn step<T, E, F>(self, name: &str, mut effect: impl FnMut() -> F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: Display + From<TimedOut>,
        F: Future<Output = Result<T, E>>,
    {
        let limit = self.limit;
        if limit.is_zero() {
            let error = format!(
                "step `{name}` of workflow `{}` has a limit of zero time; give it a positive one",
                self.run.workflow()
            );
            return self.run.end(Error::invalid(error)).await;
        }
        self.run
            .retried(name, self.policy, || {
                let attempt = effect();
                async move {
                    match tokio::time::timeout(limit, attempt).await {
                        Ok(outcome) => outcome,
                        Err(_) => Err(TimedOut { limit }.into()),
                    }
                }
            })
            .await
    }
}

/// A wait between attempts, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Backoff {
    until: Timestamp,
    error: String,
}

impl<S: Durable> Run<S> {
    async fn retried<T, E, F>(&self, name: &str, policy: Retry, mut effect: impl FnMut() -> F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.enter(name).await {
            return Ok(self.decode(name, &value).await);
        }
        let mut failed = self.last_backoff(name).await;
        loop {
            let busy = self.announce(name).await;
            let error = match effect().await {
                Ok(value) => return Ok(self.keep(busy, name, &value).await),
                Err(error) => error,
            };
            failed += 1;
            let Some(wait) = policy.wait(failed) else {
                return Err(error);
            };
            let told = message(&error);
            drop(error);
            tracing::warn!(
                workflow = self.workflow(),
                step = name,
                failed,
                error = told,
                ?wait,
                "trying again"
            );
            if wait <= MOMENT {
                tokio::time::sleep(wait).await;
            } else {
                let until = self.under().time.latest().after(wait);
                let key = format!("{RETRY}{name}:{failed}");
                self.keep(busy, &key, &Backoff { until, error: told }).await;
                self.park(Wait::until(until)).await;
            }
        }
    }

    /// Waits for the end of the last recorded wait, and returns how many failures there were by then.
    async fn last_backoff(&self, name: &str) -> u32 {
        let prefix = format!("{RETRY}{name}:");
        let last = self
            .state
            .recorded_under(&prefix)
            .into_iter()
            .filter_map(|(rest, value)| Some((rest.parse::<u32>().ok()?, value)))
            .max_by_key(|(failed, _)| *failed);
        let Some((failed, value)) = last else {
            return 0;
        };
        let backoff: Backoff = self.decode(&format!("{prefix}{failed}"), &value).await;
        self.park(Wait::until(backoff.until)).await;
        failed
    }
}
