//! Ports of a block as fields: what [`block`](macro@crate::block) makes types of.

use crate::{Bits, InstanceBuilder, Module, ModuleBuilder};
use std::ops::Deref;
use std::rc::Rc;

/// What drives an instance of a block: a field for each of its input ports.
pub trait Inputs {
    /// What the instance drives.
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

/// What drives an input port of an instance, or several.
pub trait Drives {
    /// Drives the input `port`; braces in the name stand for a number.
    fn drive(self, instance: InstanceBuilder, port: &str);
}

impl Drives for Bits {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        instance.connect_input(port, self);
    }
}

impl Drives for Option<Bits> {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        self.into_iter().for_each(|value| instance.connect_input(port, value));
    }
}

impl Drives for Vec<Bits> {
    fn drive(self, instance: InstanceBuilder, port: &str) {
        for (number, value) in self.into_iter().enumerate() {
            instance.connect_input(port.replace("{}", &number.to_string()), value);
        }
    }
}

/// An output port of an instance. It reads as a wire named `<instance>_<port>`, which is declared where it is read first.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    instance: InstanceBuilder,
    port: &'static str,
}

impl Output {
    /// The output `port` of an instance.
    pub fn new(instance: InstanceBuilder, port: &'static str) -> Self {
        Self { instance, port }
    }

    /// The value.
    #[track_caller]
    pub fn q(&self) -> Bits {
        self.instance.read(self.port)
    }

    /// States that it is deliberately not read, and why.
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

impl Deref for Output {
    type Target = Bits;
    /// The value, which stays in memory as expressions do.
    #[track_caller]
    fn deref(&self) -> &Bits {
        Box::leak(Box::new(self.q()))
    }
}

/// Output ports of an instance with numbers in their names.
#[derive(Clone, Copy, Debug)]
pub struct Outputs(Output);

impl Outputs {
    /// The outputs of that name of an instance, in which braces stand for a number.
    pub fn new(instance: InstanceBuilder, port: &'static str) -> Self {
        Self(Output::new(instance, port))
    }

    /// The value of one of them.
    #[track_caller]
    pub fn at(&self, number: impl std::fmt::Display) -> Bits {
        self.0.instance.read(&self.0.port.replace("{}", &number.to_string()))
    }
}
