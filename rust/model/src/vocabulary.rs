//! Meaning of tokens: bytes, or a `tokenizer.json` (Hugging Face's `tokenizers`), perhaps made from a GGUF file.

use ndp_files::{Error, Result, refusal};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use crate::byte_level;
use crate::chat::{Chat, Message};
use serde::de::IgnoredAny;
use tokenizers::{Decoder, Encoding, ModelWrapper, Tokenizer};

const FILE: &str = "tokenizer.json";

const MAX_BYTES: u64 = 256 << 20;

/// Tokens of a byte-level model.
const BYTES: usize = 256;

/// From text to tokens and back.
#[derive(Debug, Clone)]
pub enum Vocabulary {
    /// Token `n` is the byte `n`.
    Bytes,
    /// Parts of words, from a `tokenizer.json`.
    Subwords(Arc<Subwords>),
    /// This number of tokens, without a description.
    Unknown(usize),
}

/// A tokenizer and its file.
#[derive(Debug)]
pub struct Subwords {
    path: PathBuf,
    json: String,
    tokenizer: Tokenizer,
    /// Above all tokens.
    end: usize,
    chat: Chat,
}

impl PartialEq for Vocabulary {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes, Self::Bytes) => true,
            (Self::Subwords(a), Self::Subwords(b)) => a.json == b.json && a.chat == b.chat,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            _ => false,
        }
    }
}

impl Vocabulary {
    /// For a model without `tokenizer.json`.
    pub fn of_size(vocab_size: usize) -> Self {
        if vocab_size == BYTES { Self::Bytes } else { Self::Unknown(vocab_size) }
    }

    /// For a model's directory: its `tokenizer.json`, or else `vocab.json` and `merges.txt`. Fails if they are unreadable
    /// or invalid.
    pub fn load(dir: &Path, vocab_size: usize) -> Result<Self> {
        let path = dir.join(FILE);
        // A dangling link is an error.
        if path.symlink_metadata().is_err() {
            return match byte_level::of_folder(dir)? {
                Some((path, json)) => Self::from_json(&path, json, Chat::load(dir)?),
                None => Ok(Self::of_size(vocab_size)),
            };
        }
        Self::from_json(&path, crate::loader::read_json(&path, MAX_BYTES)?, Chat::load(dir)?)
    }

    /// From the text of a `tokenizer.json`; `path` names its source in messages.
    pub(crate) fn from_json(path: &Path, json: String, chat: Chat) -> Result<Self> {
        let failed = |reason: String| refusal!("{}: {reason}", path.display());
        let tokenizer = tokenizer(&json).map_err(|e| failed(format!("not a tokenizer: {e}")))?;
        let end = tokenizer.get_vocab(true).into_values().max().map_or(0, |last| last as usize + 1);
        let path = path.to_owned();
        Ok(Self::Subwords(Arc::new(Subwords { path, json, tokenizer, end, chat })))
    }

    /// Tokens that end a text, each by itself; none without sub-words.
    pub fn end_tokens(&self) -> &[u32] {
        match self {
            Self::Subwords(subwords) => &subwords.chat.end_tokens,
            Self::Bytes | Self::Unknown(_) => &[],
        }
    }

    /// Text and tokens of a conversation to which the model gives the next answer. The template has the tokenizer's
    /// prefix, so none is added. Fails as [`Chat::prompt`] and [`Vocabulary::tokens`].
    pub fn conversation(&self, messages: &[Message]) -> Result<(String, Vec<u32>)> {
        let none = Chat::default();
        let chat = if let Self::Subwords(subwords) = self { &subwords.chat } else { &none };
        let text = chat.prompt(messages)?;
        let tokens = match self {
            Self::Subwords(subwords) => subwords.tokens(&text, false),
            Self::Bytes | Self::Unknown(_) => self.tokens(text.as_bytes()),
        };
        tokens.map(|tokens| (text, tokens))
    }

    /// Warning about tokens beyond a model's `vocab_size`.
    pub fn beyond(&self, vocab_size: usize) -> Option<String> {
        let Self::Subwords(subwords) = self else { return None };
        let last = subwords.end.checked_sub(1).filter(|last| *last >= vocab_size)?;
        Some(format!(
            "{FILE}: tokens up to {last}, but config.json says vocab_size = {vocab_size}: the model neither produces nor reads the others"
        ))
    }

    /// Tokens of a text, with the tokenizer's prefix, if any. Fails for text that is not UTF-8, characters without
    /// tokens, and without a vocabulary.
    pub fn tokens(&self, text: &[u8]) -> Result<Vec<u32>> {
        match self {
            Self::Bytes => Ok(text.iter().map(|&byte| u32::from(byte)).collect()),
            Self::Subwords(subwords) => {
                let text =
                    std::str::from_utf8(text).map_err(|e| subwords.failed(format!("the text: {e}")))?;
                subwords.tokens(text, true)
            }
            Self::Unknown(vocab_size) => Err(refusal!(
                "text needs a tokenizer.json, or vocab.json and merges.txt, in the folder of the weights, tokens in the GGUF file, or bytes as tokens: vocab_size = {}, expected 256",
                *vocab_size
            )),
        }
    }

    /// Text of tokens; parts outside UTF-8 or the vocabulary are U+FFFD. Empty without a vocabulary. Fails if the
    /// tokenizer cannot decode them.
    pub fn text(&self, tokens: &[u32]) -> Result<String> {
        match self {
            Self::Bytes => {
                // 0xFF never occurs in UTF-8, so it becomes U+FFFD.
                let bytes: Vec<u8> =
                    tokens.iter().map(|&token| u8::try_from(token).unwrap_or(0xFF)).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Subwords(subwords) => {
                let first = &tokens[..tokens.len().min(LISTED)];
                let more = if tokens.len() > LISTED { " and more" } else { "" };
                let broken = |e| format!("cannot be used: decoding tokens {first:?}{more} fails: {e}");
                subwords.text(tokens).map_err(|e| subwords.failed(broken(e)))
            }
            Self::Unknown(_) => Ok(String::new()),
        }
    }

    /// Text that `tokens` add to `prompt`. Both are decoded together: many decoders drop the space before the first
    /// word, and a character's bytes may be on both sides. Fails as [`Vocabulary::text`].
    pub fn continuation(&self, prompt: &[u32], tokens: &[u32]) -> Result<String> {
        let all = self.text(&[prompt, tokens].concat())?;
        Ok(after(&self.text(prompt)?, &all).to_owned())
    }
}

/// Part of `text` after the characters shared with `before`.
fn after<'a>(before: &str, text: &'a str) -> &'a str {
    let same = before.chars().zip(text.chars()).take_while(|(a, b)| a == b);
    &text[same.map(|(c, _)| c.len_utf8()).sum()..]
}

/// Text of a generation as its tokens come.
#[derive(Debug)]
pub struct Continuation {
    vocabulary: Vocabulary,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    /// Returned so far.
    given: String,
}

impl Continuation {
    /// Starts after a prompt.
    pub fn new(vocabulary: &Vocabulary, prompt: Vec<u32>) -> Self {
        Self { vocabulary: vocabulary.clone(), prompt, tokens: Vec::new(), given: String::new() }
    }

    /// Adds a token; returns the text that it completes. Characters with missing bytes wait for the next tokens.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        self.give(|text| text.trim_end_matches(char::REPLACEMENT_CHARACTER).len())
    }

    /// The rest, which no token completes.
    pub fn finish(&mut self) -> String {
        self.give(str::len)
    }

    /// Returns new text up to the length `ready`.
    fn give(&mut self, ready: fn(&str) -> usize) -> String {
        let text = self.vocabulary.continuation(&self.prompt, &self.tokens).unwrap_or_default();
        let text = &text[..ready(&text)];
        let rest = after(&self.given, text).to_owned();
        if !rest.is_empty() {
            text.clone_into(&mut self.given);
        }
        rest
    }

    /// Whether no token has come yet.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// Tokenizer of a file, without options for training and batches: prompts are neither cut nor padded. The library
/// panics on some files that are not JSON, so the syntax is checked first.
fn tokenizer(json: &str) -> Result<Tokenizer, String> {
    ndp_files::parse_json::<IgnoredAny>(json).map_err(|e| e.to_string())?;
    caught(|| {
        let mut tokenizer = Tokenizer::from_bytes(json)?;
        tokenizer.with_padding(None).with_truncation(None)?;
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && model.dropout.is_some()
        {
            let mut model = model.clone();
            model.dropout = None;
            tokenizer.with_model(model);
        }
        Ok(tokenizer)
    })
}

thread_local! {
    /// Whether [`caught`] handles this thread's panics, without a message.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls the library; its panics on some accepted files become errors.
fn caught<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                others(panic);
            }
        }));
    });
    let outer = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CATCHING.set(outer);
    match result {
        Ok(result) => result.map_err(|e| e.to_string()),
        // The panic's message is about indices inside the library.
        Err(_) => Err("its parts contradict each other".to_owned()),
    }
}

/// Most characters or tokens listed in a message.
const LISTED: usize = 8;

impl Subwords {
    /// Tokens of a text, with or without the tokenizer's prefix, which have to cover each character: the library drops
    /// unknown ones without a token for them.
    fn tokens(&self, text: &str, prefix: bool) -> Result<Vec<u32>> {
        let encoding = caught(|| self.tokenizer.encode(text, prefix))
            .map_err(|e| self.failed(format!("cannot be used: encoding the text fails: {e}")))?;
        let tokens = encoding.get_ids().to_vec();
        if tokens.is_empty() && !text.is_empty() {
            let start: String = text.chars().take(LISTED).collect();
            let more = if start.len() < text.len() { "..." } else { "" };
            return Err(self.failed(format!(
                "the tokenizer gives no tokens for the text '{}{more}'",
                start.escape_debug()
            )));
        }
        let mut covered = vec![false; text.len()];
        for &(start, end) in encoding.get_offsets() {
            if let Some(own) = covered.get_mut(start..end) {
                own.fill(true);
            }
        }
        // Offsets show that a part is missing but not which, since later ones in the word are too low. Byte tokens
        // cover a character even if some bytes have none.
        let given = text.matches(char::REPLACEMENT_CHARACTER).count();
        let complete = covered.iter().all(|covered| *covered) && self.replaced(&tokens) <= given;
        if complete && !self.drops() {
            return Ok(tokens);
        }
        let mut lost: BTreeSet<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        lost.retain(|c| self.loses(*c));
        if lost.is_empty() {
            return Ok(tokens);
        }
        let names: Vec<String> =
            lost.iter().take(LISTED).map(|c| format!("'{}'", c.escape_debug())).collect();
        let more =
            if lost.len() > LISTED { format!(" and {} more", lost.len() - LISTED) } else { String::new() };
        Err(self.failed(format!(
            "the tokenizer has no tokens for {}{more}, which the model would not see: leave them out",
            names.join(", ")
        )))
    }

    /// Whether the model drops unknown characters, and a character known in a word is also known by itself.
    fn drops(&self) -> bool {
        let ModelWrapper::BPE(model) = self.tokenizer.get_model() else { return false };
        let affixes = [&model.continuing_subword_prefix, &model.end_of_word_suffix];
        model.unk_token.is_none() && !model.ignore_merges && affixes.iter().all(|affix| affix.is_none())
    }

    /// Whether a character lacks tokens for some of its bytes, the space mark before it aside.
    fn loses(&self, c: char) -> bool {
        let space = |mark: char| mark.is_whitespace() || (mark != c && matches!(mark, '▁' | 'Ġ'));
        let lost = |own: Encoding| {
            let blank = own.get_tokens().iter().all(|token| token.chars().all(space));
            blank || c != char::REPLACEMENT_CHARACTER && self.replaced(own.get_ids()) > 0
        };
        caught(|| self.tokenizer.encode(String::from(c), false)).is_ok_and(lost)
    }

    /// Characters of the tokens' text that are not UTF-8.
    fn replaced(&self, tokens: &[u32]) -> usize {
        self.text(tokens).map_or(0, |text| text.matches(char::REPLACEMENT_CHARACTER).count())
    }

    /// `Tokenizer::decode` without special tokens, but with U+FFFD for unknown numbers: a model has more rows than its
    /// tokenizer has tokens, and may generate them.
    fn text(&self, tokens: &[u32]) -> Result<String, String> {
        let own = |&token: &u32| match self.tokenizer.id_to_token(token) {
            None => Some(String::from(char::REPLACEMENT_CHARACTER)),
            Some(text) => {
                Some(text).filter(|text| !self.tokenizer.get_added_vocabulary().is_special_token(text))
            }
        };
        let parts: Vec<String> = tokens.iter().filter_map(own).collect();
        match self.tokenizer.get_decoder() {
            Some(decoder) => caught(|| decoder.decode(parts)),
            None => Ok(parts.join(" ")),
        }
    }

    fn failed(&self, reason: String) -> Error {
        refusal!("{}: {reason}", self.path.display())
    }
}
