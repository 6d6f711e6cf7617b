//! Starts from one process: alone, and inside the caller's own transaction.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use passbook::Client;
use passbook_postgres::Postgres;

use crate::Result;
use crate::ground::{Ground, Opening, Round, Server};

/// How long each figure is measured.
const WHILE: Duration = Duration::from_millis(1_500);

/// How many callers start at once.
const CALLERS: [u32; 3] = [1, 20, 200];

/// Calls a second of concurrent callers, each of which calls again as soon as its last call has returned.
#[allow(clippy::cast_precision_loss)]
async fn calls_per_second<F>(callers: u32, call: impl Fn(String) -> F + Clone + Send + 'static) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send,
{
    let began = Instant::now();
    let calling = |caller: u32| {
        let call = call.clone();
        async move {
            let mut calls = 0_usize;
            while began.elapsed() < WHILE {
                call(format!("{callers}-{caller}-{calls}")).await?;
                calls += 1;
            }
            Result::Ok(calls)
        }
    };
    let calls = try_join_all((0..callers).map(|caller| tokio::spawn(calling(caller)))).await?;
    let took = began.elapsed().as_secs_f64();
    let calls = calls.into_iter().sum::<Result<usize>>()?;
    Ok(calls as f64 / took)
}

/// One run.
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>) -> Result<()> {
    alone(round).await?;
    // The insert of the application's is written for Postgres.
    match round.on_server() {
        Ok(mut round) => joined(&mut round).await,
        Err(_) => Ok(()),
    }
}

/// One run of starts that are a commit of their own. Both ways of writing are measured side by side.
async fn alone<G: Ground>(round: &mut Round<'_, G>) -> Result<()> {
    let commits = round.commits().await?;
    let mut ways = vec![(round.batching, "")];
    if round.batching {
        ways.push((false, ", each by itself"));
    }
    let mut clients = Vec::new();
    for (batching, how) in ways {
        let opening = Opening {
            batching,
            ..round.opening()
        };
        let place = round.place(if batching { "start" } else { "start_singly" });
        let store = round.ground.open(&place, opening).await?;
        clients.push((Client::new(store.clone()), store, how));
    }
    for callers in CALLERS {
        for (client, _, how) in &clients {
            let client = client.clone();
            let rate = calls_per_second(callers, move |workflow| {
                let client = client.clone();
                async move {
                    client.kind("steps").start(&workflow, &5).await?;
                    Ok(())
                }
            })
            .await?;
            let name = format!("started by {callers} caller(s){how}");
            round.report.against(name, "starts/s", rate, ("floor commits", commits));
        }
    }
    for (_, store, _) in clients {
        round.ground.close(store).await;
    }
    Ok(())
}

/// One run of starts inside the caller's own transaction, beside the same transaction without the start.
async fn joined(round: &mut Round<'_, Server>) -> Result<()> {
    let place = round.place("start_joined");
    let store = round.ground.open(&place, round.opening()).await?;
    let table = format!("{place}.bench_order");
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "CREATE TABLE {table} (id text PRIMARY KEY, cents bigint NOT NULL)"
    )))
    .execute(store.pool())
    .await?;
    for callers in CALLERS {
        let bare = orders_per_second(&store, &table, callers, false).await?;
        let name = format!("transaction of {callers} caller(s) without a start");
        round.report.add(name, "commits/s", bare);
        let joined = orders_per_second(&store, &table, callers, true).await?;
        let name = format!("the same with a start in it, {callers} caller(s)");
        round
            .report
            .against(name, "commits/s", joined, ("the transaction without", bare));
    }
    round.ground.close(store).await;
    Ok(())
}

/// Transactions a second that insert one row of the application's and, if asked to, start a workflow.
async fn orders_per_second(store: &Postgres, table: &str, callers: u32, start: bool) -> Result<f64> {
    let client = Client::new(store.clone());
    let (pool, insert) = (store.pool().clone(), format!("INSERT INTO {table} VALUES ($1, 4200)"));
    calls_per_second(callers, move |workflow| {
        let (client, pool, insert) = (client.clone(), pool.clone(), insert.clone());
        async move {
            let order = format!("{workflow}-{start}");
            let mut transaction = pool.begin().await?;
            sqlx::query(sqlx::AssertSqlSafe(insert))
                .bind(&order)
                .execute(&mut *transaction)
                .await?;
            if start {
                client.kind("steps").start_in(&mut transaction, &order, &5).await?;
            }
            transaction.commit().await?;
            Ok(())
        }
    })
    .await
}
