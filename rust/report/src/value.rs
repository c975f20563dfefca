//! The value of a result: verdict, figures, tables, charts and provenance. [`Report`] is built once; text, JSON, CSV and HTML are made from it.
//!
//! Numbers come in as [`Values`]. A [`Field`] gives each key a name, a unit and a meaning. A key without a field is an error when the report is rendered, so that the schema ([`Report::schema`]) lists every JSON path.

use crate::values::{Values, parsed, unknown};
use serde::Serialize;
use serde_json::{Map, Value};

/// The unit of a number, which decides how people see it. JSON and CSV have the bare number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// A name, a text or a flag.
    Text,
    Count,
    /// Clock cycles.
    Cycles,
    /// A part of 1, written in percent.
    Share,
    /// Bytes, written in kB, MB or GB.
    Bytes,
    /// Femtojoules, as `{low_fj, fj, high_fj}`.
    Energy,
    /// A unit with this name, and decimals.
    Real(&'static str, usize),
    /// A number with four significant digits, in the unit that another column names.
    Digits,
    /// An object or a list that another page describes.
    Data,
}

impl Unit {
    /// Returns the unit's name in the schema.
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

/// Where a field is written for people. JSON has all of them, and CSV all columns.
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

/// A key of the JSON that a command prints: a figure or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Path from the figures, or from a row: names with dots between them.
    pub key: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    /// Meaning, in a sentence without its end.
    pub meaning: &'static str,
    /// Forms that show the field.
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

/// Figures below one key. Figures of the report itself stand at the top.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub key: &'static str,
    pub title: &'static str,
    pub fields: Vec<Field>,
    pub level: Level,
}

/// A table: an array of objects below one key.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub key: &'static str,
    pub title: &'static str,
    pub columns: Vec<Field>,
    pub level: Level,
    /// Column whose shares are drawn as bars.
    pub bars: Option<&'static str>,
    /// Columns that divide the rows into sections: all of them on the page, the first one in text. Empty if there is one section.
    pub by: &'static [&'static str],
}

/// A chart over a table.
#[derive(Clone, Debug)]
pub struct Chart {
    pub table: &'static str,
    /// Title: a sentence about the content.
    pub title: String,
    /// Caption: a sentence about what a reader should notice.
    pub caption: String,
    pub kind: ChartKind,
}

impl Chart {
    /// A chart over the table of this key.
    pub fn new(
        table: &'static str,
        title: impl Into<String>,
        caption: impl Into<String>,
        kind: ChartKind,
    ) -> Self {
        Self { table, title: title.into(), caption: caption.into(), kind }
    }
}

/// Marks of a chart. Columns are named by their keys; several keys with commas between them name a row together.
#[derive(Clone, Debug)]
pub enum ChartKind {
    /// A horizontal bar for each row.
    Rows { label: &'static str, value: &'static str },
    /// Parts on top of each other, a row for each part.
    Stacks {
        /// Column of the whole's name.
        label: &'static str,
        /// Column of the part's name.
        part: &'static str,
        /// Column of heights, and the factor to the unit of the axis.
        value: (&'static str, f64),
        /// Name of the axis, with the unit.
        axis: &'static str,
    },
    /// Columns on top of each other, a bar for each row.
    Columns {
        label: &'static str,
        parts: Vec<&'static str>,
        /// Factor to the unit of the axis.
        factor: f64,
        /// Name of the axis, with the unit.
        axis: &'static str,
    },
    /// A line for each value of a column.
    Lines {
        /// Column of places, and whether the axis shows their powers of ten.
        x: (&'static str, bool),
        /// Column of heights, and the factor to the unit of the axis.
        y: (&'static str, f64),
        /// Column that names the line, and the words around the name.
        series: (&'static str, &'static str, &'static str),
        /// Names of the axes, with the units.
        axes: [&'static str; 2],
        /// A height to compare with.
        reference: Option<(&'static str, f64)>,
    },
    /// A picture that is drawn already.
    Drawn(String),
}

/// Long tables that only the page has. Each is folded into a line; a click on a row puts its values into the commands.
#[derive(Clone, Debug)]
pub struct Folds {
    pub title: &'static str,
    pub text: String,
    /// For each command: its purpose, the command, and its options.
    pub commands: Vec<(&'static str, String, &'static str)>,
    /// Words of the options in whose places a click on a row puts the row's values.
    pub names: &'static [&'static str],
    pub head: &'static [&'static str],
    pub folds: Vec<Fold>,
}

/// A long table: the line that opens it; cells of each row, and its values in the order of the names, or none.
#[derive(Clone, Debug)]
pub struct Fold {
    pub summary: String,
    pub rows: Vec<(Vec<String>, Vec<String>)>,
}

/// A part of the report after its first lines, in order.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Group(Group),
    Table(Table),
    Chart(Chart),
    Folds(Folds),
}

/// The result of a command.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Report {
    pub(crate) command: &'static str,
    /// Whether all checks passed; `None` if there are none.
    pub(crate) holds: Option<bool>,
    pub(crate) verdict: String,
    pub(crate) reason: Option<String>,
    pub(crate) setting: String,
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Vec<Field>,
    pub(crate) parts: Vec<Part>,
    /// Keys of inputs that are repeated, each with its meaning.
    pub(crate) data: Vec<(&'static str, &'static str)>,
    pub(crate) json: Map<String, Value>,
    pub(crate) again: Option<String>,
    /// A value that could not be kept, or a key without a field.
    pub(crate) fault: Option<String>,
}

impl Report {
    /// The result of a command that checks nothing: the sentence that answers the question.
    pub fn answer(command: &'static str, answer: impl Into<String>) -> Self {
        Self::of(command, None, answer.into())
    }

    /// The result of a command with checks: whether all passed, and the sentence that says so.
    pub fn checked(command: &'static str, holds: bool, verdict: impl Into<String>) -> Self {
        Self::of(command, Some(holds), verdict.into())
    }

    fn of(command: &'static str, holds: Option<bool>, verdict: String) -> Self {
        let json = Map::from_iter([("command".to_owned(), command.into())]);
        Self { command, holds, verdict, json, ..Self::default() }
    }

    /// Adds the reason for the figures: a sentence.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// What ran: model, machine, sizes, seed; a line.
    pub fn setting(mut self, setting: impl Into<String>) -> Self {
        self.setting = setting.into();
        self
    }

    /// An assumption, a refusal or a warning that belongs to the result.
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

    /// Figures below a key, at a level or beyond.
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

    /// A table on the screen.
    pub fn table(self, key: &'static str, title: &'static str, rows: impl Into<Values>) -> Self {
        self.table_at(Level::Screen, None, (key, title), rows)
    }

    /// A table at a level, and the column whose shares are bars.
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

    /// Gives people a section of the last table for each value of these columns; text goes by the first of them. A chart over the table is in the
    /// section that its title names.
    pub fn by(mut self, columns: &'static [&'static str]) -> Self {
        if let Some(Part::Table(table)) = self.parts.last_mut() {
            table.by = columns;
        }
        self
    }

    /// A chart over a table.
    pub fn chart(mut self, chart: Chart) -> Self {
        self.parts.push(Part::Chart(chart));
        self
    }

    /// Long tables of the page.
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

    /// The command that gives this result again.
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

    /// Returns fields and rows, and notes a key that has no field.
    fn known(&mut self, key: &str, Values { fields, rows, fault }: Values) -> (Vec<Field>, Vec<Value>) {
        if let Some(error) = fault {
            self.fault(&format!("'{key}': {error}"));
        }
        if let Some(unknown) = rows.iter().find_map(|row| unknown(row, "", &fields)) {
            self.fault(&format!("'{key}': nothing says what '{unknown}' is"));
        }
        (fields, rows)
    }

    /// The same for figures, which are one object.
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

/// The value at a path. Names may have dots themselves, as keys of configurations do.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    if let Some(found) = value.get(path) {
        return found;
    }
    let splits = path.match_indices('.').map(|(dot, _)| (&path[..dot], &path[dot + 1..]));
    let mut below = splits.filter_map(|(name, rest)| Some(at(value.get(name)?, rest)));
    below.find(|found| !found.is_null()).unwrap_or(&Value::Null)
}

/// A name that is known only when the program runs, such as a metric of the user's, as the name of a field: it lives as long as the program.
pub fn lasting(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// A number with a comma after each three digits.
pub fn grouped(number: u64) -> String {
    thousands(&number.to_string())
}

/// Digits with a comma after each three.
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

/// A number of things: "1 DIMM", "4 DIMMs".
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A value for people, without its unit: the heads of columns have it. A missing one is `-`.
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

/// A number with decimals, its whole part in groups. One that would be written as 0 is `<0.1` or has an exponent.
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

/// Four significant digits; a dash if there is no number.
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

/// Bytes in the unit that leaves one to three digits before the point.
fn bytes(bytes: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)];
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| bytes >= *unit).unwrap_or(("B", 1.0));
    format!("{} {name}", shortest(&(bytes / unit).to_string()))
}

/// Femtojoules in the unit that leaves one to three digits before the point, and the range.
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
    // A bound in a unit of its own where it would be long.
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

/// Three significant digits at least, without zeros at the end.
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

/// Whether there is nothing to show.
pub(crate) fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
}

/// A figure with its unit.
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

/// Head of a column: the label, with the unit if the label does not end with it.
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
