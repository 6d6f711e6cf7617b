//! Signs of life: one statement renews the claims and deliveries of all passes that need it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::checkpointer::Life;
use crate::durable::Durable;
use crate::{Claim, Delivery, Scheduler};

/// A pass that is kept alive.
#[derive(Debug)]
pub(super) struct Held {
    claim: Claim,
    /// Under the receipt of the last sign of life. Locked by the keeper while it renews and by the pass while it
    /// settles, so that a settling pass never shows a receipt that a renewal has just changed.
    delivery: tokio::sync::Mutex<Delivery>,
    last_sign: Mutex<Instant>,
    lost: Notify,
}

impl Held {
    /// Completes when the pass has lost its claim, or must be taken to have lost it.
    pub(super) async fn lost(&self) {
        self.lost.notified().await;
    }

    pub(super) async fn delivery(&self) -> tokio::sync::MutexGuard<'_, Delivery> {
        self.delivery.lock().await
    }

    fn age(&self) -> Duration {
        self.last_sign.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn signed(&self, at: Instant) {
        *self.last_sign.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// The passes of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper(Arc<Mutex<HashMap<Claim, Arc<Held>>>>);

impl Keeper {
    pub(super) fn keep(&self, claim: &Claim, delivery: Delivery) -> Kept {
        let held = Arc::new(Held {
            claim: claim.clone(),
            delivery: tokio::sync::Mutex::new(delivery),
            last_sign: Mutex::new(Instant::now()),
            lost: Notify::new(),
        });
        self.passes().insert(claim.clone(), held.clone());
        Kept {
            keeper: self.clone(),
            held,
        }
    }

    fn passes(&self) -> std::sync::MutexGuard<'_, HashMap<Claim, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews each pass between a sixth and a third into its lease, until it is dropped.
    pub(super) async fn run<S: Durable>(self, store: S) {
        let lease = store.scheduler().lease();
        loop {
            tokio::time::sleep(lease / 6).await;
            let due: Vec<Arc<Held>> = self
                .passes()
                .values()
                .filter(|held| held.age() >= lease / 6)
                .cloned()
                .collect();
            if due.is_empty() {
                continue;
            }
            if tokio::time::timeout(lease / 3, renew(&store, &due)).await.is_err() {
                tracing::warn!(passes = due.len(), "the store does not answer to signs of life");
            }
            for held in due {
                if held.age() >= lease {
                    // Somebody else may hold it by now; the store will say so to whoever writes.
                    held.lost.notify_one();
                }
            }
        }
    }
}

async fn renew<S: Durable>(store: &S, due: &[Arc<Held>]) {
    let asked = Instant::now();
    let mut guards = Vec::with_capacity(due.len());
    for held in due {
        guards.push(held.delivery.lock().await);
    }
    let lives: Vec<(Life, Delivery)> = due
        .iter()
        .zip(&guards)
        .map(|(held, delivery)| {
            let life = Life {
                claim: held.claim.clone(),
                running: None,
            };
            (life, (**delivery).clone())
        })
        .collect();
    match store.renew(&lives).await {
        Ok(renewed) => {
            for ((held, mut delivery), renewed) in due.iter().zip(guards).zip(renewed) {
                *delivery = renewed.delivery;
                if renewed.alive {
                    held.signed(asked);
                } else {
                    held.lost.notify_one();
                }
            }
        }
        Err(error) => tracing::warn!(%error, passes = due.len(), "signs of life could not be given"),
    }
}

/// Keeps a pass alive until it is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    keeper: Keeper,
    held: Arc<Held>,
}

impl std::ops::Deref for Kept {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.passes().remove(&self.held.claim);
    }
}
