//! Bursts of an AXI4 manager (Arm IHI 0022, A3.4), for both directions of [`super::axi_subordinate`]: fields of an
//! address channel, their errors, and the addresses of the beats. No module of its own.

use super::prelude::*;

/// Bits of AxLEN, AxSIZE, AxBURST and xRESP.
pub const LEN_BITS: u32 = 8;
pub(super) const SIZE_BITS: u32 = 3;
pub(super) const TYPE_BITS: u32 = 2;
pub(super) const RESP_BITS: u32 = 2;
/// AxBURST: all beats at one address, or a container that wraps; 1 is INCR.
const FIXED: u128 = 0;
const WRAP: u128 = 2;
pub(super) const SLVERR: u128 = 2;
pub(super) const DECERR: u128 = 3;
/// Bits of an address within 4 KiB, which no burst leaves.
const PAGE_BITS: u32 = 12;
const WAITING: u32 = 4;

/// Sizes at both sides of the subordinate. A line is a burst of DRAM or a register: the unit of the host's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxiShape {
    pub line_bits: u32,
    pub data_bits: u32,
    pub id_bits: u32,
    /// Bits of a line's number; the uppermost one selects the registers.
    pub line_number_bits: u32,
    pub register_bits: u32,
    /// Lines in flight in each direction, a power of two.
    pub outstanding: u32,
}

impl AxiShape {
    pub(super) fn line_bytes(&self) -> u32 {
        self.line_bits / 8
    }

    pub(super) fn data_bytes(&self) -> u32 {
        self.data_bits / 8
    }

    pub(super) fn byte_bits(&self) -> u32 {
        log2(self.line_bytes())
    }

    pub fn addr_bits(&self) -> u32 {
        self.line_number_bits + self.byte_bits()
    }

    pub(super) fn offset_bits(&self) -> u32 {
        PAGE_BITS.min(self.addr_bits() - 1)
    }

    /// Bits of the number of a line in flight.
    pub(super) fn slot_bits(&self) -> u32 {
        log2(self.outstanding)
    }

    pub(super) fn name(&self) -> String {
        let Self { line_bits, data_bits, id_bits, line_number_bits, outstanding, .. } = self;
        format!("l{line_bits}_d{data_bits}_i{id_bits}_a{line_number_bits}_n{outstanding}")
    }
}

pub(super) struct Burst {
    pub active: Bits,
    pub id: Bits,
    /// OKAY, or why it has no effect.
    pub resp: Bits,
    pub line: Bits,
    /// Byte of the beat in the line.
    pub byte: Bits,
    /// Bits of that address which change from beat to beat in a line.
    pub moves: Bits,
    /// Bytes of a full beat, one-hot in the bits of an address in a line; 0 if that is a line or more.
    pub step: Bits,
    pub last: Bits,
    /// The next beat needs another line.
    pub line_ends: Bits,
    /// For properties: a burst enters the queue, and its AxLEN.
    pub comes: Bits,
    pub comes_len: Bits,
}

/// The next address of an offset: the bits of `moves` advance to the next multiple of `step`.
pub(super) fn next_byte(offset: &Bits, step: &Bits, moves: &Bits) -> Bits {
    let aligned = offset & !step.minus_one();
    let onward = aligned + step;
    (offset & !moves) | (onward & moves)
}

/// One-hot number of one of `places` lines in flight.
pub(super) fn place(number: &Bits, places: u32) -> Bits {
    lit(1, places).shl(number)
}

/// Ports of an address channel (`s_axi_<channel>...`), a queue for it, and the walk over the beats of the oldest burst,
/// which advances with `advances`.
pub(super) fn bursts(
    m: &ModuleBuilder,
    shape: &AxiShape,
    channel: &str,
    advances: &Bits,
) -> Result<Burst, HdlError> {
    let port = |field: &str, width: u32, doc: &str| m.input(format!("s_axi_{channel}{field}"), width, doc);
    let valid = port("valid", 1, "a burst is offered");
    let fields = [
        port("id", shape.id_bits, "ID of the burst"),
        port("addr", shape.addr_bits(), "address of its first byte; the uppermost bit selects the registers"),
        port("len", LEN_BITS, "beats of the burst minus one"),
        port("size", SIZE_BITS, "logarithm of the bytes of a beat"),
        port("burst", TYPE_BITS, "0 FIXED, 1 INCR, 2 WRAP"),
    ];
    let widths = fields.each_ref().map(Bits::width);
    let load = m.forward("load", 1);
    let queue = fifo_of(m, "queue", WAITING, valid, cat(fields.iter().cloned()), load)?;
    let ready = m.output(format!("s_axi_{channel}ready"), queue.ready, "the burst is taken; from registers");
    m.assume_held(channel, valid, ready, &fields.each_ref());
    let (waits, head) = (queue.valid.q(), queue.data.q());
    let mut low = head.width();
    let [id, addr, len, size, kind] = widths.map(|width| {
        low -= width;
        head.slice(low, width)
    });

    let bits = shape.offset_bits();
    let fixed = m.wire("fixed", kind.eq_lit(FIXED));
    let wraps = m.wire("wraps", kind.eq_lit(WRAP));
    let step = m.wire("step", lit(1, bits).shl(size));
    let beats = if bits > LEN_BITS { len.zext(bits) } else { len.low(bits) };
    let container = m.wire("container", beats.shl(size) | step.minus_one());
    let moves = m.wire("moves", mux(wraps, container, repeat(bits, !fixed)));
    let powers = [1, 3, 7, 15].map(|beats| len.eq_lit(beats));
    let unaligned = (addr.low(bits) & step.minus_one()).any();
    let illegal = m.wire(
        "illegal",
        any!(
            kind.all(),
            lit(log2(shape.data_bytes()).into(), SIZE_BITS).lt(size),
            wraps & (!any_of(powers) | unaligned)
        ),
    );
    let spare = shape.line_number_bits - 1 - shape.register_bits;
    let unmapped = match spare {
        0 => zeros(1),
        _ => addr.msb() & addr.slice(shape.byte_bits() + shape.register_bits, spare).any(),
    };
    let unmapped = m.wire("unmapped", unmapped);
    let resp = mux(unmapped, lit(DECERR, RESP_BITS), lit(SLVERR, RESP_BITS).gated(illegal));

    let ends = m.forward("ends", 1);
    let active = m.reg("active_q", 1).reset(0);
    load.drive(waits & (!active | ends));
    active.set_clear(load, ends);
    let held = |name: &str, value: &Bits| m.hold(format!("{name}_q"), value, load);
    let (id, resp, step) = (held("id", &id), held("resp", &resp), held("step", &step));
    // Addresses of a refused burst may stay in one line for longer than a line has bytes.
    let moves = held("moves", &moves);
    let alone = held("alone", &any!(fixed, illegal, unmapped));
    let page = held("page", &addr.high(shape.addr_bits() - bits));
    let offset = m.reg("offset_q", bits);
    let next = m.wire("next", next_byte(&offset.q(), &step, &moves));
    offset.next(mux(load, addr.low(bits), mux(advances, next, offset)));
    let left = m.reg("left_q", LEN_BITS);
    left.next(mux(load, len, mux(advances, left.minus_one(), left)));
    let last = m.wire("last", left.is_zero());
    ends.drive(advances & last);
    let in_page = bits - shape.byte_bits();
    let other_line = next.high(in_page).ne(offset.high(in_page));
    let line = cat!(page, offset.high(in_page));
    Ok(Burst {
        active: active.q(),
        id,
        resp,
        line,
        byte: offset.low(shape.byte_bits()),
        moves: moves.low(shape.byte_bits()),
        step: step.low(shape.byte_bits()),
        line_ends: m.wire("line_ends", any!(last, alone, other_line)),
        last,
        comes: valid & ready,
        comes_len: fields[2],
    })
}
