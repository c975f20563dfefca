//! Tokens of a GGUF file as a `tokenizer.json`: byte-level BPE (`gpt2`), or pieces with scores (`llama`).

use std::collections::HashMap;
use std::path::Path;

use ndp_files::{Error, Result, bail, ensure};
use serde_json::{Value as Json, json};

use super::reader::{File, shown};
use super::value::Value;
use crate::Vocabulary;
use crate::byte_level::{self, ByteLevel, LINES, WORDS, prefix};
use crate::chat::Chat;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const FIRST: &str = "tokenizer.ggml.bos_token_id";
/// Tokens that end a text, a turn and a message.
const ENDS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const ADD_FIRST: &str = "tokenizer.ggml.add_bos_token";
const ADD_LAST: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";
const TEMPLATE: &str = "tokenizer.chat_template";

/// Names of `tokenizer.ggml.pre` with the expressions that split a text, one after the other.
const SPLITS: [(&str, &[&str]); 5] = [
    ("default", &[r"[\p{P}$+<=>^~|]+", WORDS, r"\p{N}+", r"[0-9][0-9][0-9]"]),
    ("gpt-2", &[WORDS]),
    ("smollm", &[r"\p{N}", WORDS]),
    (LLAMA_3, &[LINES[0]]),
    ("qwen2", &[LINES[1]]),
];

/// Takes a word that is a token as a whole, whatever the merges, and begins texts with a token by default.
const LLAMA_3: &str = "llama-bpe";

/// Types of tokens with an effect.
const CONTROL: i128 = 3;
const USER_DEFINED: i128 = 4;

/// Mark of a space in pieces.
const SPACE: &str = "\u{2581}";

/// Longest piece, in bytes: the search for its merges takes time proportional to its square.
const MAX_PIECE_BYTES: usize = 512;

struct Tokens<'a> {
    file: &'a File<'a>,
    texts: Vec<&'a str>,
    types: Vec<i128>,
    numbers: HashMap<&'a str, usize>,
}

/// Vocabulary of a file; `path` is for messages.
pub(super) fn vocabulary(path: &Path, file: &File<'_>, vocab_size: usize) -> Result<Vocabulary> {
    let model = match file.metadata.get(MODEL) {
        None => return Ok(Vocabulary::of_size(vocab_size)),
        Some(model) => model.text(MODEL)?,
    };
    let json = match model {
        "none" | "no_vocab" => return Ok(Vocabulary::of_size(vocab_size)),
        "gpt2" => Tokens::read(file, vocab_size)?.byte_level()?,
        "llama" => Tokens::read(file, vocab_size)?.pieces()?,
        _ => bail!("metadata {MODEL} = {}, expected gpt2 or llama", shown(model)),
    };
    let template = file.metadata.get(TEMPLATE).map(|value| value.text(TEMPLATE)).transpose()?;
    let number = |key: &'static str| token(file, key, vocab_size);
    let mut end_tokens: Vec<u32> = Vec::new();
    for key in ENDS {
        end_tokens.extend(number(key)?.map(|token| token as u32).filter(|token| !end_tokens.contains(token)));
    }
    let texts = file.metadata.get(TOKENS).map(|tokens| tokens.texts(TOKENS)).transpose()?.unwrap_or_default();
    let mark = |key| Ok::<_, Error>(number(key)?.and_then(|token| Some((*texts.get(token)?).to_owned())));
    let marks = [mark(FIRST)?, mark(ENDS[0])?];
    let chat = Chat { end_tokens, template: template.map(str::to_owned), marks };
    Vocabulary::from_json(path, json.to_string(), chat)
}

/// A token that the metadata names by its number.
fn token(file: &File<'_>, key: &str, tokens: usize) -> Result<Option<usize>> {
    let Some(value) = file.metadata.get(key) else { return Ok(None) };
    match value.unsigned(key)? {
        number if number < tokens as u64 => Ok(Some(number as usize)),
        _ => Err(value.unexpected(key, &format!("a token below {tokens}"))),
    }
}

fn integer(key: &'static str) -> impl Fn(&Value<'_>) -> Result<i128> {
    move |value| match value {
        Value::Integer(value) => Ok(*value),
        _ => Err(value.unexpected(key, "whole numbers")),
    }
}

impl<'a> Tokens<'a> {
    fn read(file: &'a File<'a>, vocab_size: usize) -> Result<Self> {
        let Some(tokens) = file.metadata.get(TOKENS) else { bail!("metadata {TOKENS} is missing") };
        let texts = tokens.texts(TOKENS)?;
        ensure!(
            texts.len() == vocab_size,
            "metadata {TOKENS} has {} tokens, expected {vocab_size}, the rows of {}",
            texts.len(),
            super::architecture::EMBEDDING
        );
        let types = match file.metadata.get(TYPES) {
            Some(types) => types.elements(TYPES, vocab_size, integer(TYPES))?,
            None => vec![1; vocab_size],
        };
        let mut numbers = HashMap::with_capacity(vocab_size);
        for (number, text) in texts.iter().enumerate() {
            if let Some(other) = numbers.insert(*text, number) {
                bail!("metadata {TOKENS}: tokens {other} and {number} are both '{}'", shown(text));
            }
        }
        Ok(Self { file, texts, types, numbers })
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.file.metadata.get(key).map_or(Ok(default), |value| value.boolean(key))
    }

    fn numbered(&self) -> Json {
        Json::Object(self.texts.iter().enumerate().map(|(n, text)| ((*text).into(), n.into())).collect())
    }

    /// Tokens that stand for themselves in a text.
    fn added(&self) -> Json {
        let tokens = self.texts.iter().zip(&self.types).enumerate();
        let added = tokens.filter(|(_, (_, kind))| matches!(**kind, CONTROL | USER_DEFINED));
        added.map(|(number, (text, kind))| byte_level::added(number, text, *kind == CONTROL)).collect()
    }

    /// Adds the first token of each text.
    fn prefix(&self, by_default: bool) -> Result<Json> {
        if self.flag(ADD_LAST, false)? {
            bail!("metadata {ADD_LAST} = true, expected false: a text that ends cannot be continued");
        }
        if !self.flag(ADD_FIRST, by_default)? {
            return Ok(Json::Null);
        }
        let Some(number) = token(self.file, FIRST, self.texts.len())? else {
            bail!("metadata {FIRST} is missing, but each text begins with that token ({ADD_FIRST})");
        };
        Ok(prefix(self.texts[number], number))
    }

    fn byte_level(&self) -> Result<Json> {
        let pre = self.file.metadata.get(PRE).map_or(Ok("default"), |value| value.text(PRE))?;
        let Some((_, expressions)) = SPLITS.iter().find(|(name, _)| *name == pre) else {
            bail!("metadata {PRE} = {}, expected {}", shown(pre), SPLITS.map(|(name, _)| name).join(", "));
        };
        let Some(merges) = self.file.metadata.get(MERGES) else { bail!("metadata {MERGES} is missing") };
        let parts = ByteLevel {
            vocab: self.numbered(),
            merges: merges.texts(MERGES)?,
            splits: expressions,
            added: self.added(),
            prefix: self.prefix(pre == LLAMA_3)?,
            whole_words: pre == LLAMA_3,
            composed: false,
        };
        parts.json(&format!("metadata {MERGES}"))
    }

    /// Two neighbouring pieces merge if together they are a piece, the one with the highest score first.
    fn pieces(&self) -> Result<Json> {
        let Some(scores) = self.file.metadata.get(SCORES) else { bail!("metadata {SCORES} is missing") };
        let scores = scores.elements(SCORES, self.texts.len(), |value| value.number(SCORES))?;
        let is_added = |number: usize| matches!(self.types[number], CONTROL | USER_DEFINED);
        let mut merges = Vec::new();
        for (number, text) in self.texts.iter().enumerate().filter(|(number, _)| !is_added(*number)) {
            ensure!(
                text.len() <= MAX_PIECE_BYTES,
                "metadata {TOKENS}: token {number} has {} bytes, expected at most {MAX_PIECE_BYTES}",
                text.len()
            );
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if let (Some(own), Some(other)) = (self.numbers.get(left), self.numbers.get(right))
                    && !is_added(*own)
                    && !is_added(*other)
                {
                    merges.push((scores[number], number, left, right));
                }
            }
        }
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let merges: Json = merges.iter().map(|(.., left, right)| json!([left, right])).collect();
        let begins = self.flag(ADD_SPACE, true)?;
        let marks = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
        let spaces = json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "});
        let mut normalizers = vec![marks];
        let mut decoders = vec![spaces, json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
        if begins {
            normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let unknown = token(self.file, UNKNOWN, self.texts.len())?.map(|number| self.texts[number]);
        Ok(json!({
            "version": "1.0", "added_tokens": self.added(), "post_processor": self.prefix(true)?,
            "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": null,
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {
                "type": "BPE", "vocab": self.numbered(), "merges": merges, "unk_token": unknown, "fuse_unk": true,
                "byte_fallback": true
            }
        }))
    }
}
