//! Where the time of a token goes: cycles and share of each phase, as a table with bars, as a chart and in JSON.

use crate::tools::grouped;
use ndp_cosim::phases::{Phase, PhaseCycles};
use ndp_files::OutputFile;
use serde::Serialize;
use std::io::{self, Write};

/// Characters of the longest bar.
const BAR: u64 = 40;
/// Sizes of the chart in pixels: a row, the title's line, the names left of the bars, the longest bar, the figures right of them.
const ROW: usize = 24;
const TITLE: usize = 40;
const NAMES: usize = 120;
const CHART_BAR: u64 = 420;
const FIGURES: usize = 180;

/// One phase.
#[derive(Debug, Serialize)]
pub struct PhaseFigures {
    phase: Phase,
    cycles: u64,
    /// Of all cycles, 0 to 1.
    share: f64,
}

/// All phases that occurred.
#[derive(Debug)]
pub struct PhaseTable {
    /// In the order of a layer; their cycles add up to all cycles.
    pub rows: Vec<PhaseFigures>,
}

impl PhaseTable {
    /// From what was counted.
    pub fn new(phases: &PhaseCycles) -> Self {
        let total = phases.total().max(1) as f64;
        let row = |(phase, cycles)| PhaseFigures { phase, cycles, share: cycles as f64 / total };
        Self { rows: phases.iter().map(row).collect() }
    }

    /// The table under a title.
    pub fn print(&self, title: &str) {
        let longest = self.rows.iter().map(|row| row.cycles).max().unwrap_or(0).max(1);
        say!("{title:<32}{:>12}{:>9}", "cycles", "share");
        for PhaseFigures { phase, cycles, share } in &self.rows {
            let bar = "#".repeat((cycles * BAR).div_ceil(longest) as usize);
            say!("  {:<30}{:>12}{:>7.1} %  {bar}", phase.name(), grouped(*cycles), 100.0 * share);
        }
    }

    /// Writes the chart, if there is a file for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_chart(&self, file: Option<OutputFile>, title: &str) -> anyhow::Result<()> {
        if let Some(file) = file {
            file.finish(|out| self.chart(title, out))?;
        }
        Ok(())
    }

    /// Horizontal bars as SVG; `title` has no markup.
    fn chart(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        let longest = self.rows.iter().map(|row| row.cycles).max().unwrap_or(0).max(1);
        let (width, height) = (NAMES + CHART_BAR as usize + FIGURES, TITLE + ROW * self.rows.len() + ROW);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\">"
        )?;
        writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>")?;
        writeln!(out, "<text x=\"12\" y=\"24\" font-size=\"15\">{title}</text>")?;
        for (index, PhaseFigures { phase, cycles, share }) in self.rows.iter().enumerate() {
            let (top, text) = (TITLE + ROW * index, TITLE + ROW * index + 15);
            let bar = (cycles * CHART_BAR).div_ceil(longest);
            let after = NAMES as u64 + bar + 8;
            writeln!(
                out,
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>",
                NAMES - 8,
                phase.name()
            )?;
            writeln!(
                out,
                "<rect x=\"{NAMES}\" y=\"{top}\" width=\"{bar}\" height=\"{}\" fill=\"{}\"/>",
                ROW - 6,
                colour(*phase)
            )?;
            let share = 100.0 * share;
            writeln!(
                out,
                "<text x=\"{after}\" y=\"{text}\">{} cycles, {share:.1} %</text>",
                grouped(*cycles)
            )?;
        }
        writeln!(out, "</svg>")
    }
}

/// Products of linear layers, products of attention, what is between products, and what no product hides.
fn colour(phase: Phase) -> &'static str {
    match phase {
        Phase::Qkv | Phase::Projection | Phase::Fc1 | Phase::Fc2 | Phase::Head => "#3b6ea5",
        Phase::Scores | Phase::Context => "#c4622d",
        Phase::Softmax | Phase::Round | Phase::ElementWise => "#5b8c5a",
        Phase::Append | Phase::Transfer | Phase::Waiting => "#999999",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_the_whole_width() {
        let row = |phase, cycles| PhaseFigures { phase, cycles, share: cycles as f64 / 1600.0 };
        let table = PhaseTable { rows: vec![row(Phase::Fc1, 1200), row(Phase::Waiting, 400)] };
        let mut chart = Vec::new();
        table.chart("a layer", &mut chart).unwrap();
        let chart = String::from_utf8(chart).unwrap();
        for part in
            [">a layer</text>", "width=\"420\"", "width=\"140\"", ">1,200 cycles, 75.0 %<", ">waiting<"]
        {
            assert!(chart.contains(part), "{part} is missing in\n{chart}");
        }
        assert_eq!(chart.matches("<text").count(), chart.matches("</text>").count());
    }
}
