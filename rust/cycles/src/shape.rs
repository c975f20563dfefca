//! How a row or vector is divided, as far as it matters for time.

use ndp_config::{BEAT_ELEMS, GemvConfig, RowLayout};

/// Division of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    /// Stripes that every rank takes.
    pub waves: u32,
    /// Stripes that are left over.
    pub tail: u32,
    /// Position of the last beat in the last stripe.
    pub last_beat: u32,
    /// Last element in that beat.
    pub last_elem: u32,
}

impl Cut {
    pub fn new(config: &GemvConfig, elements: u32) -> Self {
        let layout = RowLayout::new(config, elements);
        let last = elements - 1;
        Self {
            waves: layout.full_waves,
            tail: layout.tail_stripes,
            last_beat: last / BEAT_ELEMS % config.beats_per_stripe(),
            last_elem: last % BEAT_ELEMS,
        }
    }
}

impl Cut {
    /// Whether the tail is two whole stripes over four ranks.
    pub fn is_paired(&self, shape: &Shape) -> bool {
        shape.ranks == 4 && self.tail == 2 && self.last_beat + 1 == shape.positions
    }

    /// Neighbouring ranks that have the same part of every row: all if there is no tail, two if the tail is paired.
    pub fn alike(&self, shape: &Shape) -> u32 {
        if self.tail == 0 && self.last_beat + 1 == shape.positions {
            shape.ranks
        } else if self.is_paired(shape) {
            2
        } else {
            1
        }
    }
}

/// Cycles from the last digit at a rounding column to its result.
const COLUMN: u64 = 7;

/// Constants of a configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub ranks: u32,
    /// Beats of a stripe.
    pub positions: u32,
    pub window: u64,
    /// The phase in which the next window's job is decided.
    pub decision: u64,
    /// Cycles by which operands are taken before their phase, and windows after which their products leave.
    pub operand_lead: u64,
    pub product_windows: u32,
    pub lanes: u64,
    pub segments: u64,
    /// Elements that the activation unit takes from a word.
    pub element_lanes: u32,
    /// Elements of a word in all lanes of a rank.
    pub around: u32,
    /// Slices that share a lane.
    pub lane_slices: u32,
    pub shares_exponential: bool,
    pub lane_tree_cycles: u32,
    pub tree_levels: u64,
    /// Beats of weights that wait in a group.
    pub weight_beats: u32,
    /// Rows' sums that a group can queue, and digits, or results of heads.
    sums: u32,
    queue: u32,
    /// Bits of a row's number.
    pub row_mask: u32,
    pub all_ranks: u32,
}

impl Shape {
    pub fn new(config: &GemvConfig) -> Self {
        let sums = config.max_batch().max(8);
        Self {
            ranks: config.ranks(),
            positions: config.beats_per_stripe(),
            window: config.window_cycles().into(),
            decision: config.decision_phase().into(),
            operand_lead: config.operand_lead().into(),
            product_windows: config.product_windows(),
            lanes: config.lanes().into(),
            segments: config.acc_segments().into(),
            element_lanes: config.lanes(),
            around: config.activation_lanes_per_rank() * config.lanes(),
            lane_slices: config.slices_per_lane(),
            shares_exponential: config.shares_exponential(),
            lane_tree_cycles: config.activation_lanes_per_rank().trailing_zeros().div_ceil(2),
            tree_levels: config.tree_levels().into(),
            weight_beats: config.weight_fifo_beats(),
            sums,
            queue: (sums * config.acc_segments()).next_power_of_two(),
            row_mask: (1 << config.row_bits()) - 1,
            all_ranks: (1 << config.ranks()) - 1,
        }
    }

    /// Distance of a rank from the one at which a tail starts.
    #[inline]
    pub fn tail_at(&self, rank: u32, start: u32) -> u32 {
        (rank + self.ranks - start) % self.ranks
    }

    pub fn whole_wave(&self) -> Cut {
        Cut { waves: 1, tail: 0, last_beat: self.positions - 1, last_elem: BEAT_ELEMS - 1 }
    }

    /// Jobs ending a row that can wait in a group: each has a sum or, with several heads, that many results.
    pub fn sums_of(&self, heads: u32) -> u32 {
        if heads > 1 { self.sums.min(self.queue / heads) } else { self.sums }
    }

    /// Cycles from a job's decision until the first digit of its sum, or its first head's result, can be taken.
    pub fn sum_cycles(&self, heads: u32) -> u64 {
        let windows = u64::from(self.product_windows) * self.window;
        let digits = self.operand_lead + windows + self.lanes + 3;
        if heads > 1 {
            // The levels below the taps, the last digit, a rounding column; the sender, the queue.
            let levels = self.tree_levels - u64::from(heads.trailing_zeros());
            digits + levels + self.segments - 1 + COLUMN + 2
        } else {
            // The tree, the row's sum, the queue.
            digits + self.tree_levels + 2
        }
    }
}
