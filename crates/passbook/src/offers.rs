//! Slots that waiting workers keep free for what is started in their own process.
//!
//! A start that takes one claims its workflow in the commit that starts it, and hands the pass over: nobody needs to take
//! it from the queue. Nothing rests on it: a start that finds no offer is found in the queue like any other.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Delivery, Pass};

/// The offers of all workers of one store in this process.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    workers: Mutex<Vec<Weak<Room>>>,
    given: Arc<Given>,
}

/// Workflows whose pass a worker of this process was given and has not settled yet.
#[derive(Debug, Default)]
pub(crate) struct Given(Mutex<HashSet<String>>);

impl Given {
    pub(crate) fn contains(&self, workflow: &str) -> bool {
        lock(&self.0).contains(workflow)
    }

    pub(crate) fn forget(&self, workflow: &str) {
        lock(&self.0).remove(workflow);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one worker has room for, while it waits.
#[derive(Debug)]
struct Room {
    namespaces: Vec<String>,
    free: AtomicUsize,
    answers: UnboundedSender<Answer>,
}

/// What became of a slot: the pass that is to run in it, or none.
type Answer = Option<Box<Gift>>;

/// A pass that was given, and the note of it.
#[derive(Debug)]
pub(crate) struct Gift {
    pub(crate) pass: Pass,
    pub(crate) delivery: Delivery,
    pub(crate) noted: Noted,
}

/// A note that a workflow was given. Struck out when it is dropped.
#[derive(Debug)]
pub(crate) struct Noted {
    given: Arc<Given>,
    workflow: String,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.given.forget(&self.workflow);
    }
}

impl Offers {
    /// A free slot of a worker that serves this namespace and waits for work.
    pub(crate) fn take(&self, namespace: &str) -> Option<Offer> {
        let mut offer = None;
        lock(&self.workers).retain(|room| {
            let Some(room) = room.upgrade() else {
                return false;
            };
            if offer.is_none() && room.namespaces.iter().any(|served| served == namespace) {
                offer = Offer::of(room, &self.given);
            }
            true
        });
        offer
    }

    /// The end of a worker that serves these namespaces.
    pub(crate) fn offering(&self, namespaces: &[String]) -> Offering {
        let (tell, answers) = unbounded_channel();
        let room = Arc::new(Room {
            namespaces: namespaces.to_vec(),
            free: AtomicUsize::new(0),
            answers: tell,
        });
        lock(&self.workers).push(Arc::downgrade(&room));
        Offering {
            room: Some(room),
            answers,
            taken: 0,
        }
    }

    pub(crate) fn given(&self) -> &Arc<Given> {
        &self.given
    }
}

/// A slot that a worker keeps free for one pass, until it is accepted or dropped; see [`Hints::offer`](crate::Hints::offer).
#[derive(Debug)]
pub struct Offer {
    room: Option<Arc<Room>>,
    given: Arc<Given>,
}

impl Offer {
    fn of(room: Arc<Room>, given: &Arc<Given>) -> Option<Self> {
        let one_less = |free: usize| free.checked_sub(1);
        match room.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => Some(Self {
                room: Some(room),
                given: given.clone(),
            }),
            Err(_) => None,
        }
    }

    /// Hands over a pass whose claim is committed. It comes back when the worker is gone: then it is to be handed back to the
    /// queue.
    pub fn accept(mut self, pass: Pass, delivery: Delivery) -> Result<(), Box<(Pass, Delivery)>> {
        let Some(room) = self.room.take() else {
            return Err(Box::new((pass, delivery)));
        };
        let workflow = pass.claim.workflow.clone();
        lock(&self.given.0).insert(workflow.clone());
        let noted = Noted {
            given: self.given.clone(),
            workflow,
        };
        let gift = Gift { pass, delivery, noted };
        match room.answers.send(Some(Box::new(gift))) {
            Err(SendError(Some(unheard))) => Err(Box::new((unheard.pass, unheard.delivery))),
            _ => Ok(()),
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            // Nobody needs the slot any more when it fails.
            let _ = room.answers.send(None);
        }
    }
}

/// What a worker offers, and what it is given.
#[derive(Debug)]
pub struct Offering {
    room: Option<Arc<Room>>,
    answers: UnboundedReceiver<Answer>,
    /// How many slots have been taken whose answer has not come yet.
    taken: usize,
}

impl Offering {
    /// Offers nothing: of a store whose starts claim nothing.
    pub fn none() -> Self {
        Self {
            room: None,
            answers: unbounded_channel().1,
            taken: 0,
        }
    }

    /// How many slots are to be kept free for what is just being started.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Offers so many slots while it waits, and completes when one that was taken is answered for: with a pass to run in it,
    /// or with none, and the slot is free again.
    pub(crate) async fn next(&mut self, free: usize) -> Option<Gift> {
        let Self {
            room: Some(room),
            answers,
            taken,
        } = self
        else {
            return std::future::pending().await;
        };
        let open = Open { room, free, taken };
        room.free.store(free, Ordering::SeqCst);
        let answer = answers.recv().await;
        drop(open);
        self.taken -= 1;
        // The room holds the other end of the channel, so an answer always comes.
        answer.flatten().map(|gift| *gift)
    }

    /// Offers nothing any more. What was given by now and was not taken note of.
    pub(crate) fn close(mut self) -> Vec<Gift> {
        self.answers.close();
        let mut left = Vec::new();
        while let Ok(answer) = self.answers.try_recv() {
            left.extend(answer.map(|gift| *gift));
        }
        left
    }
}

/// Slots that stand open; closed when dropped.
struct Open<'a> {
    room: &'a Room,
    free: usize,
    taken: &'a mut usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        *self.taken += self.free - self.room.free.swap(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Clock, Hints, Settlement, StoreTime, Timestamp};

    fn pass() -> (Pass, Delivery) {
        let pass = Pass {
            claim: Claim {
                workflow: "w".to_owned(),
                token: 1,
            },
            records: Vec::new(),
            since: None,
            time: StoreTime::new(std::time::Instant::now(), Timestamp::from_micros(0), &Clock::store()),
            lease: std::time::Duration::from_secs(1),
            attempts: 0,
            interrupted: None,
        };
        let delivery = Delivery {
            namespace: "kind".to_owned(),
            workflow: "w".to_owned(),
            receipt: Timestamp::from_micros(0),
        };
        (pass, delivery)
    }

    async fn waits_with_one_slot(offering: &mut Offering) {
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(1), offering.next(1)).await;
        assert!(waiting.is_err(), "nothing was started");
    }

    #[tokio::test]
    async fn a_slot_is_offered_while_its_worker_waits_and_kept_until_it_is_answered_for() {
        let hints = Hints::new();
        let mut offering = hints.offering(&["kind".to_owned()]);
        waits_with_one_slot(&mut offering).await;
        assert!(hints.offer("kind").is_none(), "it does not wait any more");
        let starts = async {
            assert!(hints.offer("letters").is_none(), "it serves others");
            let offer = hints.offer("kind").expect("it waits");
            assert!(hints.offer("kind").is_none(), "it has one slot");
            offer
        };
        let offer = tokio::select! {
            biased;
            _ = offering.next(1) => panic!("nothing was answered"),
            offer = starts => offer,
        };
        assert_eq!(offering.taken(), 1);
        drop(offer);
        assert!(offering.next(0).await.is_none(), "the slot is free again");
        assert_eq!(offering.taken(), 0);
    }

    #[tokio::test]
    async fn what_was_given_is_expected_to_end_until_it_is_settled_or_let_go() {
        let hints = Hints::new();
        let endings = hints.endings();
        let mut offering = hints.offering(&["kind".to_owned()]);
        for settled in [true, false] {
            let accepts = async {
                let (pass, delivery) = pass();
                hints.offer("kind").expect("it waits").accept(pass, delivery)
            };
            let (gift, accepted) = tokio::join!(biased; offering.next(1), accepts);
            assert!(accepted.is_ok() && endings.expects("w"));
            let gift = gift.expect("it was given");
            if settled {
                hints.tell_settled(std::time::Instant::now(), "w", &Settlement::HandedBack, false);
            } else {
                drop(gift);
            }
            assert!(!endings.expects("w"));
        }
        let both = async { (hints.offer("kind"), hints.offer("kind")) };
        let (first, second) = tokio::select! {
            biased;
            _ = offering.next(2) => panic!("nothing was answered"),
            taken = both => taken,
        };
        let accept = |offer: Option<Offer>| {
            let (pass, delivery) = pass();
            offer.expect("it waits").accept(pass, delivery)
        };
        assert!(accept(first).is_ok());
        assert_eq!(offering.close().len(), 1, "it is not lost");
        assert!(accept(second).is_err(), "the worker has gone");
        assert!(!endings.expects("w"));
    }
}
