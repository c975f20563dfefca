//! Parameters of the GEMV unit and all derived widths.
//!
//! Defaults: Hermes, section IV-A2 and Table II (256 multipliers of 128 bits, reduction tree, 256 KB buffer, four
//! DDR4-3200 ranks).

use crate::keys::part;
use crate::limits::{in_range, power_of_two, require};
use crate::{BEAT_BITS, BEAT_ELEMS, named};
use ndp_files::Result;
use serde::{Deserialize, Serialize};
use std::fmt;

part! {
    "gemv.", raw:
    /// Validated parameters of the GEMV unit.
    pub struct GemvConfig(RawGemv) {
        /// Multiplier units, `lanes` FP16 pairs each.
        pub multipliers: u32 = 256, power_of_two(4, 1024);
        /// Lanes of a multiplier unit: FP16 products per window.
        pub lanes: u32 = 8, power_of_two(8, 16);
        /// Significand bits of a weight that are multiplied: steps of a serial multiplication. Below 11 weights are truncated.
        pub serial_steps: u32 = 11, in_range(2, 11);
        /// Bits of the exact accumulator, a multiple of `acc_segments`; the last one weighs 2^-48.
        pub acc_bits: u32 = 104, in_range(GemvConfig::MIN_ACC_BITS, 120);
        /// Parts of the accumulator; a carry passes one part per cycle.
        pub acc_segments: u32 = 4, in_range(3, 6);
        /// DRAM ranks, each with its own weight stream and multiplier units.
        pub ranks: u32 = 4, power_of_two(1, 4);
        /// KiB of the buffer of vectors and sums, all slices together.
        pub buffer_kib: u32 = 256, power_of_two(1, 1024);
        /// Most vectors that share the weights of a product.
        pub max_batch: u32 = 16, power_of_two(1, 16);
        /// Beats queued before the units of each rank.
        pub weight_fifo_beats: u32 = 8, power_of_two(4, 64);
        /// How a unit multiplies significands: each lane bit by bit or two bits per step, or all with one parallel multiplier.
        pub multiplier: Multiplier = Multiplier::BitSerial;
    }
    private {
        /// Whether each lane of the activation unit has an exponential, or all lanes of a rank share one.
        exponential: Exponential = Exponential::PerLane;
        /// Lanes of the activation unit: a power of two, `ranks` to `multipliers`, which is the default. If there are fewer than
        /// multiplier units, several slices of the buffer share one.
        activation_lanes: Option<u32> = None;
        /// Formats of weights in DRAM: FP16 alone, or also INT8 and INT4, which is the default if a stripe has two beats.
        weight_formats: Option<Formats> = None;
    }
}

/// How a multiplier unit multiplies significands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multiplier {
    /// Each lane by itself, a bit of the weight per cycle (Hermes, section IV-A2).
    BitSerial,
    /// Each lane by itself, two bits of the weight per cycle.
    DigitSerial,
    /// All lanes with one multiplier, a product per cycle.
    SharedParallel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Exponential {
    /// In each lane (Hermes, section IV-A2).
    PerLane,
    /// In one unit for each rank, through which the elements of its lanes go one by one.
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Formats {
    /// FP16 only.
    Fp16,
    /// Every [`WeightFormat`].
    All,
}

named! {
    /// Format of a weight in DRAM.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum WeightFormat {
        /// An FP16 number.
        #[default]
        Fp16 = "fp16",
        /// A number of 8 bits, -128..=127; 32 of them share an FP16 scale.
        Int8 = "int8",
        /// A number of 4 bits, -8..=7; 32 of them share an FP16 scale.
        Int4 = "int4",
    }
}

impl WeightFormat {
    /// Without its share of a scale.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fp16 => 16,
            Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }

    /// Bytes of weights, with a scale for each 32 of them.
    pub const fn bytes(self, weights: u64) -> u64 {
        let scales = if matches!(self, Self::Fp16) { 0 } else { 2 * weights.div_ceil(BEAT_ELEMS as u64) };
        (weights * self.bits() as u64).div_ceil(8) + scales
    }

    /// With its share of a scale: 16, 8.5, 4.5.
    pub fn bits_with_scale(self) -> f64 {
        let scale = if self == Self::Fp16 { 0 } else { 16 };
        f64::from(self.bits()) + f64::from(scale) / f64::from(BEAT_ELEMS)
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bits needed to hold `0..=max`; at least one.
const fn bits_for(max: u32) -> u32 {
    if max == 0 { 1 } else { 32 - max.leading_zeros() }
}

impl GemvConfig {
    /// Least accumulator bits of a configuration: enough for a sum of 2^16 products.
    pub const MIN_ACC_BITS: u32 = Self::acc_bits_for(1 << 16);

    /// Accumulator bits that no sum of this many FP16 products overflows: a product is below 2^32, or 2^80 in units of
    /// 2^-48; one bit more per doubling, and the sign (`docs/numerics.md`).
    pub const fn acc_bits_for(products: u32) -> u32 {
        81 + products.next_power_of_two().ilog2()
    }

    pub(crate) fn validate(raw: RawGemv) -> Result<Self> {
        let RawGemv { multipliers, acc_bits, acc_segments, ranks, buffer_kib, max_batch, .. } = raw;
        let mut config = Self::checked(raw)?;
        require(
            acc_bits.is_multiple_of(acc_segments),
            "gemv.acc_bits",
            acc_bits,
            format!("be a multiple of gemv.acc_segments = {acc_segments}"),
        )?;
        require(
            config.units_per_rank() >= config.beat_chunks() && multipliers >= ranks,
            "multipliers / ranks",
            multipliers / ranks,
            format!("be at least the {} chunks of one {BEAT_BITS}-bit beat", config.beat_chunks()),
        )?;
        let needed = Self::acc_bits_for(config.max_cols());
        require(
            acc_bits >= needed,
            "gemv.acc_bits",
            acc_bits,
            format!(
                "be at least {needed}: gemv.buffer_kib = {buffer_kib} holds rows of {} elements, whose sum must not overflow",
                config.max_cols()
            ),
        )?;
        let activation_lanes = *config.0.activation_lanes.get_or_insert(multipliers);
        power_of_two("gemv.activation_lanes", activation_lanes, ranks, multipliers)?;
        let whole = if config.beats_per_stripe() > 1 { Formats::All } else { Formats::Fp16 };
        config.0.weight_formats.get_or_insert(whole);
        require(
            config.weight_formats().len() == 1 || config.beats_per_stripe() > 1,
            "beats of a stripe (multipliers / ranks * lanes / 32)",
            config.beats_per_stripe(),
            "be at least 2 for gemv.weight_formats = \"all\"".to_owned(),
        )?;
        let slice = buffer_kib * 1024 / multipliers;
        require(
            slice >= config.chunk_bytes() * 2 * max_batch.min(4),
            "slice bytes (buffer_kib * 1024 / multipliers)",
            slice,
            format!("hold at least {} chunks of {} bytes", 2 * max_batch.min(4), config.chunk_bytes()),
        )?;
        Ok(config)
    }

    /// Windows from a lane's operands to their product.
    pub fn product_windows(&self) -> u32 {
        match self.0.multiplier {
            Multiplier::BitSerial | Multiplier::DigitSerial => 1,
            Multiplier::SharedParallel => 0,
        }
    }

    /// Cycles by which lane `i` takes operands before phase `i`: a parallel multiplier has a register first.
    pub fn operand_lead(&self) -> u32 {
        1 - self.product_windows()
    }

    /// Phase of the window before in which a job is decided: two cycles before the first operands.
    pub fn decision_phase(&self) -> u32 {
        self.window_cycles() - 2 - self.operand_lead()
    }

    /// Bits of an accumulator segment, and of a digit in the reduction tree: `acc_bits / acc_segments`.
    pub fn digit_bits(&self) -> u32 {
        self.0.acc_bits / self.0.acc_segments
    }

    /// Multiplier units fed by one rank: `multipliers / ranks`.
    pub fn units_per_rank(&self) -> u32 {
        self.0.multipliers / self.0.ranks
    }

    /// Activation lanes fed by one rank's slices: `activation_lanes / ranks`.
    pub fn activation_lanes_per_rank(&self) -> u32 {
        self.units_per_rank() / self.slices_per_lane()
    }

    /// Whether the lanes of a rank share one exponential unit.
    pub fn shares_exponential(&self) -> bool {
        self.0.exponential == Exponential::Shared
    }

    /// Buffer slices (one per multiplier unit) that share an activation lane: `multipliers / activation_lanes`.
    pub fn slices_per_lane(&self) -> u32 {
        self.0.activation_lanes.map_or(1, |lanes| self.0.multipliers / lanes)
    }

    /// Operand of one unit: `2 * lanes`.
    pub fn chunk_bytes(&self) -> u32 {
        2 * self.0.lanes
    }

    /// Chunks of one beat: `32 / lanes`.
    pub fn beat_chunks(&self) -> u32 {
        BEAT_ELEMS / self.0.lanes
    }

    /// Beats that fill a rank's units once: `units_per_rank / beat_chunks`.
    pub fn beats_per_stripe(&self) -> u32 {
        self.units_per_rank() / self.beat_chunks()
    }

    /// Elements that one rank's units take at a time: `units_per_rank * lanes` (512 in the paper's design).
    pub fn stripe_elems(&self) -> u32 {
        self.units_per_rank() * self.0.lanes
    }

    /// Cycles in which each lane does one product: `max(serial_steps, lanes + acc_segments - 1)`. The second term is
    /// the lanes' turns at the shared aligner, and carries rippling through segments. Two-bit steps halve the first;
    /// parallel multipliers have none.
    pub fn window_cycles(&self) -> u32 {
        let turns = self.0.lanes + self.0.acc_segments - 1;
        match self.0.multiplier {
            Multiplier::BitSerial => turns.max(self.0.serial_steps),
            Multiplier::DigitSerial => turns.max(self.0.serial_steps.div_ceil(2)),
            Multiplier::SharedParallel => turns,
        }
    }

    /// Words of a unit's slice, a chunk each: `buffer_kib * 1024 / multipliers / chunk_bytes`.
    pub fn slice_words(&self) -> u32 {
        self.0.buffer_kib * 1024 / self.0.multipliers / self.chunk_bytes()
    }

    /// Bits of a slice address.
    pub fn slice_addr_bits(&self) -> u32 {
        bits_for(self.slice_words() - 1)
    }

    /// Bits that hold `0..=max_batch`.
    pub fn batch_bits(&self) -> u32 {
        bits_for(self.0.max_batch)
    }

    /// Waves of the longest rows in which a wave with a short last stripe is a tail.
    pub const TAILED_WAVES: u32 = 4;

    /// Most heads of a product: `min(8, units_per_rank, max_vectors)`, a power of two. A head is at least a unit wide.
    pub fn max_heads(&self) -> u32 {
        self.units_per_rank().min(8).min(self.max_vectors())
    }

    /// Bits that hold the logarithm of a number of heads.
    pub fn head_bits(&self) -> u32 {
        bits_for(self.max_heads().trailing_zeros())
    }

    /// Vectors of a block of results or scalars, one per vector of the batch and head: `2 * max_batch`.
    pub fn max_vectors(&self) -> u32 {
        2 * self.0.max_batch
    }

    /// Bits that hold `0..=max_vectors`.
    pub fn vectors_bits(&self) -> u32 {
        bits_for(self.max_vectors())
    }

    /// Formats that a product can take, FP16 first.
    pub fn weight_formats(&self) -> &'static [WeightFormat] {
        match self.0.weight_formats {
            Some(Formats::All) => &WeightFormat::ALL,
            Some(Formats::Fp16) | None => &WeightFormat::ALL[..1],
        }
    }

    /// Bits of a row count or index.
    pub fn row_bits(&self) -> u32 {
        24
    }

    /// Largest number of rows of one command: `2^row_bits - 1`.
    pub fn max_rows(&self) -> u32 {
        (1 << self.row_bits()) - 1
    }

    /// Longest row that fits the buffer at batch 1: `buffer bytes / 2`.
    pub fn max_cols(&self) -> u32 {
        self.0.buffer_kib * 512
    }

    /// Bits that hold `0..=max_cols`.
    pub fn col_bits(&self) -> u32 {
        bits_for(self.max_cols())
    }

    /// Levels of one rank's reduction tree: `log2(units_per_rank)`.
    pub fn tree_levels(&self) -> u32 {
        self.units_per_rank().trailing_zeros()
    }

    /// Multiply-accumulates per cycle of all units: `multipliers * lanes / window_cycles`.
    pub fn peak_macs_per_cycle(&self) -> f64 {
        f64::from(self.0.multipliers * self.0.lanes) / f64::from(self.window_cycles())
    }
}
