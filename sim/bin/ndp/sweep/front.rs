//! What came of a sweep: the configurations that no other dominates, what dominates a reference, and what each key changes.

use super::folder::{Folder, Outcome};
use super::table::plain;
use anyhow::Result;
use ndp_files::{FileSet, OutputFile, say, visible};
use ndp_report::{Dot, LineChart, Series};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the sweep
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A metric that is better the smaller it is: COMMAND.METRIC, for all values of the command's options, or with some: 'product.cycles batch=1'
    #[arg(long, value_name = "METRIC")]
    minimise: Vec<String>,
    /// A metric that is better the larger it is
    #[arg(long, value_name = "METRIC")]
    maximise: Vec<String>,
    /// A configuration that others are compared with: all keys that tell it from the others
    #[arg(long, value_name = "KEY=VALUE")]
    reference: Vec<String>,
    /// Write a page with a chart of the first two metrics
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON in place of tables
    #[arg(long)]
    json: bool,
}

/// A configuration with all that was measured of it.
#[derive(Clone, Debug, Default, Serialize)]
struct Row {
    keys: BTreeMap<String, Value>,
    /// By command, metric, and the options that have several values.
    metrics: BTreeMap<String, f64>,
    /// What the commands printed, in the folder of the sweep.
    outputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

/// A metric, and whether more of it is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Objective {
    name: String,
    more: bool,
}

impl Objective {
    /// What of `b` over `a` is better: above 1 if `b` is.
    fn gain(&self, a: f64, b: f64) -> f64 {
        if self.more { b / a } else { a / b }
    }
}

#[derive(Debug, Serialize)]
struct Found {
    objectives: Vec<Objective>,
    rows: Vec<Row>,
    /// Numbers of rows that no other dominates.
    front: Vec<usize>,
    /// The reference, and the rows that dominate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<(usize, Vec<usize>)>,
    sensitivity: Vec<Sensitivity>,
}

/// What a value of a key changes, against the first value: geometric means over configurations that differ in nothing else.
#[derive(Debug, Serialize)]
struct Sensitivity {
    key: String,
    value: Value,
    first: Value,
    pairs: usize,
    /// By objective: the metric's ratio.
    ratios: Vec<Option<f64>>,
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let folder = Folder::new(&args.folder);
    folder.inputs(FileSet::new()).optional("--html", args.html.as_ref()).check()?;
    if let Some(html) = args.html.as_ref().filter(|html| folder.keeps(html)) {
        bail!("--html {} is in a folder of the sweep's own files; name another folder", html.display());
    }
    let mut outcomes = Vec::new();
    let mut missing = 0;
    for point in folder.points()? {
        match folder.outcome(&point)? {
            Some(outcome) => outcomes.push(outcome),
            None => missing += 1,
        }
    }
    ensure!(!outcomes.is_empty(), "'{}' has no results; `ndp sweep run` makes some", args.folder.display());
    let html = args.html.as_ref().map(|path| OutputFile::create(path)).transpose()?;
    let rows = rows(&outcomes);
    let found = find(args, rows)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        if missing > 0 {
            say!("{missing} points have no result yet");
        }
        print(&found);
    }
    if let Some(html) = html {
        let text = page(args, &found, missing)?;
        html.finish(|out| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// A row for each configuration.
fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    // Options of a command that have one value tell nothing.
    let mut values: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for Outcome { command, options, .. } in outcomes {
        for (option, value) in options {
            values.entry((command, option)).or_default().insert(plain(value));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes {
        let name: Vec<String> = outcome.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let place = *places.entry(name.join(" ")).or_insert_with(|| {
            rows.push(Row { keys: outcome.keys.clone(), ..Row::default() });
            rows.len() - 1
        });
        let row = &mut rows[place];
        let varies = |option: &str| values[&(outcome.command.as_str(), option)].len() > 1;
        let options = outcome.options.iter().filter(|(option, _)| varies(option));
        let options: String = options.map(|(option, value)| format!(" {option}={}", plain(value))).collect();
        for (metric, value) in &outcome.metrics {
            let Some(value) = value.as_f64() else { continue };
            row.metrics.insert(format!("{}.{metric}{options}", outcome.command), value);
        }
        row.outputs.push(Folder::output(&outcome.key));
        row.refused.extend(outcome.refused.iter().map(|why| format!("{}{options}: {why}", outcome.command)));
    }
    rows
}

fn find(args: &Args, rows: Vec<Row>) -> Result<Found> {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.metrics.keys()).collect();
    let list = || match names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none: no point has a result".to_owned(),
        list => list,
    };
    ensure!(
        !args.minimise.is_empty() || !args.maximise.is_empty(),
        "name at least one metric with --minimise or --maximise; there are {}",
        list()
    );
    let mut objectives: Vec<Objective> = Vec::new();
    for (wanted, more) in
        args.minimise.iter().map(|name| (name, false)).chain(args.maximise.iter().map(|name| (name, true)))
    {
        let (metric, options) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let is = |name: &&&String| {
            let mut parts = name.split(' ');
            parts.next() == Some(metric)
                && options.split_whitespace().all(|o| name.split(' ').any(|p| p == o))
        };
        let found: Vec<&&String> = names.iter().filter(is).collect();
        ensure!(!found.is_empty(), "there is no metric '{wanted}'; there are {}", list());
        for name in found {
            let objective = Objective { name: (*name).clone(), more };
            if !objectives.contains(&objective) {
                objectives.push(objective);
            }
        }
    }
    let of = |row: &Row| -> Option<Vec<f64>> {
        objectives.iter().map(|objective| row.metrics.get(&objective.name).copied()).collect()
    };
    let values: Vec<Option<Vec<f64>>> = rows.iter().map(of).collect();
    let dominates = |a: &[f64], b: &[f64]| {
        let pairs = || objectives.iter().zip(a.iter().zip(b));
        let worse =
            |(objective, (a, b)): (&Objective, (&f64, &f64))| if objective.more { a < b } else { a > b };
        !pairs().any(worse) && pairs().any(|(_, (a, b))| a != b)
    };
    let better = |than: &[f64]| -> Vec<usize> {
        let all = values.iter().enumerate().filter_map(|(row, own)| Some((row, own.as_ref()?)));
        all.filter(|(_, own)| dominates(own, than)).map(|(row, _)| row).collect()
    };
    let own = values.iter().enumerate().filter_map(|(row, own)| Some((row, own.as_ref()?)));
    let mut front: Vec<usize> = own.filter(|(_, own)| better(own).is_empty()).map(|(row, _)| row).collect();
    let first = |row: usize| values[row].as_ref().map_or(0.0, |values| values[0]);
    front.sort_by(|a, b| first(*a).total_cmp(&first(*b)));
    let reference = if args.reference.is_empty() {
        None
    } else {
        let row = reference(&args.reference, &rows)?;
        let own = values[row].as_ref().ok_or_else(|| refusal!("the reference lacks one of the metrics"))?;
        Some((row, better(own)))
    };
    let sensitivity = sensitivity(&rows, &objectives);
    Ok(Found { objectives, rows, front, reference, sensitivity })
}

/// The configuration whose keys have these values.
fn reference(wanted: &[String], rows: &[Row]) -> Result<usize> {
    let mut pairs = Vec::new();
    for pair in wanted {
        let Some((key, value)) = pair.split_once('=') else {
            bail!("--reference {pair} has to be KEY=VALUE");
        };
        ensure!(
            rows.iter().any(|row| row.keys.contains_key(key)),
            "--reference {pair}: no point sets `{key}`"
        );
        pairs.push((key, value));
    }
    let is = |row: &Row| {
        pairs.iter().all(|(key, value)| row.keys.get(*key).is_some_and(|own| plain(own) == *value))
    };
    let found: Vec<usize> = (0..rows.len()).filter(|row| is(&rows[*row])).collect();
    match found[..] {
        [row] => Ok(row),
        _ => bail!(
            "--reference {} names {} configurations, and has to name one",
            wanted.join(" "),
            found.len()
        ),
    }
}

fn sensitivity(rows: &[Row], objectives: &[Objective]) -> Vec<Sensitivity> {
    let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.keys.keys()).collect();
    let mut found = Vec::new();
    for key in keys {
        let mut values: Vec<&Value> = Vec::new();
        for value in rows.iter().filter_map(|row| row.keys.get(key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let Some((first, others)) = values.split_first() else { continue };
        let rest = |row: &Row| {
            let mut keys = row.keys.clone();
            keys.remove(key);
            keys
        };
        let of_first: Vec<_> =
            rows.iter().filter(|row| row.keys.get(key) == Some(first)).map(|r| (rest(r), r)).collect();
        for value in others {
            let with = rows.iter().filter(|row| row.keys.get(key) == Some(value));
            let pairs: Vec<(&Row, &Row)> = with
                .filter_map(|row| {
                    let own = rest(row);
                    of_first.iter().find(|(other, _)| *other == own).map(|(_, other)| (*other, row))
                })
                .collect();
            let ratio = |objective: &Objective| {
                let logs: Vec<f64> = pairs
                    .iter()
                    .filter_map(|(a, b)| {
                        Some(b.metrics.get(&objective.name)? / a.metrics.get(&objective.name)?)
                    })
                    .map(f64::ln)
                    .filter(|log| log.is_finite())
                    .collect();
                (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
            };
            found.push(Sensitivity {
                key: key.clone(),
                value: (*value).clone(),
                first: (*first).clone(),
                pairs: pairs.len(),
                ratios: objectives.iter().map(ratio).collect(),
            });
        }
    }
    found
}

/// A table: head and rows.
type Table = (Vec<String>, Vec<Vec<String>>);

/// Rows with their keys and objectives; with a reference also how much better each is.
fn table_of(found: &Found, numbers: &[usize], reference: Option<usize>) -> Table {
    let keys: Vec<String> = found
        .rows
        .iter()
        .flat_map(|row| row.keys.keys().cloned())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut head = keys.clone();
    for objective in &found.objectives {
        head.push(objective.name.clone());
        if reference.is_some() {
            head.push("times as good".to_owned());
        }
    }
    let line = |number: &usize| {
        let row = &found.rows[*number];
        let mut line: Vec<String> =
            keys.iter().map(|key| row.keys.get(key).map_or_else(|| "-".to_owned(), plain)).collect();
        for objective in &found.objectives {
            let value = row.metrics.get(&objective.name).copied();
            line.push(value.map_or_else(|| "-".to_owned(), |value| value.to_string()));
            if let Some(reference) = reference {
                let base = found.rows[reference].metrics.get(&objective.name);
                let gain = base.zip(value).map(|(a, b)| objective.gain(*a, b));
                line.push(gain.map_or_else(|| "-".to_owned(), |gain| format!("{gain:.3}")));
            }
        }
        line
    };
    (head, numbers.iter().map(line).collect())
}

fn sensitivity_table(found: &Found) -> Table {
    let head = ["key", "value", "against", "pairs"].map(str::to_owned).into_iter();
    let head = head.chain(found.objectives.iter().map(|objective| objective.name.clone())).collect();
    let line = |of: &Sensitivity| {
        let own = [of.key.clone(), plain(&of.value), plain(&of.first), of.pairs.to_string()].into_iter();
        own.chain(
            of.ratios.iter().map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))),
        )
        .collect()
    };
    (head, found.sensitivity.iter().map(line).collect())
}

fn say_table((head, lines): &Table) {
    let shown = |cells: &[String]| cells.iter().map(|cell| visible(cell).into_owned()).collect::<Vec<_>>();
    let (head, lines) = (shown(head), lines.iter().map(|line| shown(line)).collect::<Vec<_>>());
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0).max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for line in [&head].into_iter().chain(&lines) {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        say!("{}", cells.join("  "));
    }
}

fn print(found: &Found) {
    say!("{} configurations; no other dominates these {}:", found.rows.len(), found.front.len());
    say_table(&table_of(found, &found.front, None));
    if let Some((reference, better)) = &found.reference {
        say!("\nThe reference, and the {} that dominate it:", better.len());
        let all: Vec<usize> = [*reference].into_iter().chain(better.iter().copied()).collect();
        say_table(&table_of(found, &all, Some(*reference)));
    }
    if !found.sensitivity.is_empty() {
        say!("\nRatio of each metric, a key having another value than its first, all else being equal:");
        say_table(&sensitivity_table(found));
    }
    for row in found.rows.iter().filter(|row| !row.refused.is_empty()) {
        say!("refused: {}", row.refused.join("; "));
    }
}

fn page(args: &Args, found: &Found, missing: usize) -> Result<String> {
    let mut report = crate::made::begin("Sweep").paragraph(&format!(
        "{} configurations, {} that no other dominates. {missing} points have no result yet.",
        found.rows.len(),
        found.front.len()
    ));
    if let [x, y, ..] = &found.objectives[..] {
        let place = |row: &Row| Some((*row.metrics.get(&x.name)?, *row.metrics.get(&y.name)?));
        let tip = |row: &Row| {
            let keys: Vec<String> =
                row.keys.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
            keys.join(", ")
        };
        let folder = std::path::absolute(&args.folder)?;
        let link = |row: &Row| Some(format!("file://{}", folder.join(row.outputs.first()?).display()));
        let dot = |row: &Row| Some(Dot { at: place(row)?, tip: tip(row), link: link(row) });
        let front = found.front.iter().filter_map(|row| place(&found.rows[*row])).collect();
        let mut chart = LineChart::new("Configurations", &x.name, &y.name)
            .series(Series { name: "no other dominates".to_owned(), points: front })
            .dots("configurations", found.rows.iter().filter_map(dot).collect());
        if let Some((reference, _)) = &found.reference {
            chart = chart.dots("reference", dot(&found.rows[*reference]).into_iter().collect());
        }
        report = report.section("All configurations").chart(&chart.draw()?);
    }
    let table = |(head, lines): &Table, report: ndp_report::Report| {
        report.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), lines)
    };
    report = table(&table_of(found, &found.front, None), report.section("No other dominates"));
    if let Some((reference, better)) = &found.reference {
        let all: Vec<usize> = [*reference].into_iter().chain(better.iter().copied()).collect();
        report = table(
            &table_of(found, &all, Some(*reference)),
            report.section("The reference, and what dominates it"),
        );
    }
    if !found.sensitivity.is_empty() {
        report = report.section("What each key changes").paragraph(
            "Ratio of each metric, a key having another value than its first, all else being equal: geometric means.",
        );
        report = table(&sensitivity_table(found), report);
    }
    let refused = found.rows.iter().flat_map(|row| row.refused.iter().map(|why| vec![why.clone()]));
    let refused: Vec<Vec<String>> = refused.collect();
    if !refused.is_empty() {
        report =
            report.section("Refused").folded_table(&format!("{} points", refused.len()), &["why"], &refused);
    }
    Ok(report.finish())
}
