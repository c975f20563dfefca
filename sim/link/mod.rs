//! DIMM-links in simulation: Verilated controllers and bridges, the lanes between them, and who watches.
//!
//! [`channel`] is the eight SerDes lanes with their errors, skew, stalls and cuts; [`pins`] the ports of a link's end;
//! [`flow`] the beats that are sent and the check of what arrives; [`probe`] follows the flits on the lanes and checks the protocol with a
//! decoder of its own; [`bridge`] is a bridge; [`network`] puts links together. Nothing of it is shared with `hdl`.

pub mod bridge;
pub mod channel;
pub mod flow;
pub mod network;
pub mod pins;
pub mod probe;

/// Bits of one lane in a core cycle: 25 Gb/s at 1 GHz.
pub const LANE_BITS: u32 = 25;
/// The bits of all lanes in one cycle, one number per lane, the first bit lowest. Links with fewer lanes use the first ones.
pub type Lanes = [u32; 8];
/// A beat of payload: 64 bytes.
pub type Beat = [u64; 8];
