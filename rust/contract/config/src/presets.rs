//! Configurations by name or by file: what presets have in common.

use crate::{ConfigError, with_advice};
use std::path::Path;

/// Longest configuration file: more than all keys with comments, and no device that never ends.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Gives a type with `from_toml` its presets: `PRESETS`, `preset` and `load`. Paths of files are relative to the source.
///
/// ```
/// #[derive(Debug)]
/// struct Answer(u32);
/// impl Answer {
///     fn from_toml(text: &str) -> Result<Self, ndp_config::ConfigError> {
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
            /// Names of the embedded presets, in the order in which `--help` lists them.
            pub const PRESETS: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The preset of that name.
            ///
            /// # Errors
            /// [`ConfigError::UnknownPreset`](ndp_config::ConfigError::UnknownPreset) lists the names that exist.
            pub fn preset(name: &str) -> Result<Self, $crate::ConfigError> {
                Self::from_toml(Self::preset_text(name)?)
            }

            /// The file of that preset.
            ///
            /// # Errors
            /// As `preset`.
            pub fn preset_text(name: &str) -> Result<&'static str, $crate::ConfigError> {
                match name {
                    $($name => Ok(include_str!($file)),)+
                    _ => Err($crate::ConfigError::unknown_preset($kind, name, &Self::PRESETS)),
                }
            }

            /// A preset by name, or a TOML file by path: whatever ends in `.toml` is a path.
            ///
            /// # Errors
            /// As `preset` and `from_toml`, with the path; or
            /// [`ConfigError::Read`](ndp_config::ConfigError::Read) when the file cannot be read.
            pub fn load(preset_or_path: &str) -> Result<Self, $crate::ConfigError> {
                if preset_or_path.ends_with(".toml") {
                    $crate::from_file(preset_or_path, Self::from_toml)
                } else {
                    Self::preset(preset_or_path)
                }
            }
        }
    };
}

/// Reads a configuration file.
///
/// # Errors
/// [`ConfigError::Read`], or the parser's error with the path.
pub fn from_file<T>(
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let in_file = |e| ConfigError::InFile { path: path.to_owned(), error: Box::new(e) };
    let text = ndp_files::read_text(Path::new(path), MAX_FILE_BYTES).map_err(|e| match e {
        e if ndp_files::is_of_content(&e) => in_file(ConfigError::Syntax(e.to_string())),
        e => ConfigError::Read { path: path.to_owned(), reason: e.to_string() },
    })?;
    parse(&text).map_err(in_file)
}

/// Parses TOML.
///
/// # Errors
/// [`ConfigError::Syntax`] for text that is not such a file, unknown keys included.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|e| ConfigError::Syntax(with_advice(e.to_string().trim_end())))
}
