//! Starts from one process.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use passbook::Client;

use crate::Result;
use crate::ground::{Ground, Round};

/// How long each figure is measured.
const WHILE: Duration = Duration::from_millis(1_500);

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure<G: Ground>(mut round: Round<'_, G>) -> Result<()> {
    let commits = round.commits().await?;
    let place = round.place("start");
    let store = round.ground.open(&place, round.opening()).await?;
    let client = Client::new(store.clone());
    for callers in [1, 20, 200] {
        let began = Instant::now();
        let call = |caller: usize| {
            let client = client.clone();
            async move {
                let mut started = 0_usize;
                while began.elapsed() < WHILE {
                    let workflow = format!("{callers}-{caller}-{started}");
                    client.kind("steps").start(&workflow, &5).await?;
                    started += 1;
                }
                passbook::Result::Ok(started)
            }
        };
        let started = try_join_all((0..callers).map(|caller| tokio::spawn(call(caller)))).await?;
        let took = began.elapsed().as_secs_f64();
        let started = started.into_iter().sum::<passbook::Result<usize>>()?;
        let name = format!("started by {callers} caller(s)");
        round
            .report
            .against(name, "starts/s", started as f64 / took, ("floor commits", commits));
    }
    round.ground.close(store).await;
    Ok(())
}
