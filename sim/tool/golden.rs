//! The stored texts of `golden/generate`: defaults of `ndp generate`, and references for its result.
//!
//! The independent Python reference computed them. Files are searched below the current directory, then in the
//! directory in which the harness was built.

use crate::prelude::*;
use ndp_config::WeightFormat;
use ndp_model::{GenerateOptions, Generation};
use ndp_numerics::Sampling;
use serde::{Deserialize, Serialize};

const MAX_BYTES: u64 = 16 << 20;

/// One stored text; other fields of the file are ignored.
#[derive(Debug, Deserialize)]
pub struct Golden {
    model: String,
    #[serde(default)]
    weights: WeightFormat,
    pub prompt: String,
    prompt_tokens: Vec<u32>,
    /// Temperature in hundredths.
    pub temperature_percent: u32,
    pub seed: u64,
    generated_tokens: Vec<u32>,
    #[serde(default)]
    pub text_with_prompt: String,
    /// Digests of the logits at every position, prompt included, in hexadecimal.
    logits_fnv1a64: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Comparison {
    pub file: String,
    /// Number of compared tokens, and of digests of logits.
    pub tokens: usize,
    pub text_equal: bool,
    pub logits_equal: bool,
    /// First token (from 0) whose digest or value differs.
    pub first_difference: Option<usize>,
}

impl Comparison {
    pub fn agrees(&self) -> bool {
        self.text_equal && self.logits_equal
    }
}

pub fn verdict_text(comparison: Option<&Comparison>) -> String {
    match comparison {
        None => "none stored for this model, prompt, temperature and seed".to_owned(),
        Some(c) if c.agrees() => format!("{}: all {} tokens and logits are equal", c.file, c.tokens),
        Some(c) => {
            let at = c.first_difference.unwrap_or(0);
            format!(
                "{}: differs from token {at} on (text equal: {}, logits equal: {})",
                c.file, c.text_equal, c.logits_equal
            )
        }
    }
}

pub fn read(path: &Path) -> Result<Golden> {
    let text =
        ndp_files::read_text(path, MAX_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a stored text", path.display()))
}

/// Finds a stored text with this model, weight format, prompt, temperature and seed, and at least as many tokens.
pub fn find(
    (model, weights): (&str, WeightFormat),
    prompt: &str,
    options: &GenerateOptions,
) -> Result<Option<(PathBuf, Golden)>> {
    let dir = workspace_path("golden/generate");
    let Ok(entries) = std::fs::read_dir(&dir) else { return Ok(None) };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let GenerateOptions { tokens, sampling, seed, .. } = *options;
    let temperature_percent = sampling.temperature_percent;
    // The stored texts are drawn from all tokens.
    if temperature_percent != 0 && sampling != Sampling::at(temperature_percent) {
        return Ok(None);
    }
    for file in files.filter(is_json).sorted() {
        let golden = read(&file)?;
        let same_seed = golden.seed == seed || temperature_percent == 0;
        let same = golden.model == model
            && golden.weights == weights
            && golden.prompt == prompt
            && golden.temperature_percent == temperature_percent
            && same_seed;
        if same && tokens <= golden.generated_tokens.len() {
            return Ok(Some((file, golden)));
        }
    }
    Ok(None)
}

/// Compares a text with `golden`, which has at least as many tokens.
pub fn compare(file: &Path, golden: &Golden, generation: &Generation) -> Comparison {
    // The first token is sampled from the logits at the prompt's last position.
    let first = golden.prompt_tokens.len().saturating_sub(1);
    let digests = golden.logits_fnv1a64.iter().skip(first);
    let tokens_equal: Vec<bool> =
        generation.tokens.iter().zip(&golden.generated_tokens).map(|(ours, theirs)| ours == theirs).collect();
    let logits_equal: Vec<bool> = generation
        .logits_digests
        .iter()
        .zip(digests)
        .map(|(ours, theirs)| format!("{ours:016x}") == *theirs)
        .collect();
    let count = generation.tokens.len();
    let complete = |equal: &[bool]| equal.len() == count && equal.iter().all(|equal| *equal);
    let differs = |index: &usize| {
        !(tokens_equal.get(*index).copied().unwrap_or(false)
            && logits_equal.get(*index).copied().unwrap_or(false))
    };
    Comparison {
        file: file.display().to_string(),
        tokens: count,
        text_equal: complete(&tokens_equal),
        logits_equal: complete(&logits_equal),
        first_difference: (0..count).find(differs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Golden {
        Golden {
            weights: WeightFormat::Fp16,
            model: "golden/model".into(),
            prompt: "ab".into(),
            prompt_tokens: vec![97, 98],
            temperature_percent: 50,
            seed: 1,
            generated_tokens: vec![99, 100],
            text_with_prompt: "abcd".into(),
            logits_fnv1a64: ["0", "1", "2"].map(|digit| format!("{digit:0>16}")).to_vec(),
        }
    }

    fn generation(tokens: &[u32], digests: &[u64]) -> Generation {
        Generation {
            tokens: tokens.to_vec(),
            text: String::new(),
            logits_digests: digests.to_vec(),
            sparsity: Vec::new(),
        }
    }

    #[test]
    fn equal_texts_agree_and_any_difference_is_located() {
        let compare = |tokens: &[u32], digests: &[u64]| {
            let comparison = compare(Path::new("g.json"), &golden(), &generation(tokens, digests));
            assert_eq!(comparison.agrees(), comparison.first_difference.is_none());
            comparison.first_difference
        };
        assert_eq!(compare(&[99, 100], &[1, 2]), None);
        assert_eq!(compare(&[99], &[1]), None);
        assert_eq!(compare(&[99, 101], &[1, 2]), Some(1));
        assert_eq!(compare(&[99, 100], &[1, 3]), Some(1));
        assert_eq!(compare(&[99, 100], &[0, 2]), Some(0));
        assert_eq!(compare(&[99, 100, 101], &[1, 2, 3]), Some(2));
    }
}
