//! Everything the language refuses, with module, signal and both widths where there are two.

use thiserror::Error;

/// Why a module or a design was refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HdlError {
    /// Operands of one expression, or the two sides of a connection, differ in width.
    #[error("module {module}: {signal}: {what}: {left} bits against {right} bits")]
    Width {
        /// Module being built.
        module: String,
        /// Signal or port that is driven.
        signal: String,
        /// The operation or connection.
        what: String,
        /// Width of the left operand or target.
        left: u32,
        /// Width of the right operand or source.
        right: u32,
    },
    /// A slice, literal, width or depth that does not fit.
    #[error("module {module}: {signal}: {what}")]
    Expression {
        /// Module being built.
        module: String,
        /// Signal or port that is driven.
        signal: String,
        /// The problem, with the limits.
        what: String,
    },
    /// A wire, register or output without a driver.
    #[error("module {module}: {signal} is never driven")]
    Undriven {
        /// Module being built.
        module: String,
        /// The signal.
        signal: String,
    },
    /// A signal with more than one driver.
    #[error("module {module}: {signal} is driven {drivers} times")]
    MultipleDrivers {
        /// Module being built.
        module: String,
        /// The signal.
        signal: String,
        /// Number of drivers.
        drivers: usize,
    },
    /// A signal that nothing reads.
    #[error("module {module}: {signal} is never read (use ModuleBuilder::unused with a reason)")]
    Unread {
        /// Module being built.
        module: String,
        /// The signal.
        signal: String,
    },
    /// A port of an instance that was not connected.
    #[error("module {module}: port {port} ({width} bits) of instance {instance} ({child}) is not connected")]
    Unconnected {
        /// Module being built.
        module: String,
        /// Instance name.
        instance: String,
        /// Module of the instance.
        child: String,
        /// Port name.
        port: String,
        /// Port width.
        width: u32,
    },
    /// A connection to a port that does not exist or has the other direction.
    #[error("module {module}: instance {instance} ({child}) has no {direction} port {port}")]
    NoSuchPort {
        /// Module being built.
        module: String,
        /// Instance name.
        instance: String,
        /// Module of the instance.
        child: String,
        /// Requested port.
        port: String,
        /// `input` or `output`.
        direction: &'static str,
    },
    /// A loop through wires and combinational paths of instances.
    #[error("module {module}: combinational loop {}", path.join(" -> "))]
    CombinationalLoop {
        /// Module being built.
        module: String,
        /// Signals on the loop, the first one repeated at the end.
        path: Vec<String>,
    },
    /// A signal that goes from one clock domain to another undeclared.
    #[error("module {module}: {signal}, read with {to}, comes from {from} (use InstanceBuilder::crossing)")]
    ClockCrossing {
        /// Module being built.
        module: String,
        /// Register, instance input or output port that is driven.
        signal: String,
        /// Clock of the source.
        from: String,
        /// Clock of the signal.
        to: String,
    },
    /// A name that is not a Verilog identifier or is a keyword.
    #[error(
        "module {module}: '{name}' is not a legal name (lower-case letter first, then a-z, 0-9, _; no keyword of Verilog or SystemVerilog)"
    )]
    IllegalName {
        /// Module being built.
        module: String,
        /// The name.
        name: String,
    },
    /// A name that was used before in the same module.
    #[error("module {module}: name '{name}' is used twice")]
    DuplicateName {
        /// Module being built.
        module: String,
        /// The name.
        name: String,
    },
    /// A signal of another module in an expression.
    #[error("module {module}: {signal} refers to {foreign}, which belongs to module {owner}")]
    ForeignSignal {
        /// Module being built.
        module: String,
        /// Signal that is driven.
        signal: String,
        /// The foreign signal.
        foreign: String,
        /// Module that owns it.
        owner: String,
    },
    /// Two different modules of one design have the same name.
    #[error("two different modules are named {module}")]
    ModuleClash {
        /// The name.
        module: String,
    },
}
