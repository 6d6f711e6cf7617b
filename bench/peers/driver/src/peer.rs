//! The systems that are measured, and how each is made ready.

use std::time::Duration;

use crate::child::Program;
use crate::figures::Figures;
use crate::measure::{Kind, Measure};
use crate::{Result, ready};

/// The name of the system that the others are compared with.
pub(crate) const OURS: &str = "passbook";

/// How long a system may take to tell what it is.
const PATIENCE: Duration = Duration::from_mins(1);

/// A system, ready to be measured.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    kinds: &'static [Kind],
}

impl Peer {
    /// Whether the measure means something for it.
    pub(crate) fn does(&self, measure: Measure) -> bool {
        self.kinds.contains(&measure.kind())
    }
}

/// What kind of program a peer is.
#[derive(Clone, Copy, Debug)]
enum Made {
    /// A crate of this workspace.
    Rust(&'static str),
    /// A script with its requirements, installed into an environment of its own.
    Python(&'static str),
    /// A script with its `package.json`, installed into a folder of its own.
    Node(&'static str),
}

/// In the order of the table. Engines of workflows are drained of workflows of five steps, plain queues of jobs.
const PEERS: [(&str, Made, &[Kind]); 7] = [
    (
        OURS,
        Made::Rust("peer-passbook"),
        &[Kind::Drain, Kind::Jobs, Kind::Latency, Kind::Start],
    ),
    (
        "durare",
        Made::Rust("peer-durare"),
        &[Kind::Drain, Kind::Latency, Kind::Start],
    ),
    (
        "dbos",
        Made::Rust("peer-dbos"),
        &[Kind::Drain, Kind::Latency, Kind::Start],
    ),
    ("awa", Made::Rust("peer-awa"), &[Kind::Jobs, Kind::Latency, Kind::Start]),
    (
        "dbos-python",
        Made::Python("dbos-python"),
        &[Kind::Drain, Kind::Latency, Kind::Start],
    ),
    (
        "absurd",
        Made::Node("absurd"),
        &[Kind::Drain, Kind::Latency, Kind::Start],
    ),
    (
        "restate",
        Made::Node("restate"),
        &[Kind::Drain, Kind::Latency, Kind::Start],
    ),
];

/// Builds and installs the wanted ones. One that cannot be made ready is told of in the table, and is no failure, unless
/// it is ours.
pub(crate) async fn prepare(only: &[String], figures: &mut Figures) -> Result<Vec<Peer>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| PEERS.iter().all(|peer| peer.0 != name.as_str()))
    {
        let names: Vec<_> = PEERS.iter().map(|peer| peer.0).collect();
        return Err(format!("nothing here is called `{unknown}`; there are {}", names.join(", ")).into());
    }
    let mut ready = Vec::new();
    for (name, made, kinds) in PEERS {
        if !(name == OURS || only.is_empty() || only.iter().any(|wanted| wanted == name)) {
            continue;
        }
        eprintln!("making `{name}` ready");
        match made.ready().await {
            Ok((program, version, setup)) => {
                figures.about(name, &version, &setup);
                ready.push(Peer { name, program, kinds });
            }
            Err(error) if name == OURS => return Err(error),
            Err(error) => {
                eprintln!("  {name}: not measured: {error}");
                figures.failed(None, name, &error.to_string());
            }
        }
    }
    Ok(ready)
}

impl Made {
    /// The program, its version, and how it is set up.
    async fn ready(self) -> Result<(Program, String, String)> {
        let program = match self {
            Self::Rust(package) => ready::built(package).await?,
            Self::Python(name) => ready::python(name).await?,
            Self::Node(name) => ready::node(name).await?,
        };
        let told = program.run(&["about".to_owned()], PATIENCE).await?;
        let of = |key: &str| {
            let value = told.first().and_then(|line| line[key].as_str());
            value.map(str::to_owned).ok_or(format!("it does not tell its {key}"))
        };
        Ok((program, of("version")?, of("setup")?))
    }
}
