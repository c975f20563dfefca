//! Names in files and arguments, and display of foreign text.
//!
//! A name goes into generated files, paths, tables and terminals. It is checked once, where it is read, and never needs
//! quotes. Other texts are shown with [`visible`]. All terminal text passes [`printable`], so its only control
//! characters are line ends and tabs.

use std::borrow::Cow;
use std::fmt::{self, Write};
use thiserror::Error;

/// In characters.
const MOST: usize = 64;

/// Allowed names, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Parts of names of Verilog modules, packages and files.
    Identifier,
    /// Files, folders, columns and options.
    Word,
    /// Devices, machines and sets of numbers, for people to read.
    Title,
    /// From other programs, such as the model of a trace.
    Foreign,
}

impl NameRule {
    /// Fails with name and rule.
    pub fn check(self, name: &str) -> Result<(), NameError> {
        let first = name.chars().next();
        let short = name.chars().count() <= MOST;
        let legal = match self {
            Self::Identifier => {
                short
                    && first.is_some_and(|c| c.is_ascii_lowercase())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            }
            Self::Word => {
                short
                    && first.is_some_and(|c| c.is_ascii_alphanumeric())
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            }
            Self::Title => {
                short
                    && first.is_some_and(char::is_alphanumeric)
                    && name.chars().all(|c| c.is_alphanumeric() || " -_.,:+()".contains(c))
            }
            Self::Foreign => !name.chars().any(is_hidden),
        };
        if legal { Ok(()) } else { Err(NameError { name: name.to_owned(), rule: self }) }
    }
}

impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, rest) = match self {
            Self::Identifier => ("a lower-case letter", "a-z, 0-9 and '-'"),
            Self::Word => ("a letter or digit", "A-Z, a-z, 0-9, '-', '_' and '.'"),
            Self::Title => ("a letter or digit", "letters, digits, spaces and any of -_.,:+()"),
            Self::Foreign => return f.write_str("must have no control characters"),
        };
        write!(f, "must start with {first} and hold only {rest}, at most {MOST} characters")
    }
}

/// A name that breaks its rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' {rule}", visible(name))]
pub struct NameError {
    /// Refused name.
    pub name: String,
    /// Broken rule.
    pub rule: NameRule,
}

/// Whether a character moves the cursor, ends a line or changes the direction of text.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, which: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(which) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' if which(c) => shown.extend(c.escape_default()),
            // They have at most four digits.
            c if which(c) => _ = write!(shown, "\\u{:04x}", u32::from(c)),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Foreign text on one line: control characters, line ends and changes of direction as JSON escapes.
///
/// ```
/// assert_eq!(ndp_files::visible("a\u{1b}[31m\nb"), r"a\u001b[31m\nb");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Terminal text: control characters and changes of direction as JSON escapes, except line ends and tabs. JSON keeps
/// its meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_characters_that_a_writer_would_have_to_quote() {
        use NameRule::{Foreign, Identifier, Title, Word};
        let long = "a".repeat(MOST);
        for (rule, good) in [
            (Identifier, &["hermes", "hbm2-pseudo", "a", &long][..]),
            (Word, &["qwen1.5-4b", "4x256x1024", "slack_ps", "A"]),
            (Title, &["NVMe, PCIe 4.0 x4", "GPU of the M1 Max, not used", "Rechner für Tests (2)"]),
            (Foreign, &["facebook/opt-1.3b", "/home/a b/model", ""]),
        ] {
            for name in good {
                assert_eq!(rule.check(name), Ok(()), "{name}");
            }
        }
        let longer = "a".repeat(MOST + 1);
        for rule in [Identifier, Word, Title] {
            for bad in
                ["", "a\nb", "a\u{1b}b", "a\u{9b}b", "../a", "a/b", "-a", "a;b", "a'b", "a\"b", "=a", &longer]
            {
                assert!(rule.check(bad).is_err(), "{rule:?} {bad:?}");
            }
        }
        assert!(
            Word.check("a b").is_err() && Identifier.check("A").is_err() && Identifier.check("a_b").is_err()
        );
        for bad in ["a\nb", "a\u{1b}b", "\u{202E}a", "a\tb"] {
            let error = Foreign.check(bad).unwrap_err().to_string();
            assert!(!error.chars().any(is_hidden) && error.contains("no control characters"), "{error:?}");
        }
    }

    #[test]
    fn hidden_characters_are_shown_and_others_stay() {
        assert_eq!(visible("ä\u{202E}\r\u{7f}\u{9b}"), r"ä\u202e\r\u007f\u009b");
        assert_eq!(printable("a\tb\n\u{1b}]0;x\u{7}"), "a\tb\n\\u001b]0;x\\u0007");
        assert!(matches!(visible("plain"), Cow::Borrowed("plain")));
    }
}
