//! The driver of a pass: polls the body, makes its writes, and sees when nothing is left to do.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::durable::{Durable, Pass};
use crate::run::{Wait, Write};
use crate::{Error, Run, Timestamp};

/// After this long in a state that nothing durable will end, the pass is named in a warning.
const IDLE_WARNING: Duration = Duration::from_secs(10);

/// How a pass ended.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The body returned.
    Completed(T),
    /// The body waits, and nothing else is left to do.
    Suspended {
        /// The earliest deadline.
        wake_at: Option<Timestamp>,
        /// Every key waited for; [`crate::INBOX`] stands for the next value of the inbox.
        waits_for: Vec<String>,
    },
    /// The pass failed, not by an error that the body returned: a panic, a name used twice, a value that cannot be
    /// kept, a record that does not decode.
    Failed(Failure),
    /// The pass no longer holds the workflow, or cannot know it because the store cannot be reached. Nothing may be
    /// written for it any more.
    Lost(Error),
}

/// Why a pass failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For a person.
    pub message: String,
    /// Whether trying again cannot help.
    pub permanent: bool,
}

/// Runs one pass of a workflow that the caller drives.
///
/// The caller acquires the pass ([`Durable::acquire`]), and settles it afterwards ([`Durable::settle`]) within its
/// lease, or renews it meanwhile ([`Durable::renew`]); a [`Worker`](crate::Worker) does all that by itself. When this
/// future is dropped, the body is put down where it is, and a record on its way may or may not be written.
pub async fn resume<S: Durable, T>(pass: Pass, store: &S, body: impl AsyncFnOnce(&Run<S>) -> T) -> Outcome<T> {
    let run = Run::new(pass, store.clone());
    let body = pin!(body(&run));
    drive(&run, body, std::future::pending()).await
}

/// Drives the body until the pass is over, or until `stop` completes: then the body is put down at its next await, and
/// what its effects have done by then is still recorded.
pub(crate) async fn drive<S: Durable, T>(
    run: &Run<S>,
    mut body: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    stop: impl Future<Output = Error>,
) -> Outcome<T> {
    let mut stop = pin!(stop);
    let mut writes: FuturesUnordered<Write> = FuturesUnordered::new();
    let mut ending: Option<Outcome<T>> = None;
    let mut idle = Idle::default();
    let mut watch = Watch::default();
    let mut last_turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let state = run.state();
    std::future::poll_fn(move |cx| {
        loop {
            writes.extend(state.take_writes());
            while let Poll::Ready(Some(landed)) = writes.poll_next_unpin(cx) {
                state.landed(landed);
            }
            if let Some(error) = state.take_end() {
                // Whatever the body came to, it rests on something that did not happen.
                ending = Some(ended(error));
            }
            if ending.is_none()
                && let Poll::Ready(error) = stop.as_mut().poll(cx)
            {
                ending = Some(Outcome::Lost(error));
            }
            if let Some(outcome) = ending.take() {
                // An effect has returned: its record is written before the pass is over.
                if writes.is_empty() {
                    return Poll::Ready(outcome);
                }
                ending = Some(outcome);
                return Poll::Pending;
            }

            if let Some(turn) = &mut last_turn
                && !watch.woken()
            {
                if turn.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                ending = Some(suspended(state.parked()));
                continue;
            }
            last_turn = None;

            let (waker, noticing) = watch.over(cx.waker());
            let polled =
                std::panic::catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut Context::from_waker(waker))));
            match polled {
                Ok(Poll::Ready(value)) => ending = Some(Outcome::Completed(value)),
                Ok(Poll::Pending) => {}
                Err(panic) => ending = Some(Outcome::Failed(panicked(run, panic.as_ref()))),
            }
            if ending.is_some() || state.has_ended() || state.has_writes() {
                continue;
            }
            if state.is_busy() || !writes.is_empty() {
                idle.reset();
                return Poll::Pending;
            }
            if noticing.woken.load(Ordering::SeqCst) {
                // It asked to be polled again, e.g. because its budget was used up: it is not waiting.
                return Poll::Pending;
            }
            if state.parked().is_empty() {
                idle.poll(cx, run.workflow());
                return Poll::Pending;
            }
            // The runtime keeps some wakes back until the end of its turn: that of a body which yields, or whose budget is
            // used up. One turn more, and whoever is not woken by then waits.
            last_turn = Some(Box::pin(tokio::task::yield_now()));
        }
    })
    .await
}

fn suspended<T>(parked: Vec<Wait>) -> Outcome<T> {
    let wake_at = parked.iter().filter_map(|wait| wait.deadline).min();
    let mut waits_for: Vec<String> = parked.into_iter().filter_map(|wait| wait.key).collect();
    waits_for.sort_unstable();
    waits_for.dedup();
    Outcome::Suspended { wake_at, waits_for }
}

/// What an error of the library means for the pass.
fn ended<T>(error: Error) -> Outcome<T> {
    if error.is_fenced() || error.is_unavailable() {
        return Outcome::Lost(error);
    }
    // A program that uses a name twice, a value that cannot be kept, a record of another type: trying again comes to
    // the same, and would repeat effects that have happened.
    let permanent = error.is_refused()
        || error.is_duplicate()
        || error.is_undecodable()
        || error.is_invalid()
        || error.is_not_found();
    Outcome::Failed(Failure {
        message: error.to_string(),
        permanent,
    })
}

fn panicked<S: Durable>(run: &Run<S>, panic: &(dyn Any + Send)) -> Failure {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let running = run.state().running();
    let place = if running.is_empty() {
        String::new()
    } else {
        format!(" while `{running}` ran")
    };
    Failure {
        message: format!("panicked{place}: {said}"),
        permanent: false,
    }
}

/// The waker that the body is given, made anew only when the driver's own changes.
#[derive(Default)]
struct Watch(Option<(Waker, Arc<Noticing>)>);

impl Watch {
    fn woken(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|(_, noticing)| noticing.woken.load(Ordering::SeqCst))
    }

    fn over(&mut self, waker: &Waker) -> &(Waker, Arc<Noticing>) {
        if !self
            .0
            .as_ref()
            .is_some_and(|(_, noticing)| noticing.waker.will_wake(waker))
        {
            self.0 = None;
        }
        let watching = self.0.get_or_insert_with(|| {
            let noticing = Arc::new(Noticing {
                waker: waker.clone(),
                woken: AtomicBool::new(false),
            });
            (Waker::from(noticing.clone()), noticing)
        });
        watching.1.woken.store(false, Ordering::SeqCst);
        watching
    }
}

/// Passes every wake on, and remembers that there was one.
struct Noticing {
    waker: Waker,
    woken: AtomicBool,
}

impl Wake for Noticing {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.waker.wake_by_ref();
    }
}

/// Watches a body that waits for something which is not durable. It may; but if it stays so, somebody should know.
#[derive(Default)]
struct Idle {
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    warned: bool,
}

impl Idle {
    fn reset(&mut self) {
        self.timer = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>, workflow: &str) {
        if self.warned {
            return;
        }
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE_WARNING)));
        if timer.as_mut().poll(cx).is_ready() {
            self.warned = true;
            tracing::warn!(
                workflow,
                "the body waits for something that is not durable: no step is running and no sleep or key is waited for, so its pass keeps a slot until this ends"
            );
        }
    }
}
