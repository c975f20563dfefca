//! Tables of configuration keys: name, type, default, limits, meaning and accessor, written once.

/// Getters named after fields: `name: Type` returns a copy, `name: &Type` a reference, `name: &'a Type` the reference
/// in the field. `name = field: Type` renames.
///
/// ```
/// struct Point {
///     x: u32,
///     name: String,
/// }
/// ndp_config::getters!(Point {
///     /// Distance to the right.
///     x: u32,
///     /// Name of the point.
///     name: &str,
/// });
/// let point = Point { x: 3, name: "here".to_owned() };
/// assert_eq!((point.x(), point.name()), (3, "here"));
/// ```
#[macro_export]
macro_rules! getters {
    (@ $(#[$doc:meta])* $name:ident: &$life:lifetime $type:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub fn $name(&self) -> &$life $type {
            self.$name
        }
        $crate::getters!(@ $($rest)*);
    };
    (@ $(#[$doc:meta])* $name:ident: &$type:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub fn $name(&self) -> &$type {
            &self.$name
        }
        $crate::getters!(@ $($rest)*);
    };
    (@ $(#[$doc:meta])* $name:ident = $field:ident: $type:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub fn $name(&self) -> $type {
            self.$field
        }
        $crate::getters!(@ $($rest)*);
    };
    (@ $(#[$doc:meta])* $name:ident: $type:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub fn $name(&self) -> $type {
            self.$name
        }
        $crate::getters!(@ $($rest)*);
    };
    (@) => {};
    (<$life:lifetime> $type:ty { $($rows:tt)* }) => {
        impl<$life> $type {
            $crate::getters!(@ $($rows)*);
        }
    };
    ($type:ty { $($rows:tt)* }) => {
        impl $type {
            $crate::getters!(@ $($rows)*);
        }
    };
}

/// Field-wise sums and differences of `Copy` figures.
#[macro_export]
macro_rules! sums {
    ($type:ident: $($field:ident),+) => {
        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }

        impl std::ops::Add for $type {
            type Output = Self;

            fn add(mut self, other: Self) -> Self {
                self += other;
                self
            }
        }

        impl std::ops::Sub for $type {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($field: self.$field - before.$field),+ }
            }
        }
    };
}

/// A struct with limits of its keys, checked in order. Messages put `$prefix` before a key; limits may depend on other
/// keys of `$values`, the struct itself.
macro_rules! checked {
    (
        $prefix:literal, $values:ident:
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$doc:meta])* $key_vis:vis $key:ident: $type:ty $(, $check:ident($min:expr, $max:expr))?;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$doc])* $key_vis $key: $type,)*
        }

        impl $name {
            pub(crate) fn check_keys(&self) -> ndp_files::Result<()> {
                let $values = self;
                $($($check(concat!($prefix, stringify!($key)), $values.$key, $min, $max)?;)?)*
                Ok(())
            }
        }
    };
}

/// A table with only optional keys: the raw struct (`$raw`), defaults, limits, and a method of `$owner` for each key
/// that is not `private`.
macro_rules! keys {
    (
        $prefix:literal, $values:ident:
        $(#[$meta:meta])*
        $raw:ident for $owner:ident.$field:tt {
            $(
                $(#[doc = $doc:literal])*
                $vis:vis $key:ident: $type:ty = $default:expr $(, $check:ident($min:expr, $max:expr))?;
            )*
        }
        $(private {
            $(
                $(#[doc = $own_doc:literal])*
                $own:ident: $own_type:ty = $own_default:expr $(, $own_check:ident($own_min:expr, $own_max:expr))?;
            )*
        })?
    ) => {
        $crate::keys::checked! {
            $prefix, $values:
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
            #[serde(deny_unknown_fields, default)]
            pub(crate) struct $raw {
                $($(#[doc = $doc])* pub(crate) $key: $type $(, $check($min, $max))?;)*
                $($($(#[doc = $own_doc])* pub(crate) $own: $own_type $(, $own_check($own_min, $own_max))?;)*)?
            }
        }

        impl Default for $raw {
            fn default() -> Self {
                Self { $($key: $default,)* $($($own: $own_default,)*)? }
            }
        }

        #[cfg(test)]
        #[allow(dead_code, reason = "tables of times have columns of their own")]
        impl $raw {
            /// Lines of the documents.
            pub(crate) fn lines() -> Vec<String> {
                let $values = &Self::default();
                vec![
                    $($crate::keys::tests::line(
                        stringify!($key), concat!($($doc),*), &$values.$key,
                        [$((stringify!($check), $min, $max))?].first(),
                    ),)*
                    $($($crate::keys::tests::line(
                        stringify!($own), concat!($($own_doc),*), &$values.$own,
                        [$((stringify!($own_check), $own_min, $own_max))?].first(),
                    ),)*)?
                ]
            }
        }

        impl $owner {
            $(
                $(#[doc = $doc])*
                $vis fn $key(&self) -> $type {
                    self.$field.$key
                }
            )*
        }
    };
}

/// A table of [`keys!`] as a part of a design, with its validated form.
macro_rules! part {
    (
        $prefix:literal, $values:ident:
        $(#[$meta:meta])*
        pub struct $owner:ident($raw:ident) {
            $($rows:tt)*
        }
        $(private { $($own:tt)* })?
    ) => {
        $crate::keys::keys! {
            $prefix, $values:
            /// Keys as they are in the file; every key is optional.
            $raw for $owner.0 { $($rows)* } $(private { $($own)* })?
        }

        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $owner($raw);

        impl $owner {
            /// Checks each key against its limits.
            pub(crate) fn checked(raw: $raw) -> ndp_files::Result<Self> {
                raw.check_keys()?;
                Ok(Self(raw))
            }
        }
    };
}

pub(crate) use {checked, keys, part};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use serde::{Serialize, de::DeserializeOwned};
    use std::path::Path;

    /// Key, meaning, default and limits.
    pub(crate) fn line<T: Serialize + DeserializeOwned>(
        key: &str,
        doc: &str,
        default: &T,
        limits: Option<&(&str, u32, u32)>,
    ) -> String {
        let meaning = doc.trim().trim_end_matches('.');
        let default =
            toml::Value::try_from(default).map_or_else(|_| String::new(), |value| value.to_string());
        let limits = match limits {
            Some(("power_of_two", min, max)) => format!("power of two, {min}..={max}"),
            Some((_, min, max)) => format!("{min}..={max}"),
            // The names that the type's reader expects.
            None => match T::deserialize(toml::Value::String(String::new())) {
                Err(error) if error.message().contains("a boolean") => "true, false".to_owned(),
                Err(error) if error.message().contains("variant") => {
                    error.message().split('`').skip(3).step_by(2).collect::<Vec<_>>().join(", ")
                }
                _ => String::new(),
            },
        };
        let cell = |text: &str| if text.is_empty() { " |".to_owned() } else { format!(" {text} |") };
        format!("| `{key}` |{}{}{}\n", cell(meaning), cell(&default), cell(&limits))
    }

    #[test]
    fn the_documents_have_every_key() {
        let tables = [
            ("configuration.md", "gemv", crate::gemv::RawGemv::lines()),
            ("configuration.md", "core", crate::core::RawCore::lines()),
            ("configuration.md", "link", crate::link::RawLink::lines()),
            ("axi.md", "axi", crate::axi::RawAxi::lines()),
            ("dfi.md", "dfi", crate::dfi::RawDfi::lines()),
            ("hbm-presets.md", "device", crate::hbm::RawDevice::lines()),
        ];
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (page, table, lines) in tables {
            let path = docs.join(page);
            let text = std::fs::read_to_string(&path).unwrap();
            let head =
                format!("| key of `[{table}]` | meaning | default | limits |\n| --- | --- | ---: | --- |\n");
            let start =
                text.find(&head).unwrap_or_else(|| panic!("{page} has no table [{table}]")) + head.len();
            let end = start + text[start..].find("\n\n").unwrap() + 1;
            let expected = text[..start].to_owned() + &lines.concat() + &text[end..];
            if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
                std::fs::write(&path, &expected).unwrap();
            } else {
                assert!(
                    text == expected,
                    "{page}, [{table}]: SNAPSHOTS=overwrite writes\n{}",
                    lines.concat()
                );
            }
        }
    }
}
