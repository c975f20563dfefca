//! Counters that can be added over places and over time.

pub trait Counts {
    /// Adds counts of another place or of a later time.
    fn add_counts(&mut self, other: &Self);

    /// The counts since `before`, which is of the same place.
    #[must_use]
    fn counts_since(&self, before: &Self) -> Self;
}

impl Counts for u64 {
    fn add_counts(&mut self, other: &Self) {
        *self += other;
    }

    fn counts_since(&self, before: &Self) -> Self {
        self - before
    }
}

/// Counts of several places, in the same order.
impl<T: Counts> Counts for Vec<T> {
    fn add_counts(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, own)| sum.add_counts(own));
    }

    fn counts_since(&self, before: &Self) -> Self {
        self.iter().zip(before).map(|(now, before)| now.counts_since(before)).collect()
    }
}

/// `None` where nothing is counted.
impl<T: Counts + Default> Counts for Option<T> {
    fn add_counts(&mut self, other: &Self) {
        if let Some(other) = other {
            self.get_or_insert_default().add_counts(other);
        }
    }

    fn counts_since(&self, before: &Self) -> Self {
        self.as_ref().zip(before.as_ref()).map(|(now, before)| now.counts_since(before))
    }
}

/// A struct of counters: [`Counts`], `+=` and `since`. With `classes`, whose counters are numbers, also the total.
#[macro_export]
macro_rules! counts {
    ($(#[$meta:meta])* pub classes $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $crate::counts! {
            $(#[$meta])*
            #[derive(Copy)]
            pub struct $name { $($(#[$doc])* $field: u64,)* }
        }

        impl $name {
            pub fn total(&self) -> u64 {
                [$(self.$field),*].into_iter().sum()
            }
        }
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::Counts for $name {
            fn add_counts(&mut self, other: &Self) {
                $($crate::Counts::add_counts(&mut self.$field, &other.$field);)*
            }

            fn counts_since(&self, before: &Self) -> Self {
                Self { $($field: $crate::Counts::counts_since(&self.$field, &before.$field),)* }
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $crate::Counts::add_counts(self, &other);
            }
        }

        impl $name {
            /// The counts since `before`, which is of the same place.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                $crate::Counts::counts_since(self, before)
            }
        }
    };
}
