//! Reads a model from a directory in Hugging Face's layout: `config.json` and safetensors, in one file or in shards.
//!
//! The only file that touches weights on disk. Every defect of a file is a [`ModelError`] that names file and tensor; what
//! the tensors are for is [`crate::weights`]'s business. Tensors the decoder does not need (a stored copy of the tied
//! head, say) are ignored.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use ndp_numerics::{f16, round_f64};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::{Architecture, DecoderConfig, Model, ModelError, Vocabulary};

const SINGLE_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// Longest header of a file of weights, the format's own limit, and longest index of shards.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The prefix of tensor names that models with a head have, and those without one have not.
fn optional_prefix(config: &DecoderConfig) -> &'static str {
    match config.architecture() {
        Architecture::Opt | Architecture::Llama => "model.",
        Architecture::Falcon => "transformer.",
    }
}

/// What became of weights that are stored in other formats than FP16.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundedWeights {
    /// Weights in BF16 or FP32.
    pub converted: u64,
    /// Those that FP16 does not have: rounded to nearest, ties to even.
    pub changed: u64,
}

/// The part of the shard index that matters: tensor name to file name.
#[derive(Debug, Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

impl Model {
    /// Loads `config.json`, `tokenizer.json` if there is one, and the weights in `dir`: `model.safetensors` if it is there, else the shards
    /// that `model.safetensors.index.json` lists. Tensors are FP16, BF16 or FP32, and finite in FP16: the list of active neurons leaves out
    /// products with zero, which are not zero for an infinite weight (docs/numerics.md).
    ///
    /// Files are read whole, each once; memory peaks at the file bytes plus the model.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        Self::load_counted(dir).map(|(model, _)| model)
    }

    /// As [`Model::load`], and says how many weights were not FP16.
    pub fn load_counted(dir: &Path) -> Result<(Self, RoundedWeights), ModelError> {
        let config = DecoderConfig::load(dir)?;
        let vocabulary = Vocabulary::load(dir, config.vocab_size())?;
        let limit = weight_bytes(&config).saturating_mul(2).saturating_add(MAX_HEADER_BYTES);
        let (single, index) = (dir.join(SINGLE_FILE), dir.join(INDEX_FILE));
        let source = if single.exists() {
            WeightFiles::Single(read(single, limit)?)
        } else if index.exists() {
            WeightFiles::sharded(dir, index, limit)?
        } else {
            return Err(ModelError::NoWeights { dir: dir.to_owned() });
        };
        let parsed = source.parse()?;
        let (prefix, rounded) = (optional_prefix(&config), Cell::new(RoundedWeights::default()));
        let mut model =
            Self::from_tensors(config, |name, shape| parsed.tensor((prefix, name), shape, &rounded))?;
        model.vocabulary = vocabulary;
        Ok((model, rounded.get()))
    }
}

/// Bytes of the parameters of a model in FP32. A file may hold as many again: tensors that are not needed, such as a copy of the head.
fn weight_bytes(config: &DecoderConfig) -> u64 {
    let size = |n: usize| n as u64;
    let (d, f) = (size(config.hidden_size()), size(config.ffn_dim()));
    let (q, k) = (size(config.query_width()), size(config.key_width()));
    let ffn = if config.is_gated() { 3 } else { 2 };
    let rows = (2 * q).saturating_add(2 * k).saturating_add(f.saturating_mul(ffn));
    let layer = rows.saturating_mul(d).saturating_add(rows).saturating_add(7 * d);
    let embeddings =
        (2 * size(config.vocab_size()) + size(config.max_position_embeddings()) + 2).saturating_mul(d);
    size(config.num_hidden_layers()).saturating_mul(layer).saturating_add(embeddings).saturating_mul(4)
}

/// A file and its bytes.
struct WeightFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Reads a file whole.
fn read(path: PathBuf, limit: u64) -> Result<WeightFile, ModelError> {
    match ndp_files::read_bytes(&path, limit) {
        Ok(bytes) => Ok(WeightFile { path, bytes }),
        Err(source) => Err(ModelError::Io { path, source }),
    }
}

/// The files in memory.
enum WeightFiles {
    Single(WeightFile),
    Sharded { index: PathBuf, map: BTreeMap<String, String>, shards: BTreeMap<String, WeightFile> },
}

impl WeightFiles {
    fn sharded(dir: &Path, index: PathBuf, limit: u64) -> Result<Self, ModelError> {
        let json = read(index.clone(), MAX_HEADER_BYTES)?;
        let parsed: ShardIndex = serde_json::from_slice(&json.bytes)
            .map_err(|source| ModelError::Json { path: index.clone(), source })?;
        let mut shards = BTreeMap::new();
        for (tensor, shard) in &parsed.weight_map {
            if shards.contains_key(shard) {
                continue;
            }
            // A checkpoint is data from elsewhere: it must not make us read outside its directory.
            let mut components = Path::new(shard).components();
            if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
                return Err(ModelError::ShardName {
                    path: index,
                    tensor: tensor.clone(),
                    shard: shard.clone(),
                });
            }
            shards.insert(shard.clone(), read(dir.join(shard), limit)?);
        }
        Ok(Self::Sharded { index, map: parsed.weight_map, shards })
    }

    fn parse(&self) -> Result<ParsedFiles<'_>, ModelError> {
        match self {
            Self::Single(file) => Ok(ParsedFiles::Single(ParsedFile::new(file)?)),
            Self::Sharded { index, map, shards } => {
                let shards = shards.iter().map(|(name, file)| Ok((name.as_str(), ParsedFile::new(file)?)));
                Ok(ParsedFiles::Sharded { index, map, shards: shards.collect::<Result<_, ModelError>>()? })
            }
        }
    }
}

/// One file's header, pointing into its bytes.
struct ParsedFile<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl<'a> ParsedFile<'a> {
    fn new(file: &'a WeightFile) -> Result<Self, ModelError> {
        match SafeTensors::deserialize(&file.bytes) {
            Ok(tensors) => Ok(Self { path: &file.path, tensors }),
            Err(source) => Err(ModelError::SafeTensors { path: file.path.clone(), source }),
        }
    }

    /// The tensor of exactly this name, checked and in FP16; `None` if the file does not hold it.
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        rounded: &Cell<RoundedWeights>,
    ) -> Result<Option<Vec<f16>>, ModelError> {
        let Ok(view) = self.tensors.tensor(name) else { return Ok(None) };
        let (path, tensor) = (self.path.to_owned(), name.to_owned());
        if view.shape() != shape {
            let (found, expected) = (view.shape().to_vec(), shape.to_vec());
            return Err(ModelError::Shape { path, tensor, found, expected });
        }
        let mut counts = rounded.get();
        let Some(data) = to_fp16(view.dtype(), view.data(), &mut counts) else {
            return Err(ModelError::Dtype { path, tensor, found: view.dtype() });
        };
        rounded.set(counts);
        match data.iter().position(|value| !value.is_finite()) {
            None => Ok(Some(data)),
            Some(at) => {
                let index = place(at, shape);
                Err(ModelError::NotFinite { path, tensor, index, value: data[at] })
            }
        }
    }
}

/// Elements of a tensor, little-endian and of no particular alignment, in FP16; `None` for another format than FP16, BF16 and FP32.
pub fn to_fp16(dtype: Dtype, bytes: &[u8], rounded: &mut RoundedWeights) -> Option<Vec<f16>> {
    let of_half = |&b: &[u8; 2]| f16::from_bits(u16::from_le_bytes(b));
    let of_bfloat = |&b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
    Some(match dtype {
        Dtype::F16 => bytes.as_chunks().0.iter().map(of_half).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|b| rounded.round(of_bfloat(b))).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|&b| rounded.round(f32::from_le_bytes(b))).collect(),
        _ => return None,
    })
}

impl RoundedWeights {
    /// A number in FP16: to nearest, ties to even. It is counted.
    pub fn round(&mut self, value: f32) -> f16 {
        let result = round_f64(f64::from(value));
        self.converted += 1;
        self.changed += u64::from(result.to_f32() != value);
        result
    }
}

/// The indices of the `at`-th element, row-major.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let own = at % size;
            at /= size;
            own
        })
        .collect();
    index.reverse();
    index
}

/// All headers.
enum ParsedFiles<'a> {
    Single(ParsedFile<'a>),
    Sharded { index: &'a Path, map: &'a BTreeMap<String, String>, shards: BTreeMap<&'a str, ParsedFile<'a>> },
}

impl ParsedFiles<'_> {
    /// The tensor `name`, stored with the prefix or without.
    fn tensor(
        &self,
        (prefix, name): (&str, &str),
        shape: &[usize],
        rounded: &Cell<RoundedWeights>,
    ) -> Result<Vec<f16>, ModelError> {
        let prefixed = format!("{prefix}{name}");
        for stored in [prefixed.as_str(), name] {
            match self {
                Self::Single(file) => {
                    if let Some(data) = file.tensor(stored, shape, rounded)? {
                        return Ok(data);
                    }
                }
                Self::Sharded { map, shards, .. } => {
                    let Some(shard) = map.get(stored).and_then(|file| shards.get(file.as_str())) else {
                        continue;
                    };
                    return shard.tensor(stored, shape, rounded)?.ok_or_else(|| ModelError::MissingTensor {
                        path: shard.path.to_owned(),
                        tensor: stored.to_owned(),
                    });
                }
            }
        }
        let path = match self {
            Self::Single(file) => file.path,
            Self::Sharded { index, .. } => index,
        };
        Err(ModelError::MissingTensor { path: path.to_owned(), tensor: prefixed })
    }
}
