//! Enumerations of uses of energy, and values for their members.

/// A named enumeration, and a table with a value per member.
macro_rules! table {
    ($(#[$doc:meta])* $kind:ident, $(#[$by_doc:meta])* $by:ident { $($(#[$of:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        ndp_config::named! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
            #[serde(rename_all = "snake_case")]
            pub enum $kind {
                $($(#[$of])* $variant = $name,)+
            }
        }

        $(#[$by_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $by<T>([T; $kind::ALL.len()]);

        impl<T: Copy> $by<T> {
            pub fn get(&self, kind: $kind) -> T {
                self.0[kind as usize]
            }

            pub fn iter(&self) -> impl Iterator<Item = ($kind, T)> + '_ {
                $kind::ALL.into_iter().zip(self.0)
            }
        }

        impl<T: std::ops::AddAssign> $by<T> {
            pub fn add(&mut self, kind: $kind, value: T) {
                self.0[kind as usize] += value;
            }
        }

        impl<T: std::ops::AddAssign> std::ops::AddAssign for $by<T> {
            fn add_assign(&mut self, other: Self) {
                self.0.iter_mut().zip(other.0).for_each(|(sum, value)| *sum += value);
            }
        }

        impl $by<u64> {
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self(std::array::from_fn(|kind| self.0[kind] - before.0[kind]))
            }
        }

        impl $by<$crate::Energy> {
            pub fn total(&self) -> $crate::Energy {
                self.0.into_iter().sum()
            }
        }

        impl<T: Copy + serde::Serialize> serde::Serialize for $by<T> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.iter())
            }
        }
    };
}

pub(crate) use table;
