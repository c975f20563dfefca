//! Shows a text while it is generated, token by token.
//!
//! On a terminal that also shows the progress bar the text is part of the bar and is printed when it is complete; else
//! it goes to standard output as it comes. Nothing is shown in JSON mode but the bar.

use ndp_files::Progress;
use ndp_model::Vocabulary;
use std::io::IsTerminal;

/// The display of one generation.
#[derive(Debug)]
pub struct TextStream {
    progress: Progress,
    vocabulary: Vocabulary,
    tokens: Vec<u32>,
    /// Bytes of their text that have been shown.
    shown: usize,
    text: String,
    direct: bool,
    json: bool,
}

impl TextStream {
    /// Starts with the prompt.
    pub fn new(prompt: &str, vocabulary: &Vocabulary, progress: Progress, json: bool) -> Self {
        let shared = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let direct = !(json || shared);
        let (vocabulary, text) = (vocabulary.clone(), String::new());
        let mut stream = Self { progress, vocabulary, tokens: Vec::new(), shown: 0, text, direct, json };
        stream.show(prompt);
        stream
    }

    /// One more token.
    pub fn push(&mut self, token: u32) {
        // The GPU computes the first token with the prompt, within a second or two.
        self.progress.add(u64::from(!self.tokens.is_empty()));
        self.tokens.push(token);
        // A character whose other bytes may come with the next tokens waits for them.
        self.show_rest(|text| text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
    }

    /// Shows what has not been shown of the first bytes of the text, as many as `ready` says.
    fn show_rest(&mut self, ready: fn(&str) -> usize) {
        let text = self.vocabulary.text(&self.tokens).unwrap_or_default();
        if let Some(rest) = text.get(self.shown..ready(&text)).filter(|rest| !rest.is_empty()) {
            self.show(rest);
            self.shown += rest.len();
        }
    }

    fn show(&mut self, text: &str) {
        self.text += text;
        if self.direct {
            ndp_files::print(text);
        }
        self.progress.show_text(&self.text);
    }

    /// Ends the line, or prints the whole text if the bar has shown it; returns prompt and text.
    pub fn finish(mut self) -> String {
        self.show_rest(str::len);
        drop(self.progress);
        if self.direct {
            say!();
        } else if !self.json {
            say!("{}", self.text);
        }
        self.text
    }
}
