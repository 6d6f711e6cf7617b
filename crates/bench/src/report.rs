//! Figures of several runs: median, spread, table, JSON.

use serde_json::{Value, json};

/// One figure, once per run.
#[derive(Debug)]
struct Figure {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
    /// What each run's value is over the floor of the same run.
    floor: Option<(&'static str, Vec<f64>)>,
}

/// Everything that one subcommand measured, in the order in which it was first told.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Adds the value of one run.
    pub(crate) fn add(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.put(name.into(), unit, value, None);
    }

    /// Adds the value of one run, and the floor that the same run measured.
    pub(crate) fn against(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        value: f64,
        floor: (&'static str, f64),
    ) {
        self.put(name.into(), unit, value, Some((floor.0, value / floor.1)));
    }

    fn put(&mut self, name: String, unit: &'static str, value: f64, ratio: Option<(&'static str, f64)>) {
        let at = self.figures.iter().position(|figure| figure.name == name);
        let at = at.unwrap_or_else(|| {
            let floor = ratio.map(|(of, _)| (of, Vec::new()));
            self.figures.push(Figure {
                name,
                unit,
                values: Vec::new(),
                floor,
            });
            self.figures.len() - 1
        });
        let figure = &mut self.figures[at];
        figure.values.push(value);
        if let (Some((_, ratios)), Some((_, ratio))) = (&mut figure.floor, ratio) {
            ratios.push(ratio);
        }
    }

    /// The table for people.
    pub(crate) fn print(&self) {
        let widest = self.figures.iter().map(|figure| figure.name.chars().count()).max();
        let width = widest.unwrap_or_default().max(34);
        println!(
            "{:<width$} {:>11} {:>23} {:<12} ratio",
            "figure", "median", "spread", "unit"
        );
        for figure in &self.figures {
            let (low, high) = spread(&figure.values);
            let ratio = figure
                .floor
                .as_ref()
                .map_or(String::new(), |(of, ratios)| format!("{:.3} x {of}", median(ratios)));
            let spread = format!("{} .. {}", short(low), short(high));
            let middle = short(median(&figure.values));
            println!(
                "{:<width$} {middle:>11} {spread:>23} {:<12} {ratio}",
                figure.name, figure.unit
            );
        }
    }

    /// The same for machines.
    pub(crate) fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let (low, high) = spread(&figure.values);
            let ratio = figure.floor.as_ref().map(|(_, ratios)| median(ratios));
            let of = figure.floor.as_ref().map(|(of, _)| *of);
            json!({
                "name": figure.name, "unit": figure.unit, "median": median(&figure.values),
                "low": low, "high": high, "runs": figure.values, "ratio": ratio, "ratio_of": of,
            })
        });
        figures.collect()
    }
}

/// The value at a share of the sorted values, e.g. 0.5 for the median. Zero when there are none.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

fn spread(values: &[f64]) -> (f64, f64) {
    (quantile(values, 0.0), quantile(values, 1.0))
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
