//! Fields with values: figures, and rows of a table. [`figures!`](crate::figures) and [`rows!`](crate::rows) declare
//! both together, [`fields!`](crate::fields) the fields of a struct.

use crate::Field;
use serde::Serialize;
use serde_json::{Map, Value};

/// Declares fields, one per line: key, label, unit, level and meaning.
///
/// ```
/// ndp_report::fields! { RUN
///     "cycles" "cycles" {Cycles} Head: "core cycles of the run";
///     "share" "share" {Share} Verbose: "part of all cycles";
/// }
/// assert_eq!(RUN[1].meaning, "part of all cycles");
/// ```
#[macro_export]
macro_rules! fields {
    ($visibility:vis $name:ident $($key:literal $label:literal {$unit:expr} $level:ident: $meaning:literal;)+) => {
        $visibility const $name: &[$crate::Field] = &[$({
            #[allow(unused_imports)]
            use $crate::Unit::*;
            $crate::Field { key: $key, label: $label, unit: $unit, meaning: $meaning, level: $crate::Level::$level }
        }),+];
    };
}

/// Figures: fields as for [`fields!`](crate::fields), with values. A value whose parts have fields only has a key, and
/// such parts have no value. Structs after two dots come first, and supply their keys.
///
/// ```
/// let (cycles, busy) = (8_u64, [1, 2]);
/// let figures = ndp_report::figures! {
///     "cycles" "cycles" {Cycles} Head: "core cycles of the run" = cycles;
///     "busy" "" {Data} Json: "busy cycles of each unit" = busy;
/// };
/// assert!(ndp_report::Report::answer("run", "done").figures(figures).json().unwrap().contains("\"cycles\": 8"));
/// ```
#[macro_export]
macro_rules! figures {
    ($($entries:tt)*) => {{
        let mut values = $crate::Values::default();
        $crate::entries!(@fields values $($entries)*);
        values.begin();
        $crate::entries!(@values values $($entries)*);
        values
    }};
}

/// Rows of a table, one per item, with entries as in [`figures!`](crate::figures).
///
/// ```
/// let rows = ndp_report::rows! { [3_u64, 5].iter().enumerate() => |(dimm, cycles)|
///     "dimm" "DIMM" {Count} Screen: "number of the DIMM, from 0" = dimm;
///     "cycles" "cycles" {Cycles} Screen: "core cycles of its programs" = cycles;
/// };
/// let report = ndp_report::Report::answer("run", "done").table("dimms", "DIMMs", rows);
/// assert!(report.json().unwrap().contains("\"cycles\": 5"));
/// ```
#[macro_export]
macro_rules! rows {
    ($rows:expr => |$row:pat_param| $($entries:tt)*) => {{
        let mut values = $crate::Values::default();
        $crate::entries!(@fields values $($entries)*);
        for $row in $rows {
            values.begin();
            $crate::entries!(@values values $($entries)*);
        }
        values
    }};
}

/// Fields or values of [`figures!`](crate::figures) and [`rows!`](crate::rows).
#[doc(hidden)]
#[macro_export]
macro_rules! entries {
    (@fields $values:ident
        $(let $name:pat_param = $local:expr;)* $(.. $keys:expr;)*
        $($key:literal $($label:literal {$unit:expr} $level:ident: $meaning:literal)? $(= $value:expr)?;)*
    ) => {
        $($($values.field({
            #[allow(unused_imports)]
            use $crate::Unit::*;
            $crate::Field { key: $key, label: $label, unit: $unit, meaning: $meaning, level: $crate::Level::$level }
        });)?)*
    };
    (@values $values:ident
        $(let $name:pat_param = $local:expr;)* $(.. $keys:expr;)*
        $($key:literal $($label:literal {$unit:expr} $level:ident: $meaning:literal)? $(= $value:expr)?;)*
    ) => {
        $(let $name = $local;)*
        $($values.keys(&$keys);)*
        $($($values.put($key, &$value);)?)*
    };
}

/// A key that is omitted without a value, among the structs of [`figures!`](crate::figures).
pub fn optional<T: Serialize>(key: &'static str, value: &Option<T>) -> impl Serialize {
    value.as_ref().map(|value| (key, value)).into_iter().collect::<std::collections::BTreeMap<_, _>>()
}

/// Figures or rows with a field per key, from [`figures!`](crate::figures), [`rows!`](crate::rows), or structs and
/// fields.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub(crate) fields: Vec<Field>,
    pub(crate) rows: Vec<Value>,
    pub(crate) fault: Option<String>,
}

impl Values {
    pub fn field(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// Adds fields of a struct's keys.
    #[must_use]
    pub fn with(mut self, fields: &[Field]) -> Self {
        self.fields.extend_from_slice(fields);
        self
    }

    pub fn begin(&mut self) {
        self.rows.push(Value::Object(Map::new()));
    }

    /// Sets a value of the last row.
    pub fn put(&mut self, key: &str, value: &impl Serialize) {
        match (parsed(value), self.rows.last_mut()) {
            (Ok(value), Some(row)) => row[key] = value,
            (Err(error), _) => self.fault = Some(error.to_string()),
            _ => {}
        }
    }

    /// Adds a struct's keys to the last row.
    pub fn keys(&mut self, of: &impl Serialize) {
        match (parsed(of), self.rows.last_mut()) {
            (Ok(Value::Object(keys)), Some(Value::Object(row))) => row.extend(keys),
            (Ok(_), _) => self.fault = Some("no struct".to_owned()),
            (Err(error), _) => self.fault = Some(error.to_string()),
        }
    }

    /// Numbers of a column; rows without one are skipped.
    pub fn numbers(&self, key: &str) -> impl Iterator<Item = f64> {
        self.rows.iter().filter_map(move |row| row.get(key)?.as_f64())
    }

    /// Figures as one value, for another's field.
    pub fn object(&self) -> Option<&Value> {
        self.rows.first()
    }

    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

/// All rows have the same fields; without rows there are none.
impl FromIterator<Self> for Values {
    fn from_iter<T: IntoIterator<Item = Self>>(rows: T) -> Self {
        let mut all = Self::default();
        for one in rows {
            if all.fields.is_empty() {
                all.fields = one.fields;
            }
            all.rows.extend(one.rows);
            all.fault = all.fault.or(one.fault);
        }
        all
    }
}

impl From<Vec<Self>> for Values {
    fn from(rows: Vec<Self>) -> Self {
        rows.into_iter().collect()
    }
}

impl<F: AsRef<[Field]> + ?Sized, T: Serialize + ?Sized> From<(&F, &T)> for Values {
    fn from((fields, of): (&F, &T)) -> Self {
        let (rows, fault) = match parsed(of) {
            Ok(Value::Array(rows)) => (rows, None),
            Ok(figures) => (vec![figures], None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Self { fields: fields.as_ref().to_vec(), rows, fault }
    }
}

/// JSON by way of text: numbers above 64 bits become fractions.
pub(crate) fn parsed(of: &(impl Serialize + ?Sized)) -> serde_json::Result<Value> {
    serde_json::from_str(&serde_json::to_string(of)?)
}

/// First path without a field.
pub(crate) fn unknown(value: &Value, path: &str, fields: &[Field]) -> Option<String> {
    let Value::Object(members) = value else { return Some(path.to_owned()) };
    members.iter().find_map(|(name, value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let known = fields.iter().any(|field| field.key == path);
        if known { None } else { unknown(value, &path, fields) }
    })
}

#[cfg(test)]
mod tests {
    use crate::{Level, Report};

    #[test]
    fn figures_are_one_object() {
        let none = || std::iter::empty::<u64>();
        let rows = rows! { none() => |cycles| "cycles" "cycles" {Cycles} Screen: "core cycles" = cycles; };
        let report = || Report::answer("test", "done");
        assert!(report().table("rows", "Rows", rows.clone()).check().is_ok());
        for wrong in [report().figures(rows.clone()), report().group(Level::Screen, ("group", "Group"), rows)]
        {
            assert!(wrong.check().unwrap_err().to_string().ends_with("the figures are no object"));
        }
        let once = figures! { "cycles" "cycles" {Cycles} Screen: "core cycles" = 3; };
        assert_eq!(once.object().unwrap()["cycles"], 3);
        assert!(report().figures(once).check().is_ok());
    }
}
