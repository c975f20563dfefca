//! The weights' source: one DDR4-3200 rank per stream, limited to its peak bandwidth.
//!
//! Sends the elements of a command's weights in the order in which the unit takes them (row by row, and of each row the
//! stripes that the layout gives this rank). Rows and banks, refresh and turnarounds are not modelled: this is the
//! rank's peak, 25.6 GB/s, with no burst beyond the one beat that waits on the bus.

use super::beat::{Beat, ELEMS, flip, pack};
use super::command::Command;
use super::plant::Plant;
use ndp_config::{BEAT_BITS, CORE_GHZ, GemvConfig, RANK_GBPS, RowLayout};

/// Units of the token bucket in one beat: bytes, times ten so that 25.6 GB/s is a whole number.
const BEAT_TOKENS: u32 = BEAT_BITS / 8 * 10;
/// Units that arrive per core cycle: `RANK_GBPS / CORE_GHZ` bytes, 2 beats in 5 cycles.
const TOKENS_PER_CYCLE: u32 = (RANK_GBPS / CORE_GHZ * 10.0) as u32;
/// A beat, and what arrives in the cycle in which it is completed: bandwidth that was not used is lost.
const BUCKET: u32 = BEAT_TOKENS + TOKENS_PER_CYCLE - gcd(BEAT_TOKENS, TOKENS_PER_CYCLE);

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Which beat comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Index of the command.
    pub command: usize,
    /// Row of its weights.
    pub row: u32,
    /// First element of the beat in the row.
    pub start: u32,
    /// First element in the row behind the beat.
    pub end: u32,
}

/// The stream of one rank.
#[derive(Debug)]
pub(super) struct WeightSource {
    rank: u32,
    tokens: u32,
    /// Whether a beat is being offered.
    pub valid: bool,
    layout: Option<RowLayout>,
    command: usize,
    row: u32,
    /// Number of the stripe among this rank's stripes of the row.
    turn: usize,
    /// Beat within the stripe.
    beat: u32,
}

impl WeightSource {
    pub(super) fn new(rank: u32) -> Self {
        Self { rank, tokens: 0, valid: false, layout: None, command: 0, row: 0, turn: 0, beat: 0 }
    }

    /// A cycle passes on the bus.
    #[inline]
    pub(super) fn refill(&mut self) {
        self.tokens = (self.tokens + TOKENS_PER_CYCLE).min(BUCKET);
    }

    /// Whether the rank could deliver a beat now.
    #[inline]
    pub(super) fn can_send(&self) -> bool {
        !self.valid && self.tokens >= BEAT_TOKENS
    }

    /// Where the next beat is, among the first `allowed` commands; `None` if it is not there yet.
    pub(super) fn next(
        &mut self,
        config: &GemvConfig,
        commands: &[Command<'_>],
        allowed: usize,
    ) -> Option<Position> {
        while self.command < allowed {
            let Command::Dot { rows, cols, .. } = *commands.get(self.command)? else {
                self.command += 1;
                continue;
            };
            let layout = *self.layout.get_or_insert_with(|| RowLayout::new(config, cols));
            while self.row < rows {
                if let Some(stripe) = layout.stripes_of(self.row, self.rank).nth(self.turn) {
                    let first = stripe * layout.stripe_elems;
                    let stop = first + layout.elems_of(stripe);
                    let start = first + self.beat * ELEMS as u32;
                    if start < stop {
                        let end = stop.min(start + ELEMS as u32);
                        return Some(Position { command: self.command, row: self.row, start, end });
                    }
                    (self.turn, self.beat) = (self.turn + 1, 0);
                } else {
                    (self.row, self.turn, self.beat) = (self.row + 1, 0, 0);
                }
            }
            (self.command, self.row, self.layout) = (self.command + 1, 0, None);
        }
        None
    }

    /// Spends the bandwidth of the beat at `position`, which [`WeightSource::next`] has just given, and packs it.
    pub(super) fn send(
        &mut self,
        commands: &[Command<'_>],
        position: Position,
        plant: &mut Option<Plant>,
        beat: &mut Beat,
    ) {
        self.tokens -= BEAT_TOKENS;
        self.beat += 1;
        self.valid = true;
        let Some(&Command::Dot { cols, weights, .. }) = commands.get(position.command) else { return };
        let at = |col: u32| position.row as usize * cols as usize + col as usize;
        pack(&weights[at(position.start)..at(position.end)], beat);
        if let Some(Plant::Weight { row, col, bit }) = *plant
            && row == position.row
            && (position.start..position.end).contains(&col)
        {
            flip(beat, (col - position.start) as usize, bit);
            *plant = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::DesignConfig;
    use ndp_numerics::f16;

    #[test]
    fn the_bucket_gives_two_beats_in_five_cycles() {
        assert_eq!((BEAT_TOKENS, TOKENS_PER_CYCLE), (640, 256));
        let mut source = WeightSource::new(0);
        let mut sent = Vec::new();
        for cycle in 0..1000 {
            source.refill();
            if source.can_send() {
                source.tokens -= BEAT_TOKENS;
                sent.push(cycle);
            }
        }
        assert_eq!(sent.len(), 400);
        let gaps: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| matches!(gap, 2 | 3)), "{gaps:?}");
    }

    #[test]
    fn bandwidth_that_was_not_used_is_lost() {
        let mut source = WeightSource::new(0);
        (0..1000).for_each(|_| source.refill());
        let mut sent = 0;
        for _ in 0..5 {
            source.refill();
            if source.can_send() {
                source.tokens -= BEAT_TOKENS;
                sent += 1;
            }
        }
        assert!(sent <= 3, "{sent} beats in five cycles after a long pause");
    }

    #[test]
    fn the_ranks_together_send_every_element_once_in_row_order() {
        let config = DesignConfig::preset("tiny").unwrap();
        let config = config.gemv();
        for cols in [1, 31, 32, 33, 64, 65, 128, 129, 191, 200, 333] {
            let rows = 5;
            let weights: Vec<f16> = (0..rows * cols).map(|i| f16::from_bits(i as u16)).collect();
            let dot = Command::Dot { rows, cols, batch: 1, base: 0, weights: &weights };
            let commands = [Command::Drain, dot, dot];
            let mut seen = vec![0; (rows * cols) as usize];
            for rank in 0..config.ranks() {
                let mut source = WeightSource::new(rank);
                assert_eq!(source.next(config, &commands, 1), None);
                let mut last = (0, 0);
                while let Some(position) = source.next(config, &commands, 3) {
                    let mut beat = [0; 16];
                    source.tokens = BEAT_TOKENS;
                    source.send(&commands, position, &mut None, &mut beat);
                    assert!((position.command, position.row) >= last);
                    last = (position.command, position.row);
                    for (element, col) in (position.start..position.end).enumerate() {
                        let bits = beat[element / 2] >> (16 * (element % 2)) & 0xFFFF;
                        assert_eq!(bits, position.row * cols + col);
                        seen[bits as usize] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|count| *count == 2), "cols {cols}: {seen:?}");
        }
    }
}
