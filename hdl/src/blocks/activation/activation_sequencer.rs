//! Controls the activation unit's lanes: which words they read, when elements leave, where results go.
//!
//! An instruction is one pass over a vector block, softmax three: maxima, exponentials with their sums, products with
//! the reciprocals. In a pass words follow each other vector by vector. A word is read and taken when the last element
//! of the one before leaves, so that an element leaves in every step. The lanes move on in cycles in which no sums are
//! written to the slices, which is known one cycle ahead; then they have the write port. The pipeline drains between
//! passes. If slices share a lane, they take turns, and a word here is the word of one slice of each lane.
//!
//! SiLU, GELU and quotients take the elements of a word all the way round the chain of a rank's lanes first: out at one
//! end, through the function unit, and in at the other. The results leave the lanes as choices that change nothing. So
//! do exponentials, if the lanes have none of their own: the terms of a softmax then come to the sum one by one, as its
//! elements go into the rank's exponential.

use super::activation_tree;
use super::exponential_path;
use super::prelude::*;
use crate::blocks::arithmetic::{exponential, function_unit};

const _: () = assert!(
    exponential_path::LATENCY == function_unit::LATENCY,
    "elements come back to their places after a word's way through either unit"
);
/// Place of a path in [`PATHS`].
const EXPONENTIAL: u32 = 0;
const PRODUCT: u32 = 2;
const CHOICE: u32 = 3;

/// The sequencer of `config`. The command's fields must stay while it runs.
#[block(m, "activation_sequencer_g{}_l{}_a{}{}", config.ranks(), config.lanes(), config.slice_words(),
    shared_suffix(config),
    "Passes over a vector block word by word and element by element.")]
pub fn activation_sequencer(config: &GemvConfig) -> Block {
    let (lanes, addr_bits) = (config.lanes(), config.slice_addr_bits());
    let (lane_bits, vector_bits) = (log2(lanes), vector_bits(config));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let path = m.input(PATHS.len() as u32, "path of the elements, one-hot; unused by softmax");
    let softmax = m.input(1, "the command is a softmax");
    let two = m.input(1, "the command has two operands in the buffer");
    let function = m.input(1, "elements circulate through the function unit before they leave");
    let waves = m.input(wave_bits(config), "stripes of a vector that every rank takes");
    let tail_words = m.input(tail_bits(config), "words of the stripes that are left over");
    let paired = m.input(1, "every second rank holds the same stripe of them");
    let vectors = m.input(vector_bits, "vectors, at least one");
    let source = m.input(addr_bits, "first word of the first operand");
    let other = m.input(addr_bits, "first word of the second operand");
    let target = m.input(addr_bits, "first word of the results");
    let read_ready = m.input(1, "the read is accepted; only with `read_valid_o`");
    let soon_free = m.input(1, "no other part writes a slice in the next cycle");
    let argued = m.input(1, "the argument of the vector looked up is valid");
    let divided = m.input(1, "the reciprocal of its sum is valid");

    let flag = |name: &str| m.reg(name, 1).reset(0);
    let advance = m.flag(soon_free);

    // Passes: 0 of everything else, 1 to 3 of softmax.
    let running = flag("running_q");
    let pass = m.reg(2);
    let again = m.forward(1);
    let begins = m.wire(start | again);
    pass.next(mux(start, softmax.zext(2), mux(again, pass.plus_one(), pass)));
    let is_pass = |number: u128| pass.eq_lit(number);
    let begun = m.flag(begins);
    let (maxima, exponentials, products) = (is_pass(1), is_pass(2), is_pass(3));
    let (maxima, exponentials) = (m.wire("maxima", maxima), m.wire("exponentials", exponentials));
    let products = m.wire(products);
    let only = |path: u32| lit(1 << path, PATHS.len() as u32);
    let shared = config.shares_exponential();
    let exponential_way = if shared { CHOICE } else { EXPONENTIAL };
    let path = mux(exponentials, only(exponential_way), mux(products, only(PRODUCT), path));
    let path = m.wire(mux(maxima, only(CHOICE), path));
    let two = m.wire(two & !softmax);

    /// Words: asked for, coming, in the lanes' registers.
    let left = m.reg(lane_bits + 1).reset(0);
    let around = config.activation_lanes_per_rank() * lanes + function_unit::LATENCY;
    let around_left = m.reg(bits_for(around)).reset(0);
    // If exponentials go round, they do so when the maximum is known; otherwise they leave at that time.
    let (goes_round, ready) = match shared {
        false => {
            let goes_round = m.wire(around_left.any());
            let ready = mux(exponentials, argued, mux(products, divided, !goes_round));
            (goes_round, ready)
        }
        true => {
            let stays = m.wire(around_left.any());
            let goes_round = m.wire(stays & (!exponentials | argued));
            (goes_round, mux(products, divided, !stays))
        }
    };
    let ready = m.wire(ready);
    let leaves = m.wire(all!(advance, left.any(), ready));
    let remains = m.wire(mux(leaves, left.minus_one(), left));
    let reading = flag("reading_q");
    let wants_other = flag("wants_other_q");
    let coming = flag("coming_q");
    let coming_other = flag("coming_other_q");
    // The word is taken one cycle after it was read, when at most one element is left, which leaves in that cycle.
    let nearly = remains.high(lane_bits).is_zero() & (!remains.bit(0) | soon_free);
    let first_read = m.wire(all!(reading, !coming, !coming_other, !wants_other, !begun, nearly));
    let read_valid = m.wire(first_read | wants_other);
    let first_granted = m.wire(first_read & read_ready);
    let other_granted = m.wire(wants_other & read_ready);
    coming.next(first_granted);
    coming_other.next(other_granted);
    wants_other.set_clear(first_granted & two, read_ready);
    let complete = m.wire(mux(two, other_granted, first_granted));
    let taken = m.wire(mux(two, coming_other, coming));
    left.next(mux(taken, lit(lanes.into(), lane_bits + 1), remains));
    let fewer = mux(goes_round, around_left.minus_one(), around_left);
    let round = if shared { m.wire("round", function | exponentials) } else { function };
    around_left.next(mux(taken & round, lit(around.into(), around_left.width()), fewer));

    let walker_module = activation_walker(config)?;
    let walker = activation_walker::In {
        start: begun,
        waves,
        tail_words,
        paired,
        vectors,
        base: mux(products, target, source),
        step: complete,
    }
    .part(&m, "read_walker", &walker_module);
    let walker_ends = walker.last.q();
    reading.set_clear(begins, complete & walker_ends);
    let apart = m.hold(other - source, begun);
    let address = walker.word + apart.gated(wants_other);
    let known = |name: &str, value: Bits| {
        let fetched = m.hold(format!("fetched_{name}_q"), value, complete);
        let now = m.hold(format!("{name}_q"), fetched, taken);
        (fetched, now)
    };
    let (fetched_vector, vector) = known("vector", walker.vector.q());
    let (_, last_word) = known("last_word", walker.last_word.q());
    let (_, ends) = known("ends", walker.ends.q());
    let (_, counts) = known("counts", walker.counts.q());
    let mut slices = Vec::new();
    if config.slices_per_lane() > 1 {
        let read = walker.slice.q();
        let taken = m.delay("take_slice_q", read);
        slices = vec![read, taken, known("slice", read).1];
    }
    let element = m.reg(lane_bits);
    element.count(leaves, begun);
    let vector_ends = m.wire(all!(leaves, last_word, element.all()));

    // Elements in flight: a bit for each step, as many as their path has.
    let longest = paths(config).map(activation_lane::latency).max().unwrap_or(1);
    let mut chain: Vec<Bits> = Vec::new();
    let mut lasts: Vec<Bits> = Vec::new();
    for step in 0..longest {
        let on_its_way: Vec<Bits> = paths(config)
            .filter(|path| activation_lane::latency(*path) > step)
            .map(|index| path.bit(index as u32))
            .collect();
        let travels = any_of(&on_its_way);
        let link = |name: &str, from: Bits| {
            m.reg(format!("{name}{step}_q"), 1).reset(0).enable(advance).next(from & travels).q()
        };
        let before = chain.last().copied().unwrap_or(leaves);
        let last_before = lasts.last().copied().unwrap_or(vector_ends);
        chain.push(link("way", before));
        if step < exponential::LATENCY && !shared {
            lasts.push(link("end", last_before));
        }
    }
    let arrivals: Vec<Bits> =
        paths(config).map(|path| chain[activation_lane::latency(path) as usize - 1]).collect();
    let arrives = one_hot_mux(path.high(arrivals.len() as u32), &arrivals);
    let writes = m.wire(all!(arrives, advance, !maxima));
    let moving = m.wire(any_of(&chain));
    let quiet = m.wire(!any_of([reading.q(), coming.q(), coming_other.q(), left.any(), moving]));
    let quiet = m.wire("pass_done", all!(quiet, running, !begun, !wants_other));
    again.drive(quiet & (maxima | exponentials));
    running.set_clear(start, quiet & !again);

    // To the trees: keys of the first pass, terms of the second.
    let at_terms = exponential::LATENCY as usize - 1;
    let strobe = |name: &str, value: Bits, cycles: u32| {
        (0..cycles).fold(value, |value, cycle| m.flag(format!("{name}{cycle}_q"), value))
    };
    let tree_cycles = 1 + activation_tree::latency(config.activation_lanes_per_rank());
    let keys_valid = strobe("keys", leaves & maxima, tree_cycles);
    let (terms_valid, last) = if shared {
        // The word goes into the exponential until its own results come back to where it began.
        let last_left = lit((exponential_path::LATENCY + 1).into(), around_left.width());
        let enters = m.wire(all!(goes_round, exponentials, around_left.ge(last_left)));
        let term_ends = all!(enters, around_left.eq(last_left), last_word);
        let key_last = strobe("key_last", vector_ends & maxima, tree_cycles);
        let term_last = strobe("term_last", term_ends, exponential_path::TERM_LATENCY);
        (strobe("terms", enters, exponential_path::TERM_LATENCY), key_last | term_last)
    } else {
        let terms = all!(chain[at_terms], advance, exponentials);
        let terms_valid = strobe("terms", terms, tree_cycles);
        let term_ends = lasts[at_terms] & advance & exponentials;
        (terms_valid, strobe("last", (vector_ends & maxima) | term_ends, tree_cycles))
    };
    let place = shared.then(|| {
        /// The first lane's elements go first; an element's place in its stripe has lane, slice and element as its digits.
        let turn = m.reg(log2(around - function_unit::LATENCY));
        turn.count(goes_round, taken);
        let mut digits = Vec::new();
        if turn.width() > lane_bits {
            digits.push(turn.high(turn.width() - lane_bits));
        }
        if let Some(slice) = slices.get(2) {
            digits.push(number_of(slice.width(), |k| slice.bit(k)));
        }
        digits.push(turn.low(lane_bits));
        cat(digits)
    });

    /// Results.
    let lane = m.reg(lane_bits);
    lane.count(writes, begun);
    let word_done = m.wire(writes & lane.all());
    let results = activation_walker::In {
        start: begun,
        waves,
        tail_words,
        paired,
        vectors,
        base: target,
        step: word_done,
    };
    let results = results.part(&m, "write_walker", &walker_module);
    results.vector.ignore("results need no vector");
    results.last_word.ignore("their number is that of the elements");
    results.last.ignore("their number is that of the elements");
    results.ends.ignore("marks come with them");
    results.counts.ignore("all ranks write");
    if !slices.is_empty() {
        slices.push(results.slice.q());
    }
    let idle = m.output(idle = !running, "all results are written, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(advance, "the stages of the lanes advance");
    m.output(path, "path of the lanes' elements");
    m.output(two = two & !function, "the operation's second operand comes from the slices");
    m.output(read_valid, "request to read the slices");
    m.output(read_addr = address, "word to read");
    m.output(take = coming, "the lanes take the word as first operand");
    m.output(take_other = coming_other, "the lanes take the word as second operand");
    m.output(shift = leaves | goes_round, "an element leaves, or all elements circulate");
    m.output(element, "number of the element in its word");
    m.output(ends, "ranks in whose stripe the vectors end");
    m.output(counts, "ranks whose elements count");
    m.output(vector = mux(taken, fetched_vector, vector), "vector of the next element");
    m.output(write = writes, "results are written; no other part writes in this cycle");
    m.output(write_addr = results.word, "word of the results");
    m.output(write_lane = one_hot(&lane, lanes), "lane of the results, one-hot");
    if let [read_slice, take_slice, slice, write_slice] = slices[..] {
        let slices = SliceControls { read_slice, take_slice, slice, write_slice };
        SliceControls::outputs(&m, config, slices);
    }
    if let Some(place) = place {
        m.output(place, "place in its stripe of the element that goes into the exponential");
    }
    m.output(keys_valid, "the trees put out keys of one element of each lane");
    m.output(terms_valid, "the trees put out terms");
    m.output(last, "the keys or terms come from a vector's last elements");
}
