//! A body that waits for what is not durable: it may, and somebody is told.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use passbook::{Acquire, Durable as _, MemoryStore, Outcome, Pass, Run, Value, resume};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the warnings, each with its fields as one text.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn pass(store: &MemoryStore) -> Pass {
    let input = Value::encode(&()).unwrap();
    store.start("kind", "order-17", &input).await.unwrap();
    let namespaces = ["kind".to_owned()];
    let request = Acquire::new(&namespaces, 1);
    store.acquire(&request).await.unwrap().passes.remove(0).0
}

async fn waits(run: &Run<MemoryStore>, wait: Duration, in_a_step: bool) -> u32 {
    let wait = tokio::time::sleep(wait);
    if in_a_step {
        let slow = run.step("slow", async || {
            wait.await;
            Ok::<_, String>(())
        });
        slow.await.unwrap();
    } else {
        wait.await;
    }
    5
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_for_what_is_not_durable_is_named_in_one_warning() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let minute = Duration::from_mins(1);
    for (wait, in_a_step, expected) in [
        (minute, false, 1),
        (Duration::from_secs(5), false, 0),
        (minute, true, 0),
    ] {
        let store = MemoryStore::new();
        let pass = pass(&store).await;
        let outcome = resume(pass, &store, async |run| waits(run, wait, in_a_step).await).await;
        assert!(matches!(outcome, Outcome::Completed(5)), "it is allowed: {outcome:?}");
        let told = std::mem::take(&mut *warnings.0.lock().unwrap());
        assert_eq!(told.len(), expected, "{told:?}");
        assert!(told.iter().all(|text| text.contains("order-17")), "{told:?}");
    }
}
