//! Ports of a Verilated `ndp_core`.

use super::host::{HostRequest, HostResponse};
use super::recording::{PARTS, Strobes};
use crate::ffi::{InputPort, Model, OutputPort};
use crate::link::Lanes;
use crate::link::pins::{drive_lanes, read_lanes};
use ndp_config::{BEAT_BITS, BEAT_ELEMS, DesignConfig, LinkConfig};
use ndp_dram::CommandPins;
use ndp_files::Result;

/// Two transfers of 64 bits in one clock.
const BUS_BITS: u32 = 128;
const TAG_BITS: u32 = 8;

#[derive(Debug)]
struct RankPins {
    command: [OutputPort; 5],
    dq_out: OutputPort,
    dq_drive: OutputPort,
    dq_in: InputPort,
}

#[derive(Debug)]
pub(super) struct CorePins {
    request: [InputPort; 5],
    request_ready: OutputPort,
    response_ready: InputPort,
    response: [OutputPort; 4],
    busy: OutputPort,
    /// Busy parts; an instruction taken, started, refused.
    strobes: [OutputPort; 4],
    /// Strobe of a selection, and its elements.
    selection: [OutputPort; 2],
    ranks: Vec<RankPins>,
    link: Option<LinkPins>,
}

#[derive(Debug)]
struct LinkPins {
    lanes_in: InputPort,
    lanes_out: OutputPort,
    node: InputPort,
}

impl CorePins {
    /// Checks each port's width against the configuration.
    pub(super) fn new(model: &Model, config: &DesignConfig) -> Result<Self> {
        let input = |name: &str, width| model.input_of_width(name, width);
        let output = |name: &str, width| model.output_of_width(name, width);
        let rank = |g: u32| {
            let pin = |name: &str, width| output(&format!("r{g}_{name}"), width);
            Ok(RankPins {
                command: [
                    pin("cs_n_o", 1)?,
                    pin("act_n_o", 1)?,
                    pin("bg_o", config.dram().bank_groups().trailing_zeros())?,
                    pin("ba_o", 2)?,
                    pin("a_o", 18)?,
                ],
                dq_out: pin("dq_o", BUS_BITS)?,
                dq_drive: pin("dq_oe_o", 1)?,
                dq_in: input(&format!("r{g}_dq_i"), BUS_BITS)?,
            })
        };
        Ok(Self {
            request: [
                input("host_valid_i", 1)?,
                input("host_write_i", 1)?,
                input("host_addr_i", config.dimm_burst_bits() + 1)?,
                input("host_tag_i", TAG_BITS)?,
                input("host_data_i", BEAT_BITS)?,
            ],
            request_ready: output("host_ready_o", 1)?,
            response_ready: input("response_ready_i", 1)?,
            response: [
                output("response_valid_o", 1)?,
                output("response_write_o", 1)?,
                output("response_tag_o", TAG_BITS)?,
                output("response_data_o", BEAT_BITS)?,
            ],
            busy: output("busy_o", 1)?,
            strobes: [
                output("parts_busy_o", PARTS.len() as u32)?,
                output("take_o", 1)?,
                output("start_o", 1)?,
                output("refuse_o", 1)?,
            ],
            selection: [output("select_valid_o", 1)?, output("select_mask_o", BEAT_ELEMS)?],
            ranks: (0..config.gemv().ranks()).map(rank).collect::<Result<_>>()?,
            link: if config.core().link() {
                let bits = config.link().word_bits();
                Some(LinkPins {
                    lanes_in: input("link_lanes_i", bits)?,
                    lanes_out: output("link_lanes_o", bits)?,
                    node: input("link_node_i", LinkConfig::NODE_BITS)?,
                })
            } else {
                None
            },
        })
    }

    pub(super) fn drive_request(&self, model: &mut Model, request: Option<&HostRequest>) {
        let [valid, write, address, tag, data] = self.request;
        model.set(valid, request.is_some().into());
        let Some(request) = request else { return };
        model.set(write, request.write.is_some().into());
        model.set(address, request.address);
        model.set(tag, request.tag.into());
        if let Some(burst) = &request.write {
            model.set_longs(data, burst);
        }
    }

    #[inline]
    pub(super) fn lanes(&self, model: &Model) -> Option<Lanes> {
        self.link.as_ref().map(|link| read_lanes(model, link.lanes_out))
    }

    #[inline]
    pub(super) fn drive_lanes(&self, model: &mut Model, lanes: &Lanes) {
        if let Some(link) = &self.link {
            drive_lanes(model, link.lanes_in, lanes);
        }
    }

    pub(super) fn drive_node(&self, model: &mut Model, node: u32) {
        if let Some(link) = &self.link {
            model.set(link.node, node.into());
        }
    }

    pub(super) fn drive_response_ready(&self, model: &mut Model, ready: bool) {
        model.set(self.response_ready, ready.into());
    }

    #[inline]
    pub(super) fn request_ready(&self, model: &Model) -> bool {
        model.get(self.request_ready) == 1
    }

    #[inline]
    pub(super) fn response(&self, model: &Model) -> Option<HostResponse> {
        let [valid, write, tag, data] = self.response;
        if model.get(valid) == 0 {
            return None;
        }
        let read = (model.get(write) == 0).then(|| model.get_longs(data));
        Some(HostResponse { tag: model.get(tag) as u8, read })
    }

    #[inline]
    pub(super) fn busy(&self, model: &Model) -> bool {
        model.get(self.busy) == 1
    }

    #[inline]
    pub(super) fn strobes(&self, model: &Model) -> Strobes {
        let [parts_busy, take, start, refuse] = self.strobes.map(|port| model.get(port));
        let [valid, elements] = self.selection;
        let mask = (model.get(valid) == 1).then(|| model.get(elements) as u32);
        Strobes { parts_busy, take: take == 1, start: start == 1, refuse: refuse == 1, mask }
    }

    /// Command and write data of a rank in this clock of the DRAM.
    #[inline]
    pub(super) fn rank(&self, model: &Model, rank: usize) -> (CommandPins, Option<[u64; 2]>) {
        let RankPins { command, dq_out, dq_drive, .. } = &self.ranks[rank];
        let write = (model.get(*dq_drive) == 1).then(|| model.get_longs(*dq_out));
        let [cs_n, act_n, bank_group, bank, address] = *command;
        if model.get(cs_n) == 1 {
            return (CommandPins::DESELECT, write);
        }
        let pins = CommandPins {
            cs_n: false,
            act_n: model.get(act_n) == 1,
            bank_group: model.get(bank_group) as u8,
            bank: model.get(bank) as u8,
            address: model.get(address) as u32,
        };
        (pins, write)
    }

    #[inline]
    pub(super) fn drive_rank(&self, model: &mut Model, rank: usize, data: [u64; 2]) {
        model.set_longs(self.ranks[rank].dq_in, &data);
    }
}
