//! Temperatures of the sampler as arguments.

use ndp_numerics::sampling::MAX_TEMPERATURE_PERCENT;

/// Parses a temperature to hundredths.
pub fn temperature_percent(text: &str) -> Result<u32, String> {
    let limit = f64::from(MAX_TEMPERATURE_PERCENT) / 100.0;
    let wrong = || format!("temperature {text} must be a number in 0..={limit} with at most two decimals");
    let value: f64 = text.parse().map_err(|_| wrong())?;
    let percent = (value * 100.0).round();
    if !(0.0..=f64::from(MAX_TEMPERATURE_PERCENT)).contains(&percent)
        || (percent / 100.0 - value).abs() > 1e-9
    {
        return Err(wrong());
    }
    Ok(percent as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_hundredths() {
        for (text, percent) in [("0", 0), ("0.5", 50), ("0.07", 7), ("10", 1000), ("1.13", 113)] {
            assert_eq!(temperature_percent(text), Ok(percent));
        }
        for bad in ["-1", "10.01", "0.005", "warm", "NaN", "inf"] {
            assert!(temperature_percent(bad).is_err(), "{bad}");
        }
    }
}
