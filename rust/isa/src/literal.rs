//! Numbers in programs: decimal text to the nearest FP16 value.
//!
//! In integers: by way of `f64` it would round twice, wrongly for texts close to the middle of two FP16 numbers.

/// 5^25: `v * 2^25 = (v * 10^25) / 5^25`.
const FIVE_TO_25: u128 = 298_023_223_876_953_125;

/// Bits of the FP16 value nearest to a decimal number, `inf`, `-inf` or `nan`; ties to even. `None` for other texts.
///
/// The middle of two FP16 numbers is a multiple of 2^-25, so `floor(|v| * 2^25)` and whether it is exact decide the
/// rounding. That is `floor(|v| * 10^25) / 5^25`, which fits 128 bits below 65520.
///
/// ```
/// use ndp_isa::f16_from_decimal;
/// assert_eq!(f16_from_decimal("1.5"), Some(0x3E00));
/// assert_eq!(f16_from_decimal("-1e-9"), Some(0x8000));
/// assert_eq!(f16_from_decimal("65520"), Some(0x7C00));
/// assert_eq!(f16_from_decimal("0.1.2"), None);
/// ```
pub fn f16_from_decimal(text: &str) -> Option<u16> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (0x8000, rest),
        None => (0, text.strip_prefix('+').unwrap_or(text)),
    };
    match text {
        "inf" => return Some(sign | 0x7C00),
        "nan" if sign == 0 => return Some(0x7E00),
        _ => {}
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?.clamp(-10_000, 10_000)),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || digits().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    // Weight of a digit: 10^place, where the last digit that counts has the place -25.
    let mut place = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let (mut scaled, mut sticky) = (0u128, false);
    for digit in digits().map(|digit| u128::from(digit - b'0')) {
        place -= 1;
        match (digit, u32::try_from(place + 25)) {
            (0, _) => {}
            (_, Err(_)) => sticky = true,
            // 10^5 and more overflow to infinity.
            (_, Ok(30..)) => return Some(sign | 0x7C00),
            (_, Ok(power)) => scaled += digit * 10u128.pow(power),
        }
    }
    let cut = scaled / FIVE_TO_25; // below 10^5 * 2^25 < 2^42
    sticky |= scaled % FIVE_TO_25 != 0;
    Some(sign | round(cut as u64, sticky))
}

/// Rounds `magnitude * 2^-25`, plus something less than 2^-25 if `sticky`.
fn round(magnitude: u64, sticky: bool) -> u16 {
    if magnitude >= 65520 << 25 {
        return 0x7C00;
    }
    // The last place weighs 2^shift units: two (2^-24) for subnormals and the lowest normal numbers.
    let top = 63 - (magnitude | 1).leading_zeros();
    let shift = top.saturating_sub(10).max(1);
    let (kept, rest, half) = (magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1));
    let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
    // The hidden bit of a normal number adds the 1 that its exponent lacks here.
    ((u64::from(shift - 1) << 10) + kept + u64::from(up)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact decimal text of `magnitude * 2^-26`.
    fn exact(magnitude: u128) -> String {
        let scaled = magnitude * 5u128.pow(26);
        let text = format!("{scaled:027}");
        let (whole, fraction) = text.split_at(text.len() - 26);
        format!("{whole}.{fraction}")
    }

    #[test]
    fn every_finite_value_and_every_middle_is_read_right() {
        let value = |bits: u16| {
            let (exponent, fraction) = (u32::from(bits >> 10), u128::from(bits & 0x3FF));
            if exponent == 0 { fraction << 2 } else { (fraction | 0x400) << (exponent + 1) }
        };
        for bits in 0..0x7C00u16 {
            let (here, next) = (value(bits), if bits == 0x7BFF { 65536 << 26 } else { value(bits + 1) });
            assert_eq!(f16_from_decimal(&exact(here)), Some(bits));
            assert_eq!(f16_from_decimal(&format!("-{}", exact(here))), Some(bits | 0x8000));
            let middle = exact((here + next) / 2);
            assert_eq!(f16_from_decimal(&middle), Some(bits + (bits & 1)), "{middle}");
            // A hair above the middle, beyond the reach of f64.
            assert_eq!(f16_from_decimal(&format!("{middle}0000000000000001")), Some(bits + 1));
            let below = format!("{}9999999999", exact((here + next) / 2 - 1));
            assert_eq!(f16_from_decimal(&below), Some(bits), "{below}");
        }
    }

    #[test]
    fn exponents_signs_and_special_values() {
        for (text, bits) in [
            ("0", 0),
            ("-0.0", 0x8000),
            ("+1", 0x3C00),
            (".5", 0x3800),
            ("5.e-1", 0x3800),
            ("1E3", 0x63D0),
            ("0.00001e5", 0x3C00),
            ("65519.99999", 0x7BFF),
            ("1e999999", 0x7C00),
            ("-1e-999999", 0x8000),
            ("000000000000000000000000000000000000000000000000001", 0x3C00),
            ("inf", 0x7C00),
            ("-inf", 0xFC00),
            ("nan", 0x7E00),
        ] {
            assert_eq!(f16_from_decimal(text), Some(bits), "{text}");
        }
        for text in ["", "-", ".", "e5", "1e", "1e5.0", "--1", "1_0", "0x10", "-nan", "infinity", "1 "] {
            assert_eq!(f16_from_decimal(text), None, "{text}");
        }
    }
}
