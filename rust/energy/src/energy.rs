//! Amounts of energy: integers, so that sums of parts equal totals in any order.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

const FJ_PER_PJ: f64 = 1e3;
const FJ_PER_J: f64 = 1e15;

/// An amount in femtojoules, with the range due to the constants.
///
/// ```
/// let energy = ndp_energy::Energy::from_pj([1.0, 1.5, 2.0]) * 1_000;
/// assert_eq!((energy.low, energy.value, energy.high), (1_000_000, 1_500_000, 2_000_000));
/// assert_eq!(energy.to_string(), "1.5 nJ (1 to 2)");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Energy {
    /// With the constants' lower ends.
    #[serde(rename = "low_fj")]
    pub low: u128,
    /// With the constants' values.
    #[serde(rename = "fj")]
    pub value: u128,
    /// With the constants' upper ends.
    #[serde(rename = "high_fj")]
    pub high: u128,
}

impl Energy {
    /// From least, likely and greatest fJ, each rounded to the nearest and at least 0.
    pub fn from_fj(fj: [f64; 3]) -> Self {
        let [low, value, high] = fj.map(|fj| fj.max(0.0).round() as u128);
        Self { low, value, high }
    }

    /// From least, likely and greatest pJ.
    pub fn from_pj(pj: [f64; 3]) -> Self {
        Self::from_fj(pj.map(|pj| pj * FJ_PER_PJ))
    }

    /// From power in W: 1 W is 1,000 fJ in a ps, 1e6 fJ in a ns.
    pub fn from_w_ns(watts: [f64; 3], ns: u64) -> Self {
        Self::from_fj(watts.map(|watts| watts * 1e6 * ns as f64))
    }

    /// Without the range.
    pub fn joules(&self) -> f64 {
        self.in_joules()[0]
    }

    /// Value, and the ends of its range.
    pub fn in_joules(&self) -> [f64; 3] {
        [self.value, self.low, self.high].map(|fj| fj as f64 / FJ_PER_J)
    }

    /// Mean power in W, without the range.
    pub fn watts(&self, ps: u64) -> f64 {
        self.value as f64 / 1e3 / ps.max(1) as f64
    }

    /// Without the range.
    pub fn pj(&self) -> f64 {
        self.value as f64 / FJ_PER_PJ
    }

    /// Share per `count`, rounded down; all of it for 0.
    pub fn per(&self, count: u64) -> Self {
        let count = u128::from(count.max(1));
        Self { low: self.low / count, value: self.value / count, high: self.high / count }
    }
}

impl Add for Energy {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, value: self.value + other.value, high: self.high + other.high }
    }
}

impl AddAssign for Energy {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Energy {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// Ratio of two sums whose parts share constants: with all values, and its least and greatest over the constants'
/// ranges. `None` if the other sum can be 0.
///
/// The ratio rises or falls with each constant for any others, so its ends are at ends of ranges. Each round moves all
/// constants that extend it; the choices are finite.
///
/// ```
/// use ndp_energy::{Energy, ratio_range};
/// let of = |low, value, high| Energy { low, value, high };
/// // Twice one part, and another part that both have.
/// let parts = [(of(20, 40, 80), of(10, 20, 40)), (of(10, 10, 20), of(10, 10, 20))];
/// assert_eq!(ratio_range(&parts), Some([40.0 / 30.0, 50.0 / 30.0, 90.0 / 50.0]));
/// ```
pub fn ratio_range(parts: &[(Energy, Energy)]) -> Option<[f64; 3]> {
    let over = |pairs: &mut dyn Iterator<Item = (u128, u128)>| {
        let (above, below) = pairs.fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        (below > 0).then(|| above as f64 / below as f64)
    };
    over(&mut parts.iter().map(|(_, other)| (0, other.low)))?;
    let value = over(&mut parts.iter().map(|(one, other)| (one.value, other.value)))?;
    let end = |up: bool| {
        let mut best = value;
        loop {
            let next = over(&mut parts.iter().map(|(one, other)| {
                let ends = [(one.low, other.low), (one.high, other.high)];
                let [low, high] = ends.map(|(above, below)| above as f64 - best * below as f64);
                ends[usize::from((high > low) == up)]
            }))?;
            let further = if up { next > best } else { next < best };
            if !further {
                return Some(best);
            }
            best = next;
        }
    };
    Some([end(false)?, value, end(true)?])
}

impl Mul<u64> for Energy {
    type Output = Self;

    fn mul(self, count: u64) -> Self {
        let count = u128::from(count);
        Self { low: self.low * count, value: self.value * count, high: self.high * count }
    }
}

/// Three digits and a unit, and the range, if any.
impl std::fmt::Display for Energy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [(1e15, "J"), (1e12, "mJ"), (1e9, "uJ"), (1e6, "nJ"), (1e3, "pJ"), (1.0, "fJ")];
        let (scale, unit) =
            units.into_iter().find(|(scale, _)| self.value as f64 >= *scale).unwrap_or((1.0, "fJ"));
        let digits = |fj: u128| three_digits(fj as f64 / scale);
        let text = if self.low == self.high {
            format!("{} {unit}", digits(self.value))
        } else {
            format!("{} {unit} ({} to {})", digits(self.value), digits(self.low), digits(self.high))
        };
        f.pad(&text)
    }
}

/// Three significant digits, or more before the point.
fn three_digits(value: f64) -> String {
    let decimals =
        if value >= 99.95 || value == 0.0 { 0 } else { (1.0 - value.log10().floor()) as usize + 1 };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
