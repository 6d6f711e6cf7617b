//! The writes that can be made for many callers at once.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use passbook::{Claim, Delivery, Error, INPUT, Offer, Pass, Record, Recorded, Result, Settlement, StoreTime, Value};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::batch::Request;
use crate::connection::{Asking, Link};
use crate::rows;
use crate::settling::Settling;

/// One record of a pass; `record.sql`.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) claim: Claim,
    pub(crate) step: String,
    pub(crate) value: Value,
}

impl Recording {
    fn fenced(&self) -> Error {
        Error::fenced(&format!("the record of step `{}`", self.step), &self.claim.workflow)
    }
}

impl Request for Recording {
    type Reply = Recorded;

    fn bytes(&self) -> usize {
        self.value.len()
    }

    async fn many(link: &Link, requests: &[&Self]) -> Result<Vec<Option<Recorded>>> {
        let workflows: Vec<_> = requests.iter().map(|each| each.claim.workflow.as_str()).collect();
        let steps: Vec<_> = requests.iter().map(|each| each.step.as_str()).collect();
        let values: Vec<_> = requests.iter().map(|each| each.value.as_str()).collect();
        let tokens: Vec<_> = requests.iter().map(|each| each.claim.token).collect();
        let bind = |q: Asking| q.bind(&workflows).bind(&steps).bind(&values).bind(&tokens);
        let rows = link
            .ask(&link.statements.record_many, bind, || {
                count(requests, "record", "steps")
            })
            .await?;
        placed(&rows, requests, |row, request| {
            Ok(Some(rows::recorded(row, &request.value)?))
        })
    }

    async fn one(&self, link: &Link) -> Result<Recorded> {
        let bind = |q: Asking| {
            let q = q.bind(&self.claim.workflow).bind(&self.step);
            q.bind(self.value.as_str()).bind(self.claim.token)
        };
        let what = || format!("record step `{}` of workflow `{}`", self.step, self.claim.workflow);
        let rows = link.ask(&link.statements.record, bind, what).await?;
        if rows.is_empty() {
            return Err(self.fenced());
        }
        rows::one(&rows, |row| rows::recorded(row, &self.value), "record a step")
    }
}

/// One start; `start.sql`.
#[derive(Debug)]
pub(crate) struct Start {
    namespace: String,
    workflow: String,
    input: Value,
    /// The slot of a waiting worker. Whoever makes the start by itself takes it, and claims; a batch leaves it.
    offer: Mutex<Option<Offer>>,
}

/// What became of a start.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) recorded: Recorded,
    /// A worker of this process has its pass: nobody else needs to look for it.
    pub(crate) given: bool,
}

impl Started {
    fn queued(recorded: Recorded) -> Self {
        Self { recorded, given: false }
    }
}

impl Start {
    pub(crate) fn new(namespace: &str, workflow: &str, input: &Value, offer: Option<Offer>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            input: input.clone(),
            offer: Mutex::new(offer),
        }
    }

    fn doing(&self) -> String {
        format!("start workflow `{}`", self.workflow)
    }

    /// Starts and claims in one commit; `start_claimed.sql`. If the process dies after it, others take the workflow up when the
    /// lease is over. `None`, and nothing is written, while somebody's open transaction speaks to the workflow.
    async fn claimed(&self, link: &Link, offer: Offer) -> Result<Option<Started>> {
        let Self {
            namespace, workflow, ..
        } = self;
        let (now, lease) = (link.bound_now(), link.lease_interval());
        let bind = |q: Asking| {
            let q = q.bind(namespace).bind(workflow);
            q.bind(self.input.as_str()).bind(now).bind(lease)
        };
        let asked = Instant::now();
        let rows = link.ask(&link.statements.start_claimed, bind, || self.doing()).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let recorded = started(&rows, &self.input, namespace, workflow)?;
        let read = |row: &PgRow| {
            Ok((
                row.try_get::<bool, _>("hidden")?,
                row.try_get::<Option<i64>, _>("token")?,
            ))
        };
        let (hidden, token) = rows::one(&rows, read, "start a workflow")?;
        let Some(token) = token else {
            if hidden {
                // Somebody has claimed it by hand at this very moment.
                let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(now);
                link.ask(&link.statements.make_ready, bind, || self.doing()).await?;
            }
            return Ok(Some(Started::queued(recorded)));
        };
        let read = |row: &PgRow| {
            let record = Record {
                step: INPUT.to_owned(),
                value: recorded.value.clone(),
                seq: row.try_get("seq")?,
                recorded_at: rows::timestamp(row, "recorded_at")?,
            };
            let delivery = Delivery {
                namespace: namespace.clone(),
                workflow: workflow.clone(),
                receipt: rows::timestamp(row, "visible_at")?,
            };
            Ok((record, delivery, rows::timestamp(row, "now")?))
        };
        let (record, delivery, now) = rows::one(&rows, read, "start a workflow")?;
        let claim = Claim {
            workflow: workflow.clone(),
            token,
        };
        let pass = Pass {
            claim,
            records: vec![record],
            since: None,
            time: StoreTime::new(asked, now, &link.clock),
            lease: link.lease,
            attempts: 0,
            interrupted: None,
        };
        let Err(unheard) = offer.accept(pass, delivery) else {
            return Ok(Some(Started { recorded, given: true }));
        };
        let (pass, delivery) = *unheard;
        // The worker is gone. What cannot be handed back is taken when its lease runs out.
        let back = Settling::new(&pass.claim, &delivery, &Settlement::HandedBack);
        if let Err(error) = back.one(link).await {
            tracing::warn!(workflow, %error, "a workflow could not be handed back");
        }
        Ok(Some(Started::queued(recorded)))
    }
}

impl Request for Start {
    type Reply = Started;

    fn bytes(&self) -> usize {
        self.input.len()
    }

    async fn many(link: &Link, requests: &[&Self]) -> Result<Vec<Option<Started>>> {
        let namespaces: Vec<_> = requests.iter().map(|each| each.namespace.as_str()).collect();
        let workflows: Vec<_> = requests.iter().map(|each| each.workflow.as_str()).collect();
        let inputs: Vec<_> = requests.iter().map(|each| each.input.as_str()).collect();
        let now = link.bound_now();
        let bind = |q: Asking| q.bind(&namespaces).bind(&workflows).bind(&inputs).bind(now);
        let rows = link
            .ask(&link.statements.start_many, bind, || {
                count(requests, "start", "workflows")
            })
            .await?;
        placed(&rows, requests, |row, request| {
            // One of another kind is asked alone, and told so.
            let of_kind: bool = row.try_get("of_kind")?;
            Ok(if of_kind {
                Some(Started::queued(rows::recorded(row, &request.input)?))
            } else {
                None
            })
        })
    }

    async fn one(&self, link: &Link) -> Result<Started> {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(offer) = offer
            && let Some(started) = self.claimed(link, offer).await?
        {
            return Ok(started);
        }
        let Self {
            namespace,
            workflow,
            input,
            ..
        } = self;
        let now = link.bound_now();
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(input.as_str()).bind(now);
        let rows = link.ask(&link.statements.start, bind, || self.doing()).await?;
        started(&rows, input, namespace, workflow).map(Started::queued)
    }
}

/// A row of `start.sql` or `start_claimed.sql`.
pub(crate) fn started(rows: &[PgRow], input: &Value, namespace: &str, workflow: &str) -> Result<Recorded> {
    let read = |row: &PgRow| Ok((row.try_get("of_kind")?, rows::recorded(row, input)?));
    let (of_kind, recorded): (bool, Recorded) = rows::one(rows, read, "start a workflow")?;
    if of_kind {
        Ok(recorded)
    } else {
        Err(Error::wrong_kind(workflow, namespace))
    }
}

/// One value from outside; `arrive.sql`.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) namespace: String,
    pub(crate) workflow: String,
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl Request for Arrival {
    type Reply = Recorded;

    fn bytes(&self) -> usize {
        self.value.len()
    }

    async fn many(link: &Link, requests: &[&Self]) -> Result<Vec<Option<Recorded>>> {
        let namespaces: Vec<_> = requests.iter().map(|each| each.namespace.as_str()).collect();
        let workflows: Vec<_> = requests.iter().map(|each| each.workflow.as_str()).collect();
        let keys: Vec<_> = requests.iter().map(|each| each.key.as_str()).collect();
        let values: Vec<_> = requests.iter().map(|each| each.value.as_str()).collect();
        let now = link.bound_now();
        let bind = |q: Asking| q.bind(&namespaces).bind(&workflows).bind(&keys).bind(&values).bind(now);
        let rows = link
            .ask(&link.statements.arrive_many, bind, || count(requests, "send", "values"))
            .await?;
        placed(&rows, requests, |row, request| {
            // One of another kind is asked alone, and told so.
            let of_kind: bool = row.try_get("of_kind")?;
            Ok(if of_kind {
                Some(rows::recorded(row, &request.value)?)
            } else {
                None
            })
        })
    }

    async fn one(&self, link: &Link) -> Result<Recorded> {
        let Self {
            namespace,
            workflow,
            key,
            value,
        } = self;
        let now = link.bound_now();
        let bind = |q: Asking| {
            q.bind(namespace)
                .bind(workflow)
                .bind(key)
                .bind(value.as_str())
                .bind(now)
        };
        let what = || format!("send `{key}` to workflow `{workflow}`");
        let rows = link.ask(&link.statements.arrive, bind, what).await?;
        arrived(&rows, value, namespace, workflow)
    }
}

/// A row of `arrive.sql`, which has none for a workflow of another kind.
pub(crate) fn arrived(rows: &[PgRow], value: &Value, namespace: &str, workflow: &str) -> Result<Recorded> {
    if rows.is_empty() {
        return Err(Error::wrong_kind(workflow, namespace));
    }
    rows::one(rows, |row| rows::recorded(row, value), "send to a workflow")
}

/// One value for an inbox; `deliver.sql`.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) namespace: String,
    pub(crate) workflow: String,
    pub(crate) value: Value,
}

impl Request for Message {
    /// The key that it was filed under.
    type Reply = String;

    fn bytes(&self) -> usize {
        self.value.len()
    }

    async fn many(link: &Link, requests: &[&Self]) -> Result<Vec<Option<String>>> {
        let namespaces: Vec<_> = requests.iter().map(|each| each.namespace.as_str()).collect();
        let workflows: Vec<_> = requests.iter().map(|each| each.workflow.as_str()).collect();
        let values: Vec<_> = requests.iter().map(|each| each.value.as_str()).collect();
        let now = link.bound_now();
        let bind = |q: Asking| q.bind(&namespaces).bind(&workflows).bind(&values).bind(now);
        let rows = link
            .ask(&link.statements.deliver_many, bind, || {
                count(requests, "deliver", "values")
            })
            .await?;
        placed(&rows, requests, |row, _| {
            // One of another kind is asked alone, and told so.
            let of_kind: bool = row.try_get("of_kind")?;
            Ok(if of_kind { Some(row.try_get("step")?) } else { None })
        })
    }

    async fn one(&self, link: &Link) -> Result<String> {
        let Self {
            namespace,
            workflow,
            value,
        } = self;
        let now = link.bound_now();
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(value.as_str()).bind(now);
        let what = || format!("deliver to workflow `{workflow}`");
        let rows = link.ask(&link.statements.deliver, bind, what).await?;
        delivered(&rows, namespace, workflow)
    }
}

/// A row of `deliver.sql`, which has none for a workflow of another kind.
pub(crate) fn delivered(rows: &[PgRow], namespace: &str, workflow: &str) -> Result<String> {
    if rows.is_empty() {
        return Err(Error::wrong_kind(workflow, namespace));
    }
    rows::one(rows, |row| row.try_get("step"), "deliver to a workflow")
}

/// The answers of a batch, each at the place of its request; `None` where no row came back.
pub(crate) fn placed<R, T>(
    rows: &[PgRow],
    requests: &[&R],
    read: impl Fn(&PgRow, &R) -> sqlx::Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let mut replies: Vec<Option<T>> = requests.iter().map(|_| None).collect();
    let read = |row: &PgRow| {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        match requests.get(place) {
            Some(request) => Ok(Some((place, read(row, request)?))),
            None => Ok(None),
        }
    };
    for (place, reply) in rows::all(rows, read, "read the answers of a batch")?
        .into_iter()
        .flatten()
    {
        replies[place] = reply;
    }
    Ok(replies)
}

pub(crate) fn count<R>(requests: &[R], verb: &str, what: &str) -> String {
    format!("{verb} {} {what}", requests.len())
}
