//! Scaled rotary angles of a GGUF file as `rope_scaling` of a `config.json`.

use ndp_files::{Result, ensure, refusal};
use serde_json::{Value as Json, json};

use super::architecture::Architecture;
use super::reader::File;

/// Factors of wave lengths, one for each pair of elements.
pub(super) const FACTORS: &str = "rope_freqs.weight";

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
/// An older name of the factor.
const LINEAR: &str = "rope.scale_linear";
const POSITIONS: &str = "rope.scaling.original_context_length";
const TURNS: [&str; 2] = ["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"];

/// Keys with an implemented value only.
const NEUTRAL: [(&str, f64); 4] = [
    ("rope.scaling.attn_factor", 1.0),
    ("rope.scaling.yarn_attn_factor", 1.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
];

/// Keys of scaled angles.
pub(super) const KEYS: [&str; 10] = [
    TYPE,
    FACTOR,
    LINEAR,
    POSITIONS,
    TURNS[0],
    TURNS[1],
    NEUTRAL[0].0,
    NEUTRAL[1].0,
    NEUTRAL[2].0,
    NEUTRAL[3].0,
];

/// Parameters with which llama.cpp computes [`FACTORS`]: positions in training without [`POSITIONS`], and turns within
/// them below and above which a wave is scaled, or not.
const LLAMA3: (u64, [f64; 2]) = (8192, [1.0, 4.0]);

/// The scaling, or `None`, for heads of `width` elements.
pub(super) fn scaling(architecture: &Architecture, file: &File<'_>, width: u64) -> Result<Option<Json>> {
    let number = |key: &str| -> Result<Option<f64>> {
        let name = architecture.key(key);
        file.metadata.get(name.as_str()).map(|value| value.number(&name)).transpose()
    };
    for (key, neutral) in NEUTRAL {
        if let Some(found) = number(key)?.filter(|found| *found != neutral) {
            return Err(refusal!("metadata {} = {found}, expected {neutral}", architecture.key(key)));
        }
    }
    let name = architecture.key(TYPE);
    let kind = file.metadata.get(name.as_str());
    // Without a type a factor is linear.
    let kind = kind.map_or(Ok("linear"), |value| match value.text(&name)? {
        kind @ ("none" | "linear" | "yarn") => Ok(kind),
        _ => Err(value.unexpected(&name, "none, linear or yarn")),
    })?;
    let factor = match number(FACTOR)? {
        None => number(LINEAR)?,
        factor => factor,
    };
    let factor = factor.filter(|factor| kind != "none" && *factor != 0.0);
    let factor = factor.filter(|factor| kind == "yarn" || *factor != 1.0);
    let positions = architecture.key(POSITIONS);
    let positions =
        file.metadata.get(positions.as_str()).map(|value| value.unsigned(&positions)).transpose()?;
    if file.tensors.contains_key(FACTORS) {
        ensure!(
            factor.is_none(),
            "tensor {FACTORS}: metadata {} gives a scaling too; expected one of them",
            architecture.key(FACTOR)
        );
        return llama3(architecture, file, width, positions.unwrap_or(LLAMA3.0)).map(Some);
    }
    let Some(factor) = factor else { return Ok(None) };
    let mut scaling = json!({"rope_type": kind, "factor": factor});
    if kind == "yarn" {
        let [fast, slow] = [number(TURNS[0])?, number(TURNS[1])?];
        for (key, value) in [("beta_fast", fast), ("beta_slow", slow)] {
            scaling[key] = value.into();
        }
        scaling["original_max_position_embeddings"] = positions.into();
    }
    Ok(Some(scaling))
}

/// Recognises the factors of LLaMA 3.1 and later. The file has none of their parameters, but the largest is the factor.
fn llama3(architecture: &Architecture, file: &File<'_>, width: u64, positions: u64) -> Result<Json> {
    let (_, [low, high]) = LLAMA3;
    let tensor = &file.tensors[FACTORS];
    let mut found = Vec::new();
    tensor.kind.read(tensor.bytes, |value| found.push(f64::from(value)));
    ensure!(
        found.len() as u64 == width / 2,
        "tensor {FACTORS} has {} elements, expected {}, half of a head",
        found.len(),
        width / 2
    );
    let factor = found.iter().copied().fold(1.0, f64::max);
    let name = architecture.key("rope.freq_base");
    let base = file.metadata.get(name.as_str()).map_or(Ok(10_000.0), |value| value.number(&name))?;
    for (pair, own) in found.iter().enumerate() {
        let wave = std::f64::consts::TAU * base.powf(2.0 * pair as f64 / width as f64);
        let turns = positions as f64 / wave;
        let share = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        let expected = 1.0 / ((1.0 - share) / factor + share);
        // The file's frequencies are rounded to FP32; the share of a wave multiplies their error.
        ensure!(
            (own / expected - 1.0).abs() < 1e-4,
            "tensor {FACTORS}: element {pair} is {own}, expected {expected}: the factors of LLaMA 3.1 for {positions} positions, scaled by {factor}"
        );
    }
    Ok(json!({
        "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
        "original_max_position_embeddings": positions
    }))
}
