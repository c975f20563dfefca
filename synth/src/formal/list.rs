//! The proofs, and the mutants with which each has to fail.

use super::{Method, Proof, arithmetic, axi, bank, clocks, issue, link, multiplier, rank, scheduler};
use ndp_hdl::blocks::common::fifo::fifo;
use ndp_hdl::blocks::common::matrix_arbiter::matrix_arbiter;
use ndp_hdl::blocks::common::sram_fifo::sram_fifo;
use ndp_hdl_language::mutate::Mutation;
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, all, cat, lit, mux};
use std::rc::Rc;

/// A proof of a module with one clock, as it is.
const PLAIN: Proof = Proof {
    name: "",
    says: "",
    module: || fifo(4, 4),
    clocks: &[],
    any: &[],
    elsewhere: &[],
    method: Method::AnyLength,
    mutants: &[],
};

pub const PROOFS: &[Proof] = &[
    Proof {
        name: "fifo",
        says: "loses, repeats and reorders no word, and takes none when it is full",
        module: || fifo(4, 4),
        method: Method::AnyLength,
        mutants: &[Mutation::new("one too many", "count_q != 3'h4", |s| s.with(1, lit(5, 3)))],
        ..PLAIN
    },
    Proof {
        name: "async_fifo",
        says: "loses, repeats and reorders no word, and brings each in time, whatever the order of edges of its two clocks",
        module: clocks::fifo,
        clocks: clocks::CLOCKS,
        method: Method::AnyLength,
        mutants: &[Mutation::new("full as if empty", "{~reader_value[2:1], reader_value[0]}", |s| {
            cat!(!s.signal("reader_value").bit(2), s.signal("reader_value").low(2))
        })],
        ..PLAIN
    },
    Proof {
        name: "matrix_arbiter",
        says: "gives a turn to one of those that want it, and passes each over at most once by each of the others",
        module: || arbiter(4),
        method: Method::AnyLength,
        // The second one lets turns follow time.
        mutants: &[
            Mutation::new("order of another turn", "(turn_older0_1_q | turn1) & ~turn0", |s| {
                s.with(1, !s.signal("turn2"))
            }),
            Mutation::new("turns follow time", "(turn_older0_1_q | turn1) & ~turn0", |s| {
                !s.signal("turn_older0_1_q")
            }),
        ],
        ..PLAIN
    },
    Proof {
        name: "sram_fifo",
        says: "loses, repeats and reorders no word, and takes none when it is full",
        module: || queue(&sram_fifo(2, 4)?),
        method: Method::AnyLength,
        mutants: &[Mutation::new("head overwritten", "pop_i | ~valid_q", |s| s.lit(1))],
        ..PLAIN
    },
    Proof {
        name: "rank_intake",
        says: "reserves no more places for beats and responses than there are",
        module: rank::intake,
        method: Method::AnyLength,
        mutants: &[Mutation::new("one place too many", "rsp_sum_q < 3'h2", |s| s.with(1, lit(3, 3)))],
        ..PLAIN
    },
    Proof {
        name: "axi_reads",
        says: "answers each burst in its turn with its ID, its response and as many beats as it has, and holds what it offers",
        module: axi::reads,
        method: Method::Cycles(12),
        mutants: &[Mutation::new("beat not held", "line_valid_q & (~valid_q | s_axi_rready)", |s| s.part(0))],
        ..PLAIN
    },
    Proof {
        name: "axi_writes",
        says: "answers each burst once, in its turn, with its ID and response, when all its lines are written",
        module: axi::writes,
        method: Method::Cycles(12),
        mutants: &[Mutation::new("answer too early", "(|(done_q & (2'h1 << answered_q[0])))", |s| {
            s.signal("done_q").any()
        })],
        ..PLAIN
    },
    Proof {
        name: "rank_timing",
        says: "gives no command earlier than JESD79-4 allows, and each to a bank in the right state",
        module: rank::timing,
        method: Method::Cycles(76),
        // The second one serves entries after a reset as if all banks were closed.
        mutants: &[
            Mutation::new("activates not counted", "act_count_q + 3'h1", |s| s.part(0)),
            Mutation::new("open banks after a reset", "reset idle_q", |s| s.lit(1)),
        ],
        ..PLAIN
    },
    Proof {
        name: "rank_scheduler",
        says: "gives the row command of a slot to the oldest entry that needs one and may have it, and the pins say which",
        module: scheduler::choices,
        method: Method::Cycles(16),
        mutants: &[Mutation::new("any bank group", "chosen_act5_q & (entry2_i[9:8] == 2'h3)", |s| s.part(0))],
        ..PLAIN
    },
    Proof {
        name: "rank_refresh",
        says: "gives a refresh in each interval",
        module: rank::refresh,
        method: Method::AnyLength,
        mutants: &[Mutation::new("waits for quiet", "idle_q & due_q", |s| s.old() & s.signal("quiet_i"))],
        ..PLAIN
    },
    // Both mutants take a broadcast operand in phases without one.
    Proof {
        name: "multiplier_unit",
        says: "has no carry on its way to a digit that is read, whatever the operands",
        module: || multiplier::carries("bit-serial"),
        method: Method::Cycles(36),
        mutants: &[Mutation::new("broadcast in every phase", "broadcast_i & ~(|phase_i[10:8])", |s| {
            s.part(0)
        })],
        ..PLAIN
    },
    Proof {
        name: "multiplier_unit_digit",
        says: "the same, with lanes that take two bits per step",
        module: || multiplier::carries("digit-serial"),
        method: Method::Cycles(36),
        mutants: &[Mutation::new("broadcast in every phase", "broadcast_i & ~(|phase_i[10:8])", |s| {
            s.part(0)
        })],
        ..PLAIN
    },
    Proof {
        name: "multiplier_unit_parallel",
        says: "the same, with one multiplier for all lanes",
        module: || multiplier::carries("shared-parallel"),
        method: Method::Cycles(36),
        mutants: &[Mutation::new("broadcast in every phase", "broadcast_i & ~(|phase_i[9:7])", |s| {
            s.part(0)
        })],
        ..PLAIN
    },
    Proof {
        // The first mutant lets a row be closed while it is being written. The second one takes rows of the other side.
        name: "pim_bank",
        says: "shares no decoder, amplifier, subarray or row between the two paths of a sliced bank",
        module: bank::paths,
        method: Method::AnyLength,
        mutants: &[
            Mutation::new(
                "closed while written",
                "precharges & (((|wr0_q) & touches0) | ((|wr1_q) & touches1))",
                |s| s.part(0) & s.signal("wr0_q").any() & s.signal("touches0"),
            ),
            Mutation::new(
                "rows of the other side",
                "(pact_i ? row_i < boundary_q : (row_i < boundary_q) == row_partition_i)",
                |s| s.lit(0),
            ),
        ],
        ..PLAIN
    },
    Proof {
        name: "link_receiver",
        says: "accepts flits in order, each once, with a place for it, whatever bits the lanes bring",
        module: link::receiver,
        any: &["link_lane", "link_crc", "sram"],
        elsewhere: &["lanes_search"],
        method: Method::AnyLength,
        mutants: &[
            Mutation::new("out of turn", "(&{normal, has_payload, in_turn_q, room_q})", |s| {
                all!(s.signal("normal"), s.signal("has_payload"), s.signal("room_q"))
            }),
            Mutation::new("always room", "next room_q", |s| s.lit(1)),
        ],
        ..PLAIN
    },
    Proof {
        name: "link_aligner",
        says: "told to search anew, relies neither on markers that a lane has found nor on a lane's being in step",
        module: link::aligner,
        method: Method::AnyLength,
        mutants: &[
            Mutation::new("marker kept", "(missed & (&misses_q)) | restart_i", |s| s.part(0)),
            Mutation::new("step kept", "(&{align | aligned_q, (&locked), ~restart_i})", |s| {
                s.part(0).high(2).all()
            }),
        ],
        ..PLAIN
    },
    Proof {
        name: "link_transmitter",
        says: "keeps each flit until it is acknowledged, and sends only what it keeps, whatever the other side says",
        module: link::transmitter,
        method: Method::Cycles(36),
        mutants: &[
            Mutation::new("old flit overwritten", "room | drops_new | ~begins", |s| s.lit(1)),
            Mutation::new("sends what is not there", "next_q != tail_q", |s| s.lit(1)),
        ],
        ..PLAIN
    },
    Proof {
        name: "fp16_adder",
        says: "gives the exact sum, or one that rounds to the same, for all operands",
        module: arithmetic::adder,
        method: Method::Cycles(6),
        mutants: &[Mutation::new("rest lost", "moved[0] | (|({smaller_q, 3'h0} & lost_mask))", |s| {
            s.part(0)
        })],
        ..PLAIN
    },
    Proof {
        name: "fp16_packer",
        says: "gives the FP16 value nearest to the exact one, for all magnitudes and whatever is lost below a sum",
        module: arithmetic::packer,
        method: Method::Cycles(7),
        mutants: &[Mutation::new("subnormal as normal", "~(subnormal | ~normal_q[29])", |s| {
            !s.signal("subnormal")
        })],
        ..PLAIN
    },
    Proof {
        name: "fp16_rounder",
        says: "gives the FP16 value nearest to an exact sum, for all sums",
        module: arithmetic::rounder,
        method: Method::Cycles(16),
        mutants: &[Mutation::new("rest reversed", "kept_q[0] & (sticky_q | ..)", |s| {
            s.part(0) & (!s.signal("sticky_q") | s.signal("kept_q").bit(1))
        })],
        ..PLAIN
    },
    Proof {
        name: "product_aligner",
        says: "puts each product at its place in the accumulator",
        module: arithmetic::aligner,
        method: Method::AnyLength,
        mutants: &[Mutation::new("no sign below", "{shifted4[21:0], {4{negative_i}}}", |s| {
            s.with(1, lit(0, 4))
        })],
        ..PLAIN
    },
    Proof {
        name: "issue",
        says: "starts no instruction that collides with one at work: parts that they share, words of the buffer",
        module: issue::collisions,
        method: Method::Cycles(24),
        mutants: &[Mutation::new("parts shared", "zero_target_used_q & zero_busy_i", |s| s.lit(0))],
        ..PLAIN
    },
];

/// Follows an arbitrary word of a queue from its push to its pop.
fn queue(queue: &Rc<Module>) -> Result<Rc<Module>, HdlError> {
    let m =
        ModuleBuilder::new(format!("{}_followed", queue.name()), "A queue, of which one word is followed.");
    let (push, pop) = (m.input("push_i", 1, "append `data_i`"), m.input("pop_i", 1, "remove the head"));
    let width = queue.ports().iter().find(|port| port.name == "data_i").map_or(1, |port| port.width);
    let data = m.input("data_i", width, "word to append");
    let instance = m.instance("queue", queue).input("push_i", push).input("pop_i", pop).input("data_i", data);
    let [valid, ready, head] = ["valid_o", "ready_o", "data_o"].map(|port| instance.output(port));
    if queue.ports().iter().any(|port| port.name == "count_o") {
        m.unused(instance.output("count_o"), "counted here once more");
    }
    m.output("valid_o", valid, "the head is valid");
    m.output("ready_o", ready, "there is room");
    m.output("data_o", head, "the head");
    followed(&m, [&(push & ready), &(pop & valid)], &data, (&valid, &head));
    m.finish()
}

/// Asserts that an arbitrary word comes out in its turn. Returns the number of words inside.
pub(super) fn followed(
    m: &ModuleBuilder,
    [pushes, pops]: [&Bits; 2],
    data: &Bits,
    (valid, head): (&Bits, &Bits),
) -> Bits {
    // Words in the queue, and those before the followed one.
    const BITS: u32 = 5;
    let inside = m.ghost("inside_q", BITS).reset(0);
    let more = inside.q() + pushes.zext(BITS);
    inside.next(more - pops.zext(BITS));
    let follows = m.ghost("follows_q", 1).reset(0);
    let begins = m.any_sequence("chosen", 1) & pushes & !follows.q();
    let before = m.ghost("before_q", BITS).reset(0);
    let word = m.ghost("word_q", data.width()).enable(begins);
    word.next(data);
    let left = inside.q() - pops.zext(BITS);
    before.next(mux(begins, left, before.q() - (pops & before.any()).zext(BITS)));
    let turn = follows.q() & before.is_zero();
    follows.next(begins | (follows.q() & !(turn & pops)));
    m.assert("in_turn", !(turn & valid) | head.eq(word.q()), "a word comes out in its turn");
    m.assert("counted", !valid | inside.any(), "the head is valid only if a word is inside");
    inside.q()
}

fn arbiter(count: u32) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new(format!("arbiter_{count}"), "Arbitration among a few.");
    let wants = m.input("wants_i", count, "who wants a turn");
    let turns = matrix_arbiter(&m, "turn", &(0..count).map(|i| wants.bit(i)).collect::<Vec<_>>());
    m.output("turns_o", cat(turns.into_iter().rev()), "who gets it");
    m.finish()
}
