//! A shutdown that begins while workflows are being taken.

use std::sync::Arc;
use std::time::Duration;

use passbook::{
    Acquire, Acquired, Client, Durable, MemoryCheckpointer, MemoryScheduler, MemoryStore, Result, Run, Shutdown, State,
    Worker,
};
use tokio::sync::Notify;

/// A store that has taken long before it says so.
#[derive(Clone)]
struct Slow {
    store: MemoryStore,
    taken: Arc<Notify>,
}

impl Durable for Slow {
    type Checkpointer = MemoryCheckpointer;
    type Scheduler = MemoryScheduler;

    fn checkpointer(&self) -> &MemoryCheckpointer {
        self.store.checkpointer()
    }

    fn scheduler(&self) -> &MemoryScheduler {
        self.store.scheduler()
    }

    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let acquired = self.store.acquire(request).await?;
        self.taken.notify_one();
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok(acquired)
    }
}

async fn waits(run: &Run<Slow>, (): ()) -> Result<u64, String> {
    Ok(run.awaiting("value").await)
}

#[tokio::test]
async fn what_was_being_taken_at_a_shutdown_is_not_left_claimed() {
    let store = MemoryStore::new();
    let client = Client::new(store.clone());
    client.kind("kind").start("w", &()).await.expect("started");
    let taken = Arc::new(Notify::new());
    let slow = Slow {
        store,
        taken: taken.clone(),
    };
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(Worker::new(slow).serve("kind", waits).run(shutdown.clone()));
    taken.notified().await;
    shutdown.begin();
    worker.await.expect("no panic").expect("it worked");
    let status = client.status("w").await.expect("a status").expect("it is known");
    assert_eq!((status.state, status.attempts), (State::Waiting, 0));
}
