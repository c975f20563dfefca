//! The bits of an exact sum that leaves the core: `export` writes them and `import` adds them.
//!
//! From bit 0: the value in two's complement, `acc_bits` bits in units of 2^-48, modulo `2^acc_bits`; `segments - 1`
//! places for pending carries of a segmented accumulator, written as 0 and ignored when read; flags NaN, +Inf, -Inf
//! seen. Higher bits are 0 and ignored. With a flag the value is written as 0. Equal sums have equal bits.

use crate::exact_sum::ExactSum;
use crate::special_flags::SpecialFlags;
use ndp_files::{Result, bail};

/// Format of a design's sums.
///
/// ```
/// use ndp_numerics::{ExactSum, SumFormat, f16};
/// let format = SumFormat::new(104, 4).unwrap();
/// let mut sum = format.empty();
/// sum.add_value(f16::from_bits(0xBC00));
/// assert_eq!(format.to_word(&sum), (1 << 104) - (1 << 48));
/// assert_eq!(format.from_word(format.to_word(&sum)), sum);
/// sum.add_value(f16::from_bits(0x7C00));
/// assert_eq!(format.to_word(&sum), 1 << 108);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SumFormat {
    acc_bits: u32,
    segments: u32,
}

impl SumFormat {
    /// NaN, +Inf, -Inf seen.
    pub const FLAG_BITS: u32 = 3;
    /// Widest form.
    pub const MAX_BITS: u32 = 128;

    /// Sums of `acc_bits` bits in `segments` segments. Fails as [`ExactSum::new`], without segments, and above 128
    /// bits.
    pub fn new(acc_bits: u32, segments: u32) -> Result<Self> {
        ExactSum::new(acc_bits)?;
        let bits = acc_bits.saturating_add(segments).saturating_add(Self::FLAG_BITS - 1);
        if segments == 0 || bits > Self::MAX_BITS {
            bail!(
                "acc_bits = {acc_bits} in {segments} segments and the flags must be 1..={} bits",
                Self::MAX_BITS
            );
        }
        Ok(Self { acc_bits, segments })
    }

    /// Width of the value.
    pub fn acc_bits(self) -> u32 {
        self.acc_bits
    }

    /// `acc_bits + segments + 2`.
    pub fn bits(self) -> u32 {
        self.flags_at() + Self::FLAG_BITS
    }

    fn flags_at(self) -> u32 {
        self.acc_bits + self.segments - 1
    }

    /// An empty sum.
    pub fn empty(self) -> ExactSum {
        ExactSum::from_raw(self.acc_bits, 0, SpecialFlags::default())
    }

    /// Bits of a sum, modulo `2^acc_bits`; with a flag only flags.
    pub fn to_word(self, sum: &ExactSum) -> u128 {
        let (value, flags) = sum.raw();
        let flags = [flags.nan, flags.pos_inf, flags.neg_inf];
        let flags = (0..).zip(flags).fold(0, |bits, (at, flag)| bits | u128::from(flag) << at);
        if flags != 0 {
            return flags << self.flags_at();
        }
        value as u128 & (u128::MAX >> (u128::BITS - self.acc_bits))
    }

    /// The sum of any bits.
    pub fn from_word(self, word: u128) -> ExactSum {
        let flag = |at: u32| word >> (self.flags_at() + at) & 1 == 1;
        let flags = SpecialFlags { nan: flag(0), pos_inf: flag(1), neg_inf: flag(2) };
        ExactSum::from_raw(self.acc_bits, word as i128, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SplitMix64, f16};

    #[test]
    fn bits_are_where_the_contract_puts_them() {
        let format = SumFormat::new(104, 4).unwrap();
        assert_eq!((format.bits(), format.to_word(&format.empty())), (110, 0));
        let of = |value: u16| {
            let mut sum = format.empty();
            sum.add_value(f16::from_bits(value));
            format.to_word(&sum)
        };
        assert_eq!([of(0x3C00), of(0x0001), of(0x8000)], [1 << 48, 1 << 24, 0]);
        assert_eq!(of(0x8001), (1 << 104) - (1 << 24));
        assert_eq!([of(0x7C01), of(0x7C00), of(0xFC00)], [1 << 107, 1 << 108, 1 << 109]);
    }

    #[test]
    fn every_word_is_a_sum_and_its_form_is_canonical() {
        let mut random = SplitMix64::new(1);
        for (acc_bits, segments) in [(104, 4), (97, 1), (120, 6), (105, 3)] {
            let format = SumFormat::new(acc_bits, segments).unwrap();
            let carries = ((1u128 << (segments - 1)) - 1) << acc_bits;
            let used = u128::MAX >> (128 - format.bits()) & !carries;
            for _ in 0..1000 {
                let word = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
                let sum = format.from_word(word);
                assert!(sum.in_range());
                let flags = word & used & !0 << format.flags_at();
                assert_eq!(format.to_word(&sum), if flags != 0 { flags } else { word & used });
            }
        }
    }

    #[test]
    fn a_sum_beyond_its_range_is_taken_modulo_its_width() {
        let format = SumFormat::new(84, 4).unwrap();
        let mut sum = format.empty();
        let large = f16::from_bits(0x7BFF);
        (0..9).for_each(|_| sum.mul_add(large, large));
        assert!(!sum.in_range());
        let wrapped = sum.wrapped();
        assert_eq!(format.from_word(format.to_word(&sum)), wrapped);
        assert_eq!(wrapped.raw().0, sum.raw().0 - (1 << 84));
        // Even past the model's own 128 bits.
        (0..60).for_each(|_| sum.add(&sum.clone()));
        assert_eq!(format.from_word(format.to_word(&sum)), sum.wrapped());
    }

    #[test]
    fn forms_beyond_128_bits_are_refused() {
        assert!(SumFormat::new(120, 6).is_ok());
        let refused = |acc_bits, segments, text| {
            assert!(ndp_files::said(&SumFormat::new(acc_bits, segments)).contains(text));
        };
        refused(120, 7, "acc_bits = 120 in 7 segments and the flags must be 1..=128 bits");
        refused(104, 0, "acc_bits = 104 in 0 segments");
        refused(80, 4, "acc_bits = 80 must be ");
    }
}
