//! What the database itself can do: the floor that every other figure is held against.

use std::time::Duration;

use crate::Result;
use crate::ground::{Ground, Round};

/// How long each figure is measured.
pub(crate) const WHILE: Duration = Duration::from_millis(1_500);

/// One run.
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>) -> Result<()> {
    let trip = round.ground.round_trip().await?;
    round.report.add("round trip", "ms", trip * 1_000.0);
    for &(rows, clients) in G::FLOORS {
        let name = format!("{rows} row(s) a commit, {clients} client(s)");
        let rate = round.ground.rows_per_second(clients, rows, WHILE).await?;
        round.report.add(name, "rows/s", rate);
    }
    Ok(())
}
