//! Byte-level BPE as a `tokenizer.json`, from the tokens and merges of a GGUF file, or of `vocab.json` and `merges.txt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndp_files::{Result, bail, ensure, refusal};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::chat::{Mark, read};
use crate::loader::read_json;

/// GPT-2's words: contractions, letters, digits, other characters, spaces.
pub(crate) const WORDS: &str = r"'(?:[sdmt]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// Words of LLaMA 3, with groups of up to three digits, and of Qwen 2, with single digits.
pub(crate) const LINES: [&str; 2] = [
    r"'(?:[sdmtSDMT]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'(?:[sdmtSDMT]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Parts of a tokenizer.
pub(crate) struct ByteLevel<'a> {
    /// Numbers of tokens.
    pub vocab: Json,
    /// Two parts of a token with a space between them, the first one to merge first.
    pub merges: Vec<&'a str>,
    /// Expressions that split a text, one after the other.
    pub splits: &'a [&'a str],
    /// Tokens that stand for themselves.
    pub added: Json,
    /// [`prefix`], or null.
    pub prefix: Json,
    /// Whether a word that is a token is taken as a whole.
    pub whole_words: bool,
    /// Whether texts are normalised to NFC.
    pub composed: bool,
}

impl ByteLevel<'_> {
    /// The `tokenizer.json`. Fails for a merge without two parts; `source` is for messages.
    pub(crate) fn json(self, source: &str) -> Result<Json> {
        let pair = |(number, merge): (usize, &&str)| match merge.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok(json!([left, right])),
            _ => {
                let shown: String = merge.chars().take(80).collect();
                bail!("{source}: merge {number} = '{}', expected two parts of a token", shown.escape_debug())
            }
        };
        let merges = self.merges.iter().enumerate().map(pair).collect::<Result<Json>>()?;
        let split = |expression: &&str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
        let bytes = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false
        });
        let steps: Vec<Json> = self.splits.iter().map(split).chain([bytes.clone()]).collect();
        let normalizer = if self.composed { json!({"type": "NFC"}) } else { Json::Null };
        Ok(json!({
            "version": "1.0", "added_tokens": self.added, "post_processor": self.prefix, "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "decoder": bytes,
            "model": {"type": "BPE", "vocab": self.vocab, "merges": merges, "ignore_merges": self.whole_words}
        }))
    }
}

/// Adds a token in front of each text.
pub(crate) fn prefix(text: &str, number: usize) -> Json {
    let first = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let mut special = Map::new();
    special.insert(text.into(), json!({"id": text, "ids": [number], "tokens": [text]}));
    json!({
        "type": "TemplateProcessing", "single": [first, sequence("A")],
        "pair": [first, sequence("A"), sequence("B")], "special_tokens": special
    })
}

/// A token that stands for itself in a text.
pub(crate) fn added(number: usize, text: &str, special: bool) -> Json {
    json!({
        "id": number, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special
    })
}

const FILES: [&str; 2] = ["vocab.json", "merges.txt"];
const CONFIG: &str = "tokenizer_config.json";

const MAX_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Default, Deserialize)]
struct Config {
    tokenizer_class: Option<String>,
    bos_token: Option<Mark>,
    eos_token: Option<Mark>,
    unk_token: Option<Mark>,
    pad_token: Option<Mark>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    add_prefix_space: Option<bool>,
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, Added>,
}

#[derive(Default, Deserialize)]
struct Model {
    model_type: Option<String>,
}

/// The tokenizer of `vocab.json` and `merges.txt` in a folder, and the path of the former; `None` without both.
pub(crate) fn of_folder(dir: &Path) -> Result<Option<(PathBuf, String)>> {
    let [vocab, merges] = FILES.map(|name| dir.join(name));
    match [&vocab, &merges].map(|path| path.symlink_metadata().is_ok()) {
        [false, false] => return Ok(None),
        [true, true] => {}
        [has_vocab, _] => {
            let [there, missing] = if has_vocab { FILES } else { [FILES[1], FILES[0]] };
            return Err(refusal!(
                "'{}' has {there}, but no {missing}: expected both, or a tokenizer.json",
                dir.display()
            ));
        }
    }
    let invalid =
        |path: &Path, error: serde_json::Error| refusal!("{} is not valid: {error}", path.display());
    let numbers: BTreeMap<String, usize> =
        ndp_files::parse_json(&read_json(&vocab, MAX_BYTES)?).map_err(|error| invalid(&vocab, error))?;
    let text = read_json(&merges, MAX_BYTES)?;
    let lines = text.lines().map(|line| line.trim_end_matches('\r'));
    let lines = lines
        .enumerate()
        .filter(|(at, line)| !line.is_empty() && !(*at == 0 && line.starts_with("#version")));
    let config: Config = read(dir, CONFIG)?;
    for (key, found) in
        [("add_prefix_space", config.add_prefix_space), ("add_eos_token", config.add_eos_token)]
    {
        ensure!(
            found != Some(true),
            "{}: {key} = true, expected false, or a tokenizer.json",
            dir.join(CONFIG).display()
        );
    }
    let model: Model = read(dir, "config.json")?;
    let named = config.tokenizer_class.as_deref().map(|name| name.trim_end_matches("Fast"));
    let named = named.or_else(|| match model.model_type.as_deref()? {
        "opt" => Some("GPT2Tokenizer"),
        kind if kind.starts_with("qwen") => Some("Qwen2Tokenizer"),
        _ => None,
    });
    let is_qwen = named == Some("Qwen2Tokenizer");
    ensure!(
        is_qwen || named == Some("GPT2Tokenizer"),
        "{}: tokenizer_class = {}, expected GPT2Tokenizer or Qwen2Tokenizer, or a tokenizer.json",
        dir.join(CONFIG).display(),
        named.unwrap_or("(absent)")
    );
    let own: BTreeMap<String, usize> = read(dir, "added_tokens.json")?;
    let mut all: BTreeMap<usize, Json> = own.iter().map(|(text, n)| (*n, added(*n, text, false))).collect();
    for (number, token) in &config.added_tokens_decoder {
        let Ok(number) = number.parse() else {
            bail!("{}: added_tokens_decoder.{number}, expected a number", dir.join(CONFIG).display());
        };
        let mut json = added(number, &token.content, token.special);
        (json["lstrip"], json["rstrip"]) = (token.lstrip.into(), token.rstrip.into());
        all.insert(number, json);
    }
    let number = |text: &str| {
        let found = all.iter().find(|(_, token)| token["content"] == text).map(|(number, _)| *number);
        found.or_else(|| numbers.get(text).copied())
    };
    let first = match config.bos_token.as_ref().map(Mark::text).filter(|_| config.add_bos_token == Some(true))
    {
        None => Json::Null,
        Some(text) => match number(text) {
            Some(number) => prefix(text, number),
            None => bail!("{}: bos_token = {text}, expected a token", dir.join(CONFIG).display()),
        },
    };
    let marks = [&config.bos_token, &config.eos_token, &config.unk_token, &config.pad_token];
    let marks: Vec<(usize, &str)> =
        marks.into_iter().flatten().filter_map(|mark| Some((number(mark.text())?, mark.text()))).collect();
    for (number, text) in marks {
        all.entry(number).or_insert_with(|| added(number, text, true));
    }
    let split = [if is_qwen { LINES[1] } else { WORDS }];
    // Tokens that the vocabulary lacks would otherwise be numbered anew.
    let mut vocab_json: Map<String, Json> =
        numbers.iter().map(|(text, number)| (text.clone(), Json::from(*number))).collect();
    for (number, token) in &all {
        vocab_json.insert(token["content"].as_str().unwrap_or_default().to_owned(), (*number).into());
    }
    let parts = ByteLevel {
        vocab: vocab_json.into(),
        merges: lines.map(|(_, line)| line).collect(),
        splits: &split,
        added: all.into_values().collect(),
        prefix: first,
        whole_words: false,
        composed: is_qwen,
    };
    let json = parts.json(&merges.display().to_string())?;
    Ok(Some((vocab, json.to_string())))
}
