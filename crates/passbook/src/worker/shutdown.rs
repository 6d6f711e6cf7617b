//! How a worker is told to stop.

use tokio::sync::watch;

/// Tells workers to stop, once gently and once at once. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<Phase>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Draining,
    Ended,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// Nothing is told yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }

    /// Begins when the process is asked to end (Ctrl-C, or SIGTERM on Unix), and ends at once when it is asked again.
    ///
    /// Must be called within a Tokio runtime.
    pub fn on_signals() -> Self {
        let shutdown = Self::new();
        let told = shutdown.clone();
        tokio::spawn(async move {
            signal().await;
            tracing::info!("asked to stop: passes go on to their next suspension; ask again to stop at once");
            told.begin();
            signal().await;
            told.now();
        });
        shutdown
    }

    /// Nothing more is taken; passes go on to their next suspension, or to the end of the worker's grace.
    pub fn begin(&self) {
        self.reach(Phase::Draining);
    }

    /// Everything is dropped where it is. Nothing is lost: what was running is taken up by another worker when its
    /// lease runs out, as after a crash.
    pub fn now(&self) {
        self.reach(Phase::Ended);
    }

    fn reach(&self, phase: Phase) {
        self.0.send_if_modified(|at| {
            let later = phase > *at;
            *at = (*at).max(phase);
            later
        });
    }

    pub(crate) async fn begun(&self) {
        self.reached(Phase::Draining).await;
    }

    pub(crate) async fn ended(&self) {
        self.reached(Phase::Ended).await;
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    async fn reached(&self, phase: Phase) {
        // The sender is ours, so the channel cannot close.
        let _ = self.0.subscribe().wait_for(|at| *at >= phase).await;
    }
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(not(unix))]
async fn signal() {
    let _ = tokio::signal::ctrl_c().await;
}
