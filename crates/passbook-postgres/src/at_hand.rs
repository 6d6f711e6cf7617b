//! Connections that are kept at hand between two statements.
//!
//! A pool asks each connection that comes back whether it still lives, and perhaps again before it lends it out: one or two
//! round trips for a statement that is one itself. So a connection that was just used is lent out again without going through
//! the pool. It goes back as soon as it has had nothing to do for a moment, after a while in any case, and at once when
//! the pool has no other left, so that whoever shares the pool waits no longer than before.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

/// How long a connection waits for the next statement. Between two of a busy worker lies a millisecond or so.
const IDLE: Duration = Duration::from_millis(10);
/// How long a connection stays away from its pool, which closes those that have grown old.
const AWAY: Duration = Duration::from_secs(1);

/// What is at hand. It belongs to a task, so that no connection outlives its runtime: it could not be given back.
#[derive(Default)]
pub(crate) struct AtHand(Mutex<Weak<Mutex<Kept>>>);

/// A connection in use, and since when the pool is without it.
pub(crate) struct Lent {
    pub(crate) connection: PoolConnection<Postgres>,
    since: Instant,
}

#[derive(Default)]
struct Kept {
    /// With the moment of its last use. The last one is lent out first.
    connections: Vec<(Lent, Instant)>,
    /// The task has ended.
    over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for AtHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtHand").finish_non_exhaustive()
    }
}

impl AtHand {
    pub(crate) async fn take(&self, pool: &PgPool) -> sqlx::Result<Lent> {
        let kept = lock(&self.0).upgrade();
        if let Some((lent, _)) = kept.and_then(|kept| lock(&kept).connections.pop()) {
            return Ok(lent);
        }
        Ok(Lent {
            connection: pool.acquire().await?,
            since: Instant::now(),
        })
    }

    /// Takes back a connection that has answered. One that was dropped half-way goes through the pool, which tests it.
    pub(crate) fn give_back(&self, pool: &PgPool, lent: Lent) {
        let room = pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections();
        if !room || lent.since.elapsed() > AWAY || pool.is_closed() {
            return;
        }
        let mut at_hand = lock(&self.0);
        if let Some(kept) = at_hand.upgrade() {
            let mut kept = lock(&kept);
            if !kept.over {
                kept.connections.push((lent, Instant::now()));
                return;
            }
        }
        let kept = Arc::new(Mutex::new(Kept {
            connections: vec![(lent, Instant::now())],
            over: false,
        }));
        *at_hand = Arc::downgrade(&kept);
        tokio::spawn(give_up_the_idle(kept));
    }
}

async fn give_up_the_idle(kept: Arc<Mutex<Kept>>) {
    let mut over = false;
    while !over {
        tokio::time::sleep(IDLE).await;
        let mut kept = lock(&kept);
        kept.connections.retain(|(_, used)| used.elapsed() < IDLE);
        kept.over = kept.connections.is_empty();
        over = kept.over;
    }
}
