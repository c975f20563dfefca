//! Configurations by name or by file: the common part of all presets.

use crate::{nearest, with_advice};
use ndp_files::{Context, Error, Result, refusal};
use std::path::Path;

/// More than all keys with comments; keeps endless devices out.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Adds `PRESETS`, `preset` and `load` to a type with `from_toml`. Paths of files are relative to the source.
///
/// ```
/// #[derive(Debug)]
/// struct Answer(u32);
/// impl Answer {
///     fn from_toml(text: &str) -> ndp_files::Result<Self> {
///         Ok(Self(text.len() as u32))
///     }
/// }
/// ndp_config::presets!(Answer, "answer", "short" => "presets.rs");
/// assert!(Answer::preset("shirt").unwrap_err().to_string().ends_with("did you mean 'short'?"));
/// ```
#[macro_export]
macro_rules! presets {
    ($type:ty, $kind:literal, $($name:literal => $file:literal),+ $(,)?) => {
        impl $type {
            /// Embedded presets, in the order of `--help`.
            pub const PRESETS: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The preset of that name; the error lists the names.
            pub fn preset(name: &str) -> $crate::Result<Self> {
                Self::from_toml(Self::preset_text(name)?)
            }

            /// The preset's file; fails as `preset`.
            pub fn preset_text(name: &str) -> $crate::Result<&'static str> {
                match name {
                    $($name => Ok(include_str!($file)),)+
                    _ => Err($crate::unknown_preset($kind, name, &Self::PRESETS)),
                }
            }

            /// A preset by name, or a TOML file whose path ends in `.toml`. Fails as `preset` and `from_toml`.
            pub fn load(preset_or_path: &str) -> $crate::Result<Self> {
                if preset_or_path.ends_with(".toml") {
                    $crate::from_file(preset_or_path, Self::from_toml)
                } else {
                    Self::preset(preset_or_path)
                }
            }
        }
    };
}

/// Reads a configuration file; errors name the path.
pub fn from_file<T>(path: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    let in_file = || format!("in '{path}'");
    let text = ndp_files::read_text(Path::new(path), MAX_FILE_BYTES).map_err(|e| match e {
        e if ndp_files::is_of_content(&e) => refusal!("not a valid configuration: {e}").context(in_file()),
        e => Error::new(e).context(format!("cannot read configuration '{path}'")),
    })?;
    parse(&text).with_context(in_file)
}

/// Error of a name that is neither preset nor file.
pub fn unknown_preset(kind: &str, name: &str, known: &[&str]) -> Error {
    unknown_name(kind, name, known, " or a path ending in .toml")
}

/// Error of an unknown name; `others` names the other forms allowed.
pub(crate) fn unknown_name(kind: &str, name: &str, known: &[&str], others: &str) -> Error {
    let advice = match name.to_lowercase().ends_with(".json") {
        true => "; a .json is not read here: write its values into a .toml".to_owned(),
        false => nearest(name, known),
    };
    refusal!("unknown {kind} '{name}', expected one of {}{others}{advice}", known.join(", "))
}

/// Parses TOML.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text)
        .map_err(|e| refusal!("not a valid configuration: {}", with_advice(e.to_string().trim_end())))
}
