//! A store to run passes on, and the few moves that the sentences are made of.

use std::time::Duration;

use passbook::{
    Acquire, Clock, Delivery, Durable, Enlist, Inspect, Outcome, Pass, Run, Settlement, State, Status, Timestamp,
    Value, resume,
};
use serde::Serialize;

/// The kind that the sentences speak of.
pub const KIND: &str = "kind";

/// When the clocks of the tests begin.
pub const MORNING: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Everything that the sentences about passes, workers and clients need of a store.
pub trait Store: Durable + Inspect + Enlist {}

impl<S: Durable + Inspect + Enlist> Store for S {}

/// A fresh store under a clock that the test moves.
#[derive(Clone, Debug)]
pub struct Bed<S> {
    /// The store.
    pub store: S,
    /// Its clock.
    pub clock: Clock,
    /// How many suspended bodies its workers keep.
    pub kept: usize,
}

impl<S> Bed<S> {
    /// A bed whose workers keep all suspended bodies.
    pub fn new(store: S, clock: Clock) -> Self {
        let kept = 1_000_000;
        Self { store, clock, kept }
    }
}

impl<S: Durable + Inspect> Bed<S> {
    /// Starts a workflow whose input does not matter.
    pub async fn start(&self, workflow: &str) {
        self.start_with(workflow, &()).await;
    }

    /// Starts a workflow.
    pub async fn start_with(&self, workflow: &str, input: &(impl Serialize + ?Sized)) {
        self.store
            .start(KIND, workflow, &encode(input))
            .await
            .expect("a start succeeds");
    }

    /// Sends a value.
    pub async fn arrive(&self, workflow: &str, key: &str, value: &(impl Serialize + ?Sized)) -> bool {
        self.store
            .arrive(KIND, workflow, key, &encode(value))
            .await
            .expect("an arrive succeeds")
            .first
    }

    /// The next pass that is due, if one is.
    pub async fn take(&self) -> Option<(Pass, Delivery)> {
        let namespaces = [KIND.to_owned()];
        let request = Acquire::new(&namespaces, 1);
        self.store
            .acquire(&request)
            .await
            .expect("an acquire succeeds")
            .passes
            .pop()
    }

    /// Takes what is due, runs the body once, and settles.
    pub async fn pass<T: Serialize>(&self, body: impl AsyncFnOnce(&Run<S>) -> T) -> Outcome<T> {
        let (pass, delivery) = self.take().await.expect("a workflow is due");
        self.run(pass, &delivery, body).await
    }

    /// Runs the body once under this pass, and settles.
    pub async fn run<T: Serialize>(
        &self,
        pass: Pass,
        delivery: &Delivery,
        body: impl AsyncFnOnce(&Run<S>) -> T,
    ) -> Outcome<T> {
        let claim = pass.claim.clone();
        let outcome = resume(pass, &self.store, body).await;
        let settlement = match &outcome {
            Outcome::Completed(value) => Settlement::Completed { result: encode(value) },
            Outcome::Suspended { wake_at, waits_for } => Settlement::Suspended {
                wake_at: *wake_at,
                waits_for: waits_for.clone(),
            },
            Outcome::Failed(failure) => Settlement::Failed {
                error: failure.message.clone(),
                retry_at: None,
            },
            Outcome::Lost(_) => return outcome,
        };
        let held = self.store.settle(&claim, delivery, &settlement).await;
        assert!(
            held.expect("a settle succeeds").is_held(),
            "the pass still holds its workflow"
        );
        outcome
    }

    /// Where the workflow stands.
    pub async fn status(&self, workflow: &str) -> Status {
        let status = self.store.status(workflow).await.expect("a status can be read");
        status.expect("the workflow is known")
    }

    /// The steps that are recorded, without the library's own.
    pub async fn steps(&self, workflow: &str) -> Vec<String> {
        use passbook::Checkpointer as _;
        let records = self
            .store
            .checkpointer()
            .load(workflow)
            .await
            .expect("records can be read");
        let steps = records.into_iter().map(|record| record.step);
        steps.filter(|step| !step.starts_with(':')).collect()
    }

    /// Waits in real time until the workflow stands there.
    pub async fn reaches(&self, workflow: &str, state: State) -> Status {
        let reached = async {
            loop {
                if let Some(status) = self.store.status(workflow).await.expect("a status can be read")
                    && status.state == state
                {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let Ok(status) = tokio::time::timeout(Duration::from_mins(1), reached).await else {
            panic!(
                "`{workflow}` does not get to {state}: {:?}",
                self.store.status(workflow).await
            );
        };
        status
    }

    /// The moment of the clock.
    pub fn now(&self) -> Timestamp {
        self.clock.bound().expect("the clock is manual")
    }
}

/// A value as it is stored.
pub fn encode(value: &(impl Serialize + ?Sized)) -> Value {
    Value::encode(value).expect("the value can be kept")
}

/// The earliest deadline and the keys of a pass that is suspended.
pub fn suspended<T: std::fmt::Debug>(outcome: Outcome<T>) -> (Option<Timestamp>, Vec<String>) {
    match outcome {
        Outcome::Suspended { wake_at, waits_for } => (wake_at, waits_for),
        other => panic!("the pass should be suspended, and is {other:?}"),
    }
}

/// What a pass that is completed came to.
pub fn completed<T: std::fmt::Debug>(outcome: Outcome<T>) -> T {
    match outcome {
        Outcome::Completed(value) => value,
        other => panic!("the pass should be completed, and is {other:?}"),
    }
}

/// Why a pass failed, and whether for good.
pub fn failed<T: std::fmt::Debug>(outcome: Outcome<T>) -> (String, bool) {
    match outcome {
        Outcome::Failed(failure) => (failure.message, failure.permanent),
        other => panic!("the pass should be failed, and is {other:?}"),
    }
}
