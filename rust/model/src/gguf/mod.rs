//! Reads a model from a GGUF file, the format of llama.cpp: configuration, tokens and weights in one file.
//!
//! Quantised blocks become FP32 numbers ([`blocks`]), which are rounded to FP16 once, as weights of other checkpoints.
//! The result equals the model that the same weights give under Hugging Face's names ([`architecture`]).

mod architecture;
mod blocks;
mod reader;
mod rotary;
mod tokenizer;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use ndp_config::WeightFormat;
use ndp_files::{Context, Result, bail, ensure};
use ndp_numerics::f16;

use crate::Model;
use crate::loader::{self, Remarks, RoundedWeights};
use crate::weights::{FeedForward, Linear};
use architecture::Architecture;
use reader::{File, Tensor, shown};

/// Bytes at the beginning of a file from which its format is recognised.
const BEGINNING: u64 = 64;

/// Loads a model, with remarks for the user. The whole file is in memory until the model is complete.
pub(crate) fn load(path: &Path) -> Result<(Model, Remarks)> {
    let bytes = read(path)?;
    parse(path, &bytes).with_context(|| format!("cannot read {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    let mut file = ndp_files::open(path).with_context(failed)?;
    let metadata = file.metadata().with_context(failed)?;
    ensure!(metadata.is_file(), "'{}' is neither a folder nor a regular file", path.display());
    let mut bytes = Vec::new();
    (&mut file).take(BEGINNING).read_to_end(&mut bytes).with_context(failed)?;
    if !bytes.starts_with(reader::MAGIC) {
        loader::check_file(path, &bytes)?;
        let kind = path.extension().and_then(|end| end.to_str());
        let advice = match kind {
            Some("safetensors" | "json") => {
                "name the folder of a model with safetensors, not one of its files"
            }
            _ => "expected a folder, or a file that begins with 'GGUF'",
        };
        bail!("'{}' is not a GGUF file: {advice}", path.display());
    }
    // The size bounds a file that grows.
    file.take(metadata.len().saturating_sub(BEGINNING)).read_to_end(&mut bytes).with_context(failed)?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<(Model, Remarks)> {
    let file = File::parse(bytes)?;
    let architecture = Architecture::find(&file)?;
    let (config, warning) = architecture.config(path, &file)?;
    let vocabulary = tokenizer::vocabulary(path, &file, config.vocab_size())?;
    let mut rounded = RoundedWeights::default();
    let mut used = BTreeSet::from([rotary::FACTORS.to_owned()]);
    let known = config.clone();
    let mut blocks = BTreeMap::new();
    let mut model = Model::from_tensors(config, |name, shape| {
        let (stored, expert) = architecture::stored_name(&known, name);
        let Some(tensor) = file.tensors.get(stored.as_str()) else { bail!("tensor {stored} is missing") };
        let part;
        let tensor = match expert.zip(known.extras().mixture) {
            Some((number, mixture)) => {
                part = tensor.expert(&stored, number, mixture.experts)?;
                &part
            }
            None => tensor,
        };
        let mut data = tensor.weights(&stored, shape, &mut rounded)?;
        if architecture.has_pairs {
            data = architecture::unpaired(&stored, shape[0], known.head_width(), data);
        }
        if let Some(format) = tensor.kind.format() {
            blocks.insert(name.to_owned(), (format, tensor.kind.scales(tensor.bytes)));
        }
        used.insert(stored);
        Ok(data)
    })?;
    if let Some((name, _)) = file.tensors.iter().find(|(name, _)| !used.contains(**name)) {
        let (kind, layers) = (architecture.name, model.config.num_hidden_layers());
        bail!("tensor {}: expected only tensors of {kind} with {layers} layers", shown(name));
    }
    keep_blocks(&mut model, blocks);
    model.vocabulary = vocabulary;
    let warnings = model.config.warnings().iter().cloned().chain(warning).collect();
    Ok((model, Remarks { rounded, warnings }))
}

/// Keeps the blocks of matrices whose rows in DRAM have 32 consecutive inputs too. `blocks` has the requested tensors.
fn keep_blocks(model: &mut Model, mut blocks: BTreeMap<String, (WeightFormat, Vec<f16>)>) {
    let mixture = model.config.extras().mixture;
    for (index, layer) in model.layers.iter_mut().enumerate() {
        let name = |part: &str| format!("layers.{index}.{part}.weight");
        let mut keep = |part: &str, linear: &mut Linear| {
            if let Some((format, scales)) = blocks.remove(&name(part)) {
                linear.weight.keep_blocks(format, scales);
            }
        };
        keep("self_attn.o_proj", &mut layer.out_proj);
        let (block, parts) = match mixture {
            None => ("mlp".to_owned(), ["gate_proj", "up_proj"]),
            Some(mixture) if mixture.mixtral => ("block_sparse_moe.experts".to_owned(), ["w1", "w3"]),
            Some(_) => ("mlp.experts".to_owned(), ["gate_proj", "up_proj"]),
        };
        for (number, expert) in layer.experts.iter_mut().enumerate() {
            let of = |part: &str| {
                if mixture.is_some() { format!("{block}.{number}.{part}") } else { format!("{block}.{part}") }
            };
            keep(&of(parts[0]), &mut expert.fc1);
            if let Some(up) = &mut expert.up {
                keep(&of(parts[1]), up);
            }
        }
        // One tensor has the rows of both.
        if let (Some((format, mut scales)), [FeedForward { fc1, up: Some(up), .. }]) =
            (blocks.remove(&name("mlp.gate_up_proj")), &mut layer.experts[..])
        {
            let half = scales.split_off(scales.len() / 2);
            fc1.weight.keep_blocks(format, scales);
            up.weight.keep_blocks(format, half);
        }
    }
}

impl<'a> Tensor<'a> {
    /// The part of one expert.
    fn expert(&self, name: &str, number: usize, experts: usize) -> Result<Tensor<'a>> {
        let (found, bytes) = (&self.shape, self.bytes.len() / experts);
        ensure!(
            found.len() == 3 && found[0] == experts,
            "tensor {name} has shape {found:?}, expected three sizes, the first {experts} experts"
        );
        Ok(Tensor {
            kind: self.kind,
            shape: found[1..].to_vec(),
            bytes: &self.bytes[number * bytes..][..bytes],
        })
    }

    /// Elements in FP16, if the tensor has this shape and all are finite.
    fn weights(&self, name: &str, shape: &[usize], rounded: &mut RoundedWeights) -> Result<Vec<f16>> {
        ensure!(self.shape == shape, "tensor {name} has shape {:?}, expected {shape:?}", self.shape);
        let mut data = Vec::with_capacity(shape.iter().product());
        let exact = self.kind.is_half();
        self.kind.read(self.bytes, |value| {
            data.push(if exact { f16::from_f32(value) } else { rounded.round(value) });
        });
        loader::check_finite(name, shape, &data)?;
        Ok(data)
    }
}
