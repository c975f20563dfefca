//! Versions, models and numbers in text.

use crate::get::Published;
use anyhow::Context;
use itertools::Itertools;
use ndp_config::{HbmConfig, LlmShape};
use ndp_librapim::offloading::Mode;
use ndp_model::{Model, Remarks, RoundedWeights, Thresholds};
use ndp_report::grouped;
use ndp_traces::TraceHeader;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

const BYTES: u32 = 256;

/// Versions of tools; "none" where no RTL was simulated.
#[derive(Debug, Serialize)]
pub struct Tools {
    ndp_cosim: &'static str,
    #[cfg(feature = "rtl")]
    form: ndp_sim::ffi::Form,
    verilator: &'static str,
    compiler: &'static str,
    rustc: &'static str,
}

impl Tools {
    pub fn new() -> Self {
        #[cfg(feature = "rtl")]
        let versions = ndp_sim::ffi::versions();
        #[cfg(not(feature = "rtl"))]
        let versions = None;
        let [verilator, compiler] = versions.unwrap_or(["none"; 2]);
        Self {
            ndp_cosim: env!("CARGO_PKG_VERSION"),
            #[cfg(feature = "rtl")]
            form: ndp_sim::ffi::Form::default(),
            verilator,
            compiler,
            rustc: ndp_sim::RUSTC_VERSION,
        }
    }
}

/// Loads a model, and prints how many of its weights FP16 cannot represent.
pub fn load_model(dir: &Path) -> anyhow::Result<Model> {
    let kept = Published::named(dir).map(Published::kept).transpose()?;
    let dir = kept.as_deref().unwrap_or(dir);
    let (model, Remarks { rounded, warnings }) = Model::load_with_remarks(dir).with_context(|| {
        format!(
            "cannot load model {} (--model names a folder with config.json and model.safetensors, or a GGUF file)",
            dir.display()
        )
    })?;
    let RoundedWeights { converted, changed } = rounded;
    if converted > 0 {
        note!(
            "{}: {} weights in other formats than FP16, of which rounding to FP16 changes {}",
            dir.display(),
            grouped(converted),
            grouped(changed)
        );
    }
    for warning in warnings {
        note!("warning: {}: {warning}", dir.display());
    }
    Ok(model)
}

/// Sets thresholds from a file of `ndp model calibrate`, if there is one.
pub fn set_thresholds(model: &mut Model, path: Option<&PathBuf>) -> anyhow::Result<()> {
    const LIMIT: u64 = 1 << 20;
    let Some(path) = path else { return Ok(()) };
    let thresholds: Thresholds = read_json(path, LIMIT)?;
    thresholds.set(model).with_context(|| format!("cannot use thresholds '{}'", path.display()))
}

pub fn read_json<T: DeserializeOwned>(path: &Path, limit: u64) -> anyhow::Result<T> {
    let text =
        ndp_files::read_text(path, limit).with_context(|| format!("cannot read '{}'", path.display()))?;
    let parsed = ndp_files::parse_json(&text)
        .map_err(|error| refusal!("{}", ndp_config::with_advice(&error.to_string())));
    parsed.with_context(|| format!("cannot understand '{}'", path.display()))
}

/// The preset that a trace names, with or without an owner (`facebook/opt-6.7b`).
pub fn traced_preset(header: &TraceHeader) -> Option<LlmShape> {
    let name = header.model.rsplit('/').next().unwrap_or_default();
    LlmShape::preset(name).ok()
}

/// The model of a trace. An unknown name represents an OPT with the sizes of the trace and heads of 64 elements; the
/// returned text says so.
pub fn traced_model(header: &TraceHeader) -> anyhow::Result<(LlmShape, Option<String>)> {
    if let Some(model) = traced_preset(header) {
        return Ok((model, None));
    }
    let TraceHeader { model, layers, attention, mlp, .. } = header;
    let presets = || LlmShape::preset_names().join(", ");
    ensure!(
        *attention > 0,
        "the trace names the model '{model}', which is not a preset, and does not describe attention; name the model with --llm: {} or a path ending in .toml or config.json",
        presets()
    );
    let heads = if attention.is_multiple_of(64) { attention / 64 } else { 1 };
    let shape = LlmShape::opt_like(model, *layers, *attention, heads, *mlp, BYTES).with_context(|| {
        format!(
            "the trace names the model '{model}', which is not a preset, and {layers} layers of {attention} and {mlp} neurons are not a model; name the \
             model with --llm: {} or a path ending in .toml or config.json",
            presets()
        )
    })?;
    let assumed = format!(
        "assumed: '{model}' is not a preset, so the model is an OPT with the sizes of the trace, {heads} heads and {BYTES} tokens; name another model \
         with --llm, because its times differ"
    );
    Ok((shape, Some(assumed)))
}

/// How `compare` and `serve` label a result of formulas.
pub const ESTIMATE: &str = "an estimate from bandwidths, throughputs and the efficiencies of the assumed set; only the times of NDP-DIMMs in \
     it are the cycle model's";

/// Default of `--assume`, and of `base` in a file of assumptions.
pub const ASSUMED: &str = "hermes";

/// Prints that attention counts as dense if the trace has no attention. `neurons` is the number of its neurons in a
/// layer.
pub fn note_dense_attention(header: &TraceHeader, neurons: u32) {
    if header.attention == 0 {
        note!(
            "assumed: the trace does not describe attention, so all {neurons} of its neurons in each layer are active for each token"
        );
    }
}

#[cfg(feature = "rtl")]
pub fn quantisation_text(weights: ndp_config::WeightFormat, error: &ndp_model::QuantisationError) -> String {
    format!(
        "weights: {weights}, {} bits each; off by {:.3e} at most ({:.2} % of the largest weight), by {:.3e} in the mean ({:.2} % of the mean \
         magnitude)",
        weights.bits_with_scale(),
        error.largest,
        100.0 * error.largest_share,
        error.mean,
        100.0 * error.mean_share
    )
}

/// Redraws a visible bar while the count does not change. Uses a thread if the operating system has one, because
/// `indicatif` panics without.
pub fn tick(bar: &indicatif::ProgressBar, interval: std::time::Duration) {
    if bar.is_hidden() {
        return;
    }
    let drawn = bar.downgrade();
    let _ = std::thread::Builder::new().spawn(move || {
        while let Some(bar) = drawn.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            std::thread::sleep(interval);
        }
    });
}

/// Runs of consecutive numbers in an ascending list: first and last of each.
pub fn runs(numbers: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, u32)> {
    let single = numbers.map(|number| (number, number));
    single.coalesce(|a, b| if a.1 + 1 == b.0 { Ok((a.0, b.1)) } else { Err((a, b)) })
}

pub fn workspace_path(relative: &str) -> PathBuf {
    let here = PathBuf::from(relative);
    let workspace = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    if here.exists() { here } else { workspace().join(relative) }
}

/// Rate of something that takes `ns`; 0 if it takes no time.
#[cfg(feature = "rtl")]
pub fn per_second(ns: f64) -> f64 {
    if ns > 0.0 { 1e9 / ns } else { 0.0 }
}

pub fn check_banks(memory: &HbmConfig, mode: Mode) -> anyhow::Result<()> {
    let what = if mode.offloads() { "offloading".to_owned() } else { format!("mode {}", mode.name()) };
    ensure!(
        memory.slicing() || !mode.sliced(),
        "{what} needs sliced banks, but memory '{}' does not slice its banks",
        memory.name()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_known_under_the_names_of_hugging_face_and_others_are_said() -> anyhow::Result<()> {
        let mut header = TraceHeader::new(&LlmShape::preset("opt-6.7b")?, 0, 0);
        for name in ["opt-6.7b", "facebook/opt-6.7b", "/models/OPT-6.7B"] {
            header.model = name.to_owned();
            let (model, assumed) = traced_model(&header)?;
            assert_eq!((model.name(), assumed), ("opt-6.7b", None));
        }
        header.model = "SparseLLM/ReluLLaMA-7B".to_owned();
        let (model, assumed) = traced_model(&header)?;
        assert!(
            assumed.is_some_and(
                |text| text.contains("the model is an OPT with the sizes of the trace, 64 heads")
            )
        );
        assert_eq!(model.hidden(), 4096);
        header.attention = 0;
        let error = traced_model(&header).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.contains("does not describe attention; name the model with --llm: opt-13b"), "{error}");
        Ok(())
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
