//! Workflows that were started up front, drained by workers of this process.

use std::time::Instant;

use crate::Result;
use crate::ground::{Ground, Opening, Round};
use crate::work::{self, Crew, Steps};

/// How much is drained, and by whom.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Drain {
    /// How many workflows.
    #[arg(long, default_value_t = 1_000)]
    workflows: usize,
    /// Steps of each.
    #[arg(long, default_value_t = 5)]
    steps: usize,
    /// Slots of each worker.
    #[arg(long, default_value_t = 100)]
    in_flight: usize,
    /// Workers, each with a store of its own.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Connections of each store.
    #[arg(long, default_value_t = 32)]
    connections: u32,
}

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>, drain: &Drain) -> Result<()> {
    let commits = round.commits().await?;
    let place = round.place("drain");
    let opening = Opening {
        connections: drain.connections,
        ..round.opening()
    };
    let store = round.ground.open(&place, opening).await?;
    let ids = (0..drain.workflows).map(|at| format!("{at:08}"));
    work::start(&store, "steps", ids, drain.steps).await?;
    round.ground.close(store).await;

    let before = round.ground.counts().await?;
    let steps = Steps::default();
    let began = Instant::now();
    let crew = Crew::new(round.ground, &place, opening, drain.workers, |worker| {
        worker.slots(drain.in_flight).register(steps.clone())
    })
    .await?;
    crew.until(&steps.0, drain.workflows).await?;
    let took = crew.dismiss().await?.duration_since(began).as_secs_f64();
    let after = round.ground.counts().await?;
    let left = round.ground.queued(&place).await?;
    if left > 0 {
        return Err(format!("{left} workflows were left in the queue of `{place}`; the run counts for nothing").into());
    }

    let workflows = drain.workflows as f64;
    round.report.add("drained", "workflows/s", workflows / took);
    let steps = workflows * drain.steps as f64 / took;
    round
        .report
        .against("recorded", "steps/s", steps, ("floor commits", commits));
    after.report_since(&before, workflows, round.report);
    Ok(())
}
