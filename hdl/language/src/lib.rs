//! Hardware description language in Rust, on top of `rust-hdl-core`.
//!
//! A [`ModuleBuilder`] collects ports, wires, registers, memories and instances whose expressions ([`Bits`]) have known
//! widths. [`ModuleBuilder::finish`] refuses errors that rust-hdl would pass on silently: width mismatches, signals
//! driven twice or never, unconnected ports, combinational loops, illegal or repeated names. The rest is lowered to
//! rust-hdl's AST and printed once per distinct module ([`Design`]), or elaborated to a graph of operations on words
//! for other simulators ([`Netlist`]).
//!
//! A block is a function with the attribute [`block`](macro@block), which gives ports and signals the names of their
//! variables and makes a structure of the inputs and one of the outputs:
//! `fifo::In { push, data, pop }.part(&m, "queue", &fifo(8, 4)?).valid`. Words with fields are [`packed!`].
//!
//! Conventions: one clock `clk_i`, one synchronous active-low reset `rst_ni`, both implicit; registers hold their value
//! unless enabled; every wire is a continuous assignment, so a latch cannot be written (a wire that refers to itself is
//! a loop and refused). An expression is printed wherever it is used: name one that is used several times with
//! [`ModuleBuilder::wire`]. Instances may run on further clocks: see [`Domain`].

#![deny(missing_docs)]

mod bits;
mod body;
mod builder;
mod check;
mod constants;
mod design;
mod domain;
mod domains;
mod error;
mod keywords;
mod lower;
mod module;
pub mod mutate;
mod mutation;
mod netlist;
mod ports;
mod proof;
mod simplify;
mod split;

pub use bits::{Bits, any_named, any_of, cat, each, lit, mux, named, one_hot_mux, repeat, rom, zeros};
pub use builder::{InstanceBuilder, Memory, ModuleBuilder, Reg, Wire};
pub use design::Design;
pub use domain::{ClockCrossing, Crossing, Domain};
pub use error::HdlError;
pub use module::{Direction, End, MemoryInfo, Module, Port, Pragmas, SignalInfo};
pub use ndp_hdl_macros::block;
pub use netlist::{
    Binary, Check, Graph, Id, MemoryArray, Netlist, Node, Op, Register, Scope, limb_bits, limbs,
};
pub use ports::{Bundle, Drives, Field, Inputs, Output, Outputs, Reads, has_output, later, laters, plain};
pub use proof::ForProver;

/// Result of a block's function: the checked module, or the broken rule.
pub type Block = Result<std::rc::Rc<Module>, HdlError>;

/// Imports for descriptions of blocks.
pub mod prelude {
    pub use crate::{
        Bits, Block, Bundle, Crossing, Domain, Drives, HdlError, Inputs, InstanceBuilder, Memory, Module,
        ModuleBuilder, Outputs, Reg, Wire, all, any, any_named, any_of, block, bundle, cat, each, later,
        laters, lit, mux, named, one_hot_mux, packed, repeat, rom, zeros,
    };
    pub use std::rc::Rc;
}

/// Whether all of the values, of one bit each, are 1.
#[macro_export]
macro_rules! all {
    ($($part:expr),+ $(,)?) => { $crate::cat!($($part),+).all() };
}

/// OR of the values.
#[macro_export]
macro_rules! any {
    ($($part:expr),+ $(,)?) => { $crate::any_of([$($crate::Bits::from($part)),+]) };
}

/// Concatenation, most significant part first.
#[macro_export]
macro_rules! cat {
    ($($part:expr),+ $(,)?) => { $crate::cat([$($crate::Bits::from($part)),+]) };
}

/// A word with named fields, lowest first: a structure of [`Bits`] with `bits`, `pack` and `unpack`. Widths may depend
/// on a parameter.
#[macro_export]
macro_rules! packed {
    ($(#[$meta:meta])* $visible:vis struct $name:ident $(($with:ident: $kind:ty))? {
        $($(#[$doc:meta])* $field:ident: $width:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visible struct $name {
            $($(#[$doc])* pub $field: $crate::Bits),+
        }

        #[allow(dead_code)]
        impl $name {
            /// Bits of the word.
            pub fn bits($($with: $kind)?) -> u32 {
                [$($width),+].iter().sum()
            }

            /// The word.
            pub fn pack(&self) -> $crate::Bits {
                $crate::cat([$(self.$field),+].into_iter().rev())
            }

            /// The fields of a word.
            pub fn unpack($($with: $kind,)? word: impl Into<$crate::Bits>) -> Self {
                let (word, mut low) = (word.into(), 0);
                let mut field = |width: u32| {
                    low += width;
                    word.slice(low - width, width)
                };
                Self { $($field: field($width)),+ }
            }
        }
    };
}
