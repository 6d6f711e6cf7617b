//! The order of measuring.

use std::time::Duration;

use crate::figures::Figures;
use crate::measure::Measure;
use crate::peer::Peer;
use crate::server::Server;
use crate::{Arguments, Result, floor};

/// How long one measure of one system may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// All rounds. In a round each measure goes through all systems before the next measure begins, so that what the machine
/// does meanwhile meets all alike.
pub(crate) async fn all(
    server: &Server,
    peers: &[Peer],
    measures: &[Measure],
    arguments: &Arguments,
    figures: &mut Figures,
) -> Result<()> {
    for round in 0..arguments.runs {
        for measure in measures {
            eprintln!("round {} of {}: {}", round + 1, arguments.runs, measure.title());
            let floor = floored(server, *measure).await?;
            figures.floor(*measure, floor);
            for peer in peers.iter().filter(|peer| peer.does(*measure)) {
                if figures.has_failed(*measure, peer.name) {
                    continue;
                }
                if let Err(error) = one(server, peer, *measure, arguments, round, floor, figures).await {
                    eprintln!("  {}: not measured: {error}", peer.name);
                    figures.failed(Some(*measure), peer.name, &error.to_string());
                }
            }
        }
    }
    Ok(())
}

/// The floor of one measure: commits a second, or the milliseconds of one.
async fn floored(server: &Server, measure: Measure) -> Result<f64> {
    let clients = measure.floor_clients();
    let fresh = server.fresh().await?;
    let commits = floor::commits_per_second(&fresh.url, clients).await;
    server.remove(fresh).await?;
    let commits = commits?;
    Ok(if clients == 1 { 1_000.0 / commits } else { commits })
}

async fn one(
    server: &Server,
    peer: &Peer,
    measure: Measure,
    arguments: &Arguments,
    round: usize,
    floor: f64,
    figures: &mut Figures,
) -> Result<()> {
    let fresh = server.fresh().await?;
    let line = measure.arguments(&fresh.url, arguments.workflows);
    let printed = peer.program.run(&line, PATIENCE).await;
    server.remove(fresh).await?;
    for line in printed? {
        let name = line["figure"].as_str().ok_or("a line without its figure")?;
        let unit = line["unit"].as_str().ok_or("a line without its unit")?;
        let value = line["value"].as_f64().ok_or("a line without its value")?;
        eprintln!("  {}: {name} {value:.1} {unit}", peer.name);
        let over = measure.over_floor(value, floor);
        figures.add(measure, name, unit, peer.name, round, value, over);
    }
    Ok(())
}
