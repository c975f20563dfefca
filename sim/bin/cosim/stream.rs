//! Shows a text while it is generated, byte by byte.
//!
//! On a terminal that also shows the progress bar the text is part of the bar and is printed when it is complete; else
//! it goes to standard output as it comes. Nothing is shown in JSON mode but the bar.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};

/// The display of one generation.
#[derive(Debug)]
pub struct TextStream {
    bar: ProgressBar,
    /// Bytes that do not make a character yet.
    pending: Vec<u8>,
    text: String,
    direct: bool,
    json: bool,
}

impl TextStream {
    /// Starts with the prompt.
    pub fn new(prompt: &str, tokens: u32, json: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(tokens.into()), ProgressDrawTarget::hidden());
        if terminal {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            let template = "{msg}\n{bar:40} {pos}/{len} tokens, {elapsed}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(250));
        }
        let shared = terminal && std::io::stdout().is_terminal();
        let direct = !(json || shared);
        let mut stream = Self { bar, pending: Vec::new(), text: String::new(), direct, json };
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
        self.bar.inc(1);
    }

    fn show(&mut self, text: &str) {
        self.text += text;
        if self.direct {
            // A reader that went away is no reason to stop the check.
            let mut out = std::io::stdout();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
        self.bar.set_message(self.text.clone());
    }

    /// Ends the line, or prints the whole text if the bar has shown it; returns prompt and text.
    pub fn finish(mut self) -> String {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
        self.show(&rest);
        self.bar.finish_and_clear();
        if self.direct {
            say!();
        } else if !self.json {
            say!("{}", self.text);
        }
        self.text
    }
}
