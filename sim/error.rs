//! What can go wrong in the harness, in one enum.
//!
//! Every variant carries the value that was refused and, where there is a choice, what would have been
//! accepted. Raised by the models (`ffi`), by the GEMV driver (`gemv`) and by the backend; which file or argument
//! was meant, and the exit code, are added by the binaries.

use ndp_numerics::f16;
use serde::Serialize;
use std::path::PathBuf;

/// Direction of a port, seen from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Driven by the harness.
    Input,
    /// Driven by the model.
    Output,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Input { "input" } else { "output" })
    }
}

/// Errors of the Verilated models and of what drives them.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A model that a system of DIMMs cannot run.
    #[error("the model's {key} = {found}: systems of DIMMs run models with {expected}")]
    Unsupported {
        /// What of it.
        key: &'static str,
        /// What the model has.
        found: String,
        /// What is supported.
        expected: String,
    },
    /// Options of a system that do not fit together.
    #[error("with a flash tier the {what} is {found}: expected {expected}")]
    Unfit {
        /// What of it.
        what: &'static str,
        /// What was asked for.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// A token needs more neurons of a DIMM than it has slots for.
    #[error(
        "MLP of layer {layer}, DIMM {dimm}: {error}; with a larger share of resident neurons there are more"
    )]
    Flash {
        /// The layer.
        layer: u32,
        /// The DIMM.
        dimm: usize,
        /// How many, and how many slots.
        error: ndp_flash::FlashError,
    },
    /// A model that cannot be built.
    #[error("the model of `{design}` cannot be built: {reason}")]
    Build {
        /// The design.
        design: String,
        /// What the generator, Verilator, the compiler or the file system says, or what is missing.
        reason: String,
    },
    /// There is no room for another running model.
    #[error(
        "memory is exhausted: there is no room for the model of `{design}`; fewer channels or DIMMs need less"
    )]
    Memory {
        /// The design.
        design: String,
    },
    /// The design has no such port.
    #[error("`{design}` has no {direction} port `{port}`; there are {known}")]
    UnknownPort {
        /// The design.
        design: String,
        /// What was asked for.
        port: String,
        /// The direction that was asked for.
        direction: Direction,
        /// All ports of that direction, with widths.
        known: String,
    },
    /// The port exists in the other direction.
    #[error("`{port}` of `{design}` is an {actual}, not an {wanted}")]
    PortDirection {
        /// The design.
        design: String,
        /// The port.
        port: String,
        /// Its direction.
        actual: Direction,
        /// The direction that was asked for.
        wanted: Direction,
    },
    /// The port has another width than the caller counts on.
    #[error("`{port}` of `{design}` is {actual} bits wide, not {wanted}")]
    PortWidth {
        /// The design.
        design: String,
        /// The port.
        port: String,
        /// Its width.
        actual: u32,
        /// The width that was asked for.
        wanted: u32,
    },
    /// The file name does not say which format is meant.
    #[error("wave file `{}` must end in .fst or .vcd", path.display())]
    WaveFormat {
        /// The file.
        path: PathBuf,
    },
    /// The window is empty.
    #[error("the wave window from cycle {start} up to cycle {stop} is empty")]
    WaveWindow {
        /// First cycle.
        start: u64,
        /// First cycle after the window.
        stop: u64,
    },
    /// No level of the hierarchy would be dumped.
    #[error("a wave depth of 0 levels dumps nothing; leave the depth out for all levels")]
    WaveDepth,
    /// The file cannot be created.
    #[error("cannot create wave file `{}`", path.display())]
    WaveCreate {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Writing failed later on; the file is not complete.
    #[error("cannot write wave file `{}`: {reason}", path.display())]
    WaveWrite {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A shape or a configuration outside of what the design can take.
    #[error(transparent)]
    Config(#[from] ndp_config::ConfigError),
    /// A setting of the driver is out of its range.
    #[error("{key} = {value} must be in {min}..={max}")]
    Range {
        /// The setting.
        key: &'static str,
        /// Value found.
        value: u64,
        /// Smallest legal value.
        min: u64,
        /// Largest legal value.
        max: u64,
    },
    /// A burst of stored vectors has something beyond a vector's end.
    #[error(
        "element {element} of burst {address:#x} is {actual:#06x} beyond the end of a stored vector, expected +0"
    )]
    Padding {
        /// Burst of the DIMM.
        address: u64,
        /// Element of the burst.
        element: u32,
        /// Bits of the element.
        actual: u16,
    },
    /// A flat operand is not as long as its shape says.
    #[error("{what} has {found} elements, expected {expected}")]
    Length {
        /// Which operand.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length its shape implies.
        expected: usize,
    },
    /// Nothing moved for too long.
    #[error("no handshake moved for {quiet_cycles} cycles up to cycle {cycle}; {state}; stall seed {seed}")]
    Hang {
        /// The cycle in which the driver gave up.
        cycle: u64,
        /// Cycles without any transfer.
        quiet_cycles: u64,
        /// Every handshake, and how far the commands have come.
        state: String,
        /// Seed of the stalls.
        seed: u64,
    },
    /// Outputs differ from the reference.
    #[error("{count} of {outputs} outputs differ from the reference, the first: {first}")]
    Mismatch {
        /// The first one.
        first: Box<Mismatch>,
        /// How many.
        count: u64,
        /// Outputs of the product that was compared.
        outputs: u64,
    },
    /// A response of the core that does not fit the host's requests.
    #[error("cycle {cycle}: {what}")]
    Host {
        /// The cycle.
        cycle: u64,
        /// What is wrong.
        what: String,
    },
    /// A link between DIMMs does not work any more.
    #[error("the link of DIMM {dimm} {what}, in cycle {cycle} of all cores: {state}")]
    LinkFault {
        /// The DIMM.
        dimm: usize,
        /// What it does not do.
        what: String,
        /// Cycle, from the beginning.
        cycle: u64,
        /// What its controller says.
        state: String,
    },
    /// A link's promise was broken.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The core broke timing rules of the DRAM.
    #[error("{count} violations of DRAM timing, the first of rank {rank}: {first}")]
    Dram {
        /// The first rank with a violation.
        rank: usize,
        /// Violations of all ranks.
        count: u64,
        /// The first of that rank.
        first: String,
    },
    /// A program that the functional model refuses.
    #[error(transparent)]
    Machine(#[from] ndp_machine::MachineError),
    /// Something that only a core in RTL has.
    #[error("{what} needs a core in RTL: backend `rtl` instead of `cycles`")]
    NeedsRtl {
        /// What it is.
        what: &'static str,
    },
    /// Arithmetic of a form that the contract does not have.
    #[error(transparent)]
    Numerics(#[from] ndp_numerics::NumericsError),
    /// An operation of the decoder whose sizes do not fit.
    #[error(transparent)]
    Model(#[from] ndp_model::ModelError),
    /// Activity that does not fit the predictor.
    #[error(transparent)]
    Predictor(#[from] ndp_predictor::PredictorError),
    /// Sizes that the DRAM or the buffer cannot hold.
    #[error(transparent)]
    Layout(#[from] ndp_layout::LayoutError),
}

impl SimError {
    /// A model that cannot be built, and why, line by line.
    pub(crate) fn build(design: &str, lines: Vec<String>) -> Self {
        Self::Build { design: design.to_owned(), reason: lines.join("\n") }
    }

    /// A core would have to wait for others that do not run.
    pub(crate) fn waits(cycle: u64) -> Self {
        Self::Host { cycle, what: "a core on a link was run without the others".into() }
    }
}

impl From<ndp_planner::PlanError> for SimError {
    fn from(error: ndp_planner::PlanError) -> Self {
        match error {
            ndp_planner::PlanError::Config(error) => error.into(),
            ndp_planner::PlanError::Layout(error) => error.into(),
        }
    }
}

/// One output that differs from the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Label of the product.
    pub label: String,
    /// Row of the weights.
    pub row: usize,
    /// Vector of the batch.
    pub batch: usize,
    /// FP16 bits of the reference.
    pub expected: u16,
    /// FP16 bits of the unit.
    pub actual: u16,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { label, row, batch, expected, actual } = self;
        let value = |bits: u16| f16::from_bits(bits).to_f32();
        write!(
            f,
            "{label}: row {row}, batch {batch}: expected {expected:#06x} ({}), actual {actual:#06x} ({})",
            value(*expected),
            value(*actual)
        )
    }
}

/// What went wrong on a link: each is a violation of what docs/dimm-link.md promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A beat differs from the one that is next in its flow.
    #[error(
        "cycle {cycle}: DIMM {node} received from DIMM {source_node} {found} instead of beat {expected} of flow {flow:#x}"
    )]
    Delivery {
        /// Core cycle.
        cycle: u64,
        /// Receiving DIMM.
        node: u32,
        /// Sending DIMM, as the link says.
        source_node: u32,
        /// What came.
        found: String,
        /// Number of the beat that was next.
        expected: u64,
        /// Its flow.
        flow: u64,
    },
    /// A sender broke a rule of the protocol on its lanes.
    #[error("cycle {cycle}: {sender} sent {what}")]
    Protocol {
        /// Core cycle.
        cycle: u64,
        /// Who sent it.
        sender: String,
        /// The rule's name and the values.
        what: String,
    },
    /// An end is not as the cycle model says.
    #[error("cycle {cycle}: DIMM {node} shows {found}; by the cycle model {predicted}")]
    Prediction {
        /// Core cycle.
        cycle: u64,
        /// The DIMM.
        node: usize,
        /// What is at its ports.
        found: String,
        /// What the model says.
        predicted: String,
    },
    /// Nothing is delivered any more, and no fault is reported.
    #[error(
        "cycle {cycle}: nothing was delivered for {quiet} cycles, no link reports a fault, and {missing} beats are missing"
    )]
    Hang {
        /// Core cycle.
        cycle: u64,
        /// Cycles without delivery.
        quiet: u64,
        /// Beats that were sent and did not arrive.
        missing: u64,
    },
}
