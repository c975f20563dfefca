//! Counters for the host's scheduler and predictor: activations per neuron, which were selected, and where the cycles
//! go.

use super::issue::Busy;
use super::prelude::*;

pub(crate) const COUNTER_BITS: u32 = 32;
pub(crate) const COUNTERS: u32 = BEAT_BITS / COUNTER_BITS;
const ACTIVATION_BITS: u32 = 8;
const NEURONS: u32 = 4096;
const CAUSES: u32 = 4;

/// Register 0 is `status_i`, register 1 the counters, registers 64..127 the activations of the last DOT, overwritten by
/// the masks of all selections since.
#[block(m, "monitor_g{}_b{}{}", config.gemv().ranks(), config.gemv().max_batch(), link_suffix(config),
    "Counters and status for the host.")]
pub fn monitor(config: &DesignConfig) -> Block {
    let (ranks, batch_bits) = (config.gemv().ranks(), config.gemv().batch_bits());
    let status = m.input(BEAT_BITS, "status");
    let register_re = m.input(1, "read a register");
    let register = m.input(REGISTER_BITS, "its number");
    let causes = each(ranks, |g| {
        m.input(format!("cause{g}_i"), CAUSES, format!("activity of group {g} in this cycle, one-hot or 0"))
    });
    let busy = Busy::inputs(&m, &false);
    let axpy = m.input(1, "the part `gemv` is busy with a command other than DOT");
    let dot_start = m.input(1, "a DOT begins");
    let batch = m.input(batch_bits, "vectors of the DOT; constant while it runs");
    let result_taken = m.input(1, "a result goes to the buffer, by row and then vector");
    let result_positive = m.input(1, "the result is greater than zero");
    let mask_valid = m.input(1, "a selection has checked a place; no result is taken in this cycle");
    let mask = m.input(BEAT_ELEMS, "its selected elements");

    let link = config.core().link().then(|| {
        [
            m.input(link_status = BEAT_BITS, "status of the link"),
            m.input(
                link_counter = COUNTER_BITS,
                "the link's counter with the register's number, one cycle later",
            ),
        ]
    });

    let share_bits = bits_for(ranks);
    let mut steps = each(CAUSES, |cause| {
        let each = causes.iter().map(|of_group| of_group.bit(cause).zext(share_bits));
        let sum = each.fold(zeros(share_bits), |sum, one| sum + one);
        m.flag(format!("cause{cause}_step_q"), sum)
    });
    // With these two the counters account for every cycle of every group (docs/ndp-core.md, "Counters"). They are
    // counted directly, not as a remainder.
    let fills = causes.iter().map(|of_group| (busy.gemv_busy & !of_group.any()).zext(share_bits));
    let filling = m.flag("filling_step_q", fills.fold(zeros(share_bits), |sum, one| sum + one));
    let outside = m.wire(!(busy.gemv_busy | busy.round_busy));
    let Busy { load_busy, list_busy, store_busy, zero_busy, gemv_busy, round_busy, activation_busy, .. } =
        busy;
    steps.extend([gemv_busy, axpy, round_busy, load_busy, store_busy, list_busy, zero_busy]);
    steps.extend([filling, outside, lit(1, 1), activation_busy]);
    let counters: Vec<Bits> = steps
        .iter()
        .enumerate()
        .map(|(i, step)| {
            let counter = m.reg(format!("counter{i}_q"), COUNTER_BITS).reset(0);
            counter.next(counter + step.zext(COUNTER_BITS));
            counter.q()
        })
        .collect();
    let spare = (COUNTERS as usize - counters.len()) as u32 * COUNTER_BITS;
    let counters = cat(std::iter::once(zeros(spare)).chain(counters.into_iter().rev()));

    /// Activations of a row: counted over its vectors, written with the last one.
    let vector = m.reg(batch_bits);
    let last = m.wire(result_taken & vector.plus_one().eq(batch));
    vector.count(result_taken, dot_start | last);
    let active = m.reg(ACTIVATION_BITS);
    let counted = m.wire(active + result_positive.zext(ACTIVATION_BITS));
    active.next(mux(result_taken, counted, active).gated(!(dot_start | last)));
    let row = m.reg(bits_for(NEURONS - 1));
    row.count(last, dot_start);
    let lanes = BEAT_BITS / ACTIVATION_BITS;
    let lane_bits = bits_for(lanes - 1);
    // A mask takes the lanes of as many counts as it has bytes; places go on from selection to selection.
    let mask_lanes = BEAT_ELEMS / ACTIVATION_BITS;
    let masks = lanes / mask_lanes;
    let place = m.reg(bits_for(NEURONS / mask_lanes - 1)).reset(0);
    place.count(mask_valid, dot_start);
    let mask_bits = bits_for(masks - 1);
    let to_mask = |at: u32| place.low(mask_bits).eq_lit(at.into()) & mask_valid;
    let of_mask = each(masks, |at| m.wire(format!("mask{at}"), to_mask(at)));
    let of_row = |l: u32| row.low(lane_bits).eq_lit(l.into()) & last;
    let at = each(lanes, |l| of_row(l) | of_mask[(l / mask_lanes) as usize]);
    let word_bits = row.width() - lane_bits;
    let written = m.wire(mux(mask_valid, mask, repeat(mask_lanes, counted)));
    let memory = sram::In {
        raddr: register.low(word_bits),
        re: register_re,
        waddr: mux(mask_valid, place.high(word_bits), row.high(word_bits)),
        we: cat(at.into_iter().rev()),
        wdata: repeat(masks, written),
    }
    .part(&m, "activations", &sram(NEURONS / lanes, BEAT_BITS, lanes)?);

    let number = m.hold("register_q", register, register_re);
    let is_activations = all!(!number.msb(), number.bit(6));
    let select = cat!(is_activations, number.eq_lit(1), number.is_zero());
    let sampled = m.hold(cat!(counters, status), register_re);
    let mut choices = vec![sampled.low(BEAT_BITS), sampled.high(BEAT_BITS), memory.rdata.q()];
    let mut selects = vec![select];
    if let Some([status, counter]) = link {
        let status_q = m.hold("link_status_q", status, register_re);
        choices.extend([status_q, counter.zext(BEAT_BITS)]);
        let is_counter = number.high(REGISTER_BITS - 4).eq_lit(1);
        selects.insert(0, cat!(is_counter, number.eq_lit(LINK_REGISTER)));
    }
    let select = m.wire(cat(selects));
    m.output(register_data = one_hot_mux(select, &choices), "the register read last");
}
