//! Cycles and share of each phase of a token, as a table, as a chart and in JSON.

use crate::prelude::*;
use ndp_report::Rows;
use ndp_sim::system::{Phase, PhaseCycles};

/// Phases in the order of a layer, with cycles and shares (0 to 1). The cycles add up to all cycles.
fn rows(phases: &PhaseCycles) -> impl Iterator<Item = (Phase, u64, f64)> {
    let total = phases.total().max(1) as f64;
    phases.iter().map(move |(phase, cycles)| (phase, cycles, cycles as f64 / total))
}

pub fn show(phases: &PhaseCycles, report: Report, level: Level) -> Report {
    let longest = rows(phases).max_by_key(|(_, cycles, _)| *cycles);
    let caption = longest.map_or_else(String::new, |(phase, ..)| format!("Most of it is {}.", phase.name()));
    let rows = rows! { rows(phases) => |(phase, cycles, share)|
        "phase" "phase" {Text} Screen: "phase of a layer, or waiting" = phase;
        "cycles" "cycles" {Cycles} Screen: "core cycles" = cycles;
        "share" "share" {Share} Screen: "share of all cycles" = share;
    };
    let bars = ChartKind::Rows { label: "phase", value: "cycles" };
    let chart = Chart::new("phases", "Cycles of each phase", caption, bars);
    report.table_at(level, Some("share"), ("phases", "Core cycles by phase"), rows).chart(chart)
}

pub fn write_chart(phases: &PhaseCycles, file: Asked, title: &str) -> Result<()> {
    let chart = rows(phases).fold(Rows::new(title), |chart, (phase, cycles, share)| {
        let text = format!("{} cycles, {:.1} %", grouped(cycles), 100.0 * share);
        chart.row(phase.name(), cycles as f64, &text, colour(phase))
    });
    file.write(|| Ok(chart.draw()?))
}

/// Colour of a phase: one each for linear layers, attention, work between products, and work that no product hides.
fn colour(phase: Phase) -> usize {
    match phase {
        Phase::Qkv | Phase::Projection | Phase::Fc1 | Phase::Fc2 | Phase::Head => 0,
        Phase::Scores | Phase::Context => 1,
        Phase::Softmax | Phase::Round | Phase::ElementWise => 2,
        Phase::Rotary | Phase::Append | Phase::Transfer | Phase::Waiting => 6,
    }
}
