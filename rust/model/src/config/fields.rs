//! Fields of a `config.json`: each family takes its own, and [`super::others`] judges the rest.

use std::fmt::Display;
use std::path::Path;

use ndp_files::{Error, Result, refusal};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

pub(super) struct Fields<'a> {
    path: &'a Path,
    values: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// `path` is for messages.
    pub(super) fn new(path: &'a Path, values: Map<String, Value>) -> Self {
        Self { path, values }
    }

    /// Takes a field; absent and null are `None`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, field: &str) -> Result<Option<T>> {
        let value = self.values.remove(field).filter(|value| !value.is_null());
        value.map(|value| self.typed(field, value)).transpose()
    }

    /// Takes a field that has to be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, field: &str) -> Result<T> {
        match self.values.remove(field) {
            Some(value) => self.typed(field, value),
            None => Err(self.invalid(format!("missing field `{field}`"))),
        }
    }

    /// Takes a field that is absent, null or `expected`.
    pub(super) fn require<T>(&mut self, field: &'static str, expected: T) -> Result<()>
    where
        T: DeserializeOwned + PartialEq + Display,
    {
        super::require(field, self.take(field)?, expected)
    }

    /// Sets a field, for a reader that takes it later.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.values.insert(field.to_owned(), value.into());
    }

    /// Fields that nobody took.
    pub(super) fn others(&self) -> &Map<String, Value> {
        &self.values
    }

    fn typed<T: DeserializeOwned>(&self, field: &str, value: Value) -> Result<T> {
        serde_json::from_value(value).map_err(|error| self.invalid(format!("{field}: {}", plain(&error))))
    }

    fn invalid(&self, reason: String) -> Error {
        Error::new(serde_json::Error::custom(reason)).context(format!("{} is not valid", self.path.display()))
    }
}

pub(super) fn unsupported(field: &'static str, found: impl Display, expected: impl Display) -> Error {
    refusal!("config: {field} = {found}, expected {expected}")
}

/// Replaces Rust's types in serde's message.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.replace("expected f64", "expected a number").replace("expected usize", "expected a whole number")
}
