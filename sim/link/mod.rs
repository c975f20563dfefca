//! DIMM-links in simulation: [`channel`] is the eight SerDes lanes with errors, skew, stalls and cuts; [`pins`] the
//! ports of a link's end; [`flow`] the sent beats and the check of received ones; [`probe`] checks the protocol on the
//! lanes with a decoder of its own; [`bridge`] is a bridge; [`network`] puts links together. Nothing is shared with
//! `hdl`.

pub mod bridge;
pub mod channel;
pub mod flow;
pub mod network;
pub mod pins;
pub mod probe;

/// 25 Gb/s at 1 GHz.
pub const LANE_BITS: u32 = 25;
/// The bits of one cycle, one number per lane, the first bit lowest. Links with fewer lanes use the first ones.
pub type Lanes = [u32; 8];
/// 64 bytes of payload.
pub type Beat = [u64; 8];
