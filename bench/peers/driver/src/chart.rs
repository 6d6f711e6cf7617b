//! The charts, as SVG: one bar for each system, read in the light and in the dark.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::figures::{Figure, Figures};
use crate::machine::Machine;
use crate::measure::Measure;
use crate::peer::OURS;
use crate::table::{in_flight, short};

const WIDTH: f64 = 800.0;
/// Where bars begin, and the longest may end: beyond it stands its value.
const LEFT: f64 = 230.0;
const RIGHT: f64 = 700.0;
/// Of one bar with the space around it.
const ROW: f64 = 26.0;

const STYLE: &str = "text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328 } \
    .paper { fill: #ffffff } .title { font-size: 16px; font-weight: 600 } .group { font-weight: 600 } .muted { fill: #59636e; font-size: 12px } \
    .bar { fill: #a0a8b1 } .ours { fill: #0969da } .spread { stroke: #1f2328; stroke-width: 1.5 } \
    @media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .paper { fill: #0d1117 } .muted { fill: #9198a1 } \
    .bar { fill: #6e7681 } .ours { fill: #388bfd } .spread { stroke: #f0f6fc } }";

/// One chart. All bars share one scale.
struct Chart<'a> {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    groups: Vec<Group<'a>>,
}

/// Bars under one heading.
struct Group<'a> {
    label: String,
    bars: Vec<(String, &'a Figure)>,
    /// Who has no bar.
    missing: Vec<&'static str>,
}

/// Draws all charts that there are figures for.
pub(crate) fn draw(folder: &Path, machine: &Machine, figures: &Figures) -> Result<()> {
    fs::create_dir_all(folder)?;
    for chart in charts(figures) {
        if chart.groups.iter().any(|group| !group.bars.is_empty()) {
            fs::write(folder.join(chart.file), chart.svg(machine)?)?;
        }
    }
    Ok(())
}

fn charts(figures: &Figures) -> Vec<Chart<'_>> {
    let drained = |steps| {
        let hundred = Measure::Drain { steps, in_flight: 100 };
        let best = figures.best(steps);
        let best = best
            .into_iter()
            .map(|figure| (format!("{}, {}", figure.peer, in_flight(figure)), figure));
        let best = Group {
            label: "each at its best of 20, 100 and 400 in flight".to_owned(),
            bars: best.collect(),
            missing: missing(figures, hundred),
        };
        vec![best, named(figures, "100 in flight".to_owned(), hundred, "drained")]
    };
    let waited = |apart| {
        let of = Measure::Latency { apart };
        ["first step", "result"].map(|what| {
            named(
                figures,
                format!("submit to {what}, half take longer"),
                of,
                &format!("{what}, p50"),
            )
        })
    };
    let started = [1, 20, 200].map(|callers| {
        let of = Measure::Start { callers };
        named(figures, of.title(), of, "started")
    });
    vec![
        Chart {
            file: "drain.svg",
            title: "Workflows of 5 steps, drained by one worker",
            unit: "workflows a second, more is better",
            groups: drained(5),
        },
        Chart {
            file: "jobs.svg",
            title: "Jobs of one step, drained by one worker",
            unit: "jobs a second, more is better",
            groups: drained(1),
        },
        Chart {
            file: "latency.svg",
            title: "Submitted to an idle worker of the same process",
            unit: "milliseconds, less is better",
            groups: waited(false).into(),
        },
        Chart {
            file: "latency-apart.svg",
            title: "Submitted to an idle worker that is told nothing, default polls",
            unit: "milliseconds, less is better",
            groups: waited(true).into(),
        },
        Chart {
            file: "start.svg",
            title: "Durable starts",
            unit: "starts a second, more is better",
            groups: started.into(),
        },
    ]
}

/// The figures of one name of one measure.
fn named<'a>(figures: &'a Figures, label: String, measure: Measure, name: &str) -> Group<'a> {
    let of = figures.of(measure).into_iter().filter(|figure| figure.name == name);
    Group {
        label,
        bars: of.map(|figure| (figure.peer.to_owned(), figure)).collect(),
        missing: missing(figures, measure),
    }
}

fn missing(figures: &Figures, measure: Measure) -> Vec<&'static str> {
    let failures = figures.failures.iter();
    let of = failures.filter(|failure| failure.measure == Some(measure));
    of.map(|failure| failure.peer).collect()
}

impl Chart<'_> {
    fn svg(&self, machine: &Machine) -> Result<String> {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let most = bars.map(|(_, figure)| figure.spread().1).fold(0.0, f64::max);
        let mut body = String::new();
        let mut y = 54.0;
        writeln!(
            body,
            r#"<text class="title" x="20" y="30">{}</text>"#,
            escaped(self.title)
        )?;
        writeln!(body, r#"<text class="muted" x="20" y="{y}">{}</text>"#, self.unit)?;
        for group in self.groups.iter().filter(|group| !group.bars.is_empty()) {
            y += 34.0;
            writeln!(
                body,
                r#"<text class="group" x="20" y="{y}">{}</text>"#,
                escaped(&group.label)
            )?;
            y += 10.0;
            for (name, figure) in &group.bars {
                bar(&mut body, y, name, figure, most)?;
                y += ROW;
            }
            for name in &group.missing {
                let middle = y + 15.0;
                writeln!(
                    body,
                    r#"<text x="20" y="{middle}">{name}</text><text class="muted" x="{LEFT}" y="{middle}">not measured</text>"#
                )?;
                y += ROW;
            }
        }
        y += 26.0;
        for line in caption(machine) {
            writeln!(body, r#"<text class="muted" x="20" y="{y}">{}</text>"#, escaped(&line))?;
            y += 17.0;
        }
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{y}\" rx=\"6\"/>\n{body}</svg>\n",
            title = escaped(&format!("{}: {}", self.title, self.unit)),
        ))
    }
}

fn bar(body: &mut String, y: f64, name: &str, figure: &Figure, most: f64) -> Result<()> {
    let at = |value: f64| LEFT + (RIGHT - LEFT) * value / most;
    let class = if figure.peer == OURS { "ours" } else { "bar" };
    let (low, high) = figure.spread();
    let (end, low, high) = (at(figure.median()), at(low), at(high));
    let (middle, base) = (y + 10.0, y + 15.0);
    // Even the smallest is to be seen.
    let width = (end - LEFT).max(1.0);
    writeln!(body, r#"<text x="20" y="{base}">{}</text>"#, escaped(name))?;
    writeln!(
        body,
        r#"<rect class="{class}" x="{LEFT}" y="{y}" width="{width:.1}" height="20" rx="2"/>"#
    )?;
    writeln!(
        body,
        r#"<line class="spread" x1="{low:.1}" x2="{high:.1}" y1="{middle}" y2="{middle}"/>"#
    )?;
    let label = end.max(high) + 8.0;
    writeln!(
        body,
        r#"<text x="{label:.1}" y="{base}">{}</text>"#,
        short(figure.median())
    )?;
    Ok(())
}

/// What the figures were measured on, when, and how they are measured again.
fn caption(machine: &Machine) -> [String; 3] {
    let version = machine.postgres.split([' ', ',']).nth(1).unwrap_or_default();
    [
        format!(
            "{}: {}, Postgres {version}, fsync and synchronous_commit on.",
            machine.date, machine.hardware
        ),
        format!(
            "Medians of {} run(s), the line from the lowest to the highest; {} workflows a drain; load average before: {}.",
            machine.runs, machine.workflows, machine.load
        ),
        "cargo run --release --manifest-path bench/peers/Cargo.toml".to_owned(),
    ]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
