//! The scheduler half.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::{Clock, Delivery, Result, Scheduler, Timestamp, Wakeups, check_name};

/// The scheduler of a [`MemoryStore`](super::MemoryStore).
#[derive(Clone, Debug)]
pub struct MemoryScheduler(pub(super) Arc<Shared>);

impl Scheduler for MemoryScheduler {
    fn lease(&self) -> Duration {
        self.0.options.lease
    }

    fn poll(&self) -> Duration {
        self.0.options.poll
    }

    fn clock(&self) -> &Clock {
        &self.0.options.clock
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.0.now())
    }

    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    async fn make_ready(&self, namespace: &str, workflow: &str) -> Result<()> {
        check_name("namespace", namespace)?;
        check_name("workflow id", workflow)?;
        self.0
            .commit(|state, now| state.queue.make_ready(namespace, workflow, now));
        self.0.hints.tell_ready(Some(namespace));
        Ok(())
    }

    async fn next_ready(&self, namespaces: &[String], limit: usize) -> Result<Vec<Delivery>> {
        let lease = self.lease();
        Ok(self
            .0
            .commit(|state, now| state.queue.take(namespaces, limit, now, lease)))
    }

    async fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> Result<()> {
        self.0.answer(delivery, Some(when));
        Ok(())
    }

    async fn done(&self, delivery: &Delivery) -> Result<()> {
        self.0.answer(delivery, None);
        Ok(())
    }

    async fn extend(&self, deliveries: &[Delivery]) -> Result<Vec<Delivery>> {
        Ok(self.0.commit(|state, now| {
            let extended = deliveries
                .iter()
                .filter_map(|delivery| state.queue.extend(delivery, now, self.lease()));
            extended.collect()
        }))
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<()> {
        self.0.commit(|state, _| state.queue.remove(namespace, workflow));
        Ok(())
    }

    async fn next_due(&self, namespaces: &[String]) -> Result<Option<Duration>> {
        Ok(self.0.commit(|state, now| state.queue.next_due(namespaces, now)))
    }

    fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        self.0.hints.wakeups(namespaces)
    }
}

impl Shared {
    fn answer(&self, delivery: &Delivery, when: Option<Timestamp>) {
        // Also of a moment to come: an idle worker's timer is set for the earliest.
        if self.commit(|state, now| state.queue.answer(delivery, when, now)) {
            self.hints.tell_ready(Some(&delivery.namespace));
        }
    }
}
