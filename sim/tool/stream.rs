//! Shows a text while it is generated, token by token.
//!
//! On a terminal with a progress bar, the text is part of the bar and is printed when it is complete. Otherwise it
//! goes directly to standard output. With JSON, only the bar is shown.

use crate::prelude::*;
use ndp_model::Continuation;
use std::io::IsTerminal;

#[derive(Debug)]
pub struct TextStream {
    progress: Progress,
    continuation: Continuation,
    text: String,
    direct: bool,
    json: bool,
}

impl TextStream {
    /// Starts with the prompt, or another text to show before the continuation.
    pub fn new(prompt: &str, continuation: Continuation, progress: Progress, json: bool) -> Self {
        let shared = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let direct = !(json || shared);
        let mut stream = Self { progress, continuation, text: String::new(), direct, json };
        stream.show(prompt);
        stream
    }

    pub fn push(&mut self, token: u32) {
        // The GPU computes the first token with the prompt, within a second or two.
        self.progress.add(u64::from(!self.continuation.is_empty()));
        let text = self.continuation.push(token);
        self.show(&text);
    }

    fn show(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text += text;
        if self.direct {
            ndp_files::print(text);
        }
        self.progress.show_text(&self.text);
    }

    /// Ends the line, or prints the whole text if the bar has shown it. Returns prompt and text.
    pub fn finish(mut self) -> String {
        let rest = self.continuation.finish();
        self.show(&rest);
        drop(self.progress);
        if self.direct {
            ndp_files::print("\n");
        } else if !self.json {
            ndp_files::print(&format!("{}\n", self.text));
        }
        self.text
    }
}
