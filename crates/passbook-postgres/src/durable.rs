//! The pair: every transition is one statement and one commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use passbook::{
    Acquire, Acquired, Batches, Checkpointer as _, Claim, Delivery, Durable, Life, Offering, Pass, Record, Recorded,
    Renewed, Result, Scheduler as _, Settled, Settlement, StoreTime, Timestamp, Value, check_name,
};
use sqlx::Row as _;
use sqlx::postgres::{PgPool, PgRow};

use crate::checkpointer::granted;
use crate::connection::{Asking, Link};
use crate::error::Doing as _;
use crate::requests::{Arrival, Message, Start, Started};
use crate::rows::{self, moment};
use crate::scheduler::{limit, same};
use crate::settling::Settling;
use crate::{PostgresCheckpointer, PostgresOptions, PostgresScheduler};

/// A store that is one Postgres database. Clones are handles on the same connections.
///
/// Losing the connection during a call leaves it unknown whether the call's commit happened; every call but `deliver` may
/// simply be made again. If the process dies, its transactions roll back, and what it held is taken up when its lease runs
/// out.
#[derive(Clone, Debug)]
pub struct PostgresDurable {
    checkpointer: PostgresCheckpointer,
    scheduler: PostgresScheduler,
}

impl PostgresDurable {
    /// Bundles the two. Refused when they do not share one pool, or differ in their schema or lease. Whatever else they differ
    /// in is as the scheduler has it, through which both speak to the server from now on.
    pub fn new(mut checkpointer: PostgresCheckpointer, scheduler: PostgresScheduler) -> Result<Self> {
        same(&checkpointer.0, &scheduler.0)?;
        checkpointer.0 = scheduler.0.clone();
        Ok(Self {
            checkpointer,
            scheduler,
        })
    }

    /// Connects with the options as they are unless told otherwise. See [`PostgresOptions::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::options().connect(url).await
    }

    /// How to connect.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// The pool, e.g. for a transaction of the application's own.
    pub fn pool(&self) -> &PgPool {
        &self.link().pool
    }

    /// How the writes of this store have gone together, by kind; see [`PostgresOptions::batching`].
    pub fn batches(&self) -> [(&'static str, Batches); 5] {
        let link = self.link();
        [
            ("record", link.records.counted()),
            ("start", link.starts.counted()),
            ("arrive", link.arrivals.counted()),
            ("deliver", link.messages.counted()),
            ("settle", link.settlements.counted()),
        ]
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.scheduler.0
    }
}

impl Durable for PostgresDurable {
    type Checkpointer = PostgresCheckpointer;
    type Scheduler = PostgresScheduler;

    fn checkpointer(&self) -> &PostgresCheckpointer {
        &self.checkpointer
    }

    fn scheduler(&self) -> &PostgresScheduler {
        &self.scheduler
    }

    async fn start(&self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        let link = self.link();
        let request = Start::new(namespace, workflow, input, link.telling.within.offer(namespace));
        let Started { recorded, given } = link.starts.ask(link, request).await?;
        if !given {
            link.tell_ready(Some(namespace));
        }
        Ok(recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        check_name("key", key)?;
        let request = Arrival {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            key: key.to_owned(),
            value: value.clone(),
        };
        let recorded = self.link().arrivals.ask(self.link(), request).await?;
        self.link().tell_ready(Some(namespace));
        Ok(recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        check(namespace, workflow)?;
        let request = Message {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            value: value.clone(),
        };
        let key = self.link().messages.ask(self.link(), request).await?;
        self.link().tell_ready(Some(namespace));
        Ok(key)
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let cancelled = cancel(self.link(), Some(namespace), workflow).await?;
        if cancelled {
            self.link().tell_ended(workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let reopened = reopen(self.link(), Some(namespace), workflow).await?;
        self.link().tell_ready(Some(namespace));
        Ok(reopened)
    }

    async fn delete(&self, namespace: &str, workflow: &str) -> Result<u64> {
        self.checkpointer.delete(Some(namespace), workflow).await
    }

    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let (link, now, lease) = (self.link(), self.link().bound_now(), self.link().lease_interval());
        let namespaces = request.namespaces;
        let since: Vec<_> = link
            .horizon
            .since(namespaces)
            .into_iter()
            .map(|since| since.map(moment))
            .collect();
        let bind = |q: Asking| {
            let q = q.bind(namespaces).bind(limit(request.limit));
            q.bind(now).bind(lease).bind(&since)
        };
        let what = || format!("take from `{}`", namespaces.join("`, `"));
        let asked = Instant::now();
        let statement = if namespaces.len() > 1 && link.horizon.is_scarce() {
            &link.statements.acquire
        } else {
            &link.statements.acquire_unshared
        };
        let rows = link.ask(statement, bind, what).await?;
        let time = |row: &_| Ok((rows::timestamp(row, "now")?, rows::maybe_timestamp(row, "next_due")?));
        let (now, due) = rows::one(&rows, time, "take workflows")?;
        let taken = taken(&rows).doing(|| "take workflows".to_owned())?;
        let rows = taken.iter().map(|taken| (taken.delivery.namespace.as_str(), taken.was));
        link.horizon.took(rows, taken.len() < request.limit);
        // Where the room was used up, there may be more, also when some of what was taken is held or over.
        let soon = if taken.len() < request.limit {
            due.map(|due| now.until(due))
        } else {
            Some(Duration::ZERO)
        };
        let time = StoreTime::new(asked, now, &link.clock);
        let mut loading = Loading::default();
        for taken in taken {
            match taken.granted {
                Some(granted) => {
                    let known = || (request.known)(&granted.claim.workflow);
                    let pass = Pass {
                        since: if taken.read.is_some() { None } else { known() },
                        claim: granted.claim,
                        records: Vec::new(),
                        time: time.clone(),
                        lease: link.lease,
                        attempts: granted.attempts,
                        interrupted: granted.interrupted,
                    };
                    loading.add(pass, taken.delivery, taken.read);
                }
                // Rare: something woke a workflow that is over, past the transitions that see to it.
                None if taken.over => self.scheduler.done(&taken.delivery).await?,
                // Its pass will find that the receipt has changed, and leave the workflow ready.
                None => {}
            }
        }
        loading.read(link).await?;
        // Something was sent as to another kind before the start told which kind it is. Its own queue row stands.
        for place in std::mem::take(&mut loading.foreign).into_iter().rev() {
            let (pass, delivery) = loading.passes.remove(place);
            self.checkpointer.release(&pass.claim, &Settlement::HandedBack).await?;
            self.scheduler.done(&delivery).await?;
        }
        let passes = loading.passes;
        Ok(Acquired {
            next_due: if passes.len() < request.limit { soon } else { None },
            passes,
        })
    }

    fn offering(&self, namespaces: &[String]) -> Offering {
        self.link().telling.within.offering(namespaces)
    }

    async fn renew(&self, held: &[(Life, Delivery)]) -> Result<Vec<Renewed>> {
        let asked = held.iter().map(|(life, delivery)| (life, Some(delivery)));
        let renewed = renew(self.link(), asked).await?;
        let renewed = renewed
            .into_iter()
            .zip(held)
            .map(|((alive, receipt), (_, delivery))| Renewed {
                alive,
                delivery: Delivery {
                    receipt: receipt.unwrap_or(delivery.receipt),
                    ..delivery.clone()
                },
            });
        Ok(renewed.collect())
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        let asked = Instant::now();
        let request = Settling::new(claim, delivery, outcome);
        let (settled, recorded) = self.link().settlements.ask(self.link(), request).await?;
        if settled.is_held() {
            self.link().tell_settled(asked, &claim.workflow, outcome, recorded);
        }
        Ok(settled)
    }
}

/// The passes of a take, while their checkpoints are read.
#[derive(Default)]
struct Loading {
    passes: Vec<(Pass, Delivery)>,
    /// The places of those whose checkpoints are still to be read.
    unread: Vec<usize>,
    /// The places of those that were started as another kind than they were taken as, in rising order.
    foreign: BTreeSet<usize>,
}

/// A record, and the kind of its workflow if it is the one of the input.
type Read = (Option<String>, Record);

impl Loading {
    fn add(&mut self, pass: Pass, delivery: Delivery, read: Option<Vec<Read>>) {
        let place = self.passes.len();
        self.passes.push((pass, delivery));
        match read {
            Some(read) => read.into_iter().for_each(|read| self.put(place, read)),
            None => self.unread.push(place),
        }
    }

    fn put(&mut self, place: usize, (kind, record): Read) {
        let (pass, delivery) = &mut self.passes[place];
        if kind.is_some_and(|kind| kind != delivery.namespace) {
            self.foreign.insert(place);
        }
        pass.records.push(record);
    }

    /// Reads all checkpoints that are still to be read, in one statement.
    async fn read(&mut self, link: &Link) -> Result<()> {
        if self.unread.is_empty() {
            return Ok(());
        }
        let unread = || self.unread.iter().map(|place| &self.passes[*place].0);
        let workflows: Vec<&str> = unread().map(|pass| pass.claim.workflow.as_str()).collect();
        let since: Vec<Option<i64>> = unread().map(|pass| pass.since).collect();
        let what = || format!("load {} workflows", workflows.len());
        // These claims are ours already. To give up at once would leave them unsettled, and count as attempts.
        let asked = Instant::now();
        let rows = loop {
            match link
                .ask(&link.statements.load, |q| q.bind(&workflows).bind(&since), what)
                .await
            {
                Err(error) if error.is_unavailable() && asked.elapsed() < link.lease / 2 => {
                    tokio::time::sleep(link.lease.min(AGAIN)).await;
                }
                rows => break rows?,
            }
        };
        let read = |row: &PgRow| {
            let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
            Ok((place, (row.try_get("namespace")?, rows::record(row)?)))
        };
        for (place, read) in rows::all(&rows, read, "load workflows")? {
            if let Some(place) = self.unread.get(place) {
                self.put(*place, read);
            }
        }
        Ok(())
    }
}

/// How soon a load is asked for again.
const AGAIN: Duration = Duration::from_millis(50);

struct Taken {
    delivery: Delivery,
    /// Since when it was due.
    was: Timestamp,
    granted: Option<passbook::Granted>,
    over: bool,
    /// The checkpoint, where it was read along.
    read: Option<Vec<Read>>,
}

/// The rows of `acquire.sql`: none of a delivery where only the time is told, and one for each record that was read along.
fn taken(rows: &[PgRow]) -> sqlx::Result<Vec<Taken>> {
    let mut all: Vec<Taken> = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(workflow) = row.try_get::<Option<&str>, _>("workflow")? else {
            continue;
        };
        let namespace: &str = row.try_get("namespace")?;
        let before = all.last().map(|taken| &taken.delivery);
        if !before.is_some_and(|before| before.workflow == workflow && before.namespace == namespace) {
            all.push(Taken {
                delivery: rows::delivery(row)?,
                was: rows::timestamp(row, "was")?,
                granted: match row.try_get::<Option<i64>, _>("token")? {
                    Some(_) => Some(granted(row, workflow)?),
                    None => None,
                },
                over: row.try_get::<Option<bool>, _>("over")?.unwrap_or(false),
                read: row.try_get::<bool, _>("loaded")?.then(Vec::new),
            });
        }
        if let Some(Taken { read: Some(read), .. }) = all.last_mut()
            && row.try_get::<Option<&str>, _>("step")?.is_some()
        {
            read.push((row.try_get("kind")?, rows::record(row)?));
        }
    }
    Ok(all)
}

pub(crate) fn check(namespace: &str, workflow: &str) -> Result<()> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)
}

/// Signs of life for many passes, with or without their deliveries, over the connection kept for that. For each, whether it
/// holds its workflow, and the new receipt where the delivery was still held.
pub(crate) async fn renew<'a>(
    link: &Link,
    asked: impl Iterator<Item = (&'a Life, Option<&'a Delivery>)>,
) -> Result<Vec<(bool, Option<Timestamp>)>> {
    let asked: Vec<_> = asked.collect();
    let namespaces: Vec<_> = asked.iter().map(|(_, of)| of.map(|of| of.namespace.as_str())).collect();
    let workflows: Vec<_> = asked.iter().map(|(life, _)| life.claim.workflow.as_str()).collect();
    let tokens: Vec<_> = asked.iter().map(|(life, _)| life.claim.token).collect();
    let receipts: Vec<_> = asked.iter().map(|(_, of)| of.map(|of| moment(of.receipt))).collect();
    let running: Vec<_> = asked.iter().map(|(life, _)| life.running.as_deref()).collect();
    let (now, lease) = (link.bound_now(), link.lease_interval());
    let bind = |q: Asking| {
        let q = q.bind(&namespaces).bind(&workflows).bind(&tokens);
        q.bind(&receipts).bind(&running).bind(now).bind(lease)
    };
    let what = || format!("give signs of life for {} workflows", workflows.len());
    let rows = link.lifeline.ask(link, &link.statements.renew, bind, what).await?;
    let mut renewed = vec![(false, None); asked.len()];
    let read = |row: &PgRow| {
        let receipt = rows::maybe_timestamp(row, "visible_at")?;
        Ok((
            row.try_get::<i64, _>("place")?,
            row.try_get::<bool, _>("alive")?,
            receipt,
        ))
    };
    for (place, alive, receipt) in rows::all(&rows, read, "give signs of life")? {
        if let Some(slot) = usize::try_from(place).ok().and_then(|place| renewed.get_mut(place)) {
            *slot = (alive, receipt);
        }
    }
    Ok(renewed)
}

pub(crate) async fn cancel(link: &Link, namespace: Option<&str>, workflow: &str) -> Result<bool> {
    let now = link.bound_now();
    let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(now);
    let rows = link
        .ask(&link.statements.cancel, bind, || {
            format!("cancel workflow `{workflow}`")
        })
        .await?;
    rows::one(&rows, |row| row.try_get("cancelled"), "cancel a workflow")
}

pub(crate) async fn reopen(link: &Link, namespace: Option<&str>, workflow: &str) -> Result<bool> {
    let now = link.bound_now();
    let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(now);
    let rows = link
        .ask(&link.statements.reopen, bind, || {
            format!("resume workflow `{workflow}`")
        })
        .await?;
    rows::one(&rows, |row| row.try_get("reopened"), "resume a workflow")
}
