//! The value of a result: verdict, figures, tables, charts, provenance. All formats are made from a [`Report`].
//!
//! Numbers are [`Values`]. A [`Field`] gives each key name, unit and meaning. Keys without fields fail to render, so
//! the schema ([`Report::schema`]) is complete.

use crate::values::{Values, parsed, unknown};
use serde::Serialize;
use serde_json::{Map, Value};

/// Unit of a number for people. JSON and CSV have bare numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// A name, a text or a flag.
    Text,
    Count,
    Cycles,
    /// A part of 1, shown in percent.
    Share,
    /// Shown in kB, MB or GB.
    Bytes,
    /// Femtojoules, as `{low_fj, fj, high_fj}`.
    Energy,
    /// Name and decimals.
    Real(&'static str, usize),
    /// Four significant digits, in the unit of another column.
    Digits,
    /// An object or list described elsewhere.
    Data,
}

impl Unit {
    /// Name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Count => "number",
            Self::Cycles => "cycles",
            Self::Share => "0 to 1",
            Self::Bytes => "bytes",
            Self::Energy => "fJ",
            Self::Real("", _) => "ratio",
            Self::Real(name, _) => name,
            Self::Digits => "unit of the row",
            Self::Data => "object",
        }
    }
}

/// Place where people see a field. JSON has all fields, and CSV all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Among the first lines.
    Head,
    Screen,
    /// With `--verbose`, and on the page.
    Verbose,
    Page,
    Json,
}

/// A key of a command's JSON: a figure or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Path from the figures or a row, with dots.
    pub key: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    /// A sentence without its full stop.
    pub meaning: &'static str,
    pub level: Level,
}

/// A field on the screen.
pub const fn field(key: &'static str, label: &'static str, unit: Unit, meaning: &'static str) -> Field {
    Field { key, label, unit, meaning, level: Level::Screen }
}

impl Field {
    #[must_use]
    pub const fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }
}

/// Figures below one key; the report's own are at the top.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub key: &'static str,
    pub title: &'static str,
    pub fields: Vec<Field>,
    pub level: Level,
}

/// An array of objects below one key.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub key: &'static str,
    pub title: &'static str,
    pub columns: Vec<Field>,
    pub level: Level,
    /// Column of shares to draw as bars.
    pub bars: Option<&'static str>,
    /// Columns that divide rows into sections: all on the page, the first in text. Empty without sections.
    pub by: &'static [&'static str],
}

#[derive(Clone, Debug)]
pub struct Chart {
    pub table: &'static str,
    /// A sentence about the content.
    pub title: String,
    /// A sentence about the point to notice.
    pub caption: String,
    pub kind: ChartKind,
}

impl Chart {
    /// `table` is a table's key.
    pub fn new(
        table: &'static str,
        title: impl Into<String>,
        caption: impl Into<String>,
        kind: ChartKind,
    ) -> Self {
        Self { table, title: title.into(), caption: caption.into(), kind }
    }
}

/// Columns are named by keys; comma-separated keys name a row together.
#[derive(Clone, Debug)]
pub enum ChartKind {
    /// A horizontal bar per row.
    Rows { label: &'static str, value: &'static str },
    /// Stacked parts, a row per part.
    Stacks {
        /// Name of the whole.
        label: &'static str,
        /// Name of the part.
        part: &'static str,
        /// Column of heights, and factor to the axis's unit.
        value: (&'static str, f64),
        /// With the unit.
        axis: &'static str,
    },
    /// Stacked columns, a bar per row.
    Columns {
        label: &'static str,
        parts: Vec<&'static str>,
        /// Factor to the axis's unit.
        factor: f64,
        /// With the unit.
        axis: &'static str,
    },
    /// A line per value of a column.
    Lines {
        /// Column of places, and whether the axis shows powers of ten.
        x: (&'static str, bool),
        /// Column of heights, and factor to the axis's unit.
        y: (&'static str, f64),
        /// Column that names the line, and words around the name.
        series: (&'static str, &'static str, &'static str),
        /// With the units.
        axes: [&'static str; 2],
        /// A height to compare with.
        reference: Option<(&'static str, f64)>,
    },
    /// A finished picture.
    Drawn(String),
}

/// Long tables of the page, folded into lines. A click on a row puts its values into the commands.
#[derive(Clone, Debug)]
pub struct Folds {
    pub title: &'static str,
    pub text: String,
    /// Purpose, command and options.
    pub commands: Vec<(&'static str, String, &'static str)>,
    /// Words of the options that a click replaces by a row's values.
    pub names: &'static [&'static str],
    pub head: &'static [&'static str],
    pub folds: Vec<Fold>,
}

/// Opening line, and per row its cells and its values in the order of the names, if any.
#[derive(Clone, Debug)]
pub struct Fold {
    pub summary: String,
    pub rows: Vec<(Vec<String>, Vec<String>)>,
}

/// Parts after the first lines, in order.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Group(Group),
    Table(Table),
    Chart(Chart),
    Folds(Folds),
}

#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Report {
    pub(crate) command: &'static str,
    /// Whether all checks passed; `None` without checks.
    pub(crate) holds: Option<bool>,
    pub(crate) verdict: String,
    pub(crate) reason: Option<String>,
    pub(crate) setting: String,
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Vec<Field>,
    pub(crate) parts: Vec<Part>,
    /// Keys of repeated inputs, with their meanings.
    pub(crate) data: Vec<(&'static str, &'static str)>,
    pub(crate) json: Map<String, Value>,
    pub(crate) again: Option<String>,
    /// A value that could not be kept, or a key without a field.
    pub(crate) fault: Option<String>,
}

impl Report {
    /// A command without checks; `answer` is a sentence.
    pub fn answer(command: &'static str, answer: impl Into<String>) -> Self {
        Self::of(command, None, answer.into())
    }

    /// A command with checks: whether all passed, and a sentence.
    pub fn checked(command: &'static str, holds: bool, verdict: impl Into<String>) -> Self {
        Self::of(command, Some(holds), verdict.into())
    }

    fn of(command: &'static str, holds: Option<bool>, verdict: String) -> Self {
        let json = Map::from_iter([("command".to_owned(), command.into())]);
        Self { command, holds, verdict, json, ..Self::default() }
    }

    /// A sentence on the reason for the figures.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// A line about the run: model, machine, sizes, seed.
    pub fn setting(mut self, setting: impl Into<String>) -> Self {
        self.setting = setting.into();
        self
    }

    /// An assumption, a refusal or a warning.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn figures(mut self, figures: impl Into<Values>) -> Self {
        let (fields, figures) = self.object("", figures.into());
        self.figures.extend(fields);
        self.json.extend(figures);
        self
    }

    /// Figures below a key, shown at this level and beyond.
    pub fn group(
        mut self,
        level: Level,
        (key, title): (&'static str, &'static str),
        figures: impl Into<Values>,
    ) -> Self {
        let (fields, figures) = self.object(key, figures.into());
        self.json.insert(key.to_owned(), figures.into());
        self.parts.push(Part::Group(Group { key, title, fields, level }));
        self
    }

    pub fn table(self, key: &'static str, title: &'static str, rows: impl Into<Values>) -> Self {
        self.table_at(Level::Screen, None, (key, title), rows)
    }

    /// `bars` is the column of shares to draw as bars.
    pub fn table_at(
        mut self,
        level: Level,
        bars: Option<&'static str>,
        (key, title): (&'static str, &'static str),
        rows: impl Into<Values>,
    ) -> Self {
        let (columns, rows) = self.known(key, rows.into());
        self.json.insert(key.to_owned(), rows.into());
        self.parts.push(Part::Table(Table { key, title, columns, level, bars, by: &[] }));
        self
    }

    /// Divides the last table into sections by these columns; text uses the first. A chart over the table is in the
    /// section that its title names.
    pub fn by(mut self, columns: &'static [&'static str]) -> Self {
        if let Some(Part::Table(table)) = self.parts.last_mut() {
            table.by = columns;
        }
        self
    }

    pub fn chart(mut self, chart: Chart) -> Self {
        self.parts.push(Part::Chart(chart));
        self
    }

    pub fn folds(mut self, folds: Folds) -> Self {
        self.parts.push(Part::Folds(folds));
        self
    }

    /// An input that JSON repeats, such as the configuration.
    pub fn data(mut self, key: &'static str, meaning: &'static str, data: &impl Serialize) -> Self {
        match parsed(data) {
            Ok(value) => _ = self.json.insert(key.to_owned(), value),
            Err(error) => self.fault(&format!("{key}: {error}")),
        }
        self.data.push((key, meaning));
        self
    }

    /// The command that reproduces the result.
    pub fn again(mut self, command: impl Into<String>) -> Self {
        self.again = Some(command.into());
        self
    }

    pub fn failed(&self) -> bool {
        self.holds == Some(false)
    }

    fn fault(&mut self, fault: &str) {
        self.fault.get_or_insert_with(|| fault.to_owned());
    }

    /// Returns fields and rows; records a key without a field.
    fn known(&mut self, key: &str, Values { fields, rows, fault }: Values) -> (Vec<Field>, Vec<Value>) {
        if let Some(error) = fault {
            self.fault(&format!("'{key}': {error}"));
        }
        if let Some(unknown) = rows.iter().find_map(|row| unknown(row, "", &fields)) {
            self.fault(&format!("'{key}': nothing says what '{unknown}' is"));
        }
        (fields, rows)
    }

    /// [`Self::known`] for figures, which are one object.
    fn object(&mut self, key: &str, figures: Values) -> (Vec<Field>, Map<String, Value>) {
        let (fields, mut rows) = self.known(key, figures);
        match (rows.pop(), rows.len()) {
            (Some(Value::Object(figures)), 0) => (fields, figures),
            _ => {
                self.fault(&format!("'{key}': the figures are no object"));
                (fields, Map::new())
            }
        }
    }
}

/// The value at a path, whose names may contain dots, as configuration keys do.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    if let Some(found) = value.get(path) {
        return found;
    }
    let splits = path.match_indices('.').map(|(dot, _)| (&path[..dot], &path[dot + 1..]));
    let mut below = splits.filter_map(|(name, rest)| Some(at(value.get(name)?, rest)));
    below.find(|found| !found.is_null()).unwrap_or(&Value::Null)
}

/// Leaks a name known only at run time, such as a user's metric, for a field.
pub fn lasting(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// A number with a comma per three digits.
pub fn grouped(number: u64) -> String {
    thousands(&number.to_string())
}

/// Digits with a comma per three.
pub(crate) fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 DIMM", "4 DIMMs".
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A value without its unit, which the head has; `-` if missing.
pub(crate) fn written(unit: Unit, value: &Value) -> String {
    match (unit, value) {
        (_, Value::Null) => "-".to_owned(),
        (_, Value::Bool(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        (_, Value::String(text)) => text.clone(),
        (Unit::Share, value) => {
            value.as_f64().map_or_else(String::new, |share| format!("{:.1}", 100.0 * share))
        }
        (Unit::Real(_, decimals), value) => {
            value.as_f64().map_or_else(String::new, |number| decimal(number, decimals))
        }
        (Unit::Energy, value) => energy(value),
        (Unit::Bytes, value) if value.is_number() => bytes(value.as_f64().unwrap_or(0.0)),
        (_, Value::Array(all)) => all.iter().map(|one| written(unit, one)).collect::<Vec<_>>().join(", "),
        (Unit::Digits, value) => value.as_f64().map_or_else(String::new, concise),
        (_, value) => value.as_u64().map_or_else(|| value.to_string(), grouped),
    }
}

/// A number with decimals and grouped digits. One that would show as 0 is `<0.1` or has an exponent.
pub fn decimal(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if number != 0.0 && text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.')) {
        return if number < 0.0 || !(1..=3).contains(&decimals) {
            format!("{number:.1e}")
        } else {
            format!("<{:.decimals$}", 0.1_f64.powi(decimals as i32))
        };
    }
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let whole = digits.parse().map_or_else(|_| digits.to_owned(), grouped);
    rest.map_or_else(|| format!("{sign}{whole}"), |rest| format!("{sign}{whole}.{rest}"))
}

/// A whole number in groups, or four significant digits.
pub fn concise(number: f64) -> String {
    let is_whole = number.fract() == 0.0 || number.abs() >= 1000.0;
    if is_whole { decimal(number, 0) } else { significant(number) }
}

/// Four significant digits; a dash for NaN.
pub fn significant(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

/// In the unit with one to three digits before the point.
fn bytes(bytes: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)];
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| bytes >= *unit).unwrap_or(("B", 1.0));
    format!("{} {name}", shortest(&(bytes / unit).to_string()))
}

/// Femtojoules in the unit with one to three digits before the point, and the range.
fn energy(value: &Value) -> String {
    const UNITS: [&str; 7] = ["fJ", "pJ", "nJ", "uJ", "mJ", "J", "kJ"];
    let of = |key: &str| value.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let (low, middle, high) = (of("low_fj"), of("fj"), of("high_fj"));
    let mut unit = 0;
    let mut scale = 1.0;
    while unit + 1 < UNITS.len() && middle / scale >= 1000.0 {
        (unit, scale) = (unit + 1, scale * 1000.0);
    }
    let shown = |fj: f64| shortest(&format!("{:.3}", fj / scale));
    // Long bounds have a unit of their own.
    let bound = |fj: f64| {
        let larger = unit + 1 < UNITS.len() && fj / scale >= 1000.0;
        if larger {
            format!("{} {}", shortest(&format!("{:.3}", fj / scale / 1000.0)), UNITS[unit + 1])
        } else {
            shown(fj)
        }
    };
    let (low, middle, high) = (bound(low), shown(middle), bound(high));
    if low == high {
        format!("{middle} {}", UNITS[unit])
    } else {
        format!("{middle} {} ({low} to {high})", UNITS[unit])
    }
}

/// At least three significant digits, without trailing zeros.
fn shortest(text: &str) -> String {
    let Ok(number) = text.parse::<f64>() else { return text.to_owned() };
    let decimals = match number {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

pub(crate) fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
}

pub(crate) fn with_unit(unit: Unit, value: &Value) -> String {
    let text = written(unit, value);
    match unit {
        _ if value.is_null() => text,
        Unit::Cycles => format!("{text} cycles"),
        Unit::Share => format!("{text} %"),
        Unit::Real(name, _) if !name.is_empty() => format!("{text} {name}"),
        _ => text,
    }
}

/// The label, with the unit unless it ends with it.
pub(crate) fn head(field: &Field) -> String {
    let unit = match field.unit {
        Unit::Share => "%",
        Unit::Real(name, _) => name,
        _ => "",
    };
    if unit.is_empty() || field.label.ends_with(unit) {
        field.label.to_owned()
    } else {
        format!("{} {unit}", field.label)
    }
}
