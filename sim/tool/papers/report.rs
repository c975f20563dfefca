//! The report: a section and charts for each figure, assumptions, and energies.

use super::Outcome;
use super::rows::agreeing;
use crate::prelude::*;
use ndp_report::{BarChart, significant};
use ndp_systems::figures::{Row, Sensitivity};
use ndp_systems::{Assumptions, Key};

/// Largest ratio of the numbers in one chart; smaller bars would be invisible.
const SPREAD: f64 = 30.0;

const SCREEN: usize = 20;

fields! { ROW
    "paper_name" "paper" {Text} Screen: "paper";
    "item" "what" {Text} Screen: "meaning of the number";
    "paper" "paper" {Digits} Screen: "number that the paper states";
    "fitted" "fitted" {Digits} Screen: "number computed with one set of assumptions for all figures of the paper, by the formulas; null if it is not computed";
    "exact" "exact" {Digits} Screen: "the same with exact times: hermes and hermes-base on the machine, HBM-PIM on the device model; null if they are not known or not needed";
    "ratio" "ratio" {Digits} Screen: "exact, else fitted, over the paper's number";
    "stated" "stated" {Digits} Screen: "number computed only from values that the paper states";
    "figure" "figure" {Text} Screen: "figure, table or section";
    "unit" "unit" {Text} Verbose: "unit of the numbers";
    "cause" "cause" {Text} Screen: "reason why the number differs by more than 15 %, or is not computed";
    "bound" "" {Text} Json: "kind of the paper's number: exact, at-most or at-least";
}

fields! { BAR
    "paper_name" "paper" {Text} Screen: "paper";
    "system" "system" {Text} Screen: "system that the figure compares";
    "model" "model" {Text} Screen: "model";
    "batch" "batch" {Count} Screen: "sequences at the same time";
    "fitted.tokens_per_second" "tokens/s" {Digits} Screen: "rate with the paper's set of assumptions, by the formulas";
    "fitted.joules_per_token" "energy of a token" {Energy} Screen: "energy of a token, the prompt's share included, with the paper's set of assumptions";
    "exact.tokens_per_second" "exact tokens/s" {Digits} Screen: "the same with exact times";
    "exact.joules_per_token" "exact energy" {Energy} Screen: "energy of a token with exact times, the prompt's share included";
    "figure" "figure" {Text} Screen: "figure, table or section";
    "stated.tokens_per_second" "stated tokens/s" {Digits} Verbose: "rate with stated parameters only";
    "stated.joules_per_token" "stated energy" {Energy} Verbose: "energy of a token with stated parameters only";
    "prompt" "tokens in" {Count} Verbose: "tokens of each prompt";
    "output" "tokens out" {Count} Verbose: "tokens that are generated for each prompt";
}

fields! { SENSITIVITY
    "assumption" "assumption" {Text} Screen: "assumption that is changed; empty for the set itself";
    "value" "value" {Digits} Screen: "value of the assumption";
    "steps" "steps" {Digits} Screen: "random to partition, partition to adjustment, adjustment to Hermes";
    "imbalance" "most loaded DIMM" {Digits} Screen: "load of the most loaded DIMM over the mean, with the offline placement";
}

/// Assumptions for which the papers' sets give a reason.
fn assumed<'p>(papers: impl Iterator<Item = &'p &'static str>) -> Result<Values> {
    let sets = papers.map(|paper| Ok((paper, Assumptions::preset(paper)?))).collect::<Result<Vec<_>>>()?;
    let keys = sets.iter().flat_map(|(paper, set)| {
        Key::ALL.into_iter().filter_map(move |key| Some((paper, set, key, set.reason(key)?)))
    });
    Ok(rows! { keys => |(paper, set, key, reason)|
        "paper" "paper" {Text} Screen: "paper" = paper;
        "name" "assumption" {Text} Screen: "assumption" = key.name();
        "meaning" "meaning" {Text} Screen: "meaning of the value" = key.meaning().trim();
        "unit" "unit" {Text} Screen: "unit of the values" = key.unit();
        "stated" "stated" {Digits} Screen: "value that stands for no assumption" = key.stated();
        "fitted" "fitted" {Digits} Screen: "value of the paper's set" = set.get(key);
        "reason" "reason" {Text} Screen: "reason for the value" = reason;
    })
}

/// Rows of a figure, grouped so that one axis fits each group.
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
        .bars("fitted", rows.iter().map(|row| finite(row.exact.unwrap_or(row.fitted))))
        .draw()?)
}

fn file_name(paper: &str, figure: &str, index: usize) -> String {
    let plain: String =
        figure.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words = plain.split('-').filter(|word| !word.is_empty()).join("-");
    format!("{paper}-{words}-{}.svg", index + 1)
}

/// Section, file name and picture of each chart.
pub fn charts(outcome: &Outcome) -> Result<Vec<(String, String, String)>> {
    let mut charts = Vec::new();
    for (paper, rows) in outcome.by_paper() {
        for figure in rows.iter().map(|row| row.figure).unique() {
            let of_figure = rows.iter().copied().filter(|row| row.figure == figure && row.computed());
            for (index, group) in groups(&of_figure.collect::<Vec<_>>()).iter().enumerate() {
                let section = format!("{paper}, {figure}");
                let svg = chart(&section, group)?;
                charts.push((section, file_name(paper, figure, index), svg));
            }
        }
    }
    Ok(charts)
}

/// Steps of Fig. 13 under each assumption.
fn steps(all: &[Sensitivity]) -> Result<String> {
    let label = |one: &Sensitivity| {
        let value = one.value.map_or_else(String::new, |value| format!(" {}", significant(value)));
        format!("{}{value}", one.assumption)
    };
    let bars = BarChart::new("What each step gains", "ratio", all.iter().map(label));
    let names = ["random to partition", "partition to adjustment", "adjustment to Hermes"];
    let add = |bars: BarChart, (index, name)| bars.bars(name, all.iter().map(|one| one.steps[index]));
    Ok(names.into_iter().enumerate().fold(bars, add).draw()?)
}

pub fn report(outcome: &Outcome, charts: &[(String, String, String)], page: String) -> Result<Report> {
    let papers = outcome.by_paper();
    let counts = papers.iter().map(|(paper, rows)| format!("{paper}: {}", agreeing(rows))).join("; ");
    let level =
        if outcome.rows.len() + outcome.energy.len() > SCREEN { Level::Verbose } else { Level::Screen };
    let assumed = assumed(papers.keys())?;
    let drawn = |report: Report, table, title: &str, caption: &str, svg: &str| {
        report.chart(Chart::new(table, title, caption, ChartKind::Drawn(svg.to_owned())))
    };
    let report = Report::answer("figures", counts)
        .note(
            "each number is computed by formulas, only from values that the paper states (stated) and with one set of assumptions for all \
             figures of the paper (fitted), and with that set and exact times (exact); ratio is exact, else fitted, over the paper's number. \
             Times of NDP-DIMMs in the formulas come from the cycle model of the core",
        )
        .note(format!("{page} has all numbers with charts and the assumptions, and so have --verbose and --json"))
        .table_at(level, None, ("rows", "numbers"), (ROW, &outcome.rows))
        .by(&["paper_name", "figure"]);
    let report = charts.iter().fold(report, |report, (section, _, svg)| {
        drawn(report, "rows", section, "The paper's number, with stated parameters, and fitted.", svg)
    });
    let report = report
        .table_at(level, None, ("energy", "energy of a token"), (BAR, &outcome.energy))
        .by(&["paper_name"])
        .table_at(Level::Verbose, None, ("assumptions", "What is assumed"), assumed)
        .by(&["paper"]);
    let report = outcome.note.iter().fold(report, |report, note| report.note(note.as_str()));
    let report = match outcome.energy.len() {
        0 => report,
        _ => report.note("energies: in brackets the ranges of the constants; no paper states them, so none is counted above"),
    };
    let sensitivity = &outcome.sensitivity;
    let title = "What each step of Hermes' Fig. 13 gains under other assumptions";
    let report = report.table_at(Level::Verbose, None, ("sensitivity", title), (SENSITIVITY, sensitivity));
    if sensitivity.is_empty() {
        return Ok(report);
    }
    let caption = "The paper reports 1.63, 1.33 and 1.29. Each line changes one assumption of the set.";
    Ok(drawn(report, "sensitivity", title, caption, &steps(sensitivity)?))
}
