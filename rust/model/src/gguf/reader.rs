//! Bytes of a GGUF file, version 2 or 3: header, metadata, and places of the tensors. All numbers are little-endian.
//!
//! Each count, length and offset is checked against the bytes that are left before anything is allocated for it.

use std::collections::{BTreeMap, BTreeSet};

use ndp_files::{Context, Result, bail, ensure};

use super::blocks::{Kind, kind};
use super::value::{Array, Value};

pub(super) const MAGIC: &[u8] = b"GGUF";

/// Alignment of tensors without `general.alignment`, in bytes.
const ALIGNMENT: u64 = 32;

/// Most dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;

/// Fewest bytes of a metadata entry (length of its key, one letter, type, a byte) and of a tensor's description
/// (length of its name, one letter, dimensions, one size, type, offset).
const MIN_ENTRY_BYTES: [u64; 2] = [8 + 1 + 4 + 1, 8 + 1 + 4 + 8 + 4 + 8];

/// Longest part of a name in a message, in characters.
const SHOWN: usize = 80;

/// The name of a key or tensor, escaped and cut for a message.
pub(super) fn shown(name: &str) -> String {
    let more = if name.chars().count() > SHOWN { "..." } else { "" };
    format!("{}{more}", name.chars().take(SHOWN).collect::<String>().escape_debug())
}

/// Position in the bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let (at, left) = (self.at, self.left());
        ensure!(len <= left, "expected {len} bytes at byte {at}, found {left} before the end of the file");
        self.at += len as usize;
        Ok(&self.bytes[at..self.at])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str> {
        let length = self.u64()?;
        let at = self.at;
        let bytes = self.take(length).context("text")?;
        std::str::from_utf8(bytes)
            .map_err(|error| ndp_files::refusal!("text at byte {at} is not UTF-8: {error}"))
    }

    /// Number of entries; `least` is the size of the smallest entry in bytes.
    fn count(&mut self, what: &str, least: u64) -> Result<u64> {
        let count = self.u64().context(format!("number of {what}"))?;
        let most = self.left() / least;
        ensure!(count <= most, "number of {what} = {count}, but the file has room for at most {most}");
        Ok(count)
    }

    /// Elements of an array; [`Array`] reads them later.
    pub(super) fn elements(&mut self) -> Result<Array<'a>> {
        let (kind, count) = (self.u32()?, self.u64()?);
        let start = self.at;
        match Value::size(kind) {
            Some(size) => {
                let left = self.left();
                let Some(bytes) = count.checked_mul(size).filter(|bytes| *bytes <= left) else {
                    bail!("array of {count} elements of {size} bytes, but the file has {left} bytes left");
                };
                self.take(bytes)?;
            }
            None if kind == Value::TEXT => {
                for _ in 0..count {
                    self.text()?;
                }
            }
            None => bail!("array of elements of type {kind}, expected numbers, booleans or texts"),
        }
        Ok(Array { kind, count, bytes: &self.bytes[start..self.at] })
    }
}

/// Description of a tensor, and its bytes.
#[derive(Debug, Clone)]
pub(super) struct Tensor<'a> {
    pub(super) kind: &'static Kind,
    /// Sizes, slowest dimension first (the file stores the fastest first).
    pub(super) shape: Vec<usize>,
    pub(super) bytes: &'a [u8],
}

/// A parsed file.
pub(super) struct File<'a> {
    pub(super) metadata: BTreeMap<&'a str, Value<'a>>,
    pub(super) tensors: BTreeMap<&'a str, Tensor<'a>>,
}

/// A tensor before the place of the data is known.
struct Described<'a> {
    name: &'a str,
    kind: &'static Kind,
    shape: Vec<usize>,
    /// Relative to the beginning of the data.
    offset: u64,
    bytes: u64,
}

impl<'a> File<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(MAGIC.len() as u64)?;
        ensure!(magic == MAGIC, "the file begins with '{}', expected 'GGUF'", magic.escape_ascii());
        let version = reader.u32().context("version")?;
        ensure!(matches!(version, 2 | 3), "version = {version}, expected 2 or 3, little-endian");
        let [entry, description] = MIN_ENTRY_BYTES;
        let tensors = reader.count("tensors", description)?;
        let entries = reader.count("metadata entries", entry)?;
        let mut metadata = BTreeMap::new();
        for number in 0..entries {
            let key = reader.text().with_context(|| format!("key of metadata entry {number}"))?;
            ensure!(!key.is_empty(), "metadata entry {number} has an empty key");
            let value = Value::read(&mut reader).with_context(|| format!("metadata {}", shown(key)))?;
            ensure!(metadata.insert(key, value).is_none(), "metadata {} appears twice", shown(key));
        }
        let described: Vec<Described<'_>> = (0..tensors)
            .map(|number| {
                let name = reader.text().with_context(|| format!("name of tensor {number}"))?;
                Described::read(name, &mut reader).with_context(|| format!("tensor {}", shown(name)))
            })
            .collect::<Result<_>>()?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(value) => value.unsigned("general.alignment")?,
        };
        ensure!(
            alignment >= 8 && alignment.is_power_of_two(),
            "metadata general.alignment = {alignment}, expected a power of two, at least 8"
        );
        let start = (reader.at as u64).checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let data = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
        Ok(Self { metadata, tensors: place(described, data, start, alignment)? })
    }
}

impl<'a> Described<'a> {
    fn read(name: &'a str, reader: &mut Reader<'a>) -> Result<Self> {
        let dimensions = reader.u32()?;
        ensure!(
            (1..=MAX_DIMENSIONS).contains(&dimensions),
            "dimensions = {dimensions}, expected 1..={MAX_DIMENSIONS}"
        );
        let mut sizes = (0..dimensions).map(|_| reader.u64()).collect::<Result<Vec<_>>>()?;
        let kind = kind(reader.u32()?)?;
        let offset = reader.u64()?;
        ensure!(sizes.iter().all(|size| *size > 0), "sizes {sizes:?}, expected at least 1 each");
        ensure!(
            sizes[0].is_multiple_of(kind.elements),
            "rows of {} elements, expected a multiple of {} ({})",
            sizes[0],
            kind.elements,
            kind.name
        );
        let elements = sizes.iter().try_fold(1, |all: u64, size| all.checked_mul(*size));
        let bytes = elements.and_then(|all| (all / kind.elements).checked_mul(kind.bytes));
        let Some(bytes) = bytes else { bail!("sizes {sizes:?} have more than 2^64 bytes") };
        sizes.reverse();
        let shape = sizes.iter().map(|size| usize::try_from(*size)).collect::<Result<_, _>>()?;
        Ok(Self { name, kind, shape, offset, bytes })
    }
}

/// Finds the bytes of each tensor. Tensors that share bytes are refused: a small file would fill the memory.
fn place<'a>(
    described: Vec<Described<'a>>,
    data: &'a [u8],
    start: u64,
    alignment: u64,
) -> Result<BTreeMap<&'a str, Tensor<'a>>> {
    let mut ranges = BTreeSet::new();
    let mut tensors = BTreeMap::new();
    for Described { name, kind, shape, offset, bytes } in described {
        ensure!(
            offset.is_multiple_of(alignment),
            "tensor {}: offset = {offset}, expected a multiple of {alignment}",
            shown(name)
        );
        let end = offset.checked_add(bytes).filter(|end| *end <= data.len() as u64);
        let Some(end) = end else {
            bail!(
                "tensor {}: {bytes} bytes at offset {offset}, but the file has {} bytes from byte {start} to its end",
                shown(name),
                data.len()
            );
        };
        ranges.insert((offset, end, name));
        let tensor = Tensor { kind, shape, bytes: &data[offset as usize..end as usize] };
        ensure!(tensors.insert(name, tensor).is_none(), "tensor {} appears twice", shown(name));
    }
    let mut before: Option<(u64, &str)> = None;
    for (offset, end, name) in ranges {
        if let Some((last, other)) = before.filter(|(last, _)| *last > offset) {
            bail!(
                "tensor {} begins at offset {offset}, but tensor {} ends at {last}",
                shown(name),
                shown(other)
            );
        }
        before = Some((end, name));
    }
    Ok(tensors)
}
