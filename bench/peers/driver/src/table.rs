//! The table for people.

use crate::figures::{Figure, Figures};
use crate::machine::Machine;
use crate::measure::{Kind, Measure};

/// Prints everything that was measured.
pub(crate) fn print(machine: &Machine, figures: &Figures, measures: &[Measure]) {
    println!("{}, {}", machine.date, machine.hardware);
    println!("Postgres: {}", machine.postgres);
    println!(
        "{} run(s), {} workflows a drain, load average before {}; medians, and spread from lowest to highest",
        machine.runs, machine.workflows, machine.load
    );
    println!("`over floor`: steps, jobs and starts over the floor's commits, waiting over the time of one commit");
    println!("`passbook is`: so many times faster, round by round\n");
    for about in &figures.abouts {
        println!("{} {}: {}", about.peer, about.version, about.setup);
    }
    for (kind, steps, title) in [
        (Kind::Drain, 5, "workflows of 5 steps, each system at its best"),
        (Kind::Jobs, 1, "jobs of one step, each system at its best"),
    ] {
        let best = figures.best(steps);
        if measures.iter().any(|measure| measure.kind() == kind) && !best.is_empty() {
            println!("\n{title}");
            head();
            let ours = best.first().copied();
            for figure in best {
                row(&in_flight(figure), figure, ours);
            }
        }
    }
    for measure in measures {
        let (floor, (low, high)) = figures.floor_of(*measure);
        println!(
            "\n{}; floor {} ({} .. {}) {}",
            measure.title(),
            short(floor),
            short(low),
            short(high),
            measure.floor_unit()
        );
        head();
        for figure in figures.of(*measure) {
            row(&figure.name, figure, figures.ours(figure));
        }
    }
    if !figures.failures.is_empty() {
        println!();
    }
    for failure in &figures.failures {
        let of = failure.measure.map_or("everything".to_owned(), Measure::title);
        println!("{}, {of}: not measured: {}", failure.peer, failure.why);
    }
}

/// With which setting a drain was measured.
pub(crate) fn in_flight(figure: &Figure) -> String {
    match figure.measure {
        Measure::Drain { in_flight, .. } => format!("{in_flight} in flight"),
        _ => figure.name.clone(),
    }
}

fn head() {
    println!(
        "  {:<14} {:<16} {:>9} {:>19} {:<12} {:>10} {:>12}",
        "system", "figure", "median", "spread", "unit", "over floor", "passbook is"
    );
}

fn row(name: &str, figure: &Figure, ours: Option<&Figure>) {
    let (low, high) = figure.spread();
    let spread = format!("{} .. {}", short(low), short(high));
    let ratio = ours.map_or(String::new(), |ours| format!("{:.2} x", figure.bettered_by(ours)));
    println!(
        "  {:<14} {name:<16} {:>9} {spread:>19} {:<12} {:>10.3} {ratio:>12}",
        figure.peer,
        short(figure.median()),
        figure.unit,
        figure.over_floor(),
    );
}

/// Three digits or more, with a mark between the thousands.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn short(value: f64) -> String {
    if value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let whole = format!("{}", value.round() as i64);
    let mut marked = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            marked.push(',');
        }
        marked.push(digit);
    }
    marked
}
