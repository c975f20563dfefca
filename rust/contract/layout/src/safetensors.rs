//! Matrices from a safetensors file into a DIMM.
//!
//! The file is read row by row, so that it may be larger than the host's memory; `ndp-model`'s loader, which needs
//! whole models, reads files at once. The format: eight bytes, little-endian, length of the header; the header, JSON,
//! for each tensor its type, its shape and the range of its bytes behind the header; the bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ndp_numerics::f16;
use serde::Deserialize;

use crate::{DimmMap, LayoutError, PackedBurst, RowSource, pack_matrix};

/// Longest header that is read; the format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TensorInfo {
    /// Element type (`F16`).
    pub dtype: String,
    /// Shape, row-major.
    pub shape: Vec<u64>,
    /// First byte and byte after the last, behind the header.
    pub data_offsets: (u64, u64),
}

impl TensorInfo {
    /// Rows and columns if this is a matrix of FP16 numbers of a size that a layout can have.
    pub fn matrix(&self) -> Option<(u32, u32)> {
        match self.shape[..] {
            [rows, cols] if self.dtype == "F16" && rows > 0 && cols > 0 => {
                Some((rows.try_into().ok()?, cols.try_into().ok()?))
            }
            _ => None,
        }
    }
}

/// An open file and its table of tensors.
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    file: BufReader<File>,
    data_start: u64,
    tensors: BTreeMap<String, TensorInfo>,
}

impl SafetensorsFile {
    /// Opens a file and checks its header: every tensor lies inside the file, and those of FP16 have the bytes of
    /// their shape.
    ///
    /// # Errors
    /// [`LayoutError::Io`], [`LayoutError::Safetensors`].
    pub fn open(path: &Path) -> Result<Self, LayoutError> {
        let io = |source| LayoutError::Io { path: path.to_owned(), source };
        let wrong = |reason: String| LayoutError::Safetensors { path: path.to_owned(), reason };
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let mut file = BufReader::new(file);
        let mut length = [0; 8];
        if bytes < 8 {
            return Err(wrong(format!("{bytes} bytes, at least 8 are expected")));
        }
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        let limit = MAX_HEADER_BYTES.min(bytes - 8);
        if length > limit {
            return Err(wrong(format!("header of {length} bytes, at most {limit} are expected")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(io)?;
        let mut entries: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&header).map_err(|e| wrong(format!("header: {e}")))?;
        entries.remove("__metadata__");
        let data_bytes = bytes - 8 - length;
        let mut tensors = BTreeMap::new();
        for (name, entry) in entries {
            let info: TensorInfo =
                serde_json::from_value(entry).map_err(|e| wrong(format!("tensor {name}: {e}")))?;
            let (start, end) = info.data_offsets;
            if start > end || end > data_bytes {
                return Err(wrong(format!("tensor {name}: bytes {start}..{end} of {data_bytes}")));
            }
            let size = info.shape.iter().try_fold(2u64, |size, dimension| size.checked_mul(*dimension));
            if info.dtype == "F16" && size != Some(end - start) {
                let found = end - start;
                return Err(wrong(format!("tensor {name}: {found} bytes for the shape {:?}", info.shape)));
            }
            tensors.insert(name, info);
        }
        Ok(Self { path: path.to_owned(), file, data_start: 8 + length, tensors })
    }

    /// All tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// The rows of a matrix.
    ///
    /// # Errors
    /// [`LayoutError::Safetensors`] if there is no FP16 matrix of this name.
    pub fn rows(&mut self, name: &str) -> Result<TensorRows<'_>, LayoutError> {
        let info = self.tensors.get(name);
        let Some((info, (rows, cols))) = info.and_then(|info| Some((info, info.matrix()?))) else {
            let reason = match info {
                Some(info) => format!("tensor {name} is {} {:?}, not an F16 matrix", info.dtype, info.shape),
                None => format!("tensor {name} is missing"),
            };
            return Err(LayoutError::Safetensors { path: self.path.clone(), reason });
        };
        let start = self.data_start + info.data_offsets.0;
        Ok(TensorRows { file: self, start, rows, cols, next: None, bytes: Vec::new() })
    }
}

/// The rows of one matrix of a file.
#[derive(Debug)]
pub struct TensorRows<'a> {
    file: &'a mut SafetensorsFile,
    start: u64,
    rows: u32,
    cols: u32,
    /// The row at the file's position.
    next: Option<u32>,
    bytes: Vec<u8>,
}

impl RowSource for TensorRows<'_> {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn cols(&self) -> u32 {
        self.cols
    }

    fn read_row(&mut self, row: u32, into: &mut [f16]) -> Result<(), LayoutError> {
        let path = &self.file.path;
        let io = |source| LayoutError::Io { path: path.clone(), source };
        if self.next != Some(row) {
            let place = self.start + u64::from(row) * u64::from(self.cols) * 2;
            self.file.file.seek(SeekFrom::Start(place)).map_err(io)?;
        }
        self.bytes.resize(self.cols as usize * 2, 0);
        self.file.file.read_exact(&mut self.bytes).map_err(io)?;
        self.next = Some(row + 1);
        let (pairs, _) = self.bytes.as_chunks::<2>();
        for (value, pair) in into.iter_mut().zip(pairs) {
            *value = f16::from_bits(u16::from_le_bytes(*pair));
        }
        Ok(())
    }
}

/// Places every FP16 matrix of a file and hands its bursts to `sink`; returns their names, in the order of placement.
///
/// Everything is placed before the first burst is written: if one matrix does not fit, nothing is.
///
/// # Errors
/// What [`SafetensorsFile::open`], [`DimmMap::add_matrix`] and reading report.
pub fn load_matrices(
    path: &Path,
    map: &mut DimmMap,
    sink: &mut dyn FnMut(PackedBurst),
) -> Result<Vec<String>, LayoutError> {
    let mut file = SafetensorsFile::open(path)?;
    let mut placed = map.clone();
    let mut layouts = Vec::new();
    for (name, info) in &file.tensors {
        if let Some((rows, cols)) = info.matrix() {
            layouts.push((name.clone(), placed.add_matrix(name, rows, cols)?));
        }
    }
    for (name, layout) in &layouts {
        pack_matrix(layout, &mut file.rows(name)?, sink)?;
    }
    *map = placed;
    Ok(layouts.into_iter().map(|(name, _)| name).collect())
}
