//! Everything that works for one DRAM rank: its tiles, their tree, and what feeds and drains them.
//!
//! Groups share nothing but the activations' write port: each takes the weights of its own rank at its own pace and
//! queues complete rows for [`super::combiner`], so a rank that lags holds up nobody until its queue runs full elsewhere.

use super::command_decoder::{Layout, rank_bits};
use super::compute_tile::compute_tile;
use super::fifo::fifo;
use super::fill_sequencer::fill_sequencer;
use super::operand_recoder::operand_recoder;
use super::phase_ring::phase_ring;
use super::reduction_tree::reduction_tree;
use super::row_accumulator::row_accumulator;
use super::window_sequencer::window_sequencer;
use super::{FLAG_BITS, FP16_BITS, bits_for};
use crate::layer::{HdlError, Module, ModuleBuilder, cat, lit, mux};
use ndp_config::{BEAT_BITS, GemvConfig};
use std::rc::Rc;

/// Sums of rows that a group can queue.
fn queued_sums(config: &GemvConfig) -> u32 {
    // From a job's issue until its sum is drained pass about four windows; eight keep a job per window going.
    config.max_batch().max(8)
}

/// Jobs between issue and the last digit of their sum, rounded up to a power of two.
fn jobs_in_flight(config: &GemvConfig) -> u32 {
    let cycles = 2 * config.window_cycles() + config.lanes() + config.acc_segments() + config.tree_levels();
    (cycles.div_ceil(config.window_cycles()) + 1).next_power_of_two()
}

/// The group of one rank of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn rank_group(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let (tiles, positions, digit_bits) =
        (config.units_per_rank(), config.beats_per_stripe(), config.digit_bits());
    let (chunk_bits, beat_chunks) = (config.lanes() * FP16_BITS, config.beat_chunks());
    let (addr_bits, vector_bits) = (config.slice_addr_bits(), bits_for(config.max_batch() - 1));
    let m = ModuleBuilder::new(
        format!("rank_group_n{tiles}_l{}_s{}_w{}", config.lanes(), config.serial_steps(), config.acc_bits()),
        "The tiles of one DRAM rank with their sequencers, reduction tree and row accumulator.",
    );
    let rank = m.input("rank_i", rank_bits(config), "which rank this is");
    let start = m.input("start_i", 1, "take a command; only while `idle_o` is set");
    let rows = m.input("rows_i", config.row_bits(), "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let batch = m.input("batch_i", config.batch_bits(), "vectors");
    let base = m.input("base_i", addr_bits, "first word of the activations");
    let weight_valid = m.input("weight_valid_i", 1, "a beat of weights is offered");
    let weight_data = m.input("weight_data_i", BEAT_BITS, "32 FP16 weights");
    let x_write = m.input("x_we_i", 1, "write activations; not in the window's last phase");
    let x_position = m.input(
        "x_position_i",
        super::command_decoder::position_bits(config),
        "position of the beat among the tiles",
    );
    let x_rest = m.input("x_rest_i", 1, "write all positions after it too");
    let x_addr = m.input("x_addr_i", addr_bits, "word of the slices");
    let x_data = m.input("x_data_i", BEAT_BITS, "recoded activations");
    let sum_pop = m.input("sum_pop_i", 1, "take a digit");
    let sum_release = m.input("sum_release_i", 1, "it was the last one of a sum");

    let ring = m.instance("ring", &phase_ring(config.window_cycles())?);
    let phase = ring.output("phase_o");

    // Weights: queue, recode and mask, place.
    let queue = fifo(BEAT_BITS, config.weight_fifo_beats())?;
    let beat_pop = m.forward("beat_pop", 1);
    let beats = m
        .instance("beats", &queue)
        .input("push_i", &weight_valid)
        .input("data_i", &weight_data)
        .input("pop_i", &beat_pop);
    let take = m.forward("stripe_take", 1);
    let fill = m
        .instance("fill", &fill_sequencer(config)?)
        .input("rank_i", &rank)
        .input("start_i", &start)
        .input("rows_i", &rows)
        .input("batch_i", &batch)
        .input("base_i", &base)
        .input("beat_valid_i", beats.output("valid_o"))
        .input("stripe_take_i", &take);
    let fill = layout.connect(fill);
    beat_pop.drive(fill.output("beat_pop_o"));
    let place_rest = fill.output("place_clear_o");
    let recoder = m
        .instance("recoder", &operand_recoder()?)
        .input("data_i", beats.output("data_o"))
        .input("clear_i", &place_rest)
        .input("cut_i", fill.output("place_cut_o"))
        .input("last_i", fill.output("place_last_elem_o"));
    let place = fill.output("place_o");
    let placed = m.reg("placed_q", BEAT_BITS).enable(&place);
    placed.next(recoder.output("data_o"));
    let place_at = m.reg("place_at_q", positions).reset(0);
    let here = super::positions(&fill.output("place_position_o"), &place_rest, positions);
    place_at.next(here.gated(&place));

    // Jobs.
    let room = m.forward("room", 1);
    let windows = m
        .instance("windows", &window_sequencer(config)?)
        .input("phase_i", &phase)
        .input("stripe_valid_i", fill.output("stripe_valid_o"))
        .input("stripe_first_i", fill.output("stripe_first_o"))
        .input("stripe_last_i", fill.output("stripe_last_o"))
        .input("stripe_skip_i", fill.output("stripe_skip_o"))
        .input("stripe_batch_i", fill.output("stripe_batch_o"))
        .input("stripe_base_i", fill.output("stripe_base_o"))
        .input("room_i", &room);
    take.drive(windows.output("stripe_take_o"));
    let job = windows.output("job_o");
    let job_last = windows.output("job_last_o");

    // Tiles. The slices have one port: reads have the window's last phase, writes the others.
    let slice_read = windows.output("slice_re_o");
    let advance = windows.output("advance_o");
    let slice_addr = m.wire("slice_addr", mux(&slice_read, &windows.output("slice_addr_o"), &x_addr));
    let x_at = m.wire("x_at", super::positions(&x_position, &x_rest, positions).gated(&x_write));
    let tile = compute_tile(config)?;
    let chunk = |beat: &crate::layer::Bits, i: u32| beat.slice(i % beat_chunks * chunk_bits, chunk_bits);
    let tree_module = reduction_tree(tiles, digit_bits)?;
    let mut tree = m
        .instance("tree", &tree_module)
        .input("valid_i", windows.output("digits_o"))
        .input("first_i", windows.output("digits_first_o"))
        .input("last_i", windows.output("digits_last_o"));
    for i in 0..tiles {
        let instance = m
            .instance(format!("tile{i}"), &tile)
            .input("phase_i", &phase)
            .input("weight_i", chunk(&placed, i))
            .input("weight_we_i", place_at.bit(i / beat_chunks))
            .input("advance_i", &advance)
            .input("slice_addr_i", &slice_addr)
            .input("slice_re_i", &slice_read)
            .input("slice_we_i", x_at.bit(i / beat_chunks))
            .input("slice_wdata_i", chunk(&x_data, i));
        tree = tree
            .input(format!("digit{i}_i"), instance.output("digit_o"))
            .input(format!("flags{i}_i"), instance.output("flags_o"));
    }

    // Sums: the job that a sum belongs to waits for it in a queue.
    let sum_last = tree.output("last_o");
    let jobs = m
        .instance("jobs", &fifo(vector_bits + 2, jobs_in_flight(config))?)
        .input("push_i", &job)
        .input(
            "data_i",
            cat([windows.output("job_vector_o"), windows.output("job_first_o"), job_last.clone()]),
        )
        .input("pop_i", &sum_last)
        .ignore("valid_o", "there is a job for every sum")
        .ignore("ready_o", "deep enough for all jobs between issue and sum");
    let done = jobs.output("data_o");
    let rows = m
        .instance("rows", &row_accumulator(config)?)
        .input("valid_i", tree.output("valid_o"))
        .input("first_i", tree.output("first_o"))
        .input("last_i", &sum_last)
        .input("digit_i", tree.output("digit_o"))
        .input("flags_i", tree.output("flags_o"))
        .input("vector_i", done.high(vector_bits))
        .input("row_first_i", done.bit(1))
        .input("row_last_i", done.bit(0));
    let sums = queued_sums(config);
    let out_depth = (sums * config.acc_segments()).next_power_of_two();
    let out = m
        .instance("sums", &fifo(digit_bits + FLAG_BITS, out_depth)?)
        .input("push_i", rows.output("valid_o"))
        .input("data_i", cat([rows.output("flags_o"), rows.output("digit_o")]))
        .input("pop_i", &sum_pop)
        .ignore("ready_o", "a place is reserved before the job is issued");
    // Places reserved: from the issue of a row's last job until its sum has left.
    let count_bits = bits_for(sums);
    let reserved = m.reg("reserved_q", count_bits).reset(0);
    let reserve = m.wire("reserve", &job & &job_last);
    let change = m.wire("change", &reserve ^ &sum_release);
    reserved.next(mux(&change, &mux(&reserve, &reserved.plus_one(), &reserved.minus_one()), &reserved));
    room.drive(reserved.ne(&lit(sums.into(), count_bits)));

    m.share_code();
    m.output("idle_o", fill.output("idle_o"), "a command can be taken");
    m.output("weight_ready_o", beats.output("ready_o"), "the beat of weights is taken");
    m.output("sum_valid_o", out.output("valid_o"), "a digit of a row's sum is there");
    let head = out.output("data_o");
    m.output("sum_digit_o", head.low(digit_bits), "the digit, rows and vectors in order");
    m.output("sum_flags_o", head.high(FLAG_BITS), "NaN, +Inf, -Inf seen; valid with the last digit");
    m.finish()
}
