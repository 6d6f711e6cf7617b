//! What is measured.

use clap::ValueEnum;

/// Slots of the worker, or what each system calls it. Each is tried with all, so that each is seen at its best.
const IN_FLIGHT: [usize; 3] = [20, 100, 400];

/// Callers that start at once.
const CALLERS: [usize; 3] = [1, 20, 200];

/// A family of measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Workflows of five steps, drained by one worker.
    Drain,
    /// Jobs: workflows of one step, or the jobs of a plain queue.
    Jobs,
    /// Submit to first step and to result.
    Latency,
    /// Starts that nobody takes.
    Start,
}

/// One measure with its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Drain { steps: usize, in_flight: usize },
    Latency { apart: bool },
    Start { callers: usize },
}

impl Measure {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Drain { steps: 1, .. } => Kind::Jobs,
            Self::Drain { .. } => Kind::Drain,
            Self::Latency { .. } => Kind::Latency,
            Self::Start { .. } => Kind::Start,
        }
    }

    /// The heading of its table.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Drain { steps: 1, in_flight } => format!("jobs of one step, {in_flight} in flight"),
            Self::Drain { steps, in_flight } => format!("workflows of {steps} steps, {in_flight} in flight"),
            Self::Latency { apart: false } => "submit to an idle worker of the same process".to_owned(),
            Self::Latency { apart: true } => "submit to an idle worker that is told nothing".to_owned(),
            Self::Start { callers: 1 } => "starts by 1 caller".to_owned(),
            Self::Start { callers } => format!("starts by {callers} callers"),
        }
    }

    /// The command line of a peer.
    pub(crate) fn arguments(self, database: &str, workflows: usize) -> Vec<String> {
        /// Of every pool. Postgres grants 100 by default; a service of several processes has about as many for each.
        const CONNECTIONS: usize = 32;
        let (verb, options): (_, Vec<(&str, usize)>) = match self {
            Self::Drain { steps, in_flight } => (
                "drain",
                vec![
                    ("--workflows", workflows),
                    ("--steps", steps),
                    ("--in-flight", in_flight),
                    ("--connections", CONNECTIONS),
                ],
            ),
            Self::Latency { apart } => ("latency", vec![("--submits", if apart { 30 } else { 100 })]),
            Self::Start { callers } => ("start", vec![("--callers", callers), ("--connections", CONNECTIONS)]),
        };
        let mut line = vec![verb.to_owned(), "--database".to_owned(), database.to_owned()];
        for (name, value) in options {
            line.extend([name.to_owned(), value.to_string()]);
        }
        if self == (Self::Latency { apart: true }) {
            line.push("--apart".to_owned());
        }
        line
    }

    /// How many clients the floor of this measure has.
    pub(crate) fn floor_clients(self) -> u32 {
        if self.kind() == Kind::Latency { 1 } else { 32 }
    }

    /// The unit of the floor.
    pub(crate) fn floor_unit(self) -> &'static str {
        if self.kind() == Kind::Latency {
            "ms a commit, 1 client"
        } else {
            "commits/s, 32 clients"
        }
    }

    /// A value of this measure over the floor of the same round: steps and starts over commits, waiting over the time of
    /// one commit.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn over_floor(self, value: f64, floor: f64) -> f64 {
        match self {
            Self::Drain { steps, .. } => value * steps as f64 / floor,
            Self::Latency { .. } | Self::Start { .. } => value / floor,
        }
    }
}

/// All measures of the wanted kinds, or of all kinds.
pub(crate) fn all(wanted: &[Kind]) -> Vec<Measure> {
    let mut measures = Vec::new();
    for steps in [5, 1] {
        measures.extend(IN_FLIGHT.map(|in_flight| Measure::Drain { steps, in_flight }));
    }
    measures.extend([false, true].map(|apart| Measure::Latency { apart }));
    measures.extend(CALLERS.map(|callers| Measure::Start { callers }));
    measures.retain(|measure| wanted.is_empty() || wanted.contains(&measure.kind()));
    measures
}
