//! Shows a text while it is generated, byte by byte.
//!
//! On a terminal that also shows the progress bar the text is part of the bar and is printed when it is complete; else
//! it goes to standard output as it comes. Nothing is shown in JSON mode but the bar.

use ndp_files::Progress;
use std::io::IsTerminal;

/// The display of one generation.
#[derive(Debug)]
pub struct TextStream {
    progress: Progress,
    /// Bytes that do not make a character yet.
    pending: Vec<u8>,
    tokens: u32,
    text: String,
    direct: bool,
    json: bool,
}

impl TextStream {
    /// Starts with the prompt.
    pub fn new(prompt: &str, progress: Progress, json: bool) -> Self {
        let shared = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let direct = !(json || shared);
        let mut stream = Self { progress, pending: Vec::new(), tokens: 0, text: String::new(), direct, json };
        stream.show(prompt);
        stream
    }

    /// One more token.
    pub fn push(&mut self, byte: u8) {
        self.pending.push(byte);
        // An incomplete character at the end waits for its other bytes, at most three.
        let wait = matches!(std::str::from_utf8(&self.pending), Err(e) if e.error_len().is_none());
        if !wait {
            let text = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
            self.show(&text);
        }
        // The GPU computes the first token with the prompt, within a second or two.
        self.progress.add(u64::from(self.tokens > 0));
        self.tokens += 1;
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
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
        self.show(&rest);
        drop(self.progress);
        if self.direct {
            say!();
        } else if !self.json {
            say!("{}", self.text);
        }
        self.text
    }
}
