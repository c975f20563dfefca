//! Tells the rank groups which rows come, and for AXPY with which scalars.
//!
//! A row of DOT is one transfer: where its tail starts. A row of AXPY is one transfer per vector, each with the vector's
//! scalar `a[b][k]`. These lie in the buffer as a vector block, beat by beat for all vectors; the beats of 32 rows are
//! read into one half of a small memory while the rows of the other half are on their way.

use super::command_decoder::{Layout, rank_bits};
use super::sram::sram;
use super::vector_reader::vector_reader;
use super::{FP16_BITS, bits_for, log2};
use crate::layer::{Bits, HdlError, Module, ModuleBuilder, cat, mux, one_hot_mux};
use ndp_config::{BEAT_BITS, BEAT_ELEMS, GemvConfig};
use std::rc::Rc;

/// The distributor. One row or scalar per cycle; the command's fields have to stay while it runs, rows of the next one wait.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn row_distributor(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let (batch_bits, addr_bits) = (config.batch_bits(), config.slice_addr_bits());
    let vector_bits = bits_for(config.max_batch() - 1);
    let (element_bits, rank_width) = (log2(BEAT_ELEMS), rank_bits(config));
    let m = ModuleBuilder::new(
        format!("row_distributor_g{}_b{}_a{}", config.ranks(), config.max_batch(), config.slice_words()),
        "Hands rows and scalars to the rank groups.",
    );
    let start = m.input("start_i", 1, "take a command; only while `idle_o` is set");
    let axpy = m.input("axpy_i", 1, "it is an AXPY");
    let rows = m.input("rows_i", config.row_bits(), "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let batch = m.input("batch_i", batch_bits, "vectors, at least one");
    let base = m.input("base_i", addr_bits, "first word of the scalars");
    let row_valid = m.input("row_valid_i", 1, "a row is offered");
    let row_start = m.input("row_start_i", rank_width, "rank at which its tail starts");
    let room = m.input("room_i", 1, "every group can take a row or scalar");
    let read_ready = m.input("read_ready_i", 1, "the request is taken");
    let beat_valid = m.input("beat_valid_i", 1, "a beat comes back");
    let beat = m.input("beat_i", BEAT_BITS, "the beat, recoded");

    // Filling: a half is asked for when it is empty and all beats of the one before were asked for.
    let reader_ready = m.forward("reader_ready", 1);
    let reader = m
        .instance("reader", &vector_reader(config)?)
        .input("start_i", &start & &axpy)
        .input("batch_i", &batch)
        .input("base_i", &base)
        .input("read_ready_i", &reader_ready);
    let reader = layout.connect(reader);
    let wants = reader.output("read_valid_o");
    // Halves that were asked for and not used up yet.
    let halves = m.reg("halves_q", 2);
    let half_room = m.wire("half_room", !halves.bit(1));
    let asks = m.wire("asks", &wants & &half_room);
    reader_ready.drive(&read_ready & &half_room);
    let half_asked =
        m.wire("half_asked", cat([asks.clone(), read_ready, reader.output("read_vector_last_o")]).all());
    let half_used = m.forward("half_used", 1);
    let change = m.wire("change", &half_asked ^ &*half_used);
    let counted = mux(&change, &mux(&half_asked, &halves.plus_one(), &halves.minus_one()), &halves);
    halves.next(counted.gated(&!&start));

    let back_vector = m.reg("back_vector_q", batch_bits);
    let back_half = m.reg("back_half_q", 1);
    let back_last = m.wire("back_last", &beat_valid & back_vector.plus_one().eq(&batch));
    let next_back = mux(&beat_valid, &back_vector.plus_one(), &back_vector);
    back_vector.next(next_back.gated(&!(&start | &back_last)));
    back_half.next((back_half.q() ^ &back_last) & !&start);
    // Halves that are complete.
    let complete = m.reg("complete_q", 2);
    let complete_change = m.wire("complete_change", &back_last ^ &*half_used);
    let counted =
        mux(&complete_change, &mux(&back_last, &complete.plus_one(), &complete.minus_one()), &complete);
    complete.next(counted.gated(&!&start));

    // Emptying, in three steps: fetch the beat, choose the scalar, offer it. The memory keeps its word until the next fetch.
    let element = m.reg("element_q", element_bits);
    let vector = m.reg("vector_q", batch_bits);
    let half = m.reg("half_q", 1);
    let fetched = m.reg("fetched_q", 1).reset(0);
    let offered = m.reg("offered_q", 1).reset(0);
    let taken = m.forward("taken", 1);
    let choose = m.wire("choose", fetched.q() & (!offered.q() | &*taken));
    let fetch = m.wire("fetch", cat([axpy.clone(), complete.any(), !fetched.q() | &choose]).all());
    let scalar_last = m.wire("scalar_last", vector.plus_one().eq(&batch));
    let memory = m
        .instance("scalars", &sram(2 << vector_bits, BEAT_BITS, 1)?)
        .input("raddr_i", cat([half.q(), vector.low(vector_bits)]))
        .input("re_i", &fetch)
        .input("waddr_i", cat([back_half.q(), back_vector.low(vector_bits)]))
        .input("we_i", &beat_valid)
        .input("wdata_i", &beat);
    let element_done = m.wire("element_done", &fetch & &scalar_last);
    let next_vector = mux(&fetch, &vector.plus_one(), &vector);
    vector.next(next_vector.gated(&!(&start | &element_done)));
    let next_element = mux(&element_done, &element.plus_one(), &element);
    element.next(next_element.gated(&!&start));
    half_used.drive(&element_done & element.all());
    half.next((half.q() ^ &*half_used) & !&start);
    fetched.next((&fetch | (fetched.q() & !&choose)) & !&start);
    offered.next((&choose | (offered.q() & !&*taken)) & !&start);

    let place = |name: &str, value: &Bits, enable: &Bits| {
        let reg = m.reg(name, value.width()).enable(enable);
        reg.next(value);
        reg.q()
    };
    let fetched_element = place("fetched_element_q", &element, &fetch);
    let fetched_place = place("fetched_place_q", &cat([scalar_last, vector.low(vector_bits)]), &fetch);
    let offered_place = place("offered_place_q", &fetched_place, &choose);
    let offered_last = offered_place.msb();
    let word = memory.output("rdata_o");
    let choices: Vec<Bits> = (0..BEAT_ELEMS).map(|e| word.slice(e * FP16_BITS, FP16_BITS)).collect();
    let at = m.wire("at", cat((0..BEAT_ELEMS).rev().map(|e| fetched_element.eq_lit(e.into()))));
    let scalar = place("scalar_q", &one_hot_mux(&at, &choices), &choose);

    // A row is on its way as long as there are rows of the command left; the last scalar goes with the row's end.
    let rows_left = m.reg("rows_left_q", config.row_bits()).reset(0);
    let possible = m.wire("possible", cat([rows_left.any(), room, !&axpy | offered.q()]).all());
    let push = m.wire("push", &possible & &row_valid);
    taken.drive(&push & &axpy);
    let last = m.wire("last", !&axpy | &offered_last);
    let row_taken = m.wire("row_taken", &push & &last);
    rows_left.next(mux(&start, &rows, &mux(&row_taken, &rows_left.minus_one(), &rows_left)));

    m.output("idle_o", reader.output("idle_o") & rows_left.is_zero(), "all rows were taken");
    m.output("row_ready_o", &possible & &last, "the row is taken");
    m.output("push_o", &push, "a row or scalar for every group");
    m.output("push_start_o", &row_start, "rank at which the row's tail starts");
    m.output("push_last_o", &last, "the row is complete");
    m.output("push_vector_o", offered_place.low(vector_bits), "vector of the scalar");
    m.output("push_scalar_o", &scalar, "recoded scalar");
    m.output("read_valid_o", asks, "a request is offered");
    for (name, doc) in [
        ("read_rank", "rank to read"),
        ("read_position", "position of the beat among the tiles"),
        ("read_addr", "word to read"),
    ] {
        m.output(format!("{name}_o"), reader.output(&format!("{name}_o")), doc);
    }
    if vector_bits < batch_bits {
        m.unused(cat([vector.msb(), back_vector.msb()]), "vectors are numbered below the batch size");
    }
    m.finish()
}
