//! Hands rows to the rank groups and, for AXPY, their scalars.
//!
//! A row of DOT is one transfer: where its tail starts. A row of AXPY is one transfer per vector, each with the
//! vector's scalar `a[b][k]`. These lie in the buffer as a vector block, beat by beat for all vectors; the beats of 32
//! rows are read into one half of a small memory while the rows of the other half are handed out.
//!
//! With several heads a row has one scalar per vector and head, and lies in one rank. So scalars are sent for a group
//! of rows at a time, one row in each rank: for each vector and head a transfer with a scalar for every rank, then the
//! rows.

use super::prelude::*;

bundle! {
    /// A row for all groups, or scalars of a row.
    pub(crate) struct RowPush(config: &GemvConfig) {
        push: 1, "a row or, for an AXPY, scalars of a row; only with room in every group";
        start: rank_bits(config), "rank at which the row's tail starts";
        last: 1, "the row is complete";
        vector: log2(config.max_vectors()), "number of the scalar: `vector * heads + head`";
    }
}

/// One row or transfer of scalars per cycle; the command's fields must stay while it runs, rows of the next one wait.
#[block(m, "row_distributor_g{}_b{}_a{}", config.ranks(), config.max_batch(), config.slice_words(),
    "Hands rows and scalars to the rank groups.")]
pub fn row_distributor(config: &GemvConfig) -> Block {
    let (batch_bits, addr_bits) = (config.vectors_bits(), config.slice_addr_bits());
    let vector_bits = log2(config.max_vectors());
    let (element_bits, rank_width) = (log2(BEAT_ELEMS), rank_bits(config));
    let (ranks, rank_log2) = (config.ranks(), log2(config.ranks()));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let axpy = m.input(1, "the product is an AXPY");
    let rows = m.input(config.row_bits(), "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(batch_bits, "vectors times heads, at least one");
    let headed = m.input(1, "the product has several heads");
    let base = m.input(addr_bits, "first word of the scalars");
    let row_valid = m.input(1, "a row is offered");
    let row_start = m.input(rank_width, "rank at which its tail starts");
    let room = m.input(1, "every group can take a row or scalar");
    let read_ready = m.input(1, "the request is taken");
    let beat_valid = m.input(1, "a beat arrives from the buffer");
    let beat = m.input(BEAT_BITS, "the beat, recoded");

    /// Filling: a half is requested when it is empty and all beats of the previous half were requested.
    /// A product of rows that were selected may have fewer than its scalars' vectors have elements.
    let no_rows = m.forward(1);
    let reader_ready = m.forward(1);
    let reader = vector_reader::In {
        start: start & axpy,
        layout,
        batch,
        base,
        read_ready: *reader_ready,
        stop: *no_rows,
    }
    .part(&m, "reader", &vector_reader(config)?);
    reader.read_last.ignore("elements beyond the end belong to no row");
    let wants = reader.read_valid.q();
    /// Halves that were requested and not used up yet.
    let halves = m.reg(2);
    let half_room = m.wire(!halves.bit(1));
    let asks = m.wire(wants & half_room);
    reader_ready.drive(read_ready & half_room);
    let half_asked = m.wire(all!(asks, read_ready, reader.read_vector_last));
    let half_used = m.forward(1);
    let change = m.wire(half_asked ^ half_used);
    let counted = mux(change, mux(half_asked, halves.plus_one(), halves.minus_one()), halves);
    halves.next(counted.gated(!start));

    let back_vector = m.reg(batch_bits);
    let back_half = m.reg(1);
    let back_last = m.wire(beat_valid & back_vector.plus_one().eq(batch));
    back_vector.count(beat_valid, start | back_last);
    back_half.next((back_half ^ back_last) & !start);
    /// Halves that are complete.
    let complete = m.reg(2);
    let complete_change = m.wire(back_last ^ half_used);
    let counted = mux(complete_change, mux(back_last, complete.plus_one(), complete.minus_one()), complete);
    complete.next(counted.gated(!start));

    /// Emptying, in three steps: fetch the beat, choose the scalar, offer it. The memory keeps its word until the next fetch.
    let element = m.reg(element_bits);
    let vector = m.reg(batch_bits);
    let half = m.reg(1);
    let fetched = m.reg(1).reset(0);
    let offered = m.reg(1).reset(0);
    let taken = m.forward(1);
    let choose = m.wire(fetched & (!offered | taken));
    let fetch = m.wire(all!(axpy, complete.any(), !fetched | choose));
    let scalar_last = m.wire(vector.plus_one().eq(batch));
    let memory = sram::In {
        raddr: cat!(half, vector.low(vector_bits)),
        re: fetch,
        waddr: cat!(back_half, back_vector.low(vector_bits)),
        we: beat_valid,
        wdata: beat,
    }
    .part(&m, "scalars", &sram(2 << vector_bits, BEAT_BITS, 1)?);
    let element_done = m.wire(fetch & scalar_last);
    vector.count(fetch, start | element_done);
    // With heads a step is a group of elements, one for each rank.
    let (onward, beat_done) = match ranks {
        1 => (element.plus_one(), element.all()),
        _ => {
            let step = mux(headed, lit(ranks.into(), element_bits), lit(1, element_bits));
            let last = element.high(element_bits - rank_log2).all();
            (element + step, last & (headed | element.low(rank_log2).all()))
        }
    };
    let next_element = mux(element_done, onward, element);
    element.next(next_element.gated(!start));
    half_used.drive(element_done & beat_done);
    half.next((half ^ half_used) & !start);
    fetched.next((fetch | (fetched & !choose)) & !start);
    offered.next((choose | (offered & !taken)) & !start);

    let fetched_element = m.hold(element, fetch);
    let fetched_place = m.hold(cat!(scalar_last, vector.low(vector_bits)), fetch);
    let offered_place = m.hold(fetched_place, choose);
    let offered_last = offered_place.msb();
    let word = memory.rdata.q();
    let group_bits = ranks * FP16_BITS;
    let groups = each(BEAT_ELEMS / ranks, |i| word.slice(i * group_bits, group_bits));
    let at_group = fetched_element.high(element_bits - rank_log2);
    let group = m.wire(one_hot_mux(m.wire("at", one_hot(&at_group, BEAT_ELEMS / ranks)), &groups));
    let of_rank = each(ranks, |g| group.slice(g * FP16_BITS, FP16_BITS));
    let single = m.wire(match rank_log2 {
        0 => group,
        bits => one_hot_mux(one_hot(&fetched_element.low(bits), ranks), &of_rank),
    });

    /// A row is on its way as long as there are rows of the command left; the last scalar goes with the row's end.
    let rows_left = m.reg(config.row_bits()).reset(0);
    /// With heads: after the scalars of a group come its rows, as many as there are ranks, or those that are left.
    let sends_rows = m.reg(1).reset(0);
    let scalar_there = m.wire(offered & !sends_rows);
    let offers = any!(!axpy, scalar_there, sends_rows);
    let possible = m.wire(all!(rows_left.any(), room, offers));
    let push = m.wire(possible & row_valid);
    taken.drive(all!(push, axpy, !sends_rows));
    let last = m.wire(!axpy | mux(headed, sends_rows, offered_last));
    let row_taken = m.wire(push & last);
    let rows_begin = m.wire(all!(taken, headed, offered_last));
    let group_end = if ranks == 1 {
        lit(1, 1)
    } else {
        let in_group = m.reg(rank_log2);
        in_group.count(row_taken, start);
        in_group.all() | rows_left.eq_lit(1)
    };
    let rows_end = m.wire(row_taken & group_end);
    sends_rows.set_clear(rows_begin, rows_end);
    rows_left.next(mux(start, rows, mux(row_taken, rows_left.minus_one(), rows_left)));

    no_rows.drive(rows_left.is_zero());
    let idle = m.output(idle = reader.idle & no_rows, "all rows are taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(row_ready = possible & last, "the row is taken");
    let row = RowPush { push, start: row_start, last, vector: offered_place.low(vector_bits) };
    RowPush::outputs_as(&m, "row_", "", config, row);
    for (g, own) in of_rank.iter().enumerate() {
        let scalar = m.hold(format!("scalar{g}_q"), mux(headed, own, single), choose);
        m.output(format!("scalar{g}_o"), scalar, format!("recoded scalar for rank {g}"));
    }
    m.output(read_valid = asks, "a request is offered");
    BufferRead::outputs_as(&m, "read_", "", config, reader.read.q());
    if vector_bits < batch_bits {
        m.unused(cat!(vector.msb(), back_vector.msb()), "vectors are numbered below the batch size");
    }
}
