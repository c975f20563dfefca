//! DIMM-links in simulation: Verilated controllers and bridges, the lanes between them, and who watches.
//!
//! [`channel`] is the eight SerDes lanes with their errors, skew, stalls and cuts; [`pins`] the ports of a link's end;
//! [`flow`] the beats that are sent and the check of what arrives; [`probe`] follows the flits on the lanes and checks the protocol with a
//! decoder of its own; [`bridge`] is a bridge; [`network`] puts links together, [`cores`] whole cores with links,
//! [`lockstep`] cores with links on several threads, [`prediction`] the cycle model beside these. Nothing of it is shared with `hdl`.

pub mod bridge;
pub mod channel;
pub mod cores;
pub mod flow;
pub mod lockstep;
pub mod network;
pub mod pins;
pub mod prediction;
pub mod probe;

/// Bits of one lane in a core cycle: 25 Gb/s at 1 GHz.
pub const LANE_BITS: u32 = 25;
/// The bits of all lanes in one cycle, one number per lane, the first bit lowest. Links with fewer lanes use the first ones.
pub type Lanes = [u32; 8];
/// A beat of payload: 64 bytes.
pub type Beat = [u64; 8];

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
