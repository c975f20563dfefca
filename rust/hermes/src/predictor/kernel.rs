//! States and predictions of 512 neurons at once.
//!
//! A state's four bits are in four planes: bit `i` of word `w` of plane `p` is bit `p` of neuron `64 w + i` of the
//! group. Additions and comparisons are a few logic operations for all neurons of a word. The compiler vectorises the
//! loops over a group's eight words; each function has versions for AVX-512, AVX2 and any processor, chosen at run
//! time. The paper's rules are constants of a separate function.

use crate::predictor::rules::{PredictorKind, PredictorRules};
use multiversion::multiversion;

/// Words of a plane of a group: one cache line.
pub(crate) const LANES: usize = 8;
pub(crate) const GROUP: usize = 64 * LANES;
/// Words of a group's states.
pub(crate) const STATE_WORDS: usize = 4 * LANES;
/// Words of a group's parents: activity of the first ones, then of the second ones.
pub(crate) const PARENT_WORDS: usize = 2 * LANES;

/// Rules as masks: 0 or all ones for each bit of a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masks {
    gain: [u64; 4],
    least: [Least; 3],
    zero_is_never: bool,
}

#[derive(Clone, Copy, Debug)]
struct Least {
    bits: [u64; 4],
    /// 0 if no state is enough.
    possible: u64,
}

const fn bits(value: u8) -> [u64; 4] {
    let mut masks = [0; 4];
    let mut bit = 0;
    while bit < 4 {
        masks[bit] = if value >> bit & 1 == 1 { u64::MAX } else { 0 };
        bit += 1;
    }
    masks
}

impl Least {
    const fn new(least: u8) -> Self {
        Self { bits: bits(least), possible: if least > 15 { 0 } else { u64::MAX } }
    }

    /// One bit per neuron, from the lowest state bit up: where the constant has a 1, the state needs a 1 and lower bits
    /// that reach the constant's; where it has a 0, either is enough.
    #[inline(always)]
    fn reached(&self, planes: [u64; 4]) -> u64 {
        let mut reached = u64::MAX;
        for (plane, bit) in planes.into_iter().zip(self.bits) {
            reached = (plane & reached) | (!bit & (plane | reached));
        }
        reached & self.possible
    }
}

impl Masks {
    const fn of(gain: u8, least: [u8; 3]) -> Self {
        let zero_is_never = least[0] > 0 && least[1] > 0 && least[2] > 0;
        let least = [Least::new(least[0]), Least::new(least[1]), Least::new(least[2])];
        Self { gain: bits(gain), least, zero_is_never }
    }

    pub(crate) fn new(rules: &PredictorRules, kind: PredictorKind) -> Self {
        Self::of(rules.gain(), rules.least_states(kind))
    }
}

/// The paper's rules: gain 4; least state 10 with one active parent, 4 with two, never with none.
const PAPER: Masks = Masks::of(4, [16, 10, 4]);

/// States after a token: active neurons gain, saturating at 15, others lose 1, saturating at 0.
#[inline(always)]
fn next_states(gain: &[u64; 4], planes: [u64; 4], active: u64) -> [u64; 4] {
    let (mut carry, mut borrow) = (0, u64::MAX);
    let (mut up, mut down) = ([0; 4], [0; 4]);
    for bit in 0..4 {
        let (plane, add) = (planes[bit], gain[bit]);
        up[bit] = plane ^ add ^ carry;
        carry = (plane & add) | (carry & (plane | add));
        down[bit] = plane ^ borrow;
        borrow &= !plane;
    }
    let mut next = [0; 4];
    for bit in 0..4 {
        next[bit] = (active & (up[bit] | carry)) | (!active & down[bit] & !borrow);
    }
    next
}

#[inline(always)]
fn planes_of(states: &[u64; STATE_WORDS], lane: usize) -> [u64; 4] {
    [states[lane], states[LANES + lane], states[2 * LANES + lane], states[3 * LANES + lane]]
}

/// Updates the states of a group; whether all are 0 now.
#[inline(always)]
fn update_group(gain: &[u64; 4], states: &mut [u64; STATE_WORDS], active: &[u64; LANES]) -> bool {
    let mut any = [0; LANES];
    for lane in 0..LANES {
        let next = next_states(gain, planes_of(states, lane), active[lane]);
        for (bit, plane) in next.into_iter().enumerate() {
            states[bit * LANES + lane] = plane;
        }
        any[lane] = next[0] | next[1] | next[2] | next[3];
    }
    any == [0; LANES]
}

/// At most eight words, padded with 0.
#[inline(always)]
fn padded(words: &[u64]) -> [u64; LANES] {
    let mut copy = [0; LANES];
    if let Ok(whole) = words.try_into() {
        copy = whole;
    } else {
        copy[..words.len()].copy_from_slice(words);
    }
    copy
}

#[inline(always)]
fn predict_with(masks: &Masks, states: &[u64], parents: &[u64], quiet: &[bool], out: &mut [u64]) {
    let (states, _) = states.as_chunks::<STATE_WORDS>();
    let (parents, _) = parents.as_chunks::<PARENT_WORDS>();
    for (((states, parents), &quiet), out) in states.iter().zip(parents).zip(quiet).zip(out.chunks_mut(LANES))
    {
        if quiet && masks.zero_is_never {
            out.fill(0);
            continue;
        }
        let mut predicted = [0; LANES];
        for lane in 0..LANES {
            let planes = planes_of(states, lane);
            let (first, second) = (parents[lane], parents[LANES + lane]);
            predicted[lane] = (!(first | second) & masks.least[0].reached(planes))
                | ((first ^ second) & masks.least[1].reached(planes))
                | (first & second & masks.least[2].reached(planes));
        }
        if let Ok(out) = <&mut [u64; LANES]>::try_from(&mut *out) {
            *out = predicted;
        } else {
            out.copy_from_slice(&predicted[..out.len()]);
        }
    }
}

#[inline(always)]
fn observe_with(
    gain: &[u64; 4],
    states: &mut [u64],
    quiet: &mut [bool],
    last: &mut [u64],
    actual: &[u64],
    flipped: &mut [u64],
) {
    let (states, _) = states.as_chunks_mut::<STATE_WORDS>();
    let (last, _) = last.as_chunks_mut::<LANES>();
    let (flipped, _) = flipped.as_chunks_mut::<LANES>();
    for ((((states, quiet), last), actual), flipped) in
        states.iter_mut().zip(quiet).zip(last).zip(actual.chunks(LANES)).zip(flipped)
    {
        let active = padded(actual);
        if *quiet && active == [0; LANES] {
            *flipped = [0; LANES];
            continue;
        }
        // State 0 implies inactive: a quiet group's last activity is 0.
        *quiet = update_group(gain, states, &active);
        for lane in 0..LANES {
            flipped[lane] = active[lane] ^ last[lane];
        }
        *last = active;
    }
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn predict_by_the_paper(states: &[u64], parents: &[u64], quiet: &[bool], out: &mut [u64]) {
    predict_with(&PAPER, states, parents, quiet, out);
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn predict_by_any(masks: &Masks, states: &[u64], parents: &[u64], quiet: &[bool], out: &mut [u64]) {
    predict_with(masks, states, parents, quiet, out);
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn observe_by_the_paper(
    states: &mut [u64],
    quiet: &mut [bool],
    last: &mut [u64],
    actual: &[u64],
    flipped: &mut [u64],
) {
    observe_with(&PAPER.gain, states, quiet, last, actual, flipped);
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn observe_by_any(
    gain: &[u64; 4],
    states: &mut [u64],
    quiet: &mut [bool],
    last: &mut [u64],
    actual: &[u64],
    flipped: &mut [u64],
) {
    observe_with(gain, states, quiet, last, actual, flipped);
}

impl Masks {
    fn is_the_papers(&self) -> bool {
        let same = |(a, b): (&Least, &Least)| a.bits == b.bits && a.possible == b.possible;
        self.gain == PAPER.gain && self.least.iter().zip(&PAPER.least).all(same)
    }

    /// Predictions of a block. All states of a `quiet` group are 0.
    pub(crate) fn predict(&self, states: &[u64], parents: &[u64], quiet: &[bool], out: &mut [u64]) {
        if self.is_the_papers() {
            predict_by_the_paper(states, parents, quiet, out);
        } else {
            predict_by_any(self, states, parents, quiet, out);
        }
    }

    /// Updates states, quiet groups and last activity of a block; `flipped` gets the change of activity.
    pub(crate) fn observe(
        &self,
        states: &mut [u64],
        quiet: &mut [bool],
        last: &mut [u64],
        actual: &[u64],
        flipped: &mut [u64],
    ) {
        if self.gain == PAPER.gain {
            observe_by_the_paper(states, quiet, last, actual, flipped);
        } else {
            observe_by_any(&self.gain, states, quiet, last, actual, flipped);
        }
    }
}

pub(crate) fn update(gain: u8, states: &mut [u64], active: &[u64]) {
    let (states, _) = states.as_chunks_mut::<STATE_WORDS>();
    for (states, active) in states.iter_mut().zip(active.chunks(LANES)) {
        update_group(&bits(gain), states, &padded(active));
    }
}

/// Writes which neurons of a block have state `least` or more.
pub(crate) fn at_least(least: u8, states: &[u64], out: &mut [u64]) {
    let least = Least::new(least);
    let (states, _) = states.as_chunks::<STATE_WORDS>();
    for (states, out) in states.iter().zip(out.chunks_mut(LANES)) {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = least.reached(planes_of(states, lane));
        }
    }
}

/// Lists places of bits set in both, ascending; returns their number. Both have whole groups; `places` needs room for
/// four more.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+popcnt"))]
pub(crate) fn list_ones(words: &[u64], mask: &[u64], places: &mut [u32]) -> usize {
    let mut found = 0;
    let groups = words.as_chunks::<LANES>().0.iter().zip(mask.as_chunks::<LANES>().0);
    for ((words, mask), group) in groups.zip(0u32..) {
        let mut ones = [0; LANES];
        for lane in 0..LANES {
            ones[lane] = words[lane] & mask[lane];
        }
        if ones == [0; LANES] {
            continue;
        }
        for (mut rest, lane) in ones.into_iter().zip(0u32..) {
            let base = GROUP as u32 * group + 64 * lane;
            let count = rest.count_ones() as usize;
            // Four at once, existing or not: a branch per bit would be mispredicted in every word.
            for place in &mut places[found..found + 4] {
                *place = base + rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
            }
            if count > 4 {
                for place in &mut places[found + 4..found + count] {
                    *place = base + rest.trailing_zeros();
                    rest &= rest.wrapping_sub(1);
                }
            }
            found += count;
        }
    }
    found
}
