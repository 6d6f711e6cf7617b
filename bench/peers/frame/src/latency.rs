//! From the submit to the first step, and to the result seen, on an idle worker.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Figure, Result};

/// How often is submitted, and from where.
#[derive(Clone, Debug, clap::Args)]
pub struct Latency {
    /// A fresh database.
    #[arg(long)]
    pub database: String,
    /// How many workflows, one after another.
    #[arg(long)]
    pub submits: usize,
    /// Submits as another process would: by connections of its own, with nothing shared with the worker.
    #[arg(long)]
    pub apart: bool,
}

/// When the latest first step began.
#[derive(Clone, Debug, Default)]
pub struct Noted(Arc<Mutex<Option<Instant>>>);

impl Noted {
    /// The step has begun.
    pub fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn take(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Latency {
    /// Submits one after another. `submit` starts the workflow of the given name and returns when its result was seen.
    pub async fn measure<F>(&self, noted: &Noted, submit: impl Fn(String) -> F) -> Result<Vec<Figure>>
    where
        F: Future<Output = Result<()>>,
    {
        let (mut firsts, mut results) = (Vec::new(), Vec::new());
        for at in 0..self.submits {
            // Long enough for the worker to have nothing left to do, and never in step with a poll.
            let pause = 20 + (at as u64 * 37) % 200;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let submitted = Instant::now();
            submit(format!("{at}")).await?;
            results.push(submitted.elapsed().as_secs_f64() * 1_000.0);
            let began = noted.take().ok_or("a workflow ended without its step")?;
            firsts.push(began.duration_since(submitted).as_secs_f64() * 1_000.0);
        }
        let figure = |name, values: &mut Vec<f64>, share| Figure {
            name,
            unit: "ms",
            value: quantile(values, share),
        };
        Ok(vec![
            figure("first step, p50", &mut firsts, 0.5),
            figure("first step, p99", &mut firsts, 0.99),
            figure("result, p50", &mut results, 0.5),
            figure("result, p99", &mut results, 0.99),
        ])
    }
}

/// The value at a share of the sorted values. Zero when there are none.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or_default()
}
