//! One pass from its claim to its settlement.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PATIENCE;
use super::keeper::{Keeper, Kept};
use super::shutdown::Shutdown;
use crate::checkpointer::{Claim, INPUT, RESULT};
use crate::durable::{Durable, Pass, Settlement};
use crate::pass::{self, Failure, Outcome};
use crate::workflow::{Ending, Kind};
use crate::{Delivery, Error, Retry, Run, StoreTime, Value};

/// What every pass of a worker shares.
pub(super) struct Attempt<S: Durable> {
    pub(super) store: S,
    pub(super) kinds: HashMap<String, Arc<dyn Kind<S>>>,
    pub(super) policy: Retry,
    pub(super) keeper: Keeper,
    /// Begun when the grace of a shutdown is over.
    pub(super) cut: Shutdown,
    /// How many passes have ended whose end the store has not taken yet.
    pub(super) unsettled: AtomicUsize,
}

impl<S: Durable> Attempt<S> {
    pub(super) async fn run(&self, pass: Pass, delivery: Delivery) {
        let kept = self.keeper.keep(&pass.claim, delivery.clone());
        let (claim, time, attempts) = (pass.claim.clone(), pass.time.clone(), pass.attempts);
        let settlement = match self.foregone(&pass, &delivery.namespace) {
            Some(settlement) => settlement,
            None => {
                let outcome = tokio::select! {
                    outcome = self.drive(pass, &delivery.namespace) => outcome,
                    () = kept.lost() => Outcome::Lost(Error::fenced("a pass", &claim.workflow)),
                };
                match self.settlement(outcome, &claim, &time, attempts) {
                    Some(settlement) => settlement,
                    None => return,
                }
            }
        };
        self.settle(&claim, &kept, settlement).await;
    }

    /// What is settled without running the body.
    fn foregone(&self, pass: &Pass, namespace: &str) -> Option<Settlement> {
        let recorded = |key: &str| pass.records.iter().find(|record| record.step == key);
        if let Some(record) = recorded(RESULT) {
            // A pass died between recording the result and releasing the claim.
            return Some(Settlement::Completed {
                result: record.value.clone(),
            });
        }
        if recorded(INPUT).is_none() {
            // Something arrived before the start; the start will make it ready.
            return Some(Settlement::Suspended {
                wake_at: None,
                waits_for: vec![INPUT.to_owned()],
            });
        }
        if !self.kinds.contains_key(namespace) {
            return Some(Settlement::HandedBack);
        }
        if pass.attempts >= self.policy.attempts() {
            // Only passes that were never settled can bring it here: a settled failure parks at the limit by itself.
            let place = match &pass.interrupted {
                Some(step) => format!("step `{step}` was running the last time"),
                None => "it is not known which step was running".to_owned(),
            };
            let error = format!(
                "{} passes in a row failed or ended with their process; {place}; mend it and resume the workflow",
                pass.attempts
            );
            return Some(Settlement::Failed { error, retry_at: None });
        }
        None
    }

    async fn drive(&self, pass: Pass, namespace: &str) -> Outcome<Ending> {
        let input = pass.records.iter().find(|record| record.step == INPUT);
        let input = input.map_or_else(|| Value::stored("null"), |record| record.value.clone());
        let Some(kind) = self.kinds.get(namespace) else {
            return Outcome::Lost(Error::invalid("no such kind"));
        };
        let run = Run::new(pass, self.store.clone());
        let cut = async {
            self.cut.begun().await;
            // Not a lost claim: the workflow is handed back.
            Error::unavailable("the worker shuts down")
        };
        pass::drive(&run, kind.run(&run, &input).as_mut(), cut).await
    }

    /// What is to be written for an outcome; `None` when nothing may be.
    fn settlement(
        &self,
        outcome: Outcome<Ending>,
        claim: &Claim,
        time: &StoreTime,
        attempts: u32,
    ) -> Option<Settlement> {
        match outcome {
            Outcome::Completed(Ok(result)) => Some(Settlement::Completed { result }),
            Outcome::Completed(Err(failure)) | Outcome::Failed(failure) => {
                Some(self.failed(failure, claim, time, attempts))
            }
            Outcome::Suspended { wake_at, waits_for } => Some(Settlement::Suspended { wake_at, waits_for }),
            Outcome::Lost(error) if error.is_fenced() => {
                tracing::info!(workflow = claim.workflow, "the pass has lost its workflow");
                None
            }
            Outcome::Lost(error) => {
                tracing::info!(workflow = claim.workflow, %error, "the pass was put down");
                Some(Settlement::HandedBack)
            }
        }
    }

    fn failed(&self, failure: Failure, claim: &Claim, time: &StoreTime, attempts: u32) -> Settlement {
        let wait = if failure.permanent {
            None
        } else {
            self.policy.wait(attempts + 1)
        };
        tracing::warn!(workflow = claim.workflow, error = failure.message, retry = ?wait, "the pass failed");
        Settlement::Failed {
            error: failure.message,
            retry_at: wait.map(|wait| time.now().after(wait)),
        }
    }

    /// Writes the end of a pass, and asks again for as long as the store cannot be reached.
    async fn settle(&self, claim: &Claim, kept: &Kept, mut settlement: Settlement) {
        let mut failed = 0;
        let mut unsettled = None;
        loop {
            let delivery = kept.delivery().await;
            let error = match self.store.settle(claim, &delivery, &settlement).await {
                Ok(true) => return,
                Ok(false) => {
                    tracing::info!(
                        workflow = claim.workflow,
                        "the pass had lost its workflow when it ended"
                    );
                    return;
                }
                Err(error) => error,
            };
            drop(delivery);
            tracing::warn!(workflow = claim.workflow, %error, "the end of a pass could not be written");
            if !error.is_unavailable() {
                if failed > 1 {
                    // Its lease runs out, and it counts as an attempt.
                    return;
                }
                // The store refuses this end, so the next one says why.
                settlement = Settlement::Failed {
                    error: format!("the end of the pass could not be written: {error}"),
                    retry_at: None,
                };
            }
            unsettled.get_or_insert_with(|| Unsettled::count(&self.unsettled));
            failed += 1;
            tokio::time::sleep(PATIENCE.wait(failed).unwrap_or_default()).await;
        }
    }
}

struct Unsettled<'a>(&'a AtomicUsize);

impl<'a> Unsettled<'a> {
    fn count(of: &'a AtomicUsize) -> Self {
        of.fetch_add(1, Ordering::SeqCst);
        Self(of)
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
