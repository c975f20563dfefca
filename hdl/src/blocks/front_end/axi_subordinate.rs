//! An AXI4 subordinate (Arm IHI 0022) for the core's host port: DRAM from address 0 upward, and the core's registers
//! above it. Reads and writes take turns at the host port. Its responses come in any order; tags say whose they are.
//! `docs/axi.md` specifies the effect of each burst.

use super::axi_reads::axi_reads;
use super::axi_writes::axi_writes;
use super::prelude::*;
use ndp_hdl_language::Direction;

/// The kinds of requests, uppermost bits of their tags: a read's line, a line to be merged, a write.
const KIND_BITS: u32 = 2;
const READ: u128 = 0;
const MERGE: u128 = 1;
const WRITE: u128 = 2;

pub(super) const PREFIX: &str = "s_axi_";

pub fn axi_shape(config: &DesignConfig) -> AxiShape {
    let axi = config.axi();
    AxiShape {
        line_bits: BEAT_BITS,
        data_bits: axi.data_bits(),
        id_bits: axi.id_bits(),
        line_number_bits: config.dimm_burst_bits() + 1,
        register_bits: REGISTER_BITS,
        outstanding: axi.outstanding(),
    }
}

/// The subordinate. Its requests come from registers, and it takes all responses.
#[block(m, "axi_subordinate_{}", axi_shape(config).name(), "AXI4 subordinate in front of the host port.")]
pub fn axi_subordinate(config: &DesignConfig) -> Block {
    let shape = axi_shape(config);
    let (slot_bits, slot_end) = (shape.slot_bits(), HOST_TAG_BITS - KIND_BITS);
    let host_ready = m.input(1, "host port: the request is taken");
    let response_valid = m.input(1, "host port: a response is offered; it is always taken");
    let response_write = m.input(1, "host port: the response belongs to a write");
    let response_tag = m.input(HOST_TAG_BITS, "host port: tag of its request");
    let response_data = m.input(BEAT_BITS, "host port: the burst or register");

    let kind = response_tag.high(KIND_BITS);
    let answers = |of: u128| response_valid & kind.eq_lit(of);
    let slot = response_tag.low(slot_bits);
    if slot_bits < slot_end {
        m.unused(response_tag.slice(slot_bits, slot_end - slot_bits), "fewer places than a tag can name");
    }
    m.unused(response_write, "the tag shows it as well");
    m.assume(
        "kind",
        !response_valid | any_of([READ, MERGE, WRITE].map(|of| kind.eq_lit(of))),
        "a response has the tag of a request",
    );
    m.assume(
        "write",
        !response_valid | response_write.eq(kind.eq_lit(WRITE)),
        "a response is of its request's kind",
    );

    /// A request goes on when the one before it was taken.
    let valid = m.reg(1).reset(0);
    let room = m.wire(any!(!valid, host_ready));
    let turns = ["read_goes", "write_goes"].map(|name| m.forward(name, 1));
    let of_axi = |name: &str| name.starts_with(PREFIX);
    let reads = m
        .instance(&axi_reads(&shape)?)
        .input("req_ready_i", turns[0])
        .input("rsp_valid_i", answers(READ))
        .input("rsp_slot_i", slot)
        .input("rsp_data_i", response_data);
    reads.expose(Direction::Input, of_axi);
    let writes = m
        .instance(&axi_writes(&shape)?)
        .input("req_ready_i", turns[1])
        .input("written_valid_i", answers(WRITE))
        .input("written_slot_i", slot)
        .input("read_valid_i", answers(MERGE))
        .input("read_data_i", response_data);
    writes.expose(Direction::Input, of_axi);
    let wants = [&reads, &writes].map(|side| side.output("req_valid_o") & room);
    let granted = matrix_arbiter(&m, "turn", &wants);
    turns.iter().zip(&granted).for_each(|(turn, granted)| turn.drive(granted));
    let write = writes.output("req_write_o");
    let kinds =
        mux(granted[0], lit(READ, KIND_BITS), mux(write, lit(WRITE, KIND_BITS), lit(MERGE, KIND_BITS)));
    let slots = mux(granted[0], reads.output("req_slot_o"), writes.output("req_slot_o"));
    let tag = cat!(kinds, slots.zext(slot_end));
    let comes = m.wire(any_of(&granted));
    valid.set_clear(comes, host_ready);
    let out = |name: &str, value: Bits, doc: &str| {
        let reg = m.hold(format!("{name}_q"), value, comes);
        m.output(format!("host_{name}_o"), reg, doc)
    };
    m.output(host_valid = valid, "host port: a request is offered");
    let payload = [
        out("write", granted[1] & write, "host port: write, otherwise read"),
        out(
            "addr",
            mux(granted[0], reads.output("req_line_o"), writes.output("req_line_o")),
            "host port: burst; the uppermost bit selects the core",
        ),
        out("tag", tag, "host port: tag of the response"),
        out("data", writes.output("req_data_o"), "host port: burst to write"),
    ];
    m.assert_held("host", valid, host_ready, &payload.each_ref());
    reads.expose(Direction::Output, of_axi);
    writes.expose(Direction::Output, of_axi);
}
