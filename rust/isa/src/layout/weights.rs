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

use ndp_config::{BEAT_BITS, BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_numerics::{QuantisedRow, f16};

use crate::layout::pack::PackedBurst;
use crate::layout::{Burst, DimmAddress, MatrixLayout};

/// Places that share a burst of scales.
const SHARING: u32 = BEAT_BITS / 16;

/// Place of 32 weights of a row on a rank, in bursts from the row's first one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightPlace {
    /// Column of the first one, a multiple of 32.
    pub col: u32,
    /// Burst of the scale, and its FP16 element; none if the weights are FP16.
    pub scale: Option<(u32, u32)>,
    /// Burst of the weights.
    pub burst: u32,
    /// The first one in it, counted in weights.
    pub element: u32,
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
    fn places_per_burst(&self) -> u32 {
        BEAT_BITS / (BEAT_ELEMS * self.weights().bits())
    }

    /// Bursts of the first `places` places of a row.
    pub fn place_bursts(&self, places: u32) -> u32 {
        let scales = if self.weights() == WeightFormat::Fp16 { 0 } else { places.div_ceil(SHARING) };
        scales + places.div_ceil(self.places_per_burst())
    }

    /// Burst of a place of a row on a rank, and its first weight there.
    pub(crate) fn place_within(&self, place: u32) -> (u32, u32) {
        let per_burst = self.places_per_burst();
        let scales = if self.weights() == WeightFormat::Fp16 { 0 } else { place / SHARING + 1 };
        (scales + place / per_burst, place % per_burst * BEAT_ELEMS)
    }

    /// Place number `within` of a burst of a row; `None` in a burst of scales.
    pub(crate) fn place_at(&self, burst: u32, within: u32) -> Option<u32> {
        let per_burst = self.places_per_burst();
        if self.weights() == WeightFormat::Fp16 {
            return Some(burst);
        }
        let block = 1 + SHARING / per_burst;
        let beat = (burst % block).checked_sub(1)?;
        Some(burst / block * SHARING + beat * per_burst + within)
    }

    /// The places of a row on a rank, in order, up to the row's end.
    pub fn weight_places(&self, row: u32, rank: u32) -> impl Iterator<Item = WeightPlace> + use<'_> {
        let beats = self.beats_per_stripe();
        let stripes = self.cut().stripes_of(row, rank);
        let places =
            stripes.flat_map(move |stripe| (0..beats).map(move |at| (stripe * beats + at) * BEAT_ELEMS));
        (0..).zip(places).take_while(|(_, col)| *col < self.cols()).map(|(place, col)| {
            let (burst, element) = self.place_within(place);
            let block = self.place_within(place - place % SHARING).0;
            let scale = (self.weights() != WeightFormat::Fp16).then(|| (block - 1, place % SHARING));
            WeightPlace { col, scale, burst, element }
        })
    }

    /// Bursts of a row of INT8 or INT4 weights, rank by rank; 0 past the row's end. Panics if the row is too short or
    /// the matrix is FP16.
    pub fn pack_quantised(&self, row: u32, values: &QuantisedRow) -> Vec<PackedBurst> {
        let bits = self.weights().bits();
        let mut packed: Vec<PackedBurst> = Vec::new();
        for rank in 0..self.cut().ranks {
            let first = self.offset(row, rank);
            let begin = packed.len();
            for place in self.weight_places(row, rank) {
                let mut data = |burst: u32| {
                    while packed.len() <= begin + burst as usize {
                        let offset = first + (packed.len() - begin) as u64;
                        packed.push(PackedBurst { rank, burst: self.burst_at(offset), data: [0; 8] });
                    }
                    begin + burst as usize
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
            let first = self.offset(row, rank);
            for place in self.weight_places(row, rank) {
                let mut burst = |burst: u32| {
                    let burst = self.burst_at(first + u64::from(burst));
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
