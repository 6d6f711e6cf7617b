//! Only for looking.

use super::state::State;
use super::{MemoryCheckpointer, MemoryStore};
use crate::checkpointer::{INPUT, RESULT};
use crate::inspect::{Filter, Finished, Inspect, State as Shown, Status};
use crate::{Endings, Result, Timestamp};

/// The longest page of a list.
const PAGE: usize = 1_000;

impl State {
    fn status(&self, workflow: &str, now: Timestamp) -> Option<Status> {
        let checkpoint = self.checkpoints.get(workflow);
        let claim = self.claims.get(workflow);
        let queued = self.queue.first_of(workflow);
        if checkpoint.is_none() && queued.is_none() && claim.is_none_or(|claim| claim.state.is_none() && !claim.open) {
            return None;
        }
        let started = checkpoint.and_then(|checkpoint| checkpoint.get(INPUT));
        let namespace = checkpoint
            .and_then(|checkpoint| checkpoint.namespace.clone())
            .or_else(|| claim.and_then(|claim| claim.namespace.clone()))
            .or_else(|| queued.map(|(namespace, _)| namespace.to_owned()));
        let settled = claim.and_then(|claim| claim.state);
        let state = match (settled, claim, queued) {
            (Some(over), ..) if over.is_over() => over,
            (_, Some(claim), _) if claim.held_until > now => Shown::Running,
            (_, _, Some((_, visible))) if visible <= now => Shown::Ready,
            (Some(Shown::Ready) | None, _, Some(_)) => Shown::Ready,
            (Some(settled), ..) => settled,
            (None, _, None) => Shown::Waiting,
        };
        Some(Status {
            workflow: workflow.to_owned(),
            namespace: namespace.unwrap_or_default(),
            state,
            waits_for: claim.map(|claim| claim.waits_for.clone()).unwrap_or_default(),
            wake_at: claim.and_then(|claim| claim.wake_at),
            attempts: claim.map_or(0, |claim| claim.attempts),
            error: claim.and_then(|claim| claim.error.clone()),
            running: claim.and_then(|claim| claim.running.clone()),
            records: checkpoint.map_or(0, |checkpoint| checkpoint.records.len() as u64),
            started_at: started.map(|record| record.recorded_at),
            finished_at: claim.and_then(|claim| claim.finished_at),
        })
    }
}

impl Inspect for MemoryCheckpointer {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        Ok(self.0.commit(|state, now| state.status(workflow, now)))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        let state = self.0.lock();
        let now = self.0.now();
        let mut workflows: Vec<&String> = state
            .checkpoints
            .keys()
            .chain(state.claims.keys())
            .chain(state.queue.workflows())
            .filter(|workflow| filter.after.as_ref().is_none_or(|after| *workflow > after))
            .collect();
        workflows.sort_unstable();
        workflows.dedup();
        let statuses = workflows
            .into_iter()
            .filter_map(|workflow| state.status(workflow, now))
            .filter(|status| {
                filter
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| status.namespace == *namespace)
            })
            .filter(|status| filter.state.is_none_or(|state| status.state == state));
        Ok(statuses.take(filter.limit.min(PAGE)).collect())
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        let state = self.0.lock();
        let finished = workflows.iter().filter_map(|workflow| {
            let claim = state.claims.get(workflow)?;
            let over = claim.state.filter(|state| state.is_over())?;
            Some(Finished {
                workflow: workflow.clone(),
                state: over,
                result: state
                    .value(workflow, RESULT)
                    .cloned()
                    .filter(|_| over == Shown::Completed),
                error: claim.error.clone().filter(|_| over == Shown::Failed),
            })
        });
        Ok(finished.collect())
    }

    fn endings(&self) -> Endings {
        self.0.hints.endings()
    }
}

impl Inspect for MemoryStore {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        use crate::Durable as _;
        self.checkpointer().status(workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        use crate::Durable as _;
        self.checkpointer().list(filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        use crate::Durable as _;
        self.checkpointer().finished(workflows).await
    }

    fn endings(&self) -> Endings {
        self.shared().hints.endings()
    }
}
