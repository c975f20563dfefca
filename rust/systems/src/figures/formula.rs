//! Formulas that compute our value of a paper's number.
//!
//! A formula has numbers, names with optional arguments in brackets, brackets, and `+ - * / < >` between blanks; a
//! comparison is 1 or 0. [`super::quantity`] defines the names.

use ndp_files::{Result, refusal};
use serde::Deserialize;
use std::iter::Peekable;
use std::str::SplitWhitespace;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Formula {
    /// A number, or a name with arguments.
    Name(String, Vec<Self>),
    Operation(char, Box<[Self; 2]>),
}

impl Formula {
    /// A number or a name without arguments.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Name(word, arguments) if arguments.is_empty() => Some(word),
            _ => None,
        }
    }
}

type Words<'a> = Peekable<SplitWhitespace<'a>>;

impl TryFrom<String> for Formula {
    type Error = ndp_files::Error;

    fn try_from(text: String) -> Result<Self> {
        let spaced =
            ['(', ')', ','].iter().fold(text.clone(), |text, mark| text.replace(*mark, &format!(" {mark} ")));
        let mut words = spaced.split_whitespace().peekable();
        match (operations(&mut words, 0), words.next()) {
            (Some(formula), None) => Ok(formula),
            _ => Err(refusal!("not a valid configuration: '{text}' is no formula")),
        }
    }
}

/// Binding strength of an operator.
fn strength(word: &str) -> Option<u8> {
    match word {
        "<" | ">" => Some(0),
        "+" | "-" => Some(1),
        "*" | "/" => Some(2),
        _ => None,
    }
}

/// Operands with operators of strength `least` and above, from left to right.
fn operations(words: &mut Words<'_>, least: u8) -> Option<Formula> {
    let mut left = operand(words)?;
    while let Some(found) = words.peek().and_then(|word| strength(word)).filter(|found| *found >= least) {
        let operator = words.next()?.chars().next()?;
        left = Formula::Operation(operator, Box::new([left, operations(words, found + 1)?]));
    }
    Some(left)
}

fn operand(words: &mut Words<'_>) -> Option<Formula> {
    match words.next()? {
        "(" => {
            let inner = operations(words, 0)?;
            (words.next()? == ")").then_some(inner)
        }
        ")" | "," => None,
        word if strength(word).is_some() => None,
        word => {
            let mut arguments = Vec::new();
            if words.next_if_eq(&"(").is_some() {
                loop {
                    arguments.push(operations(words, 0)?);
                    match words.next()? {
                        ")" => break,
                        "," => {}
                        _ => return None,
                    }
                }
            }
            Some(Formula::Name(word.to_owned(), arguments))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Formula> {
        Formula::try_from(text.to_owned())
    }

    #[test]
    fn operators_bind_as_they_do_in_arithmetic() {
        assert_eq!(read("a - b * c / d - e").unwrap(), read("(a - ((b * c) / d)) - e").unwrap());
        assert_eq!(read("a + b < (1 - c) * d").unwrap(), read("(a + b) < ((1 - c) * d)").unwrap());
        assert_ne!(read("a / (b / c)").unwrap(), read("a / b / c").unwrap());
        let Formula::Name(name, arguments) = read("mean(opt-13b, batch=2, rate(dex+dbo))").unwrap() else {
            panic!()
        };
        let words: Vec<_> = arguments.iter().map(Formula::word).collect();
        assert_eq!((&*name, &words[..]), ("mean", &[Some("opt-13b"), Some("batch=2"), None][..]));
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        for text in ["", "a +", "* a", "(a", "a)", "f(", "f(a", "f()", "f(a b)", "a b", ","] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}' is no formula")), "{error}");
        }
    }
}
