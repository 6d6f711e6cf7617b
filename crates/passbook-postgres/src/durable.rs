//! The pair: every transition is one statement and one commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use passbook::{
    Acquire, Acquired, Batches, Checkpointer as _, Claim, Delivery, Durable, Life, Pass, Recorded, Renewed, Result,
    Scheduler as _, Settled, Settlement, StoreTime, Timestamp, Value, check_name,
};
use sqlx::Row as _;
use sqlx::postgres::{PgPool, PgRow};

use crate::checkpointer::granted;
use crate::connection::{Asking, Link};
use crate::requests::{Arrival, Message, Start};
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
    /// Bundles the two. Refused when they do not share one pool, or differ in their schema or lease.
    pub fn new(checkpointer: PostgresCheckpointer, scheduler: PostgresScheduler) -> Result<Self> {
        same(&checkpointer.0, &scheduler.0)?;
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
        let (halves, pair) = (&self.checkpointer.0, self.link());
        [
            ("record", halves.records.counted()),
            ("start", pair.starts.counted()),
            ("arrive", pair.arrivals.counted()),
            ("deliver", pair.messages.counted()),
            ("settle", pair.settlements.counted()),
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
        let request = Start {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            input: input.clone(),
        };
        let recorded = self.link().starts.ask(self.link(), request).await?;
        self.link().tell_ready(Some(namespace));
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
        let rows = link.ask(&link.statements.acquire, bind, what).await?;
        let time = |row: &_| Ok((rows::timestamp(row, "now")?, rows::maybe_timestamp(row, "next_due")?));
        let (now, due) = rows::one(&rows, time, "take workflows")?;
        let taken: Vec<Taken> = rows::all(&rows, taken, "take workflows")?
            .into_iter()
            .flatten()
            .collect();
        let rows = taken.iter().map(|taken| (taken.delivery.namespace.as_str(), taken.was));
        link.horizon.took(rows, taken.len() < request.limit);
        // Where the room was used up, there may be more, also when some of what was taken is held or over.
        let soon = if taken.len() < request.limit {
            due.map(|due| now.until(due))
        } else {
            Some(Duration::ZERO)
        };
        let mut acquired = Acquired::default();
        let time = StoreTime::new(asked, now, &link.clock);
        for Taken {
            delivery,
            granted,
            over,
            ..
        } in taken
        {
            match granted {
                Some(granted) => {
                    let pass = Pass {
                        since: (request.known)(&granted.claim.workflow),
                        claim: granted.claim,
                        records: Vec::new(),
                        time: time.clone(),
                        lease: link.lease,
                        attempts: granted.attempts,
                        interrupted: granted.interrupted,
                    };
                    acquired.passes.push((pass, delivery));
                }
                // Rare: something woke a workflow that is over, past the transitions that see to it.
                None if over => self.scheduler.done(&delivery).await?,
                // Its pass will find that the receipt has changed, and leave the workflow ready.
                None => {}
            }
        }
        self.load_all(&mut acquired.passes).await?;
        if acquired.passes.len() < request.limit {
            acquired.next_due = soon;
        }
        Ok(acquired)
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

impl PostgresDurable {
    /// Loads the checkpoints of all passes, in one statement.
    async fn load_all(&self, passes: &mut Vec<(Pass, Delivery)>) -> Result<()> {
        if passes.is_empty() {
            return Ok(());
        }
        let link = self.link();
        let workflows: Vec<&str> = passes.iter().map(|(pass, _)| pass.claim.workflow.as_str()).collect();
        let since: Vec<Option<i64>> = passes.iter().map(|(pass, _)| pass.since).collect();
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
            Ok((
                place,
                row.try_get::<Option<String>, _>("namespace")?,
                rows::record(row)?,
            ))
        };
        let mut foreign = Vec::new();
        for (place, namespace, record) in rows::all(&rows, read, "load workflows")? {
            if let Some((pass, delivery)) = passes.get_mut(place) {
                if namespace.is_some_and(|namespace| namespace != delivery.namespace) {
                    foreign.push(place);
                }
                pass.records.push(record);
            }
        }
        // Something was sent as to another kind before the start told which kind it is. Its own queue row stands.
        for place in foreign.into_iter().rev() {
            let (pass, delivery) = passes.remove(place);
            self.checkpointer.release(&pass.claim, &Settlement::HandedBack).await?;
            self.scheduler.done(&delivery).await?;
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
}

/// A row of `acquire.sql`; `None` for the one that only tells the time.
fn taken(row: &PgRow) -> sqlx::Result<Option<Taken>> {
    if row.try_get::<Option<&str>, _>("workflow")?.is_none() {
        return Ok(None);
    }
    let delivery = rows::delivery(row)?;
    let granted = match row.try_get::<Option<i64>, _>("token")? {
        Some(_) => Some(granted(row, &delivery.workflow)?),
        None => None,
    };
    let over = row.try_get::<Option<bool>, _>("over")?.unwrap_or(false);
    Ok(Some(Taken {
        was: rows::timestamp(row, "was")?,
        delivery,
        granted,
        over,
    }))
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
