//! A file of accepted gaps in coverage and accepted surviving mutants, each with its reason.

use crate::prelude::*;
use serde::{Deserialize, Serialize};

const LIMIT: u64 = 1 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waivers {
    /// Lines that do not run, and bits that do not change.
    #[serde(default)]
    pub coverage: Vec<Hole>,
    /// Mutants that no test finds.
    #[serde(default)]
    pub mutant: Vec<Survivor>,
}

/// Lines or bits of a block. In patterns, `*` matches any text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hole {
    /// A file of `hdl/src/blocks`.
    pub block: String,
    /// Pattern for signals whose bits do not change.
    pub signal: Option<String>,
    /// First and last bit; all bits if missing.
    pub bits: Option<[u32; 2]>,
    /// Pattern for the signal that a line sets, preceded by the branch, such as `else count_q`.
    pub line: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Survivor {
    /// A file of `hdl/src/blocks`.
    pub block: String,
    /// Pattern for the change in words.
    pub change: String,
    pub reason: String,
}

impl Waivers {
    pub fn read(path: &Path) -> Result<Self> {
        let named = || path.display().to_string();
        let text = ndp_files::read_text(path, LIMIT).with_context(named)?;
        let waivers: Self = toml::from_str(&text).with_context(named)?;
        for hole in &waivers.coverage {
            let whole = hole.signal.is_some() != hole.line.is_some();
            ensure!(whole, "{}: {hole} needs either `signal` or `line`", named());
            ensure!(
                hole.bits.is_none_or(|[first, last]| first <= last && hole.signal.is_some()),
                "{}: {hole}: `bits` are the first and the last bit of a `signal`",
                named()
            );
        }
        let reasons = waivers.coverage.iter().map(|hole| &hole.reason);
        for reason in reasons.chain(waivers.mutant.iter().map(|survivor| &survivor.reason)) {
            ensure!(!reason.trim().is_empty(), "{}: a waiver has no reason", named());
        }
        Ok(waivers)
    }
}

impl std::fmt::Display for Hole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the waiver of {}", self.block)?;
        let named = self.signal.iter().chain(&self.line);
        named.into_iter().try_for_each(|pattern| write!(f, ", `{pattern}`"))?;
        self.bits.map_or(Ok(()), |[first, last]| write!(f, ", bits {first} to {last}"))
    }
}

/// Whether a text matches a pattern, in which `*` matches any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.is_char_boundary(at) && matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text_and_nothing_else_is() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*_q", "count_q", true),
            ("*_q", "count_qq", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("a.c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
