//! Reads a model from a Hugging Face directory: `config.json` and safetensors, in one file or in shards. Another path is a
//! GGUF file ([`crate::gguf`]).
//!
//! Every defect is refused with file and tensor; [`crate::weights`] uses the tensors. A stored copy of a tied head has
//! to equal the embedding; other unused tensors are a warning.

use ndp_files::{Context, Error, Result, bail, failure, refusal};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ndp_numerics::{f16, round_f64};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::damage;
use crate::{Architecture, DecoderConfig, Model, Vocabulary};

const SINGLE_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// Longest header of weights (the format's limit), and longest index of shards.
pub(crate) const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Prefix of tensor names, only in models with a head.
fn optional_prefix(config: &DecoderConfig) -> &'static str {
    match config.architecture() {
        Architecture::Opt | Architecture::Llama => "model.",
        Architecture::Falcon => "transformer.",
    }
}

/// Weights stored in other formats than FP16.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundedWeights {
    /// Weights in BF16, FP32 or a quantised format.
    pub converted: u64,
    /// Weights not representable in FP16: rounded to nearest, ties to even.
    pub changed: u64,
}

#[derive(Debug, Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

/// Remarks about a usable checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Weights in other formats than FP16.
    pub rounded: RoundedWeights,
    /// Ignored parts of the checkpoint that may matter.
    pub warnings: Vec<String>,
}

impl Model {
    /// Loads `config.json`, `tokenizer.json` if present, and `model.safetensors`, or else the shards that
    /// `model.safetensors.index.json` lists. Tensors are FP16, BF16 or FP32, and finite in FP16: skipped products with
    /// zero would not be zero for an infinite weight (docs/numerics.md). A path that is not a directory is a GGUF file.
    ///
    /// Memory peaks at the file bytes plus the model.
    pub fn load(path: &Path) -> Result<Self> {
        Self::load_with_remarks(path).map(|(model, _)| model)
    }

    /// [`Model::load`] with remarks for the user.
    pub fn load_with_remarks(path: &Path) -> Result<(Self, Remarks)> {
        if path.metadata().is_ok_and(|found| !found.is_dir()) {
            return crate::gguf::load(path);
        }
        let dir = path;
        let config = DecoderConfig::load(dir)?;
        let vocabulary = Vocabulary::load(dir, config.vocab_size())?;
        let limit = weight_bytes(&config).saturating_mul(2).saturating_add(MAX_HEADER_BYTES);
        let (single, index) = (dir.join(SINGLE_FILE), dir.join(INDEX_FILE));
        // A dangling link is read too, for its error.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let source = if is_there(&single) {
            WeightFiles::single(read(single, limit)?)
        } else if is_there(&index) {
            WeightFiles::sharded(dir, index, limit)?
        } else {
            let others = other_weights(dir);
            let missing = "expected model.safetensors or model.safetensors.index.json";
            let text = format!("no weights in '{}': {missing}{others}", dir.display());
            // Weights in an unusable form: refuse the folder.
            return Err(if others.is_empty() { failure!("{text}") } else { refusal!("{text}") });
        };
        let tensors = Tensors {
            files: source.parse()?,
            prefix: optional_prefix(&config),
            rounded: Cell::default(),
            used: RefCell::default(),
        };
        let mut model = Self::from_tensors(config, |name, shape| tensors.tensor(name, shape))?;
        let rounded = tensors.rounded.get();
        tensors.check_head(&model)?;
        model.vocabulary = vocabulary;
        let config = model.config.warnings().iter().map(|warning| format!("config.json: {warning}"));
        let tokens = model.vocabulary.beyond(model.config.vocab_size());
        let warnings = config.chain(tokens).chain(tensors.unused()).collect();
        Ok((model, Remarks { rounded, warnings }))
    }
}

pub(crate) fn read_json(path: &Path, limit: u64) -> Result<String> {
    let text =
        ndp_files::read_text(path, limit).with_context(|| format!("cannot read {}", path.display()))?;
    check_file(path, text.as_bytes())?;
    Ok(text)
}

/// Beginnings of placeholders and other formats, with advice.
const STAND_INS: [(&str, &str); 5] = [
    (
        "version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, not the file: fetch the file with 'git lfs pull'",
    ),
    ("<!doctype html", "an HTML page, not the file: download the file itself, not the page that shows it"),
    ("<html", "an HTML page, not the file: download the file itself, not the page that shows it"),
    ("PK\x03\x04", "a PyTorch file or another archive: convert it to safetensors"),
    ("GGUF", "a GGUF file: name the file itself as the model, not its folder"),
];

/// Refuses a file whose content does not match its name.
pub(crate) fn check_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let text = bytes.trim_ascii_start();
    let starts =
        |start: &str| text.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()));
    match STAND_INS.iter().find(|(start, _)| starts(start)) {
        Some((_, what)) => Err(refusal!("'{}' is {what}", path.display())),
        None => Ok(()),
    }
}

/// End of a message about missing weights: names files with other weights.
fn other_weights(dir: &Path) -> String {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let advice = |name: &str| match Path::new(name).extension()?.to_str()? {
        "safetensors" if name.starts_with("adapter") => {
            Some("an adapter, which has to be merged into its model first")
        }
        "safetensors" if name.contains("-of-") => Some("a part, whose index is missing"),
        "safetensors" => Some("rename it if it has all weights"),
        "bin" | "pt" | "pth" | "ckpt" | "h5" | "msgpack" | "onnx" => {
            Some("convert it to safetensors in FP16, BF16 or FP32")
        }
        "gguf" => Some("name the file itself as the model, not its folder"),
        _ => None,
    };
    let found = names.iter().find_map(|name| Some((name, advice(name)?)));
    found.map_or_else(String::new, |(name, advice)| format!("; found {name}: {advice}"))
}

/// Bytes of a model's parameters in FP32. A file may have twice as many, for unused tensors such as a copy of the head.
fn weight_bytes(config: &DecoderConfig) -> u64 {
    let size = |n: usize| n as u64;
    let (d, f) = (size(config.hidden_size()), size(config.ffn_dim()));
    let (q, k) = (size(config.query_width()), size(config.key_width()));
    let ffn = if config.is_gated() { 3 } else { 2 };
    // Each expert has a row of the router.
    let experts = size(config.experts());
    let ffn = f.saturating_mul(ffn).saturating_mul(experts).saturating_add(experts);
    let rows = (2 * q).saturating_add(2 * k).saturating_add(ffn);
    let layer = rows.saturating_mul(d).saturating_add(rows).saturating_add(7 * d);
    // A row for each token, and the projections.
    let e = size(config.embedding_width());
    let embeddings = (2 * size(config.vocab_size()) + 2 * d).saturating_mul(e);
    let positions = (size(config.max_position_embeddings()) + 2).saturating_mul(d);
    let embeddings = embeddings.saturating_add(positions);
    size(config.num_hidden_layers()).saturating_mul(layer).saturating_add(embeddings).saturating_mul(4)
}

struct WeightFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

fn read(path: PathBuf, limit: u64) -> Result<WeightFile> {
    match ndp_files::read_bytes(&path, limit) {
        Ok(bytes) => check_file(&path, &bytes).map(|()| WeightFile { path, bytes }),
        Err(source) => Err(Error::new(source).context(format!("cannot read {}", path.display()))),
    }
}

struct WeightFiles {
    /// Index, and file of each tensor; `None` for a single file.
    index: Option<(PathBuf, BTreeMap<String, String>)>,
    files: BTreeMap<String, WeightFile>,
}

impl WeightFiles {
    fn single(file: WeightFile) -> Self {
        Self { index: None, files: BTreeMap::from([(SINGLE_FILE.to_owned(), file)]) }
    }

    fn sharded(dir: &Path, index: PathBuf, limit: u64) -> Result<Self> {
        let parsed: ShardIndex = ndp_files::parse_json(&read_json(&index, MAX_HEADER_BYTES)?)
            .with_context(|| format!("{} is not valid", index.display()))?;
        let mut files = BTreeMap::new();
        for (tensor, shard) in &parsed.weight_map {
            if files.contains_key(shard) {
                continue;
            }
            // A checkpoint must not make us read outside its directory.
            let mut components = Path::new(shard).components();
            if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
                let (tensor, shard) = (tensor.clone(), shard.clone());
                bail!("{}: shard {shard:?} of tensor {tensor} must be a plain file name", index.display());
            }
            files.insert(shard.clone(), read(dir.join(shard), limit)?);
        }
        Ok(Self { index: Some((index, parsed.weight_map)), files })
    }

    fn parse(&self) -> Result<ParsedFiles<'_>> {
        let files = self.files.iter().map(|(name, file)| Ok((name.as_str(), ParsedFile::new(file)?)));
        let index = self.index.as_ref().map(|(path, map)| (path.as_path(), map));
        Ok(ParsedFiles { index, files: files.collect::<Result<_>>()? })
    }
}

struct ParsedFile<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl<'a> ParsedFile<'a> {
    fn new(file: &'a WeightFile) -> Result<Self> {
        match SafeTensors::deserialize(&file.bytes) {
            Ok(tensors) => Ok(Self { path: &file.path, tensors }),
            Err(error) => Err(match damage::foreign(&file.bytes) {
                Some(what) => refusal!("'{}' is {what}", file.path.display()),
                None => refusal!(
                    "{}: not a valid safetensors file: {}",
                    file.path.display(),
                    damage::reason(&file.bytes, &error)
                ),
            }),
        }
    }

    /// Tensor of exactly this name, checked and in FP16; `None` if it is missing.
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        rounded: &Cell<RoundedWeights>,
    ) -> Result<Option<Vec<f16>>> {
        let Ok(view) = self.tensors.tensor(name) else { return Ok(None) };
        let (path, tensor) = (self.path.to_owned(), name.to_owned());
        if view.shape() != shape {
            let (found, expected) = (view.shape().to_vec(), shape.to_vec());
            bail!("{}: tensor {tensor} has shape {found:?}, expected {expected:?}", path.display());
        }
        let mut counts = rounded.get();
        let Some(data) = to_fp16(view.dtype(), view.data(), &mut counts) else {
            bail!(
                "{}: tensor {tensor} has dtype {:?}, expected F16, BF16 or F32 (convert a quantised checkpoint first)",
                path.display(),
                view.dtype()
            );
        };
        rounded.set(counts);
        check_finite(&tensor, shape, &data).map_err(|error| refusal!("{}: {error}", path.display()))?;
        Ok(Some(data))
    }
}

/// Little-endian, unaligned elements in FP16; `None` unless FP16, BF16 or FP32.
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
    /// Rounds to FP16, nearest, ties to even, and counts it.
    pub fn round(&mut self, value: f32) -> f16 {
        let result = round_f64(f64::from(value));
        self.converted += 1;
        self.changed += u64::from(result.to_f32() != value);
        result
    }
}

/// Refuses a tensor with an infinity or a NaN.
pub(crate) fn check_finite(tensor: &str, shape: &[usize], data: &[f16]) -> Result<()> {
    if let Some(at) = data.iter().position(|value| !value.is_finite()) {
        let index = place(at, shape);
        bail!("tensor {tensor}: {index:?} is {}, weights must be finite in FP16", data[at]);
    }
    Ok(())
}

/// Indices of the `at`-th element, row-major.
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

struct ParsedFiles<'a> {
    index: Option<(&'a Path, &'a BTreeMap<String, String>)>,
    files: BTreeMap<&'a str, ParsedFile<'a>>,
}

impl<'a> ParsedFiles<'a> {
    fn path(&self) -> &'a Path {
        let index = self.index.map(|(path, _)| path);
        index.or_else(|| self.files.values().next().map(|file| file.path)).unwrap_or(Path::new(SINGLE_FILE))
    }

    fn names(&self) -> Vec<&str> {
        match self.index {
            Some((_, map)) => map.keys().map(String::as_str).collect(),
            None => self.files.values().flat_map(|file| file.tensors.names()).collect(),
        }
    }

    fn file_of(&self, tensor: &str) -> Option<&ParsedFile<'a>> {
        match self.index {
            Some((_, map)) => map.get(tensor).and_then(|file| self.files.get(file.as_str())),
            None => self.files.values().next(),
        }
    }
}

/// Has no prefix.
const HEAD: &str = "lm_head.weight";

/// Suffixes of tensors that a decoder computes itself.
const COMPUTED: [&str; 2] = ["rotary_emb.inv_freq", "masked_bias"];

/// Suffixes of tensors in quantised checkpoints.
const QUANTISED: [&str; 5] = [".qweight", ".qzeros", ".weight_packed", ".weight_scale", ".weight.absmax"];

/// All tensors, with a record of the used ones.
struct Tensors<'a> {
    files: ParsedFiles<'a>,
    /// Optional prefix of names.
    prefix: &'static str,
    rounded: Cell<RoundedWeights>,
    used: RefCell<BTreeSet<String>>,
}

impl Tensors<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f16>> {
        match self.find(name, shape)? {
            Some(data) => Ok(data),
            None => {
                let stored = self.stored_names(name);
                let quantised = self
                    .files
                    .names()
                    .into_iter()
                    .find(|name| QUANTISED.iter().any(|end| name.ends_with(end)));
                let hint = match (quantised, &stored[1..]) {
                    (Some(other), _) => {
                        format!(
                            ", but there is {other}: convert a quantised checkpoint to FP16, BF16 or FP32 first"
                        )
                    }
                    (None, [other]) => format!(", and so is {other}"),
                    (None, _) => String::new(),
                };
                let path = self.files.path().to_owned();
                Err(refusal!("{}: tensor {} is missing{hint}", path.display(), stored[0]))
            }
        }
    }

    fn stored_names(&self, name: &str) -> Vec<String> {
        if name == HEAD {
            vec![name.to_owned()]
        } else {
            vec![format!("{}{name}", self.prefix), name.to_owned()]
        }
    }

    /// The tensor, if it is stored.
    fn find(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f16>>> {
        for stored in self.stored_names(name) {
            let Some(file) = self.files.file_of(&stored) else { continue };
            let data = file.tensor(&stored, shape, &self.rounded)?;
            if data.is_none() && self.files.index.is_some() {
                bail!(
                    "{}: tensor {stored} is missing, although the index names this file for it",
                    file.path.display()
                );
            }
            if data.is_some() {
                self.used.borrow_mut().insert(stored);
                return Ok(data);
            }
        }
        Ok(None)
    }

    /// Refuses a stored head that differs from the tied embedding.
    fn check_head(&self, model: &Model) -> Result<()> {
        if !model.config.has_tied_head() {
            return Ok(());
        }
        let embedding = &model.embed_tokens;
        match self.find(HEAD, &[embedding.rows(), embedding.cols()])? {
            Some(head) if head != embedding.data() => Err(refusal!(
                "config: tie_word_embeddings = true, expected a stored {HEAD} that equals the token embedding; it differs"
            )),
            _ => Ok(()),
        }
    }

    /// Warning about unused tensors.
    fn unused(&self) -> Option<String> {
        let used = self.used.borrow();
        let mut unused = self.files.names();
        unused.retain(|name| !used.contains(*name) && !COMPUTED.iter().any(|end| name.ends_with(end)));
        unused.sort_unstable();
        let first = unused.first()?;
        Some(format!("unused tensors: {}, the first is {first}", unused.len()))
    }
}
