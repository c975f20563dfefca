//! What tokens stand for: bytes, or what a `tokenizer.json` says (Hugging Face's `tokenizers`).

use ndp_files::{Error, Result, refusal};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use serde::de::IgnoredAny;
use tokenizers::{Decoder, Encoding, ModelWrapper, Tokenizer};

const FILE: &str = "tokenizer.json";

/// Longest `tokenizer.json`.
const MAX_BYTES: u64 = 256 << 20;

/// Tokens of a byte-level model: token `n` is the byte `n`.
const BYTES: usize = 256;

/// From text to tokens and back.
#[derive(Debug, Clone)]
pub enum Vocabulary {
    /// Token `n` is the byte `n`.
    Bytes,
    /// Parts of words, by a `tokenizer.json`.
    Subwords(Arc<Subwords>),
    /// So many tokens that nobody describes.
    Unknown(usize),
}

/// A tokenizer and where it came from.
#[derive(Debug)]
pub struct Subwords {
    path: PathBuf,
    json: String,
    tokenizer: Tokenizer,
    /// Lowest number that no token has.
    end: usize,
}

impl PartialEq for Vocabulary {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes, Self::Bytes) => true,
            (Self::Subwords(a), Self::Subwords(b)) => a.json == b.json,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            _ => false,
        }
    }
}

impl Vocabulary {
    /// That of a model without a `tokenizer.json`.
    pub fn of_size(vocab_size: usize) -> Self {
        if vocab_size == BYTES { Self::Bytes } else { Self::Unknown(vocab_size) }
    }

    /// That of a model's directory.
    ///
    /// # Errors
    /// A `tokenizer.json` that cannot be read, one that is not valid.
    pub fn load(dir: &Path, vocab_size: usize) -> Result<Self> {
        let path = dir.join(FILE);
        // A link whose target is missing is an error, and no model without a tokenizer.
        if path.symlink_metadata().is_err() {
            return Ok(Self::of_size(vocab_size));
        }
        let json = crate::loader::read_json(&path, MAX_BYTES)?;
        let failed = |reason: String| refusal!("{}: {reason}", path.display());
        let tokenizer = tokenizer(&json).map_err(|e| failed(format!("not a tokenizer: {e}")))?;
        let end = tokenizer.get_vocab(true).into_values().max().map_or(0, |last| last as usize + 1);
        Ok(Self::Subwords(Arc::new(Subwords { path, json, tokenizer, end })))
    }

    /// Warning about tokens that the tokenizer has and a model of `vocab_size` tokens lacks.
    pub fn beyond(&self, vocab_size: usize) -> Option<String> {
        let Self::Subwords(subwords) = self else { return None };
        let last = subwords.end.checked_sub(1).filter(|last| *last >= vocab_size)?;
        Some(format!(
            "{FILE}: tokens up to {last}, but config.json says vocab_size = {vocab_size}: the model neither produces nor reads the others"
        ))
    }

    /// The tokens of a text, with those that the tokenizer puts in front of a text, if any.
    ///
    /// # Errors
    /// Text that is not UTF-8 or has characters without a token, text was asked of a model whose tokens nobody describes
    /// without a vocabulary.
    pub fn tokens(&self, text: &[u8]) -> Result<Vec<u32>> {
        match self {
            Self::Bytes => Ok(text.iter().map(|&byte| u32::from(byte)).collect()),
            Self::Subwords(subwords) => {
                let text =
                    std::str::from_utf8(text).map_err(|e| subwords.failed(format!("the text: {e}")))?;
                subwords.tokens(text)
            }
            Self::Unknown(vocab_size) => Err(refusal!(
                "text needs a tokenizer.json in the folder of the weights, or bytes as tokens: vocab_size = {}, expected 256",
                *vocab_size
            )),
        }
    }

    /// The text that tokens spell; what is not UTF-8, or no token of the vocabulary, becomes U+FFFD. Without a vocabulary it is empty.
    ///
    /// # Errors
    /// If the tokenizer has no text for them.
    pub fn text(&self, tokens: &[u32]) -> Result<String> {
        match self {
            Self::Bytes => {
                // 0xFF occurs nowhere in UTF-8, so it becomes U+FFFD like any other byte that is out of place.
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

    /// The text that `tokens` add to the text of `prompt`. Both are decoded together: many decoders drop the space before the first word, and a
    /// character may have its bytes on both sides.
    ///
    /// # Errors
    /// See [`Vocabulary::text`].
    pub fn continuation(&self, prompt: &[u32], tokens: &[u32]) -> Result<String> {
        let all = self.text(&[prompt, tokens].concat())?;
        Ok(after(&self.text(prompt)?, &all).to_owned())
    }
}

/// The part of a text after the characters that it shares with another one.
fn after<'a>(before: &str, text: &'a str) -> &'a str {
    let same = before.chars().zip(text.chars()).take_while(|(a, b)| a == b);
    &text[same.map(|(c, _)| c.len_utf8()).sum()..]
}

/// The text of a generation while its tokens come.
#[derive(Debug)]
pub struct Continuation {
    vocabulary: Vocabulary,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    /// Text that has been handed out.
    given: String,
}

impl Continuation {
    /// Starts after a prompt.
    pub fn new(vocabulary: &Vocabulary, prompt: Vec<u32>) -> Self {
        Self { vocabulary: vocabulary.clone(), prompt, tokens: Vec::new(), given: String::new() }
    }

    /// Adds a token, and returns the text that is complete with it: a character whose other bytes may come with the next tokens waits for them.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        self.give(|text| text.trim_end_matches(char::REPLACEMENT_CHARACTER).len())
    }

    /// Returns the rest, which no further token completes.
    pub fn finish(&mut self) -> String {
        self.give(str::len)
    }

    /// Hands out the next part of the first bytes of the text, as many as `ready` says.
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

/// A tokenizer as its file describes it, without the options for training and batches: a prompt is neither cut nor padded, and has the same tokens
/// each time. The library panics on some files that are not JSON, so the syntax is checked first.
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
    /// Whether a panic of this thread is caught by [`caught`], and so an error and no message.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls the library, which panics on some files that it has accepted: that becomes an error.
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
        // Its message is about indices in the library's own code.
        Err(_) => Err("its parts contradict each other".to_owned()),
    }
}

/// Most characters or tokens that a message lists.
const LISTED: usize = 8;

impl Subwords {
    /// The tokens of a text. They have to cover each of its characters: the library leaves out those that its model does not know, unless the file
    /// has a token for them.
    fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = caught(|| self.tokenizer.encode(text, true))
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
        // Offsets say that a part is missing, but not which: those after it in its word are too low. Tokens of bytes cover a character even if some of
        // its bytes have none.
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

    /// Whether the model drops unknown characters, and knows a character alone if it knows it within a word.
    fn drops(&self) -> bool {
        let ModelWrapper::BPE(model) = self.tokenizer.get_model() else { return false };
        let affixes = [&model.continuing_subword_prefix, &model.end_of_word_suffix];
        model.unk_token.is_none() && !model.ignore_merges && affixes.iter().all(|affix| affix.is_none())
    }

    /// Whether a character has no tokens, or tokens for some of its bytes only. The mark of a space in front of it does not count.
    fn loses(&self, c: char) -> bool {
        let space = |mark: char| mark.is_whitespace() || (mark != c && matches!(mark, '▁' | 'Ġ'));
        let lost = |own: Encoding| {
            let blank = own.get_tokens().iter().all(|token| token.chars().all(space));
            blank || c != char::REPLACEMENT_CHARACTER && self.replaced(own.get_ids()) > 0
        };
        caught(|| self.tokenizer.encode(String::from(c), false)).is_ok_and(lost)
    }

    /// Characters of the text of tokens that are not UTF-8.
    fn replaced(&self, tokens: &[u32]) -> usize {
        self.text(tokens).map_or(0, |text| text.matches(char::REPLACEMENT_CHARACTER).count())
    }

    /// As `Tokenizer::decode` without special tokens, but a number that no token has is U+FFFD, not nothing: a model has more rows than its
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
