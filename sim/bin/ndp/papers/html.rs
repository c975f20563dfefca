//! The page: a chart and a table for each figure, and what was assumed.

use super::rows::{agreeing, number};
use super::{Outcome, energy};
use anyhow::Result;
use ndp_report::{BarChart, Report};
use ndp_systems::figures::{Row, Sensitivity};
use ndp_systems::{Assumptions, Key};

/// Numbers of one chart are at most so many times apart: smaller bars could not be seen.
const SPREAD: f64 = 30.0;

/// The page and its charts, each with the name of its file.
pub struct Page {
    /// The whole page.
    pub html: String,
    /// The charts.
    pub charts: Vec<(String, String)>,
}

/// Rows of a figure in groups that one axis serves.
fn groups<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    let size = |row: &Row| row.paper.max(row.fitted).max(row.stated).max(f64::MIN_POSITIVE);
    for &row in rows {
        let fits = |group: &Vec<&Row>| {
            let near = |other: &&Row| (size(row) / size(other)).ln().abs() < SPREAD.ln();
            group[0].unit == row.unit && group.len() < 8 && group.iter().all(near)
        };
        match groups.iter_mut().find(|group| fits(group)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn chart(title: &str, rows: &[&Row]) -> Result<String> {
    let unit = if rows[0].unit == "x" { "ratio" } else { rows[0].unit };
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    Ok(BarChart::new(title, unit, rows.iter().map(|row| row.item))
        .bars("paper", rows.iter().map(|row| row.paper))
        .bars("stated parameters", rows.iter().map(|row| finite(row.stated)))
        .bars("fitted", rows.iter().map(|row| finite(row.fitted)))
        .draw()?)
}

/// What a paper's set assumes.
fn assumptions(name: &str) -> Result<Vec<Vec<String>>> {
    let set = Assumptions::preset(name)?;
    let row = |key: Key| {
        let reason = set.reason(key)?;
        let [stated, fitted] = [key.stated(), set.get(key)].map(number);
        Some(vec![
            key.name().to_owned(),
            key.meaning().trim().to_owned(),
            key.unit().to_owned(),
            stated,
            fitted,
            reason.to_owned(),
        ])
    };
    Ok(Key::ALL.into_iter().filter_map(row).collect())
}

fn file_name(paper: &str, figure: &str, index: usize) -> String {
    let plain: String =
        figure.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    format!("{paper}-{}-{}.svg", words.join("-"), index + 1)
}

fn sensitivity(mut report: Report, all: &[Sensitivity]) -> Result<Report> {
    let label = |one: &Sensitivity| {
        one.value
            .map_or_else(|| one.assumption.clone(), |value| format!("{} {}", one.assumption, number(value)))
    };
    let mut bars = BarChart::new("What each step gains", "ratio", all.iter().map(label));
    for (index, step) in
        ["random to partition", "partition to adjustment", "adjustment to Hermes"].into_iter().enumerate()
    {
        bars = bars.bars(step, all.iter().map(|one| one.steps[index]));
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| [vec![label(one)], one.steps.map(number).to_vec(), vec![number(one.imbalance)]].concat())
        .collect();
    report = report
        .section("hermes, Fig. 13: what each step gains under other assumptions")
        .paragraph("The paper has 1.63, 1.33 and 1.29. Each line changes one assumption of the set.")
        .chart(&bars.draw()?)
        .table(
            &[
                "assumption",
                "random to partition",
                "partition to adjustment",
                "adjustment to Hermes",
                "most loaded DIMM",
            ],
            &rows,
        );
    Ok(report)
}

/// Draws it.
pub fn page(outcome: &Outcome) -> Result<Page> {
    let mut charts = Vec::new();
    let mut report = crate::made::begin("The papers' numbers, and ours").paragraph(
        "Each number is computed twice: with what the paper states alone, and with one set of assumptions for all figures of the paper. \
         A number that differs by more than 15 % has a cause: the one assumption that makes it agree when it changes by itself, or two numbers of the \
         paper that exclude each other. Times of NDP-DIMMs come from the cycle model of the core.",
    );
    for (paper, rows) in outcome.by_paper() {
        report = report.section(&format!("{paper}: {}", agreeing(&rows)));
        let head = ["assumption", "meaning", "unit", "stated", "fitted", "reason"];
        report = report.folded_table("What is assumed", &head, &assumptions(paper)?);
        let mut in_order: Vec<&str> = Vec::new();
        for row in &rows {
            if !in_order.contains(&row.figure) {
                in_order.push(row.figure);
            }
        }
        for figure in in_order {
            let of_figure: Vec<&Row> = rows.iter().copied().filter(|row| row.figure == figure).collect();
            report = report.section(&format!("{paper}, {figure}"));
            let computed: Vec<&Row> = of_figure.iter().copied().filter(|row| row.computed()).collect();
            for (index, group) in groups(&computed).iter().enumerate() {
                let svg = chart(&format!("{paper}, {figure}"), group)?;
                report = report.chart(&svg);
                charts.push((file_name(paper, figure, index), svg));
            }
            let cells = |row: &&Row| {
                let numbers = [row.paper, row.stated, row.fitted, row.ratio].map(number);
                [vec![row.item.to_owned(), row.unit.to_owned()], numbers.to_vec()].concat()
            };
            let table: Vec<Vec<String>> = of_figure.iter().map(cells).collect();
            report = report.table(&["what", "unit", "paper", "stated", "fitted", "ratio"], &table);
            for row in of_figure.iter().filter(|row| !row.cause.is_empty()) {
                report = report.paragraph(&format!("{}: {}", row.item, row.cause));
            }
        }
    }
    for (paper, bars) in outcome.by_paper().into_keys().map(|paper| (paper, outcome.bars_of(paper))) {
        if !bars.is_empty() {
            let rows: Vec<Vec<String>> = bars.into_iter().map(energy::cells).collect();
            report = report.section(&format!("{paper}: energy of a token")).paragraph(energy::NOTE);
            report = report.table(&energy::HEAD, &rows);
        }
    }
    if !outcome.sensitivity.is_empty() {
        report = sensitivity(report, &outcome.sensitivity)?;
    }
    Ok(Page { html: report.finish(), charts })
}
