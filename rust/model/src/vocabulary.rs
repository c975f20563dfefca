//! What tokens stand for: bytes, or what a `tokenizer.json` says (Hugging Face's `tokenizers`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use serde::de::IgnoredAny;
use tokenizers::Tokenizer;

use crate::ModelError;

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
    json: Vec<u8>,
    tokenizer: Tokenizer,
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
    /// [`ModelError::Io`] for a `tokenizer.json` that cannot be read, [`ModelError::Tokenizer`] for one that is not valid or has more tokens than the
    /// model.
    pub fn load(dir: &Path, vocab_size: usize) -> Result<Self, ModelError> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(Self::of_size(vocab_size));
        }
        let json = ndp_files::read_bytes(&path, MAX_BYTES)
            .map_err(|source| ModelError::Io { path: path.clone(), source })?;
        let failed = |reason: String| ModelError::Tokenizer { path: path.clone(), reason };
        let tokenizer = tokenizer(&json).map_err(|e| failed(format!("not a tokenizer: {e}")))?;
        let tokens = tokenizer.get_vocab_size(true);
        if tokens > vocab_size {
            return Err(failed(format!("{tokens} tokens, config.json says vocab_size = {vocab_size}")));
        }
        Ok(Self::Subwords(Arc::new(Subwords { path, json, tokenizer })))
    }

    /// The tokens of a text, with those that the tokenizer puts in front of a text, if any.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] for what is not UTF-8 or cannot be encoded, [`ModelError::NoVocabulary`] without a vocabulary.
    pub fn tokens(&self, text: &[u8]) -> Result<Vec<u32>, ModelError> {
        match self {
            Self::Bytes => Ok(text.iter().map(|&byte| u32::from(byte)).collect()),
            Self::Subwords(subwords) => {
                let text =
                    std::str::from_utf8(text).map_err(|e| subwords.failed(format!("the text: {e}")))?;
                let encoding = caught(|| subwords.tokenizer.encode(text, true));
                Ok(encoding.map_err(|e| subwords.failed(e))?.get_ids().to_vec())
            }
            Self::Unknown(vocab_size) => Err(ModelError::NoVocabulary { vocab_size: *vocab_size }),
        }
    }

    /// The text that tokens spell; what is not UTF-8, or no token of the vocabulary, becomes U+FFFD. Without a vocabulary it is empty.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer has no text for them.
    pub fn text(&self, tokens: &[u32]) -> Result<String, ModelError> {
        match self {
            Self::Bytes => {
                // 0xFF occurs nowhere in UTF-8, so it becomes U+FFFD like any other byte that is out of place.
                let bytes: Vec<u8> =
                    tokens.iter().map(|&token| u8::try_from(token).unwrap_or(0xFF)).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Subwords(subwords) => {
                caught(|| subwords.tokenizer.decode(tokens, true)).map_err(|e| subwords.failed(e))
            }
            Self::Unknown(_) => Ok(String::new()),
        }
    }
}

/// What `tokenizers` makes of a file. It panics on some that are not JSON, so that is looked at first.
fn tokenizer(json: &[u8]) -> Result<Tokenizer, String> {
    serde_json::from_slice::<IgnoredAny>(json).map_err(|e| e.to_string())?;
    caught(|| Tokenizer::from_bytes(json))
}

thread_local! {
    /// Whether a panic of this thread is caught by [`caught`], and so an error and no message.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls the library, which panics on some files that it has accepted: its message becomes an error.
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
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            Err(said.or_else(|| panic.downcast_ref().copied()).unwrap_or("it cannot be used").to_owned())
        }
    }
}

impl Subwords {
    fn failed(&self, reason: String) -> ModelError {
        ModelError::Tokenizer { path: self.path.clone(), reason }
    }
}
