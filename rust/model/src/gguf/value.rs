//! Values of a GGUF file's metadata.

use ndp_files::{Result, bail, ensure};

use super::reader::Reader;

/// A value; integers and floating-point numbers of all widths share a variant each.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Integer(i128),
    Number(f64),
    Boolean(bool),
    Text(&'a str),
    Array(Array<'a>),
}

/// Elements that have been checked to be complete, but not read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Array<'a> {
    pub(super) kind: u32,
    pub(super) count: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> Value<'a> {
    pub(super) const TEXT: u32 = 8;

    /// Bytes of a value of this type; `None` for texts, arrays and unknown types.
    pub(super) fn size(kind: u32) -> Option<u64> {
        match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        }
    }

    /// Reads a type and a value of it.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let kind = u32::from_le_bytes(reader.array()?);
        if kind == 9 { reader.elements().map(Value::Array) } else { Self::of_kind(kind, reader) }
    }

    fn of_kind(kind: u32, reader: &mut Reader<'a>) -> Result<Self> {
        Ok(match kind {
            0 => Self::Integer(u8::from_le_bytes(reader.array()?).into()),
            1 => Self::Integer(i8::from_le_bytes(reader.array()?).into()),
            2 => Self::Integer(u16::from_le_bytes(reader.array()?).into()),
            3 => Self::Integer(i16::from_le_bytes(reader.array()?).into()),
            4 => Self::Integer(u32::from_le_bytes(reader.array()?).into()),
            5 => Self::Integer(i32::from_le_bytes(reader.array()?).into()),
            6 => Self::Number(decimal(f32::from_le_bytes(reader.array()?))),
            7 => match reader.array()? {
                [0] => Self::Boolean(false),
                [1] => Self::Boolean(true),
                [other] => bail!("boolean = {other}, expected 0 or 1"),
            },
            Self::TEXT => Self::Text(reader.text()?),
            10 => Self::Integer(u64::from_le_bytes(reader.array()?).into()),
            11 => Self::Integer(i64::from_le_bytes(reader.array()?).into()),
            12 => Self::Number(f64::from_le_bytes(reader.array()?)),
            _ => bail!("type = {kind}, expected 0..=12"),
        })
    }

    pub(super) fn unsigned(&self, key: &str) -> Result<u64> {
        match self {
            Self::Integer(value) if u64::try_from(*value).is_ok() => Ok(*value as u64),
            _ => Err(self.unexpected(key, "a whole number, at least 0")),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<f64> {
        match self {
            Self::Number(value) if value.is_finite() => Ok(*value),
            Self::Integer(value) => Ok(*value as f64),
            _ => Err(self.unexpected(key, "a finite number")),
        }
    }

    pub(super) fn boolean(&self, key: &str) -> Result<bool> {
        match self {
            Self::Boolean(value) => Ok(*value),
            _ => Err(self.unexpected(key, "true or false")),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(self.unexpected(key, "a text")),
        }
    }

    /// The value as an array; any other value is refused.
    fn array(&self, key: &str) -> Result<&Array<'a>> {
        match self {
            Self::Array(array) => Ok(array),
            _ => Err(self.unexpected(key, "an array")),
        }
    }

    /// Texts of an array. A text has at least 8 bytes in the file, so the vector is at most twice as large.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        let Array { kind, count, bytes } = *self.array(key)?;
        ensure!(kind == Self::TEXT, "metadata {key} = {self}, expected an array of texts");
        let mut reader = Reader::new(bytes);
        (0..count).map(|_| reader.text()).collect()
    }

    /// Exactly `len` elements of an array, each read by `element`.
    pub(super) fn elements<T>(
        &self,
        key: &str,
        len: usize,
        element: impl Fn(&Value<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Array { kind, count, bytes } = *self.array(key)?;
        ensure!(
            count == len as u64,
            "metadata {key} has {count} elements, expected {len}, one for each token"
        );
        let mut reader = Reader::new(bytes);
        (0..count).map(|_| element(&Self::of_kind(kind, &mut reader)?)).collect()
    }

    /// Refusal of a value.
    pub(super) fn unexpected(&self, key: &str, expected: &str) -> ndp_files::Error {
        ndp_files::refusal!("metadata {key} = {self}, expected {expected}")
    }
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{}", super::reader::shown(text)),
            Self::Array(array) => write!(f, "(array of {} elements)", array.count),
        }
    }
}

/// The shortest decimal number that rounds to `value`: a file's 1e-5 is the nearest `f32`, but means 1e-5.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}
