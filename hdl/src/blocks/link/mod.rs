//! The DIMM-link: its controller, the bridge between several links, and the core's end of it.
//!
//! Reading order: [`link_frame`], [`link_crc`], [`link_lane`], [`link_aligner`], [`link_receiver`],
//! [`link_transmitter`], [`link_session`], [`link_monitor`], [`link_controller`]; [`link_switch`], [`link_bridge`]. For
//! `send` and `receive`: `transfer_message`, [`transfer_walker`], [`transfer_sender`], [`transfer_receiver`],
//! [`transfer_unit`].

pub mod link_aligner;
pub mod link_bridge;
pub mod link_controller;
pub mod link_crc;
pub mod link_frame;
pub mod link_lane;
pub mod link_monitor;
pub mod link_receiver;
pub mod link_session;
pub mod link_switch;
pub mod link_transmitter;
pub(crate) mod transfer_message;
pub mod transfer_receiver;
pub mod transfer_sender;
pub mod transfer_unit;
pub mod transfer_walker;

mod prelude {
    pub(super) use super::link_frame::{
        ANSWER, BEAT, DATA, Header, IDLE, INIT, KIND, LABEL, LinkBeat, NODE, ROUND, SEQ, TAG, Tag,
        beat_of_word, delayed, end_of_beat, link_ring, marker, markers, name, payload_of_word,
    };
    pub(super) use super::link_monitor::{COUNTER, Events, NUMBER, link_monitor};
    pub(super) use super::transfer_message::{COUNT_BITS, Message, SLOT_BITS, TRANSFER_BITS};
    pub(super) use crate::blocks::common::prelude::*;
}
