//! A workflow from one pass to the next, each from its claim to its settlement.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::PATIENCE;
use super::keeper::{Keeper, Kept};
use super::parking::{Parking, Stand, Turn};
use super::shutdown::Shutdown;
use super::slot::Slot;
use crate::checkpointer::{Checkpointer, Claim, INPUT, RESULT};
use crate::durable::{Durable, Pass, Settled, Settlement};
use crate::pass::{self, Failure, Outcome};
use crate::workflow::{Ending, Kind};
use crate::{Error, Retry, Run, StoreTime, Value};

/// What every pass of a worker shares.
pub(super) struct Attempt<S: Durable> {
    pub(super) store: S,
    pub(super) kinds: HashMap<String, Arc<dyn Kind<S>>>,
    pub(super) policy: Retry,
    pub(super) keeper: Keeper,
    pub(super) parking: Parking,
    /// Begun when the grace of a shutdown is over.
    pub(super) cut: Shutdown,
    /// How many passes have ended whose end the store has not taken yet.
    pub(super) unsettled: AtomicUsize,
}

impl<S: Durable> Attempt<S> {
    /// Runs a workflow from one pass to the next for as long as its body is kept.
    pub(super) async fn run(&self, turn: Turn) {
        let Turn {
            mut pass,
            mut delivery,
            mut slot,
        } = turn;
        let mut kept = self.keeper.keep(&pass.claim, delivery.clone());
        let mut stage = Stage::of(&pass);
        if pass.since.is_some() {
            // Its body is not kept after all, and the replay needs everything.
            match self.store.checkpointer().load(&pass.claim.workflow).await {
                Ok(records) => pass.records = records,
                Err(error) => {
                    let settlement = self.settlement(Outcome::Lost(error), &stage);
                    return self.end(&stage, &kept, settlement, slot).await;
                }
            }
        }
        if let Some(settlement) = self.foregone(&pass) {
            return self.end(&stage, &kept, Some(settlement), slot).await;
        }
        let Some(kind) = self.kinds.get(&delivery.namespace) else {
            return self.end(&stage, &kept, Some(Settlement::HandedBack), slot).await;
        };
        let input = pass.records.iter().find(|record| record.step == INPUT);
        let input = input.map_or_else(|| Value::stored("null"), |record| record.value.clone());
        let run = Run::new(pass, self.store.clone());
        let mut body = kind.run(&run, &input);
        loop {
            let cut = async {
                self.cut.begun().await;
                // Not a lost claim: the workflow is handed back.
                Error::unavailable("the worker shuts down")
            };
            let outcome = tokio::select! {
                outcome = pass::drive(&run, body.as_mut(), cut) => outcome,
                () = kept.lost() => Outcome::Lost(Error::fenced("a pass", run.workflow())),
            };
            let Some(settlement) = self.settlement(outcome, &stage) else {
                return;
            };
            let settled = self.settle(&stage, &kept, &settlement, &mut slot).await;
            let (Settled::Quiet { seen }, Settlement::Suspended { wake_at, .. }) = (settled, settlement) else {
                return;
            };
            let stand = Stand {
                seen,
                token: stage.claim.token,
                wake_at,
            };
            let bytes = run.state().forget_used();
            let Some(turn) = self.parking.keep(run.workflow(), stand, bytes) else {
                return;
            };
            drop((kept, slot));
            let Ok(turn) = turn.await else {
                return;
            };
            Turn { pass, delivery, slot } = turn;
            kept = self.keeper.keep(&pass.claim, delivery.clone());
            stage = Stage::of(&pass);
            run.resume(pass);
        }
    }

    async fn end(&self, stage: &Stage, kept: &Kept, settlement: Option<Settlement>, mut slot: Slot) {
        if let Some(settlement) = settlement {
            self.settle(stage, kept, &settlement, &mut slot).await;
        }
    }

    /// What is settled without running the body.
    fn foregone(&self, pass: &Pass) -> Option<Settlement> {
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

    /// What is to be written for an outcome; `None` when nothing may be.
    fn settlement(&self, outcome: Outcome<Ending>, stage: &Stage) -> Option<Settlement> {
        let workflow = &stage.claim.workflow;
        match outcome {
            Outcome::Completed(Ok(result)) => Some(Settlement::Completed { result }),
            Outcome::Completed(Err(failure)) | Outcome::Failed(failure) => Some(self.failed(failure, stage)),
            Outcome::Suspended { wake_at, waits_for } => Some(Settlement::Suspended { wake_at, waits_for }),
            Outcome::Lost(error) if error.is_fenced() => {
                tracing::info!(workflow, "the pass has lost its workflow");
                None
            }
            Outcome::Lost(error) => {
                tracing::info!(workflow, %error, "the pass was put down");
                Some(Settlement::HandedBack)
            }
        }
    }

    fn failed(&self, failure: Failure, stage: &Stage) -> Settlement {
        let wait = if failure.permanent {
            None
        } else {
            self.policy.wait(stage.attempts + 1)
        };
        tracing::warn!(workflow = stage.claim.workflow, error = failure.message, retry = ?wait, "the pass failed");
        Settlement::Failed {
            error: failure.message,
            retry_at: wait.map(|wait| stage.time.earliest().after(wait)),
        }
    }

    /// Writes the end of a pass, and asks again for as long as the store cannot be reached. Says through the slot when the
    /// workflow is due again.
    async fn settle(&self, stage: &Stage, kept: &Kept, settlement: &Settlement, slot: &mut Slot) -> Settled {
        let claim = &stage.claim;
        let mut settlement = std::borrow::Cow::Borrowed(settlement);
        let mut failed = 0;
        let mut unsettled = None;
        loop {
            let delivery = kept.delivery().await;
            let error = match self.store.settle(claim, &delivery, &settlement).await {
                Ok(settled) => {
                    match (settled, &*settlement) {
                        (Settled::Lost, _) => {
                            tracing::info!(
                                workflow = claim.workflow,
                                "the pass had lost its workflow when it ended"
                            );
                        }
                        (Settled::Woken, _) => slot.due_in(Duration::ZERO),
                        (
                            Settled::Quiet { .. },
                            Settlement::Suspended { wake_at: Some(at), .. }
                            | Settlement::Failed { retry_at: Some(at), .. },
                        ) => slot.due_in(stage.time.earliest().until(*at)),
                        (Settled::Quiet { .. }, _) => {}
                    }
                    return settled;
                }
                Err(error) => error,
            };
            drop(delivery);
            tracing::warn!(workflow = claim.workflow, %error, "the end of a pass could not be written");
            if !error.is_unavailable() {
                if failed > 1 {
                    // Its lease runs out, and it counts as an attempt.
                    return Settled::Lost;
                }
                // The store refuses this end, so the next one says why.
                settlement = std::borrow::Cow::Owned(Settlement::Failed {
                    error: format!("the end of the pass could not be written: {error}"),
                    retry_at: None,
                });
            }
            unsettled.get_or_insert_with(|| Unsettled::count(&self.unsettled));
            failed += 1;
            tokio::time::sleep(PATIENCE.wait(failed).unwrap_or_default()).await;
        }
    }
}

/// What is to be known of a pass when it ends.
struct Stage {
    claim: Claim,
    time: StoreTime,
    attempts: u32,
}

impl Stage {
    fn of(pass: &Pass) -> Self {
        Self {
            claim: pass.claim.clone(),
            time: pass.time.clone(),
            attempts: pass.attempts,
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
