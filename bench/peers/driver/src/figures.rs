//! Figures of several rounds: medians, spreads, ratios.

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::measure::Measure;
use crate::peer::OURS;

/// One figure of one system, once per round.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) measure: Measure,
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) peer: &'static str,
    /// By round.
    values: Vec<(usize, f64)>,
    /// Each over the floor of its round.
    over: Vec<f64>,
}

impl Figure {
    pub(crate) fn median(&self) -> f64 {
        median(self.values.iter().map(|(_, value)| *value))
    }

    /// Lowest and highest.
    pub(crate) fn spread(&self) -> (f64, f64) {
        spread(self.values.iter().map(|(_, value)| *value))
    }

    pub(crate) fn over_floor(&self) -> f64 {
        median(self.over.iter().copied())
    }

    /// How many times better another is: more of a rate, or less of a time. Taken round by round.
    pub(crate) fn bettered_by(&self, other: &Self) -> f64 {
        let ratios = self.values.iter().filter_map(|(round, value)| {
            let theirs = other.values.iter().find(|(at, _)| at == round)?.1;
            Some(if self.unit == "ms" {
                value / theirs
            } else {
                theirs / value
            })
        });
        median(ratios)
    }
}

/// Who could not be measured, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    /// All of them when there is none.
    pub(crate) measure: Option<Measure>,
    pub(crate) peer: &'static str,
    pub(crate) why: String,
}

/// What a system says of itself.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) peer: &'static str,
    pub(crate) version: String,
    pub(crate) setup: String,
}

/// Everything that was measured, in the order in which it was first told.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    all: Vec<Figure>,
    floors: Vec<(Measure, f64)>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) abouts: Vec<About>,
}

impl Figures {
    pub(crate) fn about(&mut self, peer: &'static str, version: &str, setup: &str) {
        let (version, setup) = (version.to_owned(), setup.to_owned());
        self.abouts.push(About { peer, version, setup });
    }

    pub(crate) fn floor(&mut self, measure: Measure, value: f64) {
        self.floors.push((measure, value));
    }

    pub(crate) fn failed(&mut self, measure: Option<Measure>, peer: &'static str, why: &str) {
        let why = why.to_owned();
        self.failures.push(Failure { measure, peer, why });
    }

    pub(crate) fn has_failed(&self, measure: Measure, peer: &str) -> bool {
        let mut failures = self.failures.iter();
        failures.any(|failure| failure.peer == peer && failure.measure == Some(measure))
    }

    /// Adds the value of one round.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn add(
        &mut self,
        measure: Measure,
        name: &str,
        unit: &str,
        peer: &'static str,
        round: usize,
        value: f64,
        over: f64,
    ) {
        let mut known = self.all.iter();
        let at = known.position(|figure| figure.measure == measure && figure.name == name && figure.peer == peer);
        let at = at.unwrap_or_else(|| {
            self.all.push(Figure {
                measure,
                name: name.to_owned(),
                unit: unit.to_owned(),
                peer,
                values: Vec::new(),
                over: Vec::new(),
            });
            self.all.len() - 1
        });
        self.all[at].values.push((round, value));
        self.all[at].over.push(over);
    }

    /// The figures of one measure, each name together.
    pub(crate) fn of(&self, measure: Measure) -> Vec<&Figure> {
        let mut names: Vec<&str> = Vec::new();
        let figures: Vec<_> = self.all.iter().filter(|figure| figure.measure == measure).collect();
        for figure in &figures {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        let by_name = |name| {
            figures
                .iter()
                .copied()
                .filter(move |figure: &&Figure| figure.name == name)
        };
        names.into_iter().flat_map(by_name).collect()
    }

    /// Ours, to compare with.
    pub(crate) fn ours(&self, of: &Figure) -> Option<&Figure> {
        let mut all = self.all.iter();
        all.find(|figure| figure.peer == OURS && figure.measure == of.measure && figure.name == of.name)
    }

    /// Of each system the figure of drains of so many steps that has the best median over all settings.
    pub(crate) fn best(&self, steps: usize) -> Vec<&Figure> {
        let mut best: Vec<&Figure> = Vec::new();
        for figure in &self.all {
            if !matches!(figure.measure, Measure::Drain { steps: of, .. } if of == steps) {
                continue;
            }
            match best.iter_mut().find(|known| known.peer == figure.peer) {
                Some(known) if known.median() < figure.median() => *known = figure,
                Some(_) => {}
                None => best.push(figure),
            }
        }
        best
    }

    /// Median, lowest and highest floor of a measure.
    pub(crate) fn floor_of(&self, measure: Measure) -> (f64, (f64, f64)) {
        let floors = || {
            self.floors
                .iter()
                .filter(|(of, _)| *of == measure)
                .map(|(_, value)| *value)
        };
        (median(floors()), spread(floors()))
    }

    /// Everything, for machines.
    pub(crate) fn json(&self, machine: &Machine) -> Value {
        let figures = self.all.iter().map(|figure| {
            let (low, high) = figure.spread();
            let values: Vec<_> = figure.values.iter().map(|(_, value)| *value).collect();
            let ours = self.ours(figure).map(|ours| figure.bettered_by(ours));
            json!({
                "measure": figure.measure.title(), "figure": figure.name, "unit": figure.unit, "peer": figure.peer,
                "median": figure.median(), "low": low, "high": high, "runs": values,
                "over_floor": figure.over_floor(), "passbook_is_better": ours,
            })
        });
        let floors = self
            .floors
            .iter()
            .map(|(measure, value)| json!({"measure": measure.title(), "value": value, "unit": measure.floor_unit()}));
        let abouts = self
            .abouts
            .iter()
            .map(|about| json!({"peer": about.peer, "version": about.version, "setup": about.setup}));
        let failures = self.failures.iter().map(|failure| {
            let measure = failure.measure.map(Measure::title);
            json!({"peer": failure.peer, "measure": measure, "why": failure.why})
        });
        json!({
            "date": machine.date, "machine": machine.hardware, "postgres": machine.postgres, "load": machine.load,
            "runs": machine.runs, "workflows": machine.workflows,
            "peers": abouts.collect::<Value>(), "floors": floors.collect::<Value>(),
            "figures": figures.collect::<Value>(), "not_measured": failures.collect::<Value>(),
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

fn spread(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}
