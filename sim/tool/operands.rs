//! Operands of a product from files, and results to files: `.safetensors` and `.npy`.

use crate::prelude::*;
use ndp_config::nearest;
use ndp_model::RoundedWeights;
use ndp_model::loader::to_fp16;
use ndp_numerics::f16;
use npyz::{DType, NpyFile, NpyHeader, Order, WriterBuilder};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::fmt;

const MAX_BYTES: u64 = 4 << 30;

/// Most elements: a file of [`MAX_BYTES`] in FP16.
const MAX_ELEMENTS: usize = (MAX_BYTES / 2) as usize;

/// Most tensors that a message lists.
const SHOWN: usize = 20;

/// Tensor of the results in a `.safetensors` file.
const RESULT: &str = "y";

/// A file or a tensor in it: `FILE[:TENSOR]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    tensor: Option<String>,
}

/// Parses `FILE[:TENSOR]`. Only `.safetensors` may be followed by a tensor.
pub fn source(text: &str) -> Result<Source, String> {
    let (path, tensor) = match text.split_once(".safetensors:") {
        Some((stem, tensor)) => (format!("{stem}.safetensors"), Some(tensor.to_owned())),
        None => (text.to_owned(), None),
    };
    known_format(Path::new(&path))?;
    Ok(Source { path: path.into(), tensor })
}

pub fn target(text: &str) -> Result<PathBuf, String> {
    known_format(Path::new(text)).map(|()| text.into())
}

fn known_format(path: &Path) -> Result<(), String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("safetensors" | "npy") => Ok(()),
        _ => Err(format!("'{}' must end in .safetensors or .npy", path.display())),
    }
}

/// A vector or matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Number of rows; 1 for a vector.
    pub rows: usize,
    pub cols: usize,
    /// `[rows x cols]`.
    pub values: Vec<f16>,
    /// Numbers that had to be rounded to FP16.
    pub rounded: RoundedWeights,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.tensor.is_some() { ":" } else { "" };
        write!(f, "{}{colon}{}", self.path.display(), self.tensor.as_deref().unwrap_or_default())
    }
}

impl Source {
    /// Reads the operand. A file's only tensor needs no name.
    pub fn read(&self) -> Result<Numbers> {
        let context = || match &self.tensor {
            None => format!("cannot use {}", self.path.display()),
            Some(tensor) => format!("cannot use {} of {}", tensor, self.path.display()),
        };
        let bytes = ndp_files::read_bytes(&self.path, MAX_BYTES).with_context(context)?;
        let is_npy = self.path.extension().is_some_and(|extension| extension == "npy");
        let numbers = if is_npy { of_npy(&bytes) } else { of_safetensors(&bytes, self.tensor.as_deref()) };
        numbers.with_context(context)
    }
}

fn of_safetensors(bytes: &[u8], name: Option<&str>) -> Result<Numbers> {
    let file = SafeTensors::deserialize(bytes)?;
    let mut names = file.names();
    names.sort_unstable();
    let shown = |names: &[&str]| match names {
        [] => "none".to_owned(),
        [first @ .., _] if names.len() > SHOWN => format!("{}, ...", first[..SHOWN].join(", ")),
        names => names.join(", "),
    };
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, names) => bail!("it has {} tensors; name one as FILE:TENSOR: {}", names.len(), shown(names)),
    };
    let Ok(view) = file.tensor(name) else {
        bail!("no such tensor; available: {}{}", shown(&names), nearest(name, &names))
    };
    let mut rounded = RoundedWeights::default();
    let Some(values) = to_fp16(view.dtype(), view.data(), &mut rounded) else {
        bail!("its elements are {:?}, expected F16, BF16 or F32", view.dtype());
    };
    numbers(view.shape(), values, rounded)
}

fn of_npy(bytes: &[u8]) -> Result<Numbers> {
    let (header, data) = npy_parts(bytes)?;
    check_npy_header(header)?;
    let header = NpyHeader::from_reader(bytes).map_err(|error| {
        // Later lines show the header.
        let reason = error.to_string();
        refusal!("its header cannot be read: {}", reason.lines().next().unwrap_or_default())
    })?;
    let dtype = header.dtype();
    let kind = match &dtype {
        DType::Plain(kind) => kind.to_string(),
        other => other.descr(),
    };
    let element = match kind.as_str() {
        "<f2" => 2,
        "<f4" => 4,
        _ => bail!("its elements are {kind}, expected float16 (<f2) or float32 (<f4)"),
    };
    let shape = header.shape().iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>()?;
    ensure!(header.order() == Order::C || shape.len() < 2, "its order is Fortran's, expected C's");
    let (rows, cols) = sizes(&shape)?;
    // The shape is bounded, so the products do not wrap.
    let (found, expected) = (data.len(), rows.saturating_mul(cols).saturating_mul(element));
    ensure!(
        found == expected,
        "its shape is {shape:?}, which takes {expected} bytes of {kind}, but {found} bytes follow the header"
    );
    let file = NpyFile::with_header(header, data);
    let mut rounded = RoundedWeights::default();
    let values: Vec<f16> = match element {
        2 => file.into_vec::<f16>()?,
        _ => file.into_vec::<f32>()?.into_iter().map(|value| rounded.round(value)).collect(),
    };
    Ok(Numbers { rows, cols, values, rounded })
}

/// Bound on the header of a `.npy` file in bytes; NumPy writes 118. The library takes quadratic time for a long list.
const MAX_NPY_HEADER: usize = 4096;

/// Checks the form of a header, because the library takes exponential time for nested brackets.
fn check_npy_header(header: &[u8]) -> Result<()> {
    ensure!(
        header.len() <= MAX_NPY_HEADER,
        "its header takes {} bytes, expected at most {MAX_NPY_HEADER}",
        header.len()
    );
    let like = "expected one like {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
    let mut depth = 0_u32;
    for &byte in header {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'\n' => {}
            b'\'' | b'"' | b':' | b',' | b'_' | b'.' | b'<' | b'>' | b'=' | b'|' | b'-' => {}
            _ => bail!("its header has the character '{}', {like}", byte.escape_ascii()),
        }
        ensure!(depth <= 2, "its header has brackets within those of a list, {like}");
    }
    Ok(())
}

/// Header of a `.npy` file, of any length, and the bytes after it.
fn npy_parts(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let Some(&[b0, b1, b2, b3, b4, b5, version, _, low, high]) = bytes.first_chunk::<10>() else {
        bail!("it is not a .npy file: it has {} bytes", bytes.len())
    };
    ensure!(
        [b0, b1, b2, b3, b4, b5] == *b"\x93NUMPY",
        "it is not a .npy file: it does not begin with '\\x93NUMPY'"
    );
    let (start, length) = match (version, bytes.get(10..12)) {
        (1, _) => (10, u32::from_le_bytes([low, high, 0, 0])),
        (_, Some(&[third, fourth])) => (12, u32::from_le_bytes([low, high, third, fourth])),
        _ => (12, u32::MAX),
    };
    let rest = bytes.get(start..).unwrap_or_default();
    rest.split_at_checked(length as usize).ok_or_else(|| {
        refusal!("it is cut off or damaged: its header takes {length} bytes, but {} bytes follow", rest.len())
    })
}

fn numbers(shape: &[usize], values: Vec<f16>, rounded: RoundedWeights) -> Result<Numbers> {
    let (rows, cols) = sizes(shape)?;
    ensure!(values.len() == rows * cols, "it has {} elements, its shape says {shape:?}", values.len());
    Ok(Numbers { rows, cols, values, rounded })
}

fn sizes(shape: &[usize]) -> Result<(usize, usize)> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] => (rows, cols),
        _ => bail!("its shape is {shape:?}, expected one or two dimensions"),
    };
    ensure!(rows > 0 && cols > 0, "its shape is {shape:?}, which has no elements");
    let elements = rows.saturating_mul(cols);
    ensure!(
        elements <= MAX_ELEMENTS,
        "its shape is {shape:?}, which is too large: at most {MAX_ELEMENTS} elements"
    );
    Ok((rows, cols))
}

/// Writes results, `[rows x cols]`, in FP16.
pub fn write(path: &Path, file: OutputFile, (rows, cols): (usize, usize), bits: &[u16]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    if path.extension().is_some_and(|extension| extension == "npy") {
        let values: Vec<f16> = bits.iter().map(|bits| f16::from_bits(*bits)).collect();
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().shape(&[rows as u64, cols as u64]);
        let mut writer = options.writer(&mut bytes).begin_nd()?;
        writer.extend(values)?;
        writer.finish()?;
        return file.finish(|out| out.write_all(&bytes)).with_context(context);
    }
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F16, vec![rows, cols], &bytes)?;
    let bytes = safetensors::serialize([(RESULT, view)], None)?;
    file.finish(|out| out.write_all(&bytes)).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in version 1 of the format.
    fn npy(shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        [&b"\x93NUMPY\x01\0"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn sizes_of_npy_files_are_compared_with_their_bytes() -> Result<()> {
        let refused =
            |bytes: &[u8]| of_npy(bytes).map_err(|error| error.to_string()).err().unwrap_or_default();
        let read = of_npy(&npy("(2, 3)", &[0; 24]))?;
        assert_eq!((read.rows, read.cols, read.values.len()), (2, 3, 6));
        for (bytes, message) in [
            (
                npy("(8, 64)", &[0; 1000]),
                "its shape is [8, 64], which takes 2048 bytes of <f4, but 1000 bytes follow the header",
            ),
            (
                npy("(2,)", &[0; 12]),
                "its shape is [2], which takes 8 bytes of <f4, but 12 bytes follow the header",
            ),
            // Products that are 0 modulo 2^64.
            (
                npy("(8589934592, 2147483648)", &[]),
                "its shape is [8589934592, 2147483648], which is too large: at most 2147483648 elements",
            ),
            (
                npy("(4294967296, 4294967296)", &[0; 8]),
                "its shape is [4294967296, 4294967296], which is too large",
            ),
            (npy("(0, 3)", &[]), "its shape is [0, 3], which has no elements"),
            (b"\x93NUMPY\x01\0".to_vec(), "it is not a .npy file: it has 8 bytes"),
            (b"\x89PNG\r\n\x1a\n....".to_vec(), "it is not a .npy file: it does not begin with '\\x93NUMPY'"),
            (
                b"\x93NUMPY\x02\0\xff\xff\xff\xff{'descr'".to_vec(),
                "its header takes 4294967295 bytes, but 8 bytes follow",
            ),
            (b"\x93NUMPY\x01\0\xff\xff{".to_vec(), "its header takes 65535 bytes, but 1 bytes follow"),
            // Each further bracket would double the time, which is already seconds.
            (npy(&format!("({}", "[".repeat(60)), &[]), "its header has brackets within those of a list"),
            (npy("((2, 3), 4)", &[0; 24]), "its header has brackets within those of a list"),
            (npy("(2, 3 + 0)", &[0; 24]), "its header has the character '+', expected one like {'descr'"),
            (npy("(2, \u{e9})", &[0; 24]), r"its header has the character '\xc3'"),
            (npy(&"(1, ".repeat(2), &[]), "its header has brackets"),
            (
                npy(&format!("({}", "1, ".repeat(1000)), &[]),
                "its header cannot be read: could not parse Python",
            ),
            (npy(&"1, ".repeat(2000), &[]), "its header takes 6054 bytes, expected at most 4096"),
            (
                [&b"\x93NUMPY\x02\0\0\0\x01\0"[..], &[b' '; 1 << 16]].concat(),
                "its header takes 65536 bytes, expected at most 4096",
            ),
        ] {
            let said = refused(&bytes);
            assert!(said.contains(message), "{said}");
        }
        Ok(())
    }

    #[test]
    fn a_source_is_a_file_and_perhaps_a_tensor() {
        let of = |path: &str, tensor: Option<&str>| Source {
            path: path.into(),
            tensor: tensor.map(str::to_owned),
        };
        let named = source("a.b/m.safetensors:layers.0.fc1");
        assert_eq!(named, Ok(of("a.b/m.safetensors", Some("layers.0.fc1"))));
        assert_eq!(named.map(|named| named.to_string()), Ok("a.b/m.safetensors:layers.0.fc1".to_owned()));
        assert_eq!(source("x.npy"), Ok(of("x.npy", None)));
        assert_eq!(source("x.bin"), Err("'x.bin' must end in .safetensors or .npy".to_owned()));
        assert!(source("x.npy:t").is_err() && target("y").is_err() && target("y.npy").is_ok());
    }
}
