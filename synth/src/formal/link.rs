//! Each side of a link by itself: one with any bits on its lanes, the other with any answers.
//!
//! Together they deliver flits in order, each once: the receiver accepts the next expected one, and the sender still
//! keeps it. The CRC ensures that an accepted flit is the one sent ([`ndp_hdl::blocks::link::link_crc`]).

use super::configured;
use ndp_config::{DesignConfig, LinkConfig};
use ndp_hdl::blocks::link::link_aligner::link_aligner;
use ndp_hdl::blocks::link::link_receiver::link_receiver;
use ndp_hdl::blocks::link::link_transmitter::link_transmitter;
use ndp_hdl_language::{HdlError, Module};
use std::rc::Rc;

fn smallest() -> Result<LinkConfig, HdlError> {
    let text = "name = \"link\"\n[link]\nlanes = 4\nflit_beats = 2\nframe_flits = 2\nreplay_flits = 4\nreceive_flits = 4\n";
    Ok(configured(DesignConfig::from_toml(text))?.link().clone())
}

pub(super) fn receiver() -> Result<Rc<Module>, HdlError> {
    link_receiver(&smallest()?)
}

/// The block that aligns the receiver's lanes.
pub(super) fn aligner() -> Result<Rc<Module>, HdlError> {
    link_aligner(&smallest()?)
}

pub(super) fn transmitter() -> Result<Rc<Module>, HdlError> {
    link_transmitter(&smallest()?)
}
