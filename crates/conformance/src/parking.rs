//! Bodies that a worker keeps over a suspension, and those that it does not: both come to the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use passbook::{Checkpointer as _, Client, Cursor, Durable, Ended, Run, Settlement, State, Worker, Workflow};

use crate::bed::{Bed, KIND, Store, encode};
use crate::worker::beside;

fn worker<S: Store>(bed: &Bed<S>, keep: usize) -> Worker<S> {
    Worker::new(bed.store.clone()).keep(keep)
}

/// Waits for two values, one after the other, and counts how often it began.
#[derive(Clone, Debug, Default)]
struct Twice(Arc<AtomicU32>);

impl Twice {
    fn began(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl<S: Durable> Workflow<S> for Twice {
    const NAME: &'static str = KIND;
    type Input = ();
    type Output = u64;
    type Error = String;

    async fn run(&self, run: &Run<S>, (): ()) -> Result<u64, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let asked = run.step("asked", async || Ok::<_, String>(100)).await?;
        let one: u64 = run.awaiting("one").await;
        let noted = run.step("noted", async || Ok::<_, String>(asked + one)).await?;
        let two: u64 = run.awaiting("two").await;
        run.step("added", async || Ok(noted + two)).await
    }
}

async fn waits_for<S: Store>(bed: &Bed<S>, workflow: &str, key: &str) {
    loop {
        let status = bed.reaches(workflow, State::Waiting).await;
        if status.waits_for == [key] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The worker keeps a body right after its end is written, and a value may come in between: then it replays, which is as
/// good. So who wants to see a body go on tries until one does.
async fn one_of<T>(try_one: impl AsyncFn(u32) -> Option<T>) -> T {
    for attempt in 0..50 {
        if let Some(seen) = try_one(attempt).await {
            return seen;
        }
    }
    panic!("no body has gone on as it should");
}

/// A body that is kept goes on where it stands: what stands before is not run again, and its steps know the new claim.
pub async fn a_kept_body_goes_on_where_it_stands<S: Store>(bed: Bed<S>) {
    for (keep, began) in [(10, 1), (0, 3)] {
        one_of(async |attempt| {
            let body = Twice::default();
            let workflow = format!("kept-{keep}-{attempt}");
            let client = Client::new(bed.store.clone());
            beside(worker(&bed, keep).register(body.clone()), async {
                bed.start(&workflow).await;
                waits_for(&bed, &workflow, "one").await;
                assert!(bed.arrive(&workflow, "one", &10).await);
                waits_for(&bed, &workflow, "two").await;
                assert!(bed.arrive(&workflow, "two", &1).await);
                let ended = client.result::<Twice>(&workflow).await.expect("a result");
                assert_eq!(ended, Ended::Completed(111));
            })
            .await;
            let steps = bed.steps(&workflow).await;
            assert_eq!(steps, ["asked", "one", "noted", "two", "added"]);
            (body.began() == began).then_some(())
        })
        .await;
    }
}

/// A value that came before anybody waited for it is there when a kept body asks for it.
pub async fn a_kept_body_finds_what_came_before_it_asked<S: Store>(bed: Bed<S>) {
    let body = Twice::default();
    let client = Client::new(bed.store.clone());
    beside(worker(&bed, 10).register(body.clone()), async {
        bed.start("w").await;
        waits_for(&bed, "w", "one").await;
        assert!(bed.arrive("w", "two", &1).await);
        waits_for(&bed, "w", "one").await;
        assert!(bed.arrive("w", "one", &10).await);
        let ended = client.result::<Twice>("w").await.expect("a result");
        assert_eq!(ended, Ended::Completed(111));
    })
    .await;
}

/// A body that is kept while another pass runs replays: it cannot know what that pass did.
pub async fn a_kept_body_replays_after_another_pass<S: Store>(bed: Bed<S>) {
    let body = Twice::default();
    let client = Client::new(bed.store.clone());
    beside(worker(&bed, 10).register(body.clone()), async {
        bed.start("w").await;
        waits_for(&bed, "w", "one").await;
        let claimed = bed.store.checkpointer().claim("w").await.expect("a claim");
        let passbook::Claimed::Granted(granted) = claimed else {
            panic!("nobody holds it: {claimed:?}");
        };
        // As a body of another version would have done.
        let value = encode(&500);
        let noted = bed.store.checkpointer().record(&granted.claim, "noted", &value);
        assert!(noted.await.expect("a record").first);
        let waits = Settlement::Suspended {
            wake_at: None,
            waits_for: vec!["one".to_owned()],
        };
        assert!(
            bed.store
                .checkpointer()
                .release(&granted.claim, &waits)
                .await
                .expect("a release")
        );
        assert!(bed.arrive("w", "one", &10).await);
        waits_for(&bed, "w", "two").await;
        assert!(bed.arrive("w", "two", &1).await);
        let ended = client.result::<Twice>("w").await.expect("a result");
        assert_eq!(ended, Ended::Completed(501), "what the other pass recorded counts");
    })
    .await;
    assert!(body.began() >= 2, "it began anew after the other pass");
}

/// A body that is kept when its workflow is cancelled does not go on after a resume: it replays.
pub async fn a_kept_body_of_a_cancelled_workflow_replays<S: Store>(bed: Bed<S>) {
    let body = Twice::default();
    let client = Client::new(bed.store.clone());
    beside(worker(&bed, 10).register(body.clone()), async {
        bed.start("w").await;
        waits_for(&bed, "w", "one").await;
        assert!(client.cancel("w").await.expect("cancelled"));
        assert!(client.resume("w").await.expect("resumed"));
        waits_for(&bed, "w", "one").await;
        while body.began() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(bed.arrive("w", "one", &10).await);
        assert!(bed.arrive("w", "two", &1).await);
        let ended = client.result::<Twice>("w").await.expect("a result");
        assert_eq!(ended, Ended::Completed(111));
    })
    .await;
}

/// When there is no more room, the body that was kept longest is put down, and replays when it is woken.
pub async fn the_latest_bodies_are_kept<S: Store>(bed: Bed<S>) {
    one_of(async |attempt| {
        let body = Twice::default();
        let client = Client::new(bed.store.clone());
        let [old, new] = ["old", "new"].map(|each| format!("{each}-{attempt}"));
        let mut began = Vec::new();
        beside(worker(&bed, 1).register(body.clone()), async {
            for workflow in [&old, &new] {
                bed.start(workflow).await;
                waits_for(&bed, workflow, "one").await;
            }
            for workflow in [&new, &old] {
                assert!(bed.arrive(workflow, "one", &10).await);
                waits_for(&bed, workflow, "two").await;
                began.push(body.began());
            }
            for workflow in [&new, &old] {
                assert!(bed.arrive(workflow, "two", &1).await);
                let ended = client.result::<Twice>(workflow).await.expect("a result");
                assert_eq!(ended, Ended::Completed(111));
            }
        })
        .await;
        assert!(began[1] > began[0], "the old one replays: {began:?}");
        (began == [2, 3]).then_some(())
    })
    .await;
}

/// One thing that a body does.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Move {
    Step,
    Await,
    Receive,
    Sleep,
    Both,
    Limit,
}

/// A body that does what its input says, and counts its effects.
#[derive(Clone, Debug, Default)]
struct Program(Arc<Mutex<BTreeMap<String, u32>>>);

impl<S: Durable> Workflow<S> for Program {
    const NAME: &'static str = KIND;
    type Input = Vec<Move>;
    type Output = Vec<u64>;
    type Error = String;

    async fn run(&self, run: &Run<S>, moves: Vec<Move>) -> Result<Vec<u64>, String> {
        let effect = async |name: String| {
            *self
                .0
                .lock()
                .expect("a count")
                .entry(format!("{}/{name}", run.workflow()))
                .or_default() += 1;
            Ok::<_, String>(7)
        };
        let mut cursor = Cursor::default();
        let mut values = Vec::new();
        for (at, each) in moves.into_iter().enumerate() {
            let name = format!("move-{at}");
            match each {
                Move::Step => values.push(run.step(&name, || effect(name.clone())).await?),
                Move::Await => values.push(run.awaiting(&name).await),
                Move::Receive => {
                    let batch = run.receive::<u64>(&name, &cursor, 1).await;
                    values.extend(batch.values);
                    cursor = batch.cursor;
                }
                Move::Sleep => run.sleep(&name, Duration::from_hours(1)).await,
                Move::Both => {
                    let step = format!("{name}-step");
                    let (one, two) = tokio::join!(
                        run.step(&step, || effect(step.clone())),
                        run.awaiting::<u64>(name.clone())
                    );
                    values.extend([one?, two]);
                }
                Move::Limit => {
                    let wait = run.awaiting::<u64>(name.clone()).within(Duration::from_hours(1)).await;
                    values.push(wait.unwrap_or_default());
                }
            }
        }
        Ok(values)
    }
}

/// Whatever a body does, and whenever values come and time passes: with no body kept and with all kept, the same is
/// recorded, the result is the same, and no effect runs twice.
pub async fn kept_or_not_comes_to_the_same<S: Store>(bed: Bed<S>) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let all = [
        Move::Step,
        Move::Await,
        Move::Receive,
        Move::Sleep,
        Move::Both,
        Move::Limit,
    ];
    for round in 0..6 {
        let length = rng.usize(3..9);
        let moves: Vec<Move> = (0..length).map(|_| all[rng.usize(..all.len())]).collect();
        // What is sent, in an order of chance: one value for each wait, and the messages in their own order.
        let mut sends: Vec<usize> = (0..moves.len()).collect();
        rng.shuffle(&mut sends);
        let mut ends = Vec::new();
        for keep in [0, 1_000] {
            let program = Program::default();
            let workflow = format!("{round}-{keep}");
            let client = Client::new(bed.store.clone());
            let ended = beside(worker(&bed, keep).register(program.clone()), async {
                client.start::<Program>(&workflow, &moves).await.expect("a start");
                let mut messages = 0_u64;
                for at in &sends {
                    match moves[*at] {
                        Move::Await | Move::Both | Move::Limit => {
                            let value = *at as u64;
                            client
                                .arrive::<Program>(&workflow, &format!("move-{at}"), &value)
                                .await
                                .expect("an arrive");
                        }
                        Move::Receive => {
                            messages += 1;
                            client
                                .deliver::<Program>(&workflow, &messages)
                                .await
                                .expect("a delivery");
                        }
                        Move::Step | Move::Sleep => tokio::time::sleep(Duration::from_millis(3)).await,
                    }
                }
                let ended = client.result::<Program>(&workflow);
                let mut ended = std::pin::pin!(ended);
                loop {
                    tokio::select! {
                        ended = &mut ended => break ended.expect("a result"),
                        () = tokio::time::sleep(Duration::from_millis(20)) => {}
                    }
                    // Every value is there: what is left to wait for is time.
                    if bed.status(&workflow).await.state == State::Sleeping {
                        bed.clock.advance(Duration::from_hours(1));
                    }
                }
            })
            .await;
            let records = bed.store.checkpointer().load(&workflow).await.expect("records");
            let kept: BTreeMap<String, String> = records
                .into_iter()
                // Which number a message has, and which moment a sleep ends at, is of the run.
                .filter(|record| !record.step.starts_with("inbox:") && !record.step.starts_with(":deadline"))
                .map(|record| (record.step, record.value.to_string()))
                .filter(|(_, value)| !value.contains("inbox:") && !value.contains('T'))
                .collect();
            let effects = program.0.lock().expect("a count").clone();
            assert!(effects.values().all(|times| *times == 1), "{moves:?}: {effects:?}");
            ends.push((ended, kept, effects.len()));
        }
        assert_eq!(ends[0], ends[1], "{moves:?}, sent in the order {sends:?}");
    }
}
