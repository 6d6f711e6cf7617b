//! The end of a pass, which can be made for many at once.

use passbook::{Claim, Delivery, Result, Settled, Settlement, State, Timestamp, Value};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::batch::Request;
use crate::connection::{Asking, Link};
use crate::requests::{count, placed};
use crate::rows::{self, moment};

/// One end of a pass; `settle.sql`.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Empty when there is no delivery to answer for.
    namespace: Option<String>,
    receipt: Option<Timestamp>,
    claim: Claim,
    state: State,
    waits_for: Vec<String>,
    wake_at: Option<Timestamp>,
    error: Option<String>,
    result: Option<Value>,
}

impl Settling {
    pub(crate) fn new(claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Self {
        let result = match outcome {
            Settlement::Completed { result } => Some(result.clone()),
            _ => None,
        };
        Self {
            namespace: Some(delivery.namespace.clone()),
            receipt: Some(delivery.receipt),
            result,
            ..Self::without_delivery(claim, outcome)
        }
    }

    /// The half that a split pair uses: its result has been recorded by itself.
    pub(crate) fn without_delivery(claim: &Claim, outcome: &Settlement) -> Self {
        let mut settling = Self {
            namespace: None,
            receipt: None,
            claim: claim.clone(),
            state: State::Ready,
            waits_for: Vec::new(),
            wake_at: None,
            error: None,
            result: None,
        };
        match outcome {
            Settlement::HandedBack => {}
            Settlement::Completed { .. } => settling.state = State::Completed,
            Settlement::Suspended { wake_at, waits_for } => {
                settling.state = if waits_for.is_empty() {
                    State::Sleeping
                } else {
                    State::Waiting
                };
                settling.wake_at = *wake_at;
                settling.waits_for.clone_from(waits_for);
            }
            Settlement::Failed { error, retry_at } => {
                settling.state = if retry_at.is_some() {
                    State::Sleeping
                } else {
                    State::Failed
                };
                settling.wake_at = *retry_at;
                settling.error = Some(error.clone());
            }
        }
        settling
    }

    fn waits_for_json(&self) -> Option<String> {
        // Names are text without NUL, so they can always be written.
        let json = || serde_json::to_string(&self.waits_for).ok();
        if self.waits_for.is_empty() { None } else { json() }
    }
}

impl Request for Settling {
    /// What became of it, and whether its result is the one that stands there.
    type Reply = (Settled, bool);

    fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, Value::len)
    }

    async fn many(link: &Link, requests: &[&Self]) -> Result<Vec<Option<Self::Reply>>> {
        let namespaces: Vec<_> = requests.iter().map(|each| each.namespace.as_deref()).collect();
        let workflows: Vec<_> = requests.iter().map(|each| each.claim.workflow.as_str()).collect();
        let tokens: Vec<_> = requests.iter().map(|each| each.claim.token).collect();
        let receipts: Vec<_> = requests.iter().map(|each| each.receipt.map(moment)).collect();
        let states: Vec<_> = requests.iter().map(|each| each.state.as_str()).collect();
        let waits_for: Vec<_> = requests.iter().map(|each| each.waits_for_json()).collect();
        let wake_at: Vec<_> = requests.iter().map(|each| each.wake_at.map(moment)).collect();
        let errors: Vec<_> = requests.iter().map(|each| each.error.as_deref()).collect();
        let results: Vec<_> = requests
            .iter()
            .map(|each| each.result.as_ref().map(Value::as_str))
            .collect();
        let now = link.bound_now();
        let bind = |q: Asking| {
            let q = q
                .bind(&namespaces)
                .bind(&workflows)
                .bind(&tokens)
                .bind(&receipts)
                .bind(now);
            q.bind(&states)
                .bind(&waits_for)
                .bind(&wake_at)
                .bind(&errors)
                .bind(&results)
        };
        let rows = link
            .ask(&link.statements.settle_many, bind, || {
                count(requests, "settle", "passes")
            })
            .await?;
        placed(&rows, requests, |row, _| Ok(Some(settled(row)?)))
    }

    async fn one(&self, link: &Link) -> Result<Self::Reply> {
        let (namespace, receipt) = (self.namespace.as_deref(), self.receipt.map(moment));
        let (wake_at, now) = (self.wake_at.map(moment), link.bound_now());
        let bind = |q: Asking| {
            let q = q
                .bind(namespace)
                .bind(&self.claim.workflow)
                .bind(self.claim.token)
                .bind(receipt)
                .bind(now);
            let q = q
                .bind(self.state.as_str())
                .bind(&self.waits_for)
                .bind(wake_at)
                .bind(self.error.as_deref());
            q.bind(self.result.as_ref().map(Value::as_str))
        };
        let what = || format!("settle workflow `{}`", self.claim.workflow);
        let rows = link.ask(&link.statements.settle, bind, what).await?;
        rows::one(&rows, settled, "settle a workflow")
    }
}

/// A row of `settle.sql`.
fn settled(row: &PgRow) -> sqlx::Result<(Settled, bool)> {
    let settled = if !row.try_get::<bool, _>("held")? {
        Settled::Lost
    } else if row.try_get("woken")? {
        Settled::Woken
    } else {
        Settled::Quiet {
            seen: row.try_get("seen")?,
        }
    };
    Ok((settled, row.try_get("recorded")?))
}
