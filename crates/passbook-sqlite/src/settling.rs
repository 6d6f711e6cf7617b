//! The end of a pass, which can be made for many at once.

use std::collections::HashSet;

use passbook::{Claim, Delivery, RESULT, Result, Settled, Settlement, State, Timestamp};
use sqlx::SqliteConnection;

use crate::batch::{Queue, Request, Waiting};
use crate::error::Doing;
use crate::requests::supply;
use crate::rows::{array, list_of_names};
use crate::{Transaction, scheduler};

const RELEASE: &str = include_str!("../sql/release.sql");
const AWAITED: &str = include_str!("../sql/awaited.sql");
const WOKEN: &str = include_str!("../sql/woken.sql");
const DRAWN: &str = include_str!("../sql/drawn.sql");

/// One end of a pass; `release.sql`, and what answers for the delivery.
#[derive(Debug)]
pub(crate) struct Settling {
    claim: Claim,
    outcome: Settlement,
    /// Nothing is to be answered for by a split pair, which has also recorded its result by itself.
    delivery: Option<Delivery>,
}

impl Settling {
    pub(crate) fn new(claim: &Claim, delivery: Option<&Delivery>, outcome: &Settlement) -> Self {
        Self {
            claim: claim.clone(),
            outcome: outcome.clone(),
            delivery: delivery.cloned(),
        }
    }

    /// A row of `release.sql`.
    fn row(&self, now: Timestamp) -> Result<impl serde::Serialize> {
        let nothing: &[String] = &[];
        let (state, waits_for, wake_at, attempts, error) = match &self.outcome {
            Settlement::Completed { .. } => (State::Completed, nothing, None, "clear", None),
            Settlement::Suspended { wake_at, waits_for } => {
                let state = match (waits_for.is_empty(), wake_at) {
                    (true, Some(_)) => State::Sleeping,
                    _ => State::Waiting,
                };
                (state, waits_for.as_slice(), *wake_at, "clear", None)
            }
            Settlement::Failed { error, retry_at } => {
                let state = if retry_at.is_some() {
                    State::Sleeping
                } else {
                    State::Failed
                };
                (state, nothing, *retry_at, "add", Some(error.replace('\0', "\u{fffd}")))
            }
            Settlement::HandedBack => (State::Ready, nothing, None, "keep", None),
        };
        Ok((
            &self.claim.workflow,
            self.claim.token,
            state.as_str(),
            list_of_names(waits_for)?.as_str().to_owned(),
            wake_at.map(Timestamp::as_micros),
            attempts,
            error,
            state.is_over().then_some(now.as_micros()),
        ))
    }

    /// When the workflow is due again.
    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.outcome {
            Settlement::Suspended { wake_at, .. } => *wake_at,
            Settlement::Failed { retry_at, .. } => *retry_at,
            Settlement::HandedBack => Some(now),
            Settlement::Completed { .. } => None,
        }
    }
}

impl Request for Settling {
    /// What became of it, and whether its result is the one that stands there.
    type Reply = (Settled, bool);

    fn queue(waiting: &mut Waiting) -> &mut Queue<Self> {
        &mut waiting.settlings
    }

    fn bytes(&self) -> usize {
        match &self.outcome {
            Settlement::Completed { result } => result.as_str().len(),
            Settlement::Failed { error, .. } => error.len(),
            Settlement::Suspended { .. } | Settlement::HandedBack => 0,
        }
    }

    async fn make(requests: &[&Self], transaction: &mut Transaction) -> Result<Vec<Result<Self::Reply>>> {
        let file = transaction.file().clone();
        let now = file.now();
        let doing = || match requests {
            [one] => format!("settle workflow `{}`", one.claim.workflow),
            many => format!("settle {} workflows", many.len()),
        };
        // Of two ends of one pass the first counts.
        let mut seen = HashSet::new();
        let ends: Vec<bool> = requests.iter().map(|each| seen.insert(&each.claim)).collect();
        let mut rows = Vec::with_capacity(requests.len());
        for (request, _) in requests.iter().zip(&ends).filter(|(_, end)| **end) {
            rows.push(request.row(now)?);
        }
        let held: HashSet<(String, i64)> = sqlx::query_as(RELEASE)
            .bind(array(rows)?)
            .bind(now.as_micros())
            .fetch_all(&mut **transaction)
            .await
            .doing(doing)?
            .into_iter()
            .collect();
        let held: Vec<bool> = requests
            .iter()
            .zip(ends)
            .map(|(each, end)| end && held.contains(&(each.claim.workflow.clone(), each.claim.token)))
            .collect();
        let settled: Vec<&Self> = requests
            .iter()
            .zip(&held)
            .filter(|(_, held)| **held)
            .map(|(each, _)| *each)
            .collect();

        let awaited = awaited(transaction, &settled).await?;
        let (mut results, mut over, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let mut completed = Vec::new();
        for (place, request) in settled.iter().enumerate() {
            let Some(delivery) = &request.delivery else {
                continue;
            };
            if let Settlement::Completed { result } = &request.outcome {
                let none: Option<&str> = None;
                results.push((&request.claim.workflow, RESULT, result.as_str(), none));
                completed.push(place);
            }
            let due = if awaited.contains(&place) {
                Some(now)
            } else {
                request.due(now)
            };
            match due {
                Some(when) => again.push((delivery, when)),
                None => over.push(delivery),
            }
        }
        let mut recorded = HashSet::new();
        if !results.is_empty() {
            // No fence: the claims were the highest a moment ago, under this lock.
            let first = supply(transaction, &array(results)?, doing).await?;
            recorded.extend(
                (0..)
                    .zip(completed)
                    .filter(|(at, _)| first.contains_key(at))
                    .map(|(_, place)| place),
            );
        }
        scheduler::wake_at(transaction, &again, now).await?;
        scheduler::done(transaction, &file, &over, now).await?;
        let ended = woken(transaction, &settled, now).await?;
        let mut ended = ended.into_iter().enumerate();
        // Each that was held has its answer.
        let replies = held.into_iter().map(|held| if held { ended.next() } else { None });
        let reply = |(place, settled)| (settled, recorded.contains(&place));
        Ok(replies
            .map(|ended| Ok(ended.map_or((Settled::Lost, false), reply)))
            .collect())
    }
}

/// The places of those that wait for a value which is there already.
async fn awaited(connection: &mut SqliteConnection, settled: &[&Settling]) -> Result<HashSet<usize>> {
    let mut places = Vec::new();
    let mut rows = Vec::new();
    for (place, request) in settled.iter().enumerate() {
        if let Settlement::Suspended { waits_for, .. } = &request.outcome
            && !waits_for.is_empty()
        {
            places.push(place);
            rows.push(
                std::iter::once(&request.claim.workflow)
                    .chain(waits_for)
                    .collect::<Vec<_>>(),
            );
        }
    }
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let found: Vec<i64> = sqlx::query_scalar(AWAITED)
        .bind(array(rows)?)
        .fetch_all(connection)
        .await
        .doing(|| "look for what is waited for".to_owned())?;
    Ok(found
        .into_iter()
        .filter_map(|at| places.get(usize::try_from(at).ok()?).copied())
        .collect())
}

/// What the ends of passes that were held come to, now that their deliveries are answered for.
async fn woken(connection: &mut SqliteConnection, settled: &[&Settling], now: Timestamp) -> Result<Vec<Settled>> {
    let doing = || "see what is due again".to_owned();
    let none = String::new();
    let rows = settled.iter().map(|each| {
        // Without a delivery nothing is known of the queue.
        let namespace = each.delivery.as_ref().map_or(&none, |delivery| &delivery.namespace);
        (namespace, &each.claim.workflow)
    });
    let due: HashSet<i64> = sqlx::query_scalar(WOKEN)
        .bind(array(rows)?)
        .bind(now.as_micros())
        .fetch_all(&mut *connection)
        .await
        .doing(doing)?
        .into_iter()
        .collect();
    let seen: i64 = sqlx::query_scalar(DRAWN).fetch_one(connection).await.doing(doing)?;
    let ended = (0..).zip(settled).map(|(place, each)| {
        if each.delivery.is_none() || due.contains(&place) {
            Settled::Woken
        } else {
            Settled::Quiet { seen }
        }
    });
    Ok(ended.collect())
}
