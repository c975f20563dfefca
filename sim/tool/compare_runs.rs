//! `ndp compare runs`: compares two JSON reports number by number.

use crate::output::OutputArgs;
use crate::prelude::*;
use crate::schema;
use serde::Serialize;
use serde_json::{Number, Value};
use std::collections::{BTreeMap, BTreeSet};

const MOST_BYTES: u64 = 1 << 30;
const MOST_BARS: usize = 24;
/// Fields that name an element of an array, if all elements have them.
const NAMES: [&str; 9] = ["name", "policy", "mode", "system", "device", "model", "dimms", "batch", "layer"];

/// Compare two runs: every number of two JSON reports, with the ratio of B to A
///
/// The reports are the output of other subcommands with --json. Elements of arrays are matched by the fields that
/// name them, such as `name`, `policy` or `dimms`, otherwise by their position. Numbers that differ come first,
/// sorted by the larger of the ratio and its inverse, the largest first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp gemv --config tiny --rows 64 --cols 64 --json > a.json\n  \
    ndp gemv --config tiny --rows 64 --cols 64 --batch 4 --json > b.json\n  \
    ndp compare runs a.json b.json --html ab.html")]
pub struct Args {
    /// Report A
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// Report B
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// List only numbers whose ratio, or its inverse if that is larger, exceeds 1 by at least this percentage (0 or
    /// more)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    least: f64,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Pair {
    path: String,
    a: Number,
    b: Number,
    /// B divided by A; `None` if A is 0 and B is not, or if the signs differ.
    ratio: Option<f64>,
}

impl Pair {
    /// The larger of the ratio and its inverse, less 1.
    fn distance(&self) -> f64 {
        let ratio = self.ratio.filter(|ratio| *ratio > 0.0);
        ratio.map_or(f64::INFINITY, |ratio| ratio.max(1.0 / ratio) - 1.0)
    }
}

fn shown<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Values {
    rows! { pairs => |pair|
        ..pair;
        "path" "number" {Text} Screen: "where the number is in both reports";
        "ratio" "B/A" {Real("", 4)} Screen: "B divided by A; null if A is 0 and B is not, or the signs differ";
        "a" "A" {Text} Screen: "number of A";
        "b" "B" {Text} Screen: "number of B";
    }
}

/// The number if it is an integer; above 2^53, several integers share one f64.
fn whole(number: &Number) -> Option<i128> {
    let whole = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 1e38);
    number.as_i128().or_else(|| whole.map(|value| value as i128))
}

fn are_equal(a: &Number, b: &Number) -> bool {
    whole(a).zip(whole(b)).map_or_else(|| a.as_f64() == b.as_f64(), |(a, b)| a == b)
}

#[derive(Debug, Default, PartialEq)]
struct Comparison {
    /// Number of equal values.
    equal: usize,
    /// Number of differences smaller than `--least`.
    close: usize,
    differ: Vec<Pair>,
    /// Numbers that depend on the computer that runs the simulation.
    host: Vec<Pair>,
    /// Texts, flags and other values that differ and are not numbers: path, value of A, value of B.
    texts: Vec<(String, String, String)>,
    /// Values that only one report has: report and path.
    only: Vec<(&'static str, String)>,
}

pub fn run(args: &Args) -> Result<Report> {
    ensure!(args.least >= 0.0, "--least {} must be 0 or more", args.least);
    args.form.files(FileSet::new().input("report A", &args.a).input("report B", &args.b)).check()?;
    let found = compare(&leaves_of(&args.a)?, &leaves_of(&args.b)?, args.least);
    let Comparison { equal, close, differ, host, texts, only } = found;
    let answer = match differ.first() {
        None if only.is_empty() => format!("all {equal} numbers of both reports are equal"),
        None => format!(
            "the {equal} numbers that both reports have are equal; {} values are in one report only",
            only.len()
        ),
        Some(first) => format!(
            "{} of {} numbers differ, {} most: {} in A, {} in B",
            differ.len(),
            equal + close + differ.len(),
            first.path,
            first.a,
            first.b
        ),
    };
    let figures = figures! {
        "equal" "equal numbers" {Count} Head: "numbers in both reports that are equal" = equal;
        "differing" "differ" {Count} Head: "numbers that differ by --least or more" = differ.len();
        "close" "differ less" {Count} Verbose: "numbers that differ by less than --least" = close;
    };
    let most = shown(differ.iter().filter(|pair| pair.ratio.is_some()).take(MOST_BARS));
    let bars = ChartKind::Rows { label: "path", value: "ratio" };
    let texts = rows! { texts => |(path, a, b)|
        "path" "text" {Text} Screen: "where the text is in both reports" = path;
        "a" "A" {Text} Screen: "text of A" = a;
        "b" "B" {Text} Screen: "text of B" = b;
    };
    let only = rows! { only => |(report, path)|
        "report" "report" {Text} Screen: "A or B" = report;
        "path" "value" {Text} Screen: "where the value is in this report" = path;
    };
    Ok(Report::answer("compare runs", answer)
        .setting(format!("A: {}, B: {}", args.a.display(), args.b.display()))
        .figures(figures)
        .table("differ", "Numbers that differ, the largest ratio first", shown(differ.iter()))
        .table_at(Level::Json, None, ("most", "Largest ratios"), most)
        .table_at(
            Level::Verbose,
            None,
            ("host", "Times of the simulation, which depend on the computer"),
            shown(host.iter()),
        )
        .chart(Chart::new("most", "B divided by A", "The numbers that differ most.", bars))
        .table("texts", "Texts that differ", texts)
        .table("only", "Values in one report only", only))
}

fn leaves_of(path: &Path) -> Result<BTreeMap<String, Value>> {
    let text = ndp_files::read_text(path, MOST_BYTES)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let value: Value = ndp_files::parse_json(&text)
        .with_context(|| format!("`{}` is not one JSON value, as --json prints it", path.display()))?;
    let mut leaves = BTreeMap::new();
    flatten(String::new(), &value, &mut leaves);
    Ok(leaves)
}

/// Numbers, texts and flags by path.
fn flatten(path: String, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(path, value, leaves);
            }
        }
        Value::Array(elements) => {
            let names = names_of(elements);
            for (index, value) in elements.iter().enumerate() {
                let name = names.as_ref().map_or_else(|| index.to_string(), |names| names[index].clone());
                flatten(format!("{path}[{name}]"), value, leaves);
            }
        }
        _ => {
            leaves.insert(path, value.clone());
        }
    }
}

/// Names of elements, made from the fewest of [`NAMES`] that distinguish them; `None` if none do.
fn names_of(elements: &[Value]) -> Option<Vec<String>> {
    let mut names = vec![String::new(); elements.len()];
    for field in NAMES {
        let own: Option<Vec<String>> = elements
            .iter()
            .map(|element| match element.get(field)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(format!("{field}={number}")),
                _ => None,
            })
            .collect();
        for (name, own) in names.iter_mut().zip(own.into_iter().flatten()) {
            *name = if name.is_empty() { own } else { format!("{name}, {own}") };
        }
        let different: BTreeSet<&String> = names.iter().collect();
        if different.len() == names.len() && !names.iter().any(String::is_empty) {
            return Some(names);
        }
    }
    None
}

fn compare(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>, least: f64) -> Comparison {
    let mut found = Comparison::default();
    let command = a.get("command").and_then(Value::as_str).unwrap_or_default();
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let mut host = schema::of_words(&words).map_or_else(Vec::new, |(_, rows)| rows);
    host.retain(|[.., meaning]| meaning.contains("wall-clock"));
    for (report, of, other) in [("A", a, b), ("B", b, a)] {
        let missing = of.keys().filter(|path| !other.contains_key(*path));
        found.only.extend(missing.map(|path| (report, path.clone())));
    }
    for (path, a) in a {
        let Some(b) = b.get(path) else { continue };
        if let (Value::Number(a), Value::Number(b)) = (a, b) {
            let is_equal = are_equal(a, b);
            let values = a.as_f64().zip(b.as_f64()).filter(|(a, b)| a == b || *a != 0.0 && a * b >= 0.0);
            let ratio = values.map(|(a, b)| if a == b { 1.0 } else { b / a });
            let pair = Pair { path: path.clone(), a: a.clone(), b: b.clone(), ratio };
            match () {
                () if is_equal => found.equal += 1,
                () if 100.0 * pair.distance() < least => found.close += 1,
                () if host.iter().any(|row| schema::is_at(row, &pointer(path))) => found.host.push(pair),
                () => found.differ.push(pair),
            }
        } else if a != b {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.texts.push((path.clone(), text(a), text(b)));
        }
    }
    found.differ.sort_by(|a, b| b.distance().total_cmp(&a.distance()).then_with(|| a.path.cmp(&b.path)));
    found
}

/// As a JSON pointer, with `*` for each element.
fn pointer(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| format!("/*{}", part.rsplit_once(']').map_or("", |(_, below)| below)));
    format!("/{first}{}", rest.collect::<String>()).replace('.', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn leaves(value: &Value) -> BTreeMap<String, Value> {
        let mut leaves = BTreeMap::new();
        flatten(String::new(), value, &mut leaves);
        leaves
    }

    #[test]
    fn numbers_are_matched_by_what_names_them_and_sorted_by_their_ratio() {
        let a = json!({"cycles": 100, "rows": [{"dimms": 1, "us": 8.0}, {"dimms": 2, "us": 4.0}], "text": "x", "old": 1});
        let b = json!({"cycles": 100, "rows": [{"dimms": 2, "us": 1.0}, {"dimms": 1, "us": 10.0}], "text": "y", "new": 2});
        let found = compare(&leaves(&a), &leaves(&b), 0.0);
        let paths: Vec<_> = found.differ.iter().map(|pair| (pair.path.as_str(), pair.ratio)).collect();
        assert_eq!(paths, [("rows[dimms=2].us", Some(0.25)), ("rows[dimms=1].us", Some(1.25))]);
        assert_eq!((found.equal, found.close), (3, 0));
        assert_eq!(found.texts, [("text".to_owned(), "x".to_owned(), "y".to_owned())]);
        let only = |report, path: &str| (report, path.to_owned());
        assert_eq!(found.only, [only("A", "old"), only("B", "new")]);
        let few = compare(&leaves(&a), &leaves(&b), 30.0);
        assert_eq!((few.differ.len(), few.close), (1, 1));
    }

    #[test]
    fn times_of_the_simulation_are_no_difference_of_the_machine() {
        let run = |cycles: u64, speed: f64| json!({"command": "bench", "cycles": 1, "products": [{"cycles": cycles, "sim_cycles_per_second": speed}]});
        let found = compare(&leaves(&run(10, 1e6)), &leaves(&run(11, 3e6)), 0.0);
        let paths = |pairs: &[Pair]| pairs.iter().map(|pair| pair.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&found.differ), ["products[0].cycles"]);
        assert_eq!(paths(&found.host), ["products[0].sim_cycles_per_second"]);
    }

    #[test]
    fn whole_numbers_are_compared_and_shown_with_all_digits() {
        let of = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|text| leaves(&serde_json::from_str(text).unwrap_or_default()));
            compare(&a, &b, 0.0)
        };
        let found = of("[9007199254740993, 1, -2]", "[9007199254740992, 1.0, -2]");
        assert_eq!((found.equal, found.differ.len()), (2, 1));
        let Pair { a, b, .. } = &found.differ[0];
        assert_eq!(
            (a.to_string(), b.to_string()),
            ("9007199254740993".to_owned(), "9007199254740992".to_owned())
        );
        assert_eq!(of("[18446744073709551615]", "[18446744073709551615.0]").equal, 0);
        assert_eq!(of("[18446744073709551615]", "[18446744073709551615]").equal, 1);
        assert_eq!(of("[0.5]", "[0.25]").differ[0].ratio, Some(0.5));
    }

    #[test]
    fn zero_and_signs_have_no_ratio_and_come_first() {
        let found = compare(&leaves(&json!([1, 0, -1, 0])), &leaves(&json!([2, 3, 1, 0])), 50.0);
        let ratios: Vec<_> = found.differ.iter().map(|pair| (pair.path.as_str(), pair.ratio)).collect();
        assert_eq!(ratios, [("[1]", None), ("[2]", None), ("[0]", Some(2.0))]);
        assert_eq!(found.equal, 1);
    }

    #[test]
    fn elements_with_equal_names_are_matched_by_all_their_names_or_by_place() {
        let twice = json!([{"name": "a", "n": 1}, {"name": "a", "n": 2}]);
        assert!(leaves(&twice).contains_key("[1].n"));
        let both = json!([{"policy": "a", "batch": 1, "n": 1}, {"policy": "a", "batch": 2, "n": 2}]);
        assert!(leaves(&both).contains_key("[a, batch=2].n"));
    }

    #[test]
    fn reports_that_cannot_be_compared_are_refused_and_stay() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        let (good, bad) = (file("a.json", "{\"n\": 1}")?, file("b.json", "cycles 12")?);
        let args = |b: &Path, html: Option<PathBuf>| Args {
            a: good.clone(),
            b: b.to_owned(),
            least: 0.0,
            form: OutputArgs { html, ..OutputArgs::default() },
        };
        let refused = |args: Args| run(&args).err().map(|e| format!("{e:#}")).unwrap_or_default();
        assert!(
            refused(args(&bad, None)).contains("b.json` is not one JSON value"),
            "{}",
            refused(args(&bad, None))
        );
        let twice = file("d.json", "{\"n\": 1, \"n\": 2}")?;
        assert!(
            refused(args(&twice, None)).contains("the key 'n' appears twice"),
            "{}",
            refused(args(&twice, None))
        );
        let missing = folder.path().join("c.json");
        assert!(refused(args(&missing, None)).contains("cannot read"), "{}", refused(args(&missing, None)));
        // The page would overwrite a report.
        assert_ne!(refused(args(&good, Some(good.clone()))), "");
        assert_eq!(std::fs::read_to_string(&good)?, "{\"n\": 1}");
        let page = run(&args(&good, None))?.page(&[])?;
        assert!(page.contains("all 1 numbers of both reports are equal"), "{page}");
        Ok(())
    }
}
