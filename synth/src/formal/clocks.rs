//! The FIFO between two clocks, for every order of their edges.
//!
//! In each step the prover chooses which clocks have an edge, and whether both domains are in reset. The follower sees
//! all steps and is in neither domain. A synchroniser catches a bit that has just changed as it was or as it is.

use super::list::followed;
use ndp_hdl::blocks::common::async_fifo::{Storage, async_fifo};
use ndp_hdl_language::{Bits, Crossing, HdlError, Module, ModuleBuilder, cat, lit, mux, zeros};
use std::rc::Rc;

/// Each has a clock `_clk_i`, a reset `_rst_ni` and an input `_edge_i`, the clock's value as data.
pub(super) const CLOCKS: &[&str] = &["write", "read"];

const DEPTH: u32 = 4;
const WIDTH: u32 = 2;
const STEPS: &str = "a step sees every edge of both clocks";

const SEEN: [(&str, u32, &str); 8] = [
    ("write_edge_i", 1, "the writer's clock has an edge"),
    ("read_edge_i", 1, "the reader's clock has an edge"),
    ("push_i", 1, "a word is offered"),
    ("ready_i", 1, "there is room"),
    ("data_i", WIDTH, "the word"),
    ("pop_i", 1, "the head is taken"),
    ("valid_i", 1, "the head is valid"),
    ("head_i", WIDTH, "the head"),
];

/// Checks the FIFO step by step.
fn follower() -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("follower", "Follows one word through a FIFO between two clocks.");
    let seen = SEEN.map(|(name, width, doc)| m.input(name, width, doc));
    let last = m.reg("seen_q", seen.iter().map(Bits::width).sum()).reset(0);
    last.next(cat(seen));
    m.output("seen_o", last, "what was seen");
    let [write, read, push, ready, data, pop, valid, head] = seen;
    let (pushes, pops) = (push & ready & write, pop & valid & read);
    let inside = followed(&m, [&pushes, &pops], &data, (&valid, &head));
    // The head is in a register after the storage.
    m.assert("bounded", inside.lt(lit((DEPTH + 2).into(), inside.width())), "there is a place for each word");
    // Five edges: two or three for a pointer to cross, and two until its effects are in a register.
    let in_time = |name: &str, edge: &Bits, waits: &Bits, why: &str| {
        let edges = m.ghost(format!("{name}_edges_q"), 3).reset(0);
        edges.next(mux(waits, mux(edge, edges.plus_one(), edges), zeros(3)));
        m.assert(name, !waits | edges.lt(lit(5, 3)), why);
    };
    in_time("arrives", &read, &(inside.any() & !valid), "a word is there after five edges of the reader");
    in_time("frees", &write, &(inside.is_zero() & !ready), "room is there after five edges of the writer");
    m.finish()
}

pub(super) fn fifo() -> Result<Rc<Module>, HdlError> {
    let fifo = async_fifo(WIDTH, DEPTH, Storage::FlipFlops)?;
    let m = ModuleBuilder::new(
        "async_fifo_followed",
        "A FIFO between two clocks, of which one word is followed.",
    );
    let [write, read] = [CLOCKS[0], CLOCKS[1]].map(|name| m.clock_domain(name));
    let mut instance = m.instance("fifo", &fifo).pass_domain("write", &write).pass_domain("read", &read);
    let mut follower = m.instance("follower", &follower()?);
    for (port, width, doc) in SEEN {
        if fifo.ports().iter().any(|other| other.name == port) || port.ends_with("_edge_i") {
            let value = m.input(port, width, doc);
            if !port.ends_with("_edge_i") {
                instance = instance.input(port, value);
            }
            follower = follower.crossing(port, value, Crossing::Stable, STEPS);
        }
    }
    for (port, of_fifo) in [("ready_i", "ready_o"), ("valid_i", "valid_o"), ("head_i", "data_o")] {
        follower = follower.crossing(port, instance.output(of_fifo), Crossing::Stable, STEPS);
    }
    m.unused(instance.output("taken_o"), "for who reserves places");
    m.unused(follower.output("seen_o"), "for properties");
    m.finish()
}
