//! The scheduler half.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::{Clock, Delivery, Result, Scheduler, Timestamp, check_name};

/// The scheduler of a [`MemoryStore`](super::MemoryStore).
#[derive(Clone, Debug)]
pub struct MemoryScheduler(pub(super) Arc<Shared>);

impl Scheduler for MemoryScheduler {
    fn lease(&self) -> Duration {
        self.0.lease
    }

    fn poll(&self) -> Duration {
        self.0.poll
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
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
        self.0.lock().make_ready(namespace, workflow, self.0.now());
        self.0.ready.notify_one();
        Ok(())
    }

    async fn next_ready(&self, namespaces: &[String], limit: usize) -> Result<Vec<Delivery>> {
        Ok(self.0.lock().next_ready(namespaces, limit, self.0.now(), self.0.lease))
    }

    async fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> Result<()> {
        self.0.lock().answer(delivery, Some(when), self.0.now());
        self.0.ready.notify_one();
        Ok(())
    }

    async fn done(&self, delivery: &Delivery) -> Result<()> {
        self.0.lock().answer(delivery, None, self.0.now());
        self.0.ready.notify_one();
        Ok(())
    }

    async fn extend(&self, deliveries: &[Delivery]) -> Result<Vec<Delivery>> {
        let mut state = self.0.lock();
        let extended = deliveries
            .iter()
            .filter_map(|delivery| state.extend(delivery, self.0.now(), self.0.lease));
        Ok(extended.collect())
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<()> {
        self.0.lock().dequeue(namespace, workflow);
        Ok(())
    }

    async fn next_due(&self, namespaces: &[String]) -> Result<Option<Duration>> {
        Ok(self.0.lock().next_due(namespaces, self.0.now()))
    }

    async fn hinted(&self) {
        self.0.ready.notified().await;
    }
}
