//! The activation unit: element-wise operations and softmax on vectors in the buffer.
//!
//! Reading order: [`activation_lane`] (one per compute tile), [`activation_tree`], [`activation_walker`],
//! [`activation_sequencer`], [`activation_sums`], [`activation_unit`]; [`exponential_path`] goes through the lanes or
//! past them; `activation_port` is the unit's part in a rank's group.

pub mod activation_lane;
pub(crate) mod activation_port;
pub mod activation_sequencer;
pub mod activation_sums;
pub mod activation_tree;
pub mod activation_unit;
pub mod activation_walker;
pub mod exponential_path;

mod prelude {
    pub(super) use super::activation_lane::{
        self, KEY_BITS, LaneControls, PATHS, SliceControls, TERM_BITS, paths, shared_suffix,
    };
    pub(super) use super::activation_walker::{activation_walker, vector_bits};
    pub(super) use crate::blocks::arithmetic::prelude::*;
}
