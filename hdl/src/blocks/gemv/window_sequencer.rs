//! Decides which job a rank's tiles compute in each window, when their digits come, and where their sums lie.
//!
//! A job is one stripe of weights against one vector of the batch and takes one window. The weights of a stripe stay
//! for all vectors; then the next stripe steps up if it is complete. A DOT job that would end a row waits until there
//! is room for the row's sum. Jobs are decided two cycles before the first operands are taken, so that all controls of
//! the tiles come from registers. Bit-serial lanes take the operands of phase 0 in phase 0, a parallel multiplier in
//! the phase before.
//!
//! An AXPY job reads the sum of each lane in the phase in which the lane's product leaves (for bit-serial lanes one
//! window after it was loaded), adds in the next phase and writes in the one after that: `lanes` reads in phases
//! `0..lanes`, `lanes` writes in phases `2..lanes + 2`. A merge is an AXPY whose row `k` has one job on each stripe,
//! with vector `k`. So is an import, but its stripe is one sum for each tile, added while it lies in the weights, in
//! the job's first window, with a read in phase 0 and a write in phase 2.

use super::fill_sequencer::Stripe;
use super::prelude::*;

bundle! {
    /// Kind of a product.
    pub(crate) struct ProductKind {
        axpy: 1, "the command adds to sums in the slices: an AXPY, a merge or an import";
        merge: 1, "a merge or an import: row k has one job on each stripe, with vector k and no scalar";
        import: 1, "an import: a stripe is a sum for each tile, row k for word k";
    }
}

/// The command's fields must stay while it runs.
#[block(m, "window_sequencer_p{}_b{}_a{}{}", config.window_cycles(), config.max_batch(), config.slice_words(),
    multiplier_suffix(config),
    "Issues one job (stripe times vector) per window.")]
pub fn window_sequencer(config: &GemvConfig) -> Block {
    let (window, lanes) = (config.window_cycles(), config.lanes());
    let (batch_bits, addr_bits) = (config.batch_bits(), config.slice_addr_bits());
    let vector_bits = bits_for(config.max_batch() - 1);
    let phase = m.input(window, "phase of the window, one-hot");
    let kind = ProductKind::inputs(&m, ());
    let ProductKind { axpy, merge, import } = kind;
    let batch = m.input(batch_bits, "vectors");
    let base = m.input(addr_bits, "first word of the activations (DOT) or of the sums");
    let stripe_valid = m.input(1, "a stripe of weights is complete");
    let stripe = Stripe::inputs_as(&m, "stripe_", "", config);
    let room = m.input(1, "there is room for the sum of a row");

    /// The current stripe, and the vector that comes next; `running` while there is a stripe.
    let running = m.reg(1).reset(0);
    let decide = phase.bit(config.decision_phase());
    let fresh = m.wire(!running);
    let issue = m.forward(1);
    let take = m.wire(*issue & fresh);
    let hold = |name: &str, value: &Bits| {
        let reg = m.hold(format!("{name}_q"), value, take);
        m.wire(format!("{name}_now"), mux(fresh, value, reg))
    };
    let (is_first, is_last) = (hold("first", &stripe.first), hold("last", &stripe.last));
    let slot = hold("slot", &stripe.slot);
    let possible = m.wire(running | stripe_valid);
    let roomless = m.wire(is_last & !axpy & !room);
    issue.drive(all!(decide, possible, !roomless));
    let vector = m.reg(batch_bits).enable(issue);
    let vector_now = m.wire(vector.gated(running));
    let vector_next = m.wire(vector_now.plus_one());
    vector.next(vector_next);
    let vectors_left = m.wire(vector_next.ne(batch) & !merge);
    running.next(mux(issue, vectors_left, running));

    /// Words of a slice follow each other in the order of jobs: wave by wave, vector by vector. Only the tail may skip.
    /// A job of AXPY has a word for each lane. The one job of a merge is that of its vector in each wave.
    let index = m.reg(addr_bits).enable(issue);
    let restart = m.wire(fresh & stripe.first);
    let step = mux(merge, words(&m, &batch, addr_bits), lit(1, addr_bits));
    let first_index = stripe.row.gated(all!(restart, merge));
    let onward = m.wire((index + step).gated(!restart) | first_index);
    let mut skipped = words(&m, &batch, addr_bits).gated(stripe.skip.bit(0));
    if stripe.skip.width() > 1 {
        let twice = cat!(batch, zeros(1));
        skipped = skipped + words(&m, &twice, addr_bits).gated(stripe.skip.bit(1));
    }
    let skipped = m.wire(skipped.gated(fresh));
    let index_now = m.wire(onward + skipped);
    index.next(index_now);
    let lane_bits = log2(lanes);
    let sum_index = if addr_bits > lane_bits {
        m.unused(index_now.high(lane_bits), "AXPY's words are counted modulo the words of a slice");
        cat!(index_now.low(addr_bits - lane_bits), zeros(lane_bits))
    } else {
        zeros(addr_bits)
    };
    let addr = m.hold("job_addr_q", base + mux(axpy & !import, sum_index, index_now), issue);

    // State of the jobs of the last windows: loading operands, leaving as products, and for the last digits of a sum
    // the window after that.
    let turn = phase.bit(config.decision_phase() + 1);
    let flag = |name: &str| m.reg(name, 1).reset(0);
    let strobe = any!(decide, turn);
    let read = flag("slice_re_q").enable(strobe).next(*issue & !axpy);
    let adds = flag("adds_q").enable(strobe).next(*issue & axpy);
    let advance = flag("advance_q").enable(strobe).next(take);
    let age = |name: &str, value: &Bits| flag(name).enable(turn).next(value).q();
    let serial = config.product_windows() == 1;
    let loading = age("loading_q", &read.q());
    // Operands of a parallel multiplier are in flight for a cycle, operands of bit-serial lanes for a window.
    let left = |name: &str, loading: &Bits| if serial { age(name, loading) } else { m.flag(name, loading) };
    let leaving = left("leaving_q", &loading);
    let loading_sums = age("loading_sums_q", &adds.q());
    let leaving_sums = left("leaving_sums_q", &loading_sums);
    let digit_phases: Vec<u32> = each(config.acc_segments(), |k| digit_phase(config, k));
    let wraps = digit_phases.iter().any(|at| *at >= window);

    /// What of the tiles has to move. A lane holds a job from its phase of the first window up to that of the next one.
    let loads = m.wire(loading | loading_sums);
    let leaves = m.wire(leaving | leaving_sums);
    let lanes_move = serial.then(|| {
        let busy = m.reg("lanes_q", lanes).reset(0);
        let lane = |i: u32| mux(phase.bit(i), loads, busy.bit(i));
        let lanes_move = m.wire(cat((0..lanes).rev().map(lane)));
        busy.next(lanes_move);
        lanes_move
    });
    let moves = Moves {
        lanes_move,
        line_moves: serial.then(|| loads | leaves),
        operands_move: (!serial).then_some(loads),
        term_moves: leaves,
        sum_moves: m.flag("adding_q", leaves),
    };

    let resolving = if wraps { age("resolving_q", &leaving) } else { leaving };
    let digit_strobe = |at: &u32| phase.bit(at % window) & if *at < window { &leaving } else { &resolving };
    let strobes: Vec<Bits> = digit_phases.iter().map(digit_strobe).collect();

    // The slice's ports. A read changes the slice's word in the next phase: DOT needs it until lane `lanes - 1` has
    // loaded.
    let last_loads = phase.bit(lanes - 1 - config.operand_lead());
    let holding = flag("holding_q");
    holding.set_clear(turn & read, last_loads);
    let sum_read = flag("sum_re_q");
    let more_lanes = all!(sum_read, !phase.bit(lanes - 1), !import);
    // Whether sums are read from the next phase 0, and the first one's word.
    let (reads_sums, first_sum) = if serial {
        let loading_addr = m.hold(addr, turn);
        (mux(import, adds, loading_sums), mux(import, addr, loading_addr))
    } else {
        (loading_sums, addr)
    };
    let last_phase = phase.bit(window - 1);
    sum_read.next((last_phase & reads_sums) | more_lanes);
    let sum_addr = m.reg(addr_bits);
    sum_addr.next(mux(last_phase, first_sum, sum_addr.plus_one()));
    let separate = m.flag(sum_read);
    let sum_write = m.flag("sum_we_q", separate);
    let later_addr = m.delay("separate_addr_q", sum_addr);
    let write_addr = m.delay(later_addr);

    /// Why the window goes without a job, for the counters.
    let idle_window = m.reg("cause_q", 3).reset(0).enable(decide);
    idle_window.next(cat!(possible & roomless, !possible, issue));

    m.output(stripe_take = take, "the stripe is taken; its weights step up in the next cycle");
    m.output(advance, "the next weights become the current ones");
    m.output(slice_re = read, "the tiles read activations");
    m.output(slice_addr = addr, "word they read");
    m.output(holding, "the tiles still need the word");
    m.output(sum_re = sum_read, "the tiles read the sums of a lane");
    m.output(sum_raddr = sum_addr, "word they read");
    m.output(separate, "the tiles add products to the words read");
    Moves::outputs(&m, config, moves);
    m.output(sum_we = sum_write, "the tiles write sums");
    m.output(sum_waddr = write_addr, "word they write");
    m.output(job = *issue & !axpy, "a DOT job is issued");
    m.output(job_sums = *issue & axpy, "an AXPY job is issued");
    m.output(job_vector = vector_now.low(vector_bits), "the job's vector of the batch");
    m.output(job_slot = slot, "place of its row's scalars");
    m.output(job_first = is_first, "the stripe is its row's first on this rank");
    m.output(job_last = is_last, "the stripe is its row's last on this rank");
    m.output(
        slot_free = all!(issue, axpy, !merge, is_last, !vectors_left),
        "the scalars of a row have been used",
    );
    let digits = Strobes { valid: any_of(&strobes), first: strobes[0], last: strobes[strobes.len() - 1] };
    Strobes::outputs_as(&m, "digits_", "tiles: ", (), digits);
    let stages = [running.q(), read.q(), adds.q(), loading, loading_sums, leaving, leaving_sums];
    m.output(idle = !any_of(stages), "no job is running, and all sums are written");
    m.output(cause = idle_window, "this window: job, no stripe, no room for the sum; one-hot");
    if vector_bits < batch_bits {
        m.unused(vector_now.msb(), "vectors are numbered below the batch size");
    }
    let decision = config.decision_phase();
    let used = [decision, decision + 1, window - 1, lanes - 1 - config.operand_lead(), lanes - 1];
    let is_read = |p: &u32| used.contains(p) || digit_phases.iter().any(|at| at % window == *p);
    let idle: Vec<Bits> = (0..window).filter(|p| !is_read(p)).map(|p| phase.bit(p)).collect();
    m.unused(any_of(&idle), "phases in which nothing is decided");
}
