//! Ports of a block as fields: traits of the types that [`block`](macro@crate::block) makes, and bundles of ports that
//! blocks share.

use crate::bits::Node;
use crate::{Bits, InstanceBuilder, Module, ModuleBuilder, named};
use std::cell::RefCell;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;

/// Drivers of an instance of a block: a field for each of its input ports.
pub trait Inputs {
    /// Signals that the instance drives.
    type Out;

    /// Connects an instance.
    fn connect(self, instance: InstanceBuilder) -> Self::Out;

    /// An instance of the block in the module of `m`.
    fn part(self, m: &ModuleBuilder, name: impl Into<String>, block: &Rc<Module>) -> Self::Out
    where
        Self: Sized,
    {
        self.connect(m.instance(name, block))
    }
}

/// Drivers of one or several input ports of an instance.
pub trait Drives {
    /// Drives the input `port`; for a bundle, all that begin with it. Braces in the name stand for a number.
    fn drive(self, instance: InstanceBuilder, port: &str);
}

impl Drives for Bits {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        instance.input(port, self);
    }
}

impl<T: Drives> Drives for Option<T> {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        self.into_iter().for_each(|value| value.drive(instance, port));
    }
}

impl<T: Drives> Drives for Vec<T> {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        for (number, value) in self.into_iter().enumerate() {
            value.drive(instance, &port.replacen("{}", &number.to_string(), 1));
        }
    }
}

/// Placeholder that drives inputs of instances until [`Bits::comes_from`] gives its value. Expressions cannot use it.
pub fn later() -> Bits {
    Bits::new(1, Node::Later(RefCell::default()))
}

/// `count` placeholders, see [`later`].
pub fn laters(count: u32) -> Vec<Bits> {
    (0..count).map(|_| later()).collect()
}

impl Bits {
    /// Gives a placeholder of [`later`] its value, which drives all inputs connected to the placeholder.
    ///
    /// # Panics
    /// If this is not a placeholder.
    #[track_caller]
    pub fn comes_from(&self, value: impl Into<Self>) {
        let Node::Later(inputs) = self.node() else { panic!("only a placeholder gets its value later") };
        let value = value.into();
        for (instance, port) in inputs.take() {
            instance.input(port, value);
        }
    }
}

/// Output ports that read as one value.
pub trait Reads {
    /// The value.
    type Value;
    /// The outputs of an instance; for a bundle, all that begin with that name. Braces in the name stand for a number.
    fn read(instance: InstanceBuilder, port: &str) -> Self::Value;
}

impl Reads for Bits {
    type Value = Self;
    #[track_caller]
    fn read(instance: InstanceBuilder, port: &str) -> Self {
        instance.read(port)
    }
}

/// An output port of an instance, which reads as a wire `<instance>_<port>`, declared at the first read; or the outputs
/// of a bundle, which are read together.
#[derive(Clone, Copy, Debug)]
pub struct Output<T = Bits> {
    instance: InstanceBuilder,
    port: &'static str,
    kind: PhantomData<T>,
}

impl<T: Reads> Output<T> {
    /// The output `port` of an instance.
    pub fn new(instance: InstanceBuilder, port: &'static str) -> Self {
        Self { instance, port, kind: PhantomData }
    }

    /// The value.
    #[track_caller]
    pub fn q(&self) -> T::Value {
        T::read(self.instance, self.port)
    }
}

impl<T: Bundle> Output<T> {
    /// Values of the fields that `with` has.
    pub fn of(&self, with: T::With<'_>) -> T {
        T::make(with, |name, _, _| self.instance.read(&format!("{}{name}_o", self.port)))
    }
}

impl Output {
    /// Marks it as deliberately unread, with the reason.
    #[track_caller]
    pub fn ignore(&self, reason: &str) {
        self.instance.ignore(self.port, reason);
    }
}

impl From<Output> for Bits {
    #[track_caller]
    fn from(port: Output) -> Self {
        port.q()
    }
}

impl From<&Output> for Bits {
    #[track_caller]
    fn from(port: &Output) -> Self {
        port.q()
    }
}

impl<T: Reads> Deref for Output<T> {
    type Target = T::Value;
    /// Leaks the value, as expressions are.
    #[track_caller]
    fn deref(&self) -> &T::Value {
        Box::leak(Box::new(self.q()))
    }
}

/// Output ports of an instance with numbers in their names.
#[derive(Clone, Copy, Debug)]
pub struct Outputs<T = Bits>(Output<T>);

impl<T: Reads> Outputs<T> {
    /// The outputs of that name of an instance, in which braces stand for a number.
    pub fn new(instance: InstanceBuilder, port: &'static str) -> Self {
        Self(Output::new(instance, port))
    }

    /// The output of that number.
    #[track_caller]
    pub fn at(&self, number: impl Display) -> T::Value {
        T::read(self.0.instance, &self.0.port.replacen("{}", &number.to_string(), 1))
    }

    /// The output of these two numbers.
    #[track_caller]
    pub fn at_both(&self, first: impl Display, second: impl Display) -> T::Value {
        let port = self.0.port.replacen("{}", &first.to_string(), 1);
        T::read(self.0.instance, &port.replacen("{}", &second.to_string(), 1))
    }
}

/// A field of a bundle: [`Bits`], or `Option<Bits>` if some configurations do not have the port.
pub trait Field: Copy {
    /// Makes the field; an `Option` is `None` if the port is not `present`.
    fn make(present: bool, make: impl FnOnce() -> Bits) -> Self;
    /// Value of the field; `None` if the configuration does not have the port.
    fn value(self) -> Option<Bits>;
}

impl Field for Bits {
    fn make(_: bool, make: impl FnOnce() -> Self) -> Self {
        make()
    }

    fn value(self) -> Option<Bits> {
        Some(self)
    }
}

impl Field for Option<Bits> {
    fn make(present: bool, make: impl FnOnce() -> Bits) -> Self {
        present.then(make)
    }

    fn value(self) -> Self {
        self
    }
}

/// The ports of a bundle, which [`bundle!`](crate::bundle) makes.
pub trait Bundle: Copy {
    /// Parameter of the widths.
    type With<'a>;

    /// Makes each field from its name, its width and two meanings: for the output port and for the input port.
    fn make(with: Self::With<'_>, make: impl FnMut(&'static str, u32, [&str; 2]) -> Bits) -> Self;

    /// The outputs of an instance whose names begin with `prefix`.
    fn of(instance: InstanceBuilder, prefix: &str) -> Self;

    /// Replaces the value of each field by the result of `change`.
    fn map(self, change: impl FnMut(&'static str, Bits) -> Bits) -> Self;

    /// Placeholders for all fields, see [`later`].
    fn later(with: Self::With<'_>) -> Self {
        Self::make(with, |_, _, _| later())
    }

    /// Gives the placeholders of [`Bundle::later`] their values.
    fn comes_from(self, values: Self) {
        let values = values.fields();
        self.fields().iter().for_each(|(name, later)| later.comes_from(named(&values, name)));
    }

    /// Input ports `<field>_i`.
    #[track_caller]
    fn inputs(m: &ModuleBuilder, with: Self::With<'_>) -> Self {
        Self::inputs_as(m, "", "", with)
    }

    /// Input ports `<prefix><field>_i`; `about` precedes their meanings.
    #[track_caller]
    fn inputs_as(m: &ModuleBuilder, prefix: impl Display, about: impl Display, with: Self::With<'_>) -> Self {
        m.placed(Location::caller(), || {
            Self::make(with, |name, width, [_, doc]| {
                m.input(format!("{prefix}{name}_i"), width, format!("{about}{doc}"))
            })
        })
    }

    /// Output ports `<field>_o`.
    #[track_caller]
    fn outputs(m: &ModuleBuilder, with: Self::With<'_>, values: Self) {
        Self::outputs_as(m, "", "", with, values);
    }

    /// Output ports `<prefix><field>_o`; `about` precedes their meanings.
    #[track_caller]
    fn outputs_as(
        m: &ModuleBuilder,
        prefix: impl Display,
        about: impl Display,
        with: Self::With<'_>,
        values: Self,
    ) {
        let values = values.fields();
        m.placed(Location::caller(), || {
            Self::make(with, |name, _, [doc, _]| {
                m.output(format!("{prefix}{name}_o"), named(&values, name), format!("{about}{doc}"))
            })
        });
    }

    /// Registers `<prefix><field>_q` that take the values when `enable` is set.
    #[track_caller]
    fn held(self, m: &ModuleBuilder, prefix: impl Display, enable: impl Into<Bits>) -> Self {
        let enable = enable.into();
        m.placed(Location::caller(), || {
            self.map(|name, value| m.hold(format!("{prefix}{name}_q"), value, enable))
        })
    }

    /// A bundle of values in the order of the fields.
    fn of_values<V: Into<Bits>>(with: Self::With<'_>, values: impl IntoIterator<Item = V>) -> Self {
        let mut values = values.into_iter();
        Self::make(with, |name, _, _| values.next().map_or_else(|| named(&[], name), Into::into))
    }

    /// Names and values of the present fields, in order.
    fn fields(self) -> Vec<(&'static str, Bits)> {
        let mut fields = Vec::new();
        self.map(|name, value| {
            fields.push((name, value));
            value
        });
        fields
    }

    /// Values of the present fields, in order.
    fn values(self) -> Vec<Bits> {
        self.fields().into_iter().map(|(_, value)| value).collect()
    }

    /// Joins each field with the same field of the other bundles.
    fn joined(self, others: &[Self], mut join: impl FnMut(Vec<Bits>) -> Bits) -> Self {
        let others: Vec<_> = others.iter().map(|other| other.fields()).collect();
        self.map(|field, value| {
            let values = others.iter().map(|other| named(other, field));
            join([value].into_iter().chain(values).collect())
        })
    }

    /// Chooses these values if `select` is set, otherwise the others.
    #[track_caller]
    fn or_else(self, select: impl Into<Bits>, others: Self) -> Self {
        let (select, place) = (select.into(), Location::caller());
        self.joined(&[others], |values| {
            let mux = crate::mux(select, values[0], values[1]);
            match *mux.node() {
                Node::Mux(select, a, b) => Bits::placed(mux.width(), Node::Mux(select, a, b), place),
                _ => mux,
            }
        })
    }
}

/// Declares ports that several blocks share: a structure of [`Bits`] whose fields have the names, widths and meanings
/// of the ports, and which is a [`Bundle`](crate::Bundle). Widths may depend on a parameter. `=>` precedes a different
/// meaning for input ports. A field with a condition is an `Option`.
#[macro_export]
macro_rules! bundle {
    (@kind) => { $crate::Bits };
    (@kind $present:expr) => { Option<$crate::Bits> };
    (@present) => { true };
    (@present $present:expr) => { $present };
    (@docs $doc:expr) => { [$doc, $doc] };
    (@docs $doc:expr => $read:expr) => { [$doc, $read] };
    ($(#[$meta:meta])* $visible:vis struct $name:ident $(($with:ident: &$kind:ty))? {
        $($field:ident: $width:expr, $doc:expr $(=> $read:expr)? $(, if $present:expr)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visible struct $name {
            $(#[doc = concat!("`", stringify!($field), "`.")] pub $field: $crate::bundle!(@kind $($present)?)),+
        }

        impl $crate::Bundle for $name {
            type With<'a> = ($(&'a $kind)?);

            fn make(
                #[allow(unused_parens)] ($($with)?): Self::With<'_>,
                mut make: impl FnMut(&'static str, u32, [&str; 2]) -> $crate::Bits,
            ) -> Self {
                Self {
                    $($field: $crate::Field::make($crate::bundle!(@present $($present)?), || {
                        make($crate::plain(stringify!($field)), $width, $crate::bundle!(@docs $doc $(=> $read)?))
                    })),+
                }
            }

            fn of(instance: $crate::InstanceBuilder, prefix: &str) -> Self {
                let port = |name: &str| format!("{prefix}{name}_o");
                Self {
                    $($field: $crate::Field::make(
                        $crate::has_output(instance, &port($crate::plain(stringify!($field)))),
                        || <$crate::Bits as $crate::Reads>::read(instance, &port($crate::plain(stringify!($field)))),
                    )),+
                }
            }

            fn map(self, mut change: impl FnMut(&'static str, $crate::Bits) -> $crate::Bits) -> Self {
                Self {
                    $($field: match $crate::Field::value(self.$field) {
                        Some(value) => $crate::Field::make(true, || change($crate::plain(stringify!($field)), value)),
                        None => self.$field,
                    }),+
                }
            }
        }

        impl $crate::Drives for $name {
            fn drive(self, instance: $crate::InstanceBuilder, prefix: &str) {
                $crate::Bundle::map(self, |name, value| {
                    instance.input(format!("{prefix}{name}_i"), value);
                    value
                });
            }
        }

        impl $crate::Reads for $name {
            type Value = Self;
            fn read(instance: $crate::InstanceBuilder, prefix: &str) -> Self {
                $crate::Bundle::of(instance, prefix)
            }
        }
    };
}

/// Name of a port whose field may be a Rust keyword.
pub fn plain(field: &'static str) -> &'static str {
    field.trim_start_matches("r#")
}

/// Whether the block of an instance has the output port.
pub fn has_output(instance: InstanceBuilder, port: &str) -> bool {
    instance.has_output(port)
}
