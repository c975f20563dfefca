//! DIMM-links, flit by flit: an end with its transmitter, receiver and session, the line to it, a bridge, and two ends
//! by themselves (docs/timing-links.md, "Links").
//!
//! No payload moves. A word on a lane is identified by the cycle in which it was sent; disturbances by the channel are
//! an input ([`Disturbance`]).

pub(crate) mod bridge;
pub(crate) mod end;
pub(crate) mod frame;
pub(crate) mod lane;
pub(crate) mod line;
pub(crate) mod pair;
pub(crate) mod receiver;
pub(crate) mod session;
pub(crate) mod transmitter;

pub use frame::Beat;
pub use line::Disturbance;
pub use pair::{EndInputs, EndOutputs, LinkPair};
pub use receiver::Arrived;
