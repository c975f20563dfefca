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
///     /// What it is called.
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
                $(#[$doc:meta])*
                $vis:vis $key:ident: $type:ty = $default:expr $(, $check:ident($min:expr, $max:expr))?;
            )*
        }
        $(private {
            $(
                $(#[$own_doc:meta])*
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
                $($(#[$doc])* pub(crate) $key: $type $(, $check($min, $max))?;)*
                $($($(#[$own_doc])* pub(crate) $own: $own_type $(, $own_check($own_min, $own_max))?;)*)?
            }
        }

        impl Default for $raw {
            fn default() -> Self {
                Self { $($key: $default,)* $($($own: $own_default,)*)? }
            }
        }

        impl $owner {
            $(
                $(#[$doc])*
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
            /// What the file says; every key is optional.
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
