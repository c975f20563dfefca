//! Results of a sweep: configurations that no other dominates or that dominate a reference, and effects of keys.

use super::folder::{Folder, Outcome};
use super::space::one_line;
use super::table::plain;
use crate::prelude::*;
use ndp_report::{Dot, Field, LineChart, Series, Unit, concise, field, lasting};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp sweep report target/fig16 --minimise product.cycles\n  \
    ndp sweep report target/fig16 --minimise product.cycles --html fig16.html")]
pub struct Args {
    /// Folder of the sweep
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Metric to minimise (repeatable): COMMAND.METRIC, for all values of the command's options, or with some of
    /// them: 'product.cycles batch=1'
    #[arg(long, value_name = "METRIC")]
    minimise: Vec<String>,
    /// Metric to maximise (repeatable), in the form of --minimise
    #[arg(long, value_name = "METRIC")]
    maximise: Vec<String>,
    /// Reference configuration to compare the others with; repeat the option for each key that distinguishes it
    #[arg(long, value_name = "KEY=VALUE")]
    reference: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Row {
    keys: BTreeMap<String, Value>,
    /// Values by command, metric, and the options with several values.
    metrics: BTreeMap<String, f64>,
    /// Files of the commands' outputs, relative to the folder of the sweep.
    outputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

/// A metric, and whether larger values are better.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Objective {
    name: String,
    more: bool,
}

impl Objective {
    /// Factor by which `b` is better than `a`: above 1 if it is better.
    fn gain(&self, a: f64, b: f64) -> f64 {
        if self.more { b / a } else { a / b }
    }
}

#[derive(Debug)]
struct Found {
    objectives: Vec<Objective>,
    rows: Vec<Row>,
    /// Rows that no other dominates.
    front: Vec<usize>,
    /// The reference, and the rows that dominate it.
    reference: Option<(usize, Vec<usize>)>,
    sensitivity: Vec<Sensitivity>,
}

/// Effect of a key's value relative to its first: geometric mean over configurations that are otherwise equal.
#[derive(Debug, Serialize)]
struct Sensitivity {
    key: String,
    value: Value,
    first: Value,
    pairs: usize,
    ratios: BTreeMap<String, Option<f64>>,
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let folder = Folder::new(&args.folder);
    args.form.files(folder.inputs(FileSet::new())).check()?;
    if let Some(html) = args.form.html.as_ref().filter(|html| folder.keeps(html)) {
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
    let found = find(args, rows(&outcomes))?;
    report(args, &found, missing)
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    // Options with a single value say nothing.
    let mut values: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for Outcome { command, options, .. } in outcomes {
        for (option, value) in options {
            values.entry((command, option)).or_default().insert(plain(value));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes {
        let name = outcome.keys.iter().map(|(key, value)| format!("{key}={value}")).join(" ");
        let place = *places.entry(name).or_insert_with(|| {
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
    let list = || match names.iter().map(|name| format!("'{name}'")).join(", ") {
        none if none.is_empty() => "none: no point has a result".to_owned(),
        list => list,
    };
    ensure!(
        !args.minimise.is_empty() || !args.maximise.is_empty(),
        "name at least one metric with --minimise or --maximise; available: {}",
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
        ensure!(!found.is_empty(), "unknown metric '{wanted}'; available: {}", list());
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
            "--reference {} matches {} configurations, but must match exactly one",
            wanted.join(" "),
            found.len()
        ),
    }
}

fn sensitivity(rows: &[Row], objectives: &[Objective]) -> Vec<Sensitivity> {
    let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.keys.keys()).collect();
    let mut found = Vec::new();
    for key in keys {
        let values: Vec<&Value> = rows.iter().filter_map(|row| row.keys.get(key)).unique().collect();
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
                ratios: objectives
                    .iter()
                    .map(|objective| (objective.name.clone(), ratio(objective)))
                    .collect(),
            });
        }
    }
    found
}

/// Columns for keys and objectives, and with a reference also for the gain over it.
fn columns(found: &Found, compared: bool) -> Vec<Field> {
    let keys: BTreeSet<&String> = found.rows.iter().flat_map(|row| row.keys.keys()).collect();
    let of_key = |key: &&String| dynamic("keys", key, Unit::Text, "key that the sweep sets");
    let mut columns: Vec<Field> = keys.iter().map(of_key).collect();
    for Objective { name, .. } in &found.objectives {
        columns.push(dynamic("metrics", name, Unit::Digits, "metric"));
        if compared {
            let gain = dynamic("gains", name, RATIO, "factor by which it is better than the reference");
            columns.push(Field { label: "times as good", ..gain });
        }
    }
    let metrics: BTreeSet<&String> = found.rows.iter().flat_map(|row| row.metrics.keys()).collect();
    let others = metrics.into_iter().filter(|name| found.objectives.iter().all(|of| of.name != **name));
    columns.extend(others.map(|name| dynamic("metrics", name, Unit::Digits, "metric").at(Level::Json)));
    fields! { OWN
        "refused" "refused" {Text} Json: "points of the configuration that are refused";
        "outputs" "reports" {Text} Json: "reports of the points, in the folder of the sweep";
    }
    columns.extend_from_slice(OWN);
    columns
}

const RATIO: Unit = Unit::Real("", 3);

/// A field named after a key or metric of the sweep.
fn dynamic(part: &str, name: &str, unit: Unit, meaning: &'static str) -> Field {
    field(lasting(&format!("{part}.{name}")), lasting(name), unit, meaning)
}

fn table(found: &Found, numbers: &[usize], reference: Option<usize>) -> Vec<Value> {
    let line = |number: &usize| {
        let row = &found.rows[*number];
        let gain = |objective: &Objective| {
            let base = found.rows[reference?].metrics.get(&objective.name)?;
            Some(objective.gain(*base, *row.metrics.get(&objective.name)?))
        };
        let gains = found.objectives.iter().map(|objective| (&objective.name, gain(objective)));
        let gains: BTreeMap<&String, Option<f64>> = gains.filter(|_| reference.is_some()).collect();
        let mut line = serde_json::json!(row);
        if reference.is_some() {
            line["gains"] = serde_json::json!(gains);
        }
        line
    };
    numbers.iter().map(line).collect()
}

fn report(args: &Shown<Args>, found: &Found, missing: usize) -> Result<Report> {
    let answer = format!(
        "{} of {} configurations {} dominated by no other{}",
        found.front.len(),
        found.rows.len(),
        if found.front.len() == 1 { "is" } else { "are" },
        found.objectives.iter().filter_map(|objective| best(found, objective)).collect::<String>()
    );
    let goal = |of: &Objective| format!("{} {}", if of.more { "maximised" } else { "minimised" }, of.name);
    let goals = found.objectives.iter().map(goal).join(", ");
    let mut report = Report::answer("sweep report", answer)
        .setting(format!("{}; {}", args.folder.display(), goals))
        .table("front", "No other dominates", (&columns(found, false), &table(found, &found.front, None)));
    if found.rows.len() == 1 {
        report = report.note("there is one configuration: only keys of [[files]] make others; values of options give a metric other names");
    }
    if missing > 0 {
        report = report.note(format!("{missing} points have no result yet"));
    }
    if let [x, y, ..] = &found.objectives[..] {
        let drawn = ChartKind::Drawn(chart(args, found, [x, y])?);
        let caption = match found.objectives.len() {
            2 => "A dot is a configuration; a click opens its JSON. The line joins those that no other dominates.".to_owned(),
            count => format!("A dot is a configuration; a click opens its JSON. Two of {count} metrics are shown: what no other dominates may look worse here."),
        };
        report = report.chart(Chart::new("front", format!("{} over {}", y.name, x.name), caption, drawn));
    }
    if let Some((reference, better)) = &found.reference {
        let all: Vec<usize> = [*reference].into_iter().chain(better.iter().copied()).collect();
        report = report
            .reason(match better.len() {
                1 => "1 configuration dominates the reference".to_owned(),
                count => format!("{count} configurations dominate the reference"),
            })
            .table(
                "better",
                "The reference, and those that dominate it",
                (&columns(found, true), &table(found, &all, Some(*reference))),
            );
    }
    fields! { OF_KEYS
        "key" "key" {Text} Screen: "key";
        "value" "value" {Text} Screen: "value of the key";
        "first" "against" {Text} Screen: "first value of the key";
        "pairs" "pairs" {Count} Screen: "pairs of configurations that differ only in this key";
    }
    let mean = "geometric mean of the metric over the metric with the first value";
    let ratios = found.objectives.iter().map(|objective| dynamic("ratios", &objective.name, RATIO, mean));
    let of_keys: Vec<Field> = OF_KEYS.iter().copied().chain(ratios).collect();
    let rows: Vec<usize> = (0..found.rows.len()).collect();
    let refused = rows! { found.rows.iter().flat_map(|row| &row.refused) => |reason|
        "reason" "reason" {Text} Screen: "point and reason" = one_line(reason);
    };
    Ok(report
        .table(
            "sensitivity",
            "Ratio of each metric when a key has another value",
            (&of_keys, &found.sensitivity),
        )
        .table_at(
            Level::Verbose,
            None,
            ("rows", "All configurations"),
            (&columns(found, false), &table(found, &rows, None)),
        )
        .table("refused", "Refused points", refused)
        .data(
            "objectives",
            "compared metrics, and whether a larger value of each is better",
            &found.objectives,
        ))
}

/// The best value of a metric, and a configuration that reaches it.
fn best(found: &Found, objective: &Objective) -> Option<String> {
    let of = |row: &Row| row.metrics.get(&objective.name).copied();
    let better = |a: &&Row, b: &&Row| {
        let [a, b] = [a, b].map(|row| of(row).unwrap_or(f64::NAN));
        if objective.more { b.total_cmp(&a) } else { a.total_cmp(&b) }
    };
    let row = found
        .front
        .iter()
        .map(|number| &found.rows[*number])
        .filter(|row| of(row).is_some())
        .min_by(better)?;
    let kind = if objective.more { "most" } else { "least" };
    Some(format!("; {kind} {}: {} with {}", objective.name, concise(of(row)?), keys(row)))
}

fn keys(row: &Row) -> String {
    row.keys.iter().map(|(key, value)| format!("{key} = {}", plain(value))).join(", ")
}

/// Chart of all configurations by two metrics, with links to their reports.
fn chart(args: &Shown<Args>, found: &Found, [x, y]: [&Objective; 2]) -> Result<String> {
    let place = |row: &Row| Some((*row.metrics.get(&x.name)?, *row.metrics.get(&y.name)?));
    let link = |row: &Row| Some(relative(args, row.outputs.first()?));
    let dot = |row: &Row| Some(Dot { at: place(row)?, tip: keys(row), link: link(row) });
    let front = found.front.iter().filter_map(|row| place(&found.rows[*row])).collect();
    let name = "no other dominates";
    let (best, others): (Vec<usize>, Vec<usize>) =
        (0..found.rows.len()).partition(|row| found.front.contains(row));
    let dots = |numbers: &[usize]| numbers.iter().filter_map(|row| dot(&found.rows[*row])).collect();
    let mut chart = LineChart::new("Configurations", &x.name, &y.name);
    if found.objectives.len() == 2 {
        chart = chart.series(Series { name: name.to_owned(), points: front });
    }
    chart = chart.dots("other configurations", dots(&others)).dots(name, dots(&best));
    if let Some((reference, _)) = &found.reference {
        chart = chart.dots("reference", dot(&found.rows[*reference]).into_iter().collect());
    }
    Ok(chart.draw()?)
}

/// Path of a sweep's file relative to the page, so that both can be moved together.
fn relative(args: &Shown<Args>, file: &str) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let page = args.form.html.as_deref().and_then(Path::parent).map(absolute).unwrap_or_default();
    let target = absolute(&args.folder).join(file);
    let mut rest = target.components().peekable();
    let mut own = page.components().peekable();
    while own.peek().is_some() && own.peek() == rest.peek() {
        own.next();
        rest.next();
    }
    let up = own.map(|_| "..".to_owned());
    up.chain(rest.map(|part| part.as_os_str().to_string_lossy().into_owned())).join("/")
}
