//! Enums with named variants.

/// Declares an enum that lists its variants, with optional names.
///
/// ```
/// ndp_config::named! {
///     /// A side.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Side {
///         /// Towards the host.
///         Near = "near",
///         /// Towards the memory.
///         Far = "far",
///     }
/// }
/// assert_eq!((Side::Far.name(), Side::named("near"), Side::ALL.len()), ("far", Some(Side::Near), 2));
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$of:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        $vis enum $type { $($(#[$of])* $variant),+ }

        impl $type {
            /// All variants, in order of declaration.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$of:meta])* $variant:ident = $name:expr),+ $(,)? }) => {
        $(#[$meta])*
        $vis enum $type { $($(#[$of])* $variant),+ }

        impl $type {
            /// All variants, in order of declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Name in files, on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the variant with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
