//! Starts by concurrent callers.

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::Result;

/// How long is started.
const WHILE: Duration = Duration::from_millis(1_500);

/// Who starts.
#[derive(Clone, Debug, clap::Args)]
pub struct Start {
    /// A fresh database.
    #[arg(long)]
    pub database: String,
    /// How many at once, each waiting for one start before the next.
    #[arg(long)]
    pub callers: usize,
    /// Connections of the peer's pool.
    #[arg(long)]
    pub connections: u32,
}

impl Start {
    /// Starts for a while. `start` returns when the workflow of the given name is durable. How many a second.
    #[allow(clippy::cast_precision_loss)]
    pub async fn measure<F>(&self, start: impl Fn(String) -> F + Clone + Send + 'static) -> Result<f64>
    where
        F: Future<Output = Result<()>> + Send,
    {
        let began = Instant::now();
        let call = |caller: usize| {
            let start = start.clone();
            async move {
                let mut started = 0_usize;
                while began.elapsed() < WHILE {
                    start(format!("{caller}-{started}")).await?;
                    started += 1;
                }
                Ok(started)
            }
        };
        let started = try_join_all((0..self.callers).map(|caller| tokio::spawn(call(caller)))).await?;
        let took = began.elapsed().as_secs_f64();
        let started = started.into_iter().sum::<Result<usize>>()?;
        Ok(started as f64 / took)
    }
}
