//! Ports of a block as fields: what [`block`](macro@crate::block) makes types of.

use crate::{Bits, InstanceBuilder};
use std::ops::Deref;

/// What drives an instance of a block: a field for each of its input ports.
pub trait Inputs {
    /// What the instance drives.
    type Out;

    /// Connects an instance.
    fn connect(self, instance: InstanceBuilder) -> Self::Out;
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
pub struct Outputs {
    instance: InstanceBuilder,
    /// What stands before the number, and what behind it.
    around: [&'static str; 2],
}

impl Outputs {
    /// The outputs `<before><number><behind>` of an instance.
    pub fn new(instance: InstanceBuilder, before: &'static str, behind: &'static str) -> Self {
        Self { instance, around: [before, behind] }
    }

    /// The value of one of them.
    #[track_caller]
    pub fn at(&self, number: impl std::fmt::Display) -> Bits {
        let [before, behind] = self.around;
        self.instance.read(&format!("{before}{number}{behind}"))
    }
}
