//! Rules of AXI4 for a subordinate (Arm IHI 0022), as properties of its channels.
//!
//! An arbitrary burst is followed from its address to its last beat or answer; responses are written from the standard.

use ndp_hdl::blocks::front_end::axi_bursts::AxiShape;
use ndp_hdl::blocks::front_end::axi_reads::axi_reads;
use ndp_hdl::blocks::front_end::axi_writes::axi_writes;
use ndp_hdl_language::{Bits, Direction, HdlError, Module, ModuleBuilder, any_of, lit, mux, named};
use std::rc::Rc;

/// Lines of two bytes, beats of one byte, eight lines including two registers, at most two lines in flight.
const SHAPE: AxiShape = AxiShape {
    line_bits: 16,
    data_bits: 8,
    id_bits: 1,
    line_number_bits: 4,
    register_bits: 1,
    outstanding: 2,
};

/// Width of a number of bursts in flight.
const BITS: u32 = 4;

struct View<'a> {
    m: &'a ModuleBuilder,
    ports: Vec<(String, Bits)>,
}

impl<'a> View<'a> {
    fn new(m: &'a ModuleBuilder, module: &Rc<Module>) -> Self {
        let (mut instance, mut ports) = (m.instance("axi", module), Vec::new());
        for port in module.ports() {
            if port.direction == Direction::Input && !module.is_clock_or_reset(&port.name) {
                let value = m.input(&port.name, port.width, &port.doc);
                ports.push((port.name.clone(), value));
                instance = instance.input(&port.name, value);
            }
        }
        for port in module.ports().iter().filter(|port| port.direction == Direction::Output) {
            let value = m.output(&port.name, instance.output(&port.name), &port.doc);
            ports.push((port.name.clone(), value));
        }
        Self { m, ports }
    }

    fn port(&self, name: &str) -> Bits {
        let ports: Vec<(&str, Bits)> =
            self.ports.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        named(&ports, name)
    }

    fn taken(&self, channel: &str) -> Bits {
        self.port(&format!("s_axi_{channel}valid")) & self.port(&format!("s_axi_{channel}ready"))
    }

    /// Places whose line was requested and has not come; a line comes only for these.
    fn under_way(&self, asks: &Bits, comes: &Bits, slot: &Bits) -> Bits {
        let places = SHAPE.outstanding;
        let asked = self.m.ghost("under_way_q", places).reset(0);
        let of = |slot: &Bits, when: &Bits| lit(1, places).shl(slot).gated(when);
        asked.next((asked.q() | of(&self.port("req_slot_o"), asks)) & !of(slot, comes));
        self.m.assume(
            "comes_once",
            (!asked.q() & of(slot, comes)).is_zero(),
            "a line that was asked for, once",
        );
        asked.q()
    }

    /// Follows an arbitrary burst of an address channel among those that end with `ends`: whether its turn has come,
    /// ID, length, expected response, and the number of bursts in flight.
    fn follow(&self, channel: &str, ends: &Bits) -> Followed {
        let m = self.m;
        let field = |name: &str| self.port(&format!("s_axi_{channel}{name}"));
        let names = ["id", "addr", "len", "size", "burst"];
        let fields = names.map(field);
        let ready = self.port(&format!("s_axi_{channel}ready"));
        m.assume_held(channel, &field("valid"), &ready, &fields.each_ref());
        let [id, addr, len, size, kind] = fields;
        let begins = self.taken(channel);
        let inside = m.ghost("inside_q", BITS).reset(0);
        let left = inside.q() - ends.zext(BITS);
        inside.next(left + begins.zext(BITS));
        let follows = m.ghost("follows_q", 1).reset(0);
        let chosen = m.any_sequence("chosen", 1) & begins & !follows.q();
        let before = m.ghost("before_q", BITS).reset(0);
        let turn = follows.q() & before.is_zero();
        follows.next(chosen | (follows.q() & !(turn & ends)));
        before.next(mux(chosen, left, before.q() - (ends & before.any()).zext(BITS)));
        let keep = |name: &str, value: Bits| {
            let ghost = m.ghost(format!("{name}_kept_q"), value.width()).enable(chosen);
            ghost.next(value);
            ghost.q()
        };
        // A wrapping burst has 2, 4, 8 or 16 beats and begins at a multiple of a beat; here a beat has one byte.
        let wrap = kind.eq_lit(2) & !any_of([1, 3, 7, 15].map(|beats| len.eq_lit(beats)));
        let wrong = any_of([kind.eq_lit(3), size.any(), wrap]);
        let registers = addr.msb();
        let outside = registers & addr.slice(2, 2).any();
        let resp = mux(outside, lit(3, 2), mux(wrong, lit(2, 2), lit(0, 2)));
        Followed { turn, id: keep("id", id), begins: chosen, resp: keep("resp", resp), inside: inside.q() }
    }
}

struct Followed {
    turn: Bits,
    begins: Bits,
    id: Bits,
    resp: Bits,
    inside: Bits,
}

pub(super) fn reads() -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("axi_reads_followed", "Reads, of which one burst is followed.");
    let view = View::new(&m, &axi_reads(&SHAPE)?);
    let asks = view.port("req_valid_o") & view.port("req_ready_i");
    view.under_way(&asks, &view.port("rsp_valid_i"), &view.port("rsp_slot_i"));
    let valid = view.port("s_axi_rvalid");
    let last = view.port("s_axi_rlast");
    let goes = valid & view.port("s_axi_rready");
    let burst = view.follow("ar", &(goes & last));
    let beats = m.ghost("followed_beats_q", 8).reset(0);
    let counts = burst.turn & goes;
    beats.next(mux(burst.turn, beats.q() + counts.zext(8), lit(0, 8)).gated(!(counts & last)));
    let len = m.ghost("len_kept_q", 8).enable(burst.begins);
    len.next(view.port("s_axi_arlen"));
    let shown = burst.turn & valid;
    m.assert("has_id", !&shown | view.port("s_axi_rid").eq(burst.id), "its beats have its ID");
    m.assert(
        "has_resp",
        !&shown | view.port("s_axi_rresp").eq(burst.resp),
        "and the response of the standard",
    );
    m.assert("has_length", !&shown | last.eq(beats.eq(len)), "the last of AxLEN + 1 beats has RLAST");
    m.finish()
}

pub(super) fn writes() -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("axi_writes_followed", "Writes, of which one burst is followed.");
    let view = View::new(&m, &axi_writes(&SHAPE)?);
    let w = ["wdata", "wstrb", "wlast"].map(|field| view.port(&format!("s_axi_{field}")));
    m.assume_held("w", &view.port("s_axi_wvalid"), &view.port("s_axi_wready"), &w.each_ref());
    let goes = view.port("req_valid_o") & view.port("req_ready_i");
    let write = view.port("req_write_o");
    let under_way =
        view.under_way(&(goes & write), &view.port("written_valid_i"), &view.port("written_slot_i"));
    // One line is merged at a time.
    let (merges, comes) = (goes & !&write, view.port("read_valid_i"));
    let merging = m.ghost("merging_q", 1).reset(0);
    merging.next(any_of([merges, merging.q() & !&comes]));
    m.assume("comes_merged", !&comes | merging.q(), "a line that was asked for");
    let valid = view.port("s_axi_bvalid");
    let burst = view.follow("aw", &(valid & view.port("s_axi_bready")));
    let shown = burst.turn & valid;
    let resp = view.port("s_axi_bresp");
    let fits = mux(burst.resp.any(), resp.eq(burst.resp), !resp.bit(0));
    m.assert("has_id", !&shown | view.port("s_axi_bid").eq(burst.id), "its answer has its ID");
    m.assert("has_resp", !&shown | fits, "and the response of the standard; without it OKAY or SLVERR");
    let alone = valid & burst.inside.eq_lit(1);
    m.assert("all_written", !alone | (under_way.is_zero() & !merging.q()), "all its lines are written");
    m.finish()
}
