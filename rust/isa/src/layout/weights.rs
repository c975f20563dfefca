//! Weights of 8 or 4 bits with their scales in the bursts of a row.
//!
//! The weights of a row on a rank are, stripe by stripe, places of 32 weights with one FP16 scale each. 32 places are
//! packed together, fewer at the end of a row:
//!
//! | bursts | contents |
//! | --- | --- |
//! | 1 | the scales, place by place, 16 bits each |
//! | 16 (INT8), 8 (INT4) | the weights, place by place: two or four places in a burst, element 0 in the lowest bits |
//!
//! A row ends with the burst of its last place, and the next row begins in the burst after it; rows of a single stripe
//! begin a whole stripe apart. FP16 weights have one place per burst and no scales.
//!
//! Rows may also **share** bursts of scales: on each rank the bursts with weights of all rows follow each other, and
//! before every 16th (INT8) or 8th (INT4) of them comes the burst with the scales of all that follow up to the next. A
//! stripe of 16 places then takes half a burst of scales, not a whole one, but a row cannot be read without those
//! before it.

use ndp_config::{BEAT_BITS, BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_numerics::{QuantisedRow, f16};

use crate::layout::pack::PackedBurst;
use crate::layout::{Burst, DimmAddress, MatrixLayout};

/// Places that share a burst of scales.
const SHARING: u32 = BEAT_BITS / 16;

/// Place of 32 weights of a row on a rank, in bursts from the matrix's first one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightPlace {
    /// Column of the first one, a multiple of 32.
    pub col: u32,
    /// Burst of the scale, and its FP16 element; none if the weights are FP16.
    pub scale: Option<(u64, u32)>,
    /// Burst of the weights.
    pub burst: u64,
    /// The first one in it, counted in weights.
    pub element: u32,
}

/// Where a row begins on a rank: after `first` bursts of the matrix, and among the rows that share scales after
/// `weights` bursts of weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowStart {
    first: u64,
    weights: u64,
    per_burst: u32,
    /// Bursts of weights that share a burst of scales, if there are scales.
    sharing: Option<u64>,
}

impl RowStart {
    /// Burst of a place of the row, from the matrix's first one; its first weight there; burst and element of its scale.
    pub fn place(&self, place: u32) -> (u64, u32, Option<(u64, u32)>) {
        let Self { first, weights, per_burst, .. } = *self;
        let (burst, within) = (weights + u64::from(place / per_burst), place % per_burst);
        let element = within * BEAT_ELEMS;
        let Some(sharing) = self.sharing else { return (first + burst, element, None) };
        let scales = first + burst / sharing * (sharing + 1);
        let scale = (burst % sharing) as u32 * per_burst + within;
        (scales + 1 + burst % sharing, element, Some((scales, scale)))
    }
}

/// Packs the rows of a matrix of INT8 or INT4 weights one after the other, from the first. It joins what rows have in a
/// burst of scales that they share.
#[derive(Debug)]
pub struct Packer<'a> {
    layout: &'a MatrixLayout,
    /// By rank, the burst of scales that the next row may share.
    open: Vec<Option<PackedBurst>>,
}

impl<'a> Packer<'a> {
    /// No row yet.
    pub fn new(layout: &'a MatrixLayout) -> Self {
        Self { layout, open: vec![None; layout.cut().ranks as usize] }
    }

    /// The bursts that are complete with this row of packed bursts ([`MatrixLayout::pack_quantised`]).
    pub fn row(&mut self, packed: Vec<PackedBurst>) -> Vec<PackedBurst> {
        if !self.layout.shared() {
            return packed;
        }
        let mut complete = Vec::with_capacity(packed.len());
        for burst in packed {
            let open = &mut self.open[burst.rank as usize];
            match open {
                Some(open) if open.burst == burst.burst => {
                    open.data.iter_mut().zip(burst.data).for_each(|(all, more)| *all |= more);
                }
                _ if self.layout.has_scales(burst.burst) => complete.extend(open.replace(burst)),
                _ => complete.push(burst),
            }
        }
        complete
    }

    /// The rest.
    pub fn finish(self) -> impl Iterator<Item = PackedBurst> {
        self.open.into_iter().flatten()
    }
}

/// The bits of element `at` of a burst of elements of `bits` bits.
fn element_of(burst: &Burst, bits: u32, at: u32) -> u16 {
    let low = at * bits;
    (burst[(low / 64) as usize] >> (low % 64)) as u16 & (u16::MAX >> (16 - bits))
}

fn put_element(burst: &mut Burst, bits: u32, at: u32, value: u16) {
    let low = at * bits;
    let value = u64::from(value & u16::MAX >> (16 - bits));
    burst[(low / 64) as usize] |= value << (low % 64);
}

impl MatrixLayout {
    /// Places of a burst.
    pub(crate) fn places_per_burst(&self) -> u32 {
        BEAT_BITS / (BEAT_ELEMS * self.weights().bits())
    }

    /// Bursts of weights that share a burst of scales.
    pub fn sharing_bursts(&self) -> u64 {
        (SHARING / self.places_per_burst()).into()
    }

    /// Number of a burst among those with weights; `None` if it has scales.
    pub(crate) fn without_scales(&self, burst: u64) -> Option<u64> {
        if self.weights() == WeightFormat::Fp16 {
            return Some(burst);
        }
        let block = self.sharing_bursts() + 1;
        Some(burst / block * (block - 1) + (burst % block).checked_sub(1)?)
    }

    /// Whether a burst of a rank has scales that rows share.
    fn has_scales(&self, burst: u32) -> bool {
        self.without_scales(self.offset_of(burst)).is_none()
    }

    /// The place from which [`RowStart::place`] counts.
    pub(crate) fn start_of(&self, row: u32, rank: u32) -> RowStart {
        let before = self.bursts_before(row, rank);
        let (first, weights) = if self.shared() { (0, before) } else { (before, 0) };
        let is_scaled = self.weights() != WeightFormat::Fp16;
        RowStart {
            first,
            weights,
            per_burst: self.places_per_burst(),
            sharing: is_scaled.then(|| self.sharing_bursts()),
        }
    }

    /// Bursts of the first `places` places of a row.
    pub fn place_bursts(&self, places: u32) -> u32 {
        let scales = if self.weights() == WeightFormat::Fp16 { 0 } else { places.div_ceil(SHARING) };
        scales + places.div_ceil(self.places_per_burst())
    }

    /// The places of a row on a rank, in order, up to the row's end.
    pub fn weight_places(&self, row: u32, rank: u32) -> impl Iterator<Item = WeightPlace> + use<'_> {
        let beats = self.beats_per_stripe();
        let stripes = self.cut().stripes_of(row, rank);
        let places =
            stripes.flat_map(move |stripe| (0..beats).map(move |at| (stripe * beats + at) * BEAT_ELEMS));
        let start = self.start_of(row, rank);
        (0..).zip(places).take_while(|(_, col)| *col < self.cols()).map(move |(place, col)| {
            let (burst, element, scale) = start.place(place);
            WeightPlace { col, scale, burst, element }
        })
    }

    /// Bursts of a row of INT8 or INT4 weights, rank by rank; 0 past the row's end. A burst of scales that rows share
    /// has only the row's own ([`Packer`] joins them). Panics if the row is too short or the matrix is FP16.
    pub fn pack_quantised(&self, row: u32, values: &QuantisedRow) -> Vec<PackedBurst> {
        let bits = self.weights().bits();
        let mut packed: Vec<PackedBurst> = Vec::new();
        for rank in 0..self.cut().ranks {
            let begin = packed.len();
            for place in self.weight_places(row, rank) {
                let mut data = |burst: u64| {
                    let burst = self.burst_at(burst);
                    let known = packed[begin..].iter().rposition(|known| known.burst == burst);
                    known.map_or_else(
                        || {
                            packed.push(PackedBurst { rank, burst, data: [0; 8] });
                            packed.len() - 1
                        },
                        |at| begin + at,
                    )
                };
                let (scales, weights) = (place.scale.map(|(burst, at)| (data(burst), at)), data(place.burst));
                if let Some((burst, at)) = scales {
                    let scale = values.scales[(place.col / BEAT_ELEMS) as usize];
                    put_element(&mut packed[burst].data, 16, at, scale.to_bits());
                }
                let end = self.cols().min(place.col + BEAT_ELEMS);
                let numbers = &values.numbers[place.col as usize..end as usize];
                for (at, number) in (place.element..).zip(numbers) {
                    put_element(&mut packed[weights].data, bits, at, *number as u16);
                }
            }
        }
        packed
    }

    /// [`Self::pack_quantised`] of columns of a longer row, starting at column `first`, a multiple of 32.
    pub fn pack_tile(&self, row: u32, values: &QuantisedRow, first: u32) -> Vec<PackedBurst> {
        let (first, cols) = (first as usize, self.cols() as usize);
        let scale = first / BEAT_ELEMS as usize;
        let numbers = values.numbers[first..first + cols].to_vec();
        let scales = values.scales[scale..scale + cols.div_ceil(BEAT_ELEMS as usize)].to_vec();
        self.pack_quantised(row, &QuantisedRow { numbers, scales })
    }

    /// Inverse of [`Self::pack_quantised`]; `read` returns a burst of the DRAM.
    pub fn unpack_quantised(
        &self,
        config: &DesignConfig,
        row: u32,
        mut read: impl FnMut(u64) -> Burst,
    ) -> QuantisedRow {
        let cols = self.cols() as usize;
        let mut values = QuantisedRow {
            numbers: vec![0; cols],
            scales: vec![f16::from_bits(0); cols.div_ceil(BEAT_ELEMS as usize)],
        };
        for rank in 0..self.cut().ranks {
            for place in self.weight_places(row, rank) {
                let mut burst = |burst: u64| {
                    let burst = self.burst_at(burst);
                    read(DimmAddress { rank, burst }.to_burst(config))
                };
                if let Some((at, element)) = place.scale {
                    let scale = element_of(&burst(at), 16, element);
                    values.scales[(place.col / BEAT_ELEMS) as usize] = f16::from_bits(scale);
                }
                let data = burst(place.burst);
                for col in place.col..self.cols().min(place.col + BEAT_ELEMS) {
                    values.numbers[col as usize] = self.number_of(&data, place.element + col - place.col);
                }
            }
        }
        values
    }

    /// A weight of 8 or 4 bits in a burst, in two's complement.
    pub fn number_of(&self, burst: &Burst, element: u32) -> i8 {
        let bits = self.weights().bits().min(8);
        let spare = 8 - bits;
        ((element_of(burst, bits, element) as u8) << spare) as i8 >> spare
    }
}
