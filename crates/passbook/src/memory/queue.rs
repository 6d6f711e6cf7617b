//! The queue: what is due when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::{Delivery, Timestamp};

/// One moment per workflow and namespace: it is due from then on.
#[derive(Debug, Default)]
pub(super) struct Queue {
    visible: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// The same by namespace, what is due first in front.
    order: HashMap<String, BTreeSet<(Timestamp, String)>>,
    receipts: Receipts,
}

/// Keeps two deliveries of one workflow from having one receipt, also while the clock stands still: an answer to the
/// first would count as one to the second, and take away the wakeup between them.
#[derive(Debug, Default)]
struct Receipts {
    hidden_until: Timestamp,
    /// How many receipts of that moment a workflow of a namespace had after the first.
    ties: HashMap<(String, String), i64>,
}

impl Receipts {
    fn draw(&mut self, namespace: &str, workflow: &str, hidden_until: Timestamp) -> Timestamp {
        if self.hidden_until != hidden_until {
            self.hidden_until = hidden_until;
            self.ties.clear();
        }
        let ties = self
            .ties
            .entry((namespace.to_owned(), workflow.to_owned()))
            .and_modify(|ties| *ties += 1)
            .or_default();
        Timestamp::from_micros(hidden_until.as_micros() - *ties)
    }

    fn is_of_now(&self, delivery: &Delivery, hidden_until: Timestamp) -> bool {
        self.hidden_until == hidden_until
            && self
                .ties
                .contains_key(&(delivery.namespace.clone(), delivery.workflow.clone()))
    }
}

impl Queue {
    pub(super) fn get(&self, namespace: &str, workflow: &str) -> Option<Timestamp> {
        self.visible.get(workflow)?.get(namespace).copied()
    }

    /// The row of a workflow that is due first, whatever its namespace.
    pub(super) fn first_of(&self, workflow: &str) -> Option<(&str, Timestamp)> {
        let rows = self.visible.get(workflow)?.iter();
        rows.map(|(namespace, at)| (namespace.as_str(), *at))
            .min_by_key(|(_, at)| *at)
    }

    pub(super) fn workflows(&self) -> impl Iterator<Item = &String> {
        self.visible.keys()
    }

    fn set(&mut self, namespace: &str, workflow: &str, at: Timestamp) {
        let rows = self.visible.entry(workflow.to_owned()).or_default();
        let before = rows.insert(namespace.to_owned(), at);
        let order = self.order.entry(namespace.to_owned()).or_default();
        if let Some(before) = before {
            order.remove(&(before, workflow.to_owned()));
        }
        order.insert((at, workflow.to_owned()));
    }

    pub(super) fn remove(&mut self, namespace: &str, workflow: &str) {
        let Some(rows) = self.visible.get_mut(workflow) else {
            return;
        };
        let before = rows.remove(namespace);
        if rows.is_empty() {
            self.visible.remove(workflow);
        }
        if let (Some(before), Some(order)) = (before, self.order.get_mut(namespace)) {
            order.remove(&(before, workflow.to_owned()));
            if order.is_empty() {
                self.order.remove(namespace);
            }
        }
    }

    pub(super) fn make_ready(&mut self, namespace: &str, workflow: &str, now: Timestamp) {
        // Moved even when it is due already: a lease may have run out unnoticed, and the row under which its delivery was
        // taken must show that a wakeup came.
        let before = self.get(namespace, workflow);
        let at = before.map_or(now, |at| now.min(Timestamp::from_micros(at.as_micros() - 1)));
        self.set(namespace, workflow, at);
    }

    /// Takes one of each namespace in turn, so that none starves another; what is due longest first.
    pub(super) fn take(
        &mut self,
        namespaces: &[String],
        limit: usize,
        now: Timestamp,
        lease: Duration,
    ) -> Vec<Delivery> {
        let mut due: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (place, namespace) in namespaces.iter().enumerate() {
            if namespaces[..place].contains(namespace) {
                continue;
            }
            let order = self.order.get(namespace).into_iter().flatten();
            let mut ready: Vec<String> = order
                .take_while(|(at, _)| *at <= now)
                .take(limit)
                .map(|(_, workflow)| workflow.clone())
                .collect();
            // The longest due last, where it is popped first.
            ready.reverse();
            due.insert(place, ready);
        }
        let mut deliveries = Vec::new();
        while deliveries.len() < limit && !due.is_empty() {
            due.retain(|place, ready| {
                if deliveries.len() == limit {
                    return false;
                }
                let Some(workflow) = ready.pop() else {
                    return false;
                };
                let namespace = &namespaces[*place];
                let receipt = self.receipts.draw(namespace, &workflow, now.after(lease));
                deliveries.push(Delivery {
                    namespace: namespace.clone(),
                    workflow,
                    receipt,
                });
                true
            });
        }
        for delivery in &deliveries {
            self.set(&delivery.namespace, &delivery.workflow, delivery.receipt);
        }
        deliveries
    }

    /// Answers for a delivery, and says whether the workflow is queued still. A wakeup that came after the delivery was
    /// taken has changed the row, and counts.
    pub(super) fn answer(&mut self, delivery: &Delivery, when: Option<Timestamp>, now: Timestamp) -> bool {
        let (namespace, workflow) = (&delivery.namespace, &delivery.workflow);
        let Some(visible) = self.get(namespace, workflow) else {
            return false;
        };
        match when {
            _ if visible != delivery.receipt => self.set(namespace, workflow, now.min(visible)),
            Some(when) => self.set(namespace, workflow, when),
            None => {
                self.remove(namespace, workflow);
                return false;
            }
        }
        true
    }

    pub(super) fn extend(&mut self, delivery: &Delivery, now: Timestamp, lease: Duration) -> Option<Delivery> {
        let (namespace, workflow) = (&delivery.namespace, &delivery.workflow);
        if self.get(namespace, workflow)? != delivery.receipt {
            return None;
        }
        let hidden_until = now.after(lease);
        if self.receipts.is_of_now(delivery, hidden_until) {
            return Some(delivery.clone());
        }
        let receipt = self.receipts.draw(namespace, workflow, hidden_until);
        self.set(namespace, workflow, receipt);
        Some(Delivery {
            receipt,
            ..delivery.clone()
        })
    }

    pub(super) fn next_due(&self, namespaces: &[String], now: Timestamp) -> Option<Duration> {
        namespaces
            .iter()
            .filter_map(|namespace| self.order.get(namespace)?.first())
            .map(|(at, _)| now.until(*at))
            .min()
    }
}
