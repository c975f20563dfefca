//! Operands of a product from files, and its results into one: `.safetensors` and `.npy`.

use anyhow::Context;
use ndp_files::OutputFile;
use ndp_model::RoundedWeights;
use ndp_model::loader::to_fp16;
use ndp_numerics::f16;
use npyz::{DType, NpyFile, Order, WriterBuilder};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest file: 4 GiB.
const MAX_BYTES: u64 = 4 << 30;

/// Name of the results in a `.safetensors` file.
const RESULT: &str = "y";

/// A file and, in one of several tensors, which: `FILE[:TENSOR]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    tensor: Option<String>,
}

/// Reads `FILE[:TENSOR]`; a tensor is named behind `.safetensors:` alone.
pub fn source(text: &str) -> Result<Source, String> {
    let (path, tensor) = match text.split_once(".safetensors:") {
        Some((stem, tensor)) => (format!("{stem}.safetensors"), Some(tensor.to_owned())),
        None => (text.to_owned(), None),
    };
    known_format(Path::new(&path))?;
    Ok(Source { path: path.into(), tensor })
}

/// Reads the path of a file for results.
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

/// Numbers of one or two dimensions, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// `[rows x cols]`.
    pub values: Vec<f16>,
    /// What was not FP16.
    pub rounded: RoundedWeights,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.tensor.is_some() { ":" } else { "" };
        write!(f, "{}{colon}{}", self.path.display(), self.tensor.as_deref().unwrap_or_default())
    }
}

impl Source {
    /// Reads the numbers; a tensor need not be named if the file has one alone.
    pub fn read(&self) -> anyhow::Result<Numbers> {
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

fn of_safetensors(bytes: &[u8], name: Option<&str>) -> anyhow::Result<Numbers> {
    let file = SafeTensors::deserialize(bytes)?;
    let mut names = file.names();
    names.sort_unstable();
    let shown = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, names) => bail!("it has {} tensors; name one as FILE:TENSOR: {}", names.len(), shown(names)),
    };
    let Ok(view) = file.tensor(name) else { bail!("there is no such tensor; there are: {}", shown(&names)) };
    let mut rounded = RoundedWeights::default();
    let Some(values) = to_fp16(view.dtype(), view.data(), &mut rounded) else {
        bail!("its elements are {:?}, expected F16, BF16 or F32", view.dtype());
    };
    numbers(view.shape(), values, rounded)
}

fn of_npy(bytes: &[u8]) -> anyhow::Result<Numbers> {
    let file = NpyFile::new(bytes)?;
    let dtype = file.dtype();
    ensure!(file.order() == Order::C || file.shape().len() < 2, "its order is Fortran's, expected C's");
    let shape: Vec<usize> = file.shape().iter().map(|&size| size as usize).collect();
    let mut rounded = RoundedWeights::default();
    let kind = match &dtype {
        DType::Plain(kind) => kind.to_string(),
        other => other.descr(),
    };
    let values: Vec<f16> = match kind.as_str() {
        "<f2" => file.into_vec::<f16>()?,
        "<f4" => file.into_vec::<f32>()?.into_iter().map(|value| rounded.round(value)).collect(),
        _ => bail!("its elements are {kind}, expected float16 (<f2) or float32 (<f4)"),
    };
    numbers(&shape, values, rounded)
}

fn numbers(shape: &[usize], values: Vec<f16>, rounded: RoundedWeights) -> anyhow::Result<Numbers> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] => (rows, cols),
        _ => bail!("its shape is {shape:?}, expected one or two dimensions"),
    };
    ensure!(rows * cols > 0, "its shape is {shape:?}, which has no elements");
    ensure!(values.len() == rows * cols, "it has {} elements, its shape says {shape:?}", values.len());
    Ok(Numbers { rows, cols, values, rounded })
}

/// Writes results `[rows x cols]` in FP16.
pub fn write(
    path: &Path,
    file: OutputFile,
    (rows, cols): (usize, usize),
    bits: &[u16],
) -> anyhow::Result<()> {
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
