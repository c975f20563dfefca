//! Enumerations that know all of their values.

/// An enumeration with `ALL` of its values in their order, and the `name` of each if the values have names.
///
/// ```
/// ndp_config::named! {
///     /// Which way.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Way {
///         /// Towards the host.
///         Up => "up",
///         /// Away from it.
///         Down => "down",
///     }
/// }
/// assert_eq!(Way::ALL.map(Way::name), ["up", "down"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $kind:ident {
        $($(#[$of:meta])* $variant:ident $(= $code:literal)? => $name:literal),+ $(,)?
    }) => {
        $crate::named! {
            $(#[$meta])*
            $vis enum $kind {
                $($(#[$of])* $variant $(= $code)?),+
            }
        }

        impl $kind {
            /// Name of the value.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $kind:ident {
        $($(#[$of:meta])* $variant:ident $(= $code:literal)?),+ $(,)?
    }) => {
        $(#[$meta])*
        $vis enum $kind {
            $($(#[$of])* $variant $(= $code)?),+
        }

        impl $kind {
            /// All values in the order of their declaration.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];
        }
    };
}
