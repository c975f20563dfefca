//! The one error type of the crate: each variant carries the offending value and the limit it broke.

/// What cannot be planned, or is no placement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The dense weights alone exceed the GPU.
    #[error(
        "the GPU has {available} bytes for weights, the projections and embeddings of {model} take {resident}"
    )]
    GpuTooSmall {
        /// The model.
        model: String,
        /// Bytes of projections and embeddings.
        resident: u64,
        /// Bytes of the GPU's memory without its workspace.
        available: u64,
    },
    /// The neurons exceed the DIMMs.
    #[error("{} of neurons do not fit in {}; use more DIMMs, a smaller --kv-tokens, or --ssd", size(*needed), usable(*dimms, *each, *kv_bytes))]
    DimmsTooSmall {
        /// Bytes of all neurons.
        needed: u64,
        /// Bytes of all DIMMs that neurons can take.
        available: u64,
        /// Bytes of one DIMM that neurons can take.
        each: u64,
        /// Number of DIMMs.
        dimms: u32,
        /// Bytes of each DIMM that are kept free for keys and values.
        kv_bytes: u64,
    },
    /// Room enough in all, but no DIMM has enough of it for one more neuron.
    #[error(
        "no DIMM has {needed} bytes left for a neuron of block {block}: the fullest use leaves at most {free} in one DIMM"
    )]
    Fragmented {
        /// Block of the neuron.
        block: usize,
        /// Bytes of the neuron.
        needed: u64,
        /// Most bytes that are left in one DIMM.
        free: u64,
    },
    /// A number outside its range.
    #[error("{what} = {value} must be {min}..={max}")]
    Range {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Least value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A bandwidth or time that is no positive number.
    #[error("{what} = {value} must be {rule}")]
    Quantity {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// Frequencies, or a placement, of another model.
    #[error("{what}: {found} instead of {expected}")]
    Shape {
        /// What there is too much or too little of.
        what: String,
        /// How many there are.
        found: u64,
        /// How many there should be.
        expected: u64,
    },
    /// A frequency that is none.
    #[error("frequency {value} of neuron {neuron} of block {block} is not in 0..=1")]
    Frequency {
        /// Block of the neuron.
        block: usize,
        /// Neuron within the block.
        neuron: usize,
        /// The value.
        value: f32,
    },
    /// A placement with more on the GPU than fits.
    #[error("{used} bytes of neurons on the GPU, {capacity} fit")]
    GpuFull {
        /// Bytes of the neurons on the GPU.
        used: u64,
        /// Bytes that neurons can take there.
        capacity: u64,
    },
    /// Neurons and predictors that exceed GPU and CPU together, in PowerInfer's program.
    #[error(
        "{neurons} bytes of neurons and {predictors} of predictors fit neither GPU nor CPU: they have {gpu} and {cpu} bytes"
    )]
    HostTooSmall {
        /// Bytes of all neurons.
        neurons: u64,
        /// Bytes of all predictors.
        predictors: u64,
        /// Bytes of the GPU without dense weights.
        gpu: u64,
        /// Bytes of the CPU's memory without keys and values.
        cpu: u64,
    },
    /// More neurons off the GPU than the CPU holds, in PowerInfer's program.
    #[error("{used} bytes of neurons are left to the CPU, {capacity} fit")]
    CpuFull {
        /// Bytes of the CPU's neurons.
        used: u64,
        /// Bytes that neurons can take there.
        capacity: u64,
    },
    /// A placement with more on a DIMM than fits.
    #[error("{used} bytes of neurons on DIMM {dimm}, {capacity} fit")]
    DimmFull {
        /// The DIMM.
        dimm: usize,
        /// Bytes of its neurons.
        used: u64,
        /// Bytes that neurons can take there.
        capacity: u64,
    },
    /// A placement with an SSD that needs more slots than fit a DIMM.
    #[error(
        "slots for {used} bytes of neurons in each DIMM, {capacity} fit: with an SSD all DIMMs have as many slots of a block as the fullest one needs"
    )]
    SlotsFull {
        /// Bytes of the slots of a DIMM.
        used: u64,
        /// Bytes that neurons can take there.
        capacity: u64,
    },
    /// A placement on a DIMM that does not exist.
    #[error(
        "neuron {neuron} of block {block} is placed on DIMM {dimm}, but the system has only {dimms} DIMMs"
    )]
    NoSuchDimm {
        /// Block of the neuron.
        block: usize,
        /// Neuron within the block.
        neuron: usize,
        /// The DIMM.
        dimm: u8,
        /// Number of DIMMs.
        dimms: u32,
    },
    /// Neurons on an SSD that cannot be there.
    #[error("neurons of block {block} are on an SSD: expected neurons of an MLP, and a machine with an SSD")]
    NoSsd {
        /// The block.
        block: usize,
    },
    /// Bits of neurons that do not exist.
    #[error("the bits of block {block} go on behind its last neuron, number {last}")]
    StrayBits {
        /// The block.
        block: usize,
        /// Its last neuron.
        last: u32,
    },
    /// The general solver gave no solution.
    #[error("the MILP solver found no placement within {seconds} s: {reason}")]
    Solver {
        /// Its time limit.
        seconds: f64,
        /// What it said.
        reason: String,
    },
    /// Text that is no placement.
    #[error("not a placement: {0}")]
    Syntax(String),
}

/// Bytes in the unit that fits.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        small if small < 1e6 => format!("{bytes} bytes"),
        some if some < 1e9 => format!("{:.1} MB", some / 1e6),
        many => format!("{:.1} GB", many / 1e9),
    }
}

/// The DIMMs, and what keys and values leave of them.
fn usable(dimms: u32, each: u64, kv_bytes: u64) -> String {
    let (plural, of_each) = if dimms == 1 { ("", "") } else { ("s", " in each") };
    let kept = match (each, kv_bytes) {
        (_, 0) => String::new(),
        (0, kept) => format!(" (keys and values alone take {}{of_each})", size(kept)),
        (each, kept) => format!(" ({} minus {} for keys and values)", size(each + kept), size(kept)),
    };
    let usable = if each == 0 { "none".to_owned() } else { size(each) };
    format!("{dimms} DIMM{plural}: {usable} is usable{of_each}{kept}")
}
