//! Whole systems: texts, energy, the Python reference.

pub mod energy;
pub mod experts;
pub mod flash;
pub mod generate;
pub mod golden_vectors;
pub mod linked_system;
pub mod low_rank;
pub mod system;
pub mod timing_only;

use ndp_model::Model;
use ndp_numerics::f16;
use std::error::Error;
use std::path::Path;

/// A golden checkpoint with some of its tokens, and the reference's digests of the logits after them: all tokens of a
/// model with windows, else five.
fn checkpoint(name: &str) -> Result<(Model, Vec<u32>, Vec<String>), Box<dyn Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints").join(name);
    let expected: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("expected.json"))?)?;
    let all = |key: &str| expected[key].as_array().ok_or_else(|| format!("{name}: {key}"));
    let mut tokens: Vec<u32> =
        all("tokens")?.iter().filter_map(|token| Some(token.as_u64()? as u32)).collect();
    let mut digests: Vec<String> =
        all("logits_fnv1a64")?.iter().filter_map(|digest| Some(digest.as_str()?.to_owned())).collect();
    let model = Model::load(&dir)?;
    let windows = (0..model.config.num_hidden_layers()).filter_map(|layer| model.config.window(layer));
    let window = windows.min();
    let count = if window.is_some() { tokens.len() } else { 5 };
    assert!(window.is_none_or(|window| window + 2 < count), "{name}: a text of {count} tokens");
    tokens.truncate(count);
    digests.truncate(count);
    Ok((model, tokens, digests))
}

/// Thresholds of a golden checkpoint's layers, and the reference's digests with them, if it has any.
fn thresholded(name: &str) -> Result<Option<(Vec<f16>, Vec<String>)>, Box<dyn Error>> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints").join(name).join("expected.json");
    let expected: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let Some(stated) = expected.get("thresholded") else { return Ok(None) };
    let texts = |key: &str| -> Vec<String> {
        let texts = stated[key].as_array().into_iter().flatten();
        texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let bits = |text: &String| u16::from_str_radix(text, 16).map(f16::from_bits);
    let thresholds = texts("thresholds").iter().map(bits).collect::<Result<_, _>>()?;
    Ok(Some((thresholds, texts("logits_fnv1a64"))))
}
