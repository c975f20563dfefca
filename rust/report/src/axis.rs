//! An axis: a range of values, its ticks, and their places.

use crate::value::thousands;

/// A range of values on a stretch of the picture.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Spans `values` (and 0, if `from_zero`), from `from` to `to`, with about `ticks` round numbers.
    pub fn new(
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        ticks: f64,
        (from, to): (f64, f64),
    ) -> Self {
        let start = if from_zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        let (mut low, mut high) = values.fold(start, |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low == high {
            // A single value is in the middle, 0 at the bottom.
            let margin = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
            (low, high) = (if from_zero { low.min(0.0) } else { low - margin }, high + margin);
        }
        let rough = (high - low) / ticks;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0]
            .into_iter()
            .map(|n| n * power)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step, from, to }
    }

    pub fn place(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    pub fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step).round() as i64;
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        (0..=count)
            .map(|index| {
                let value = self.low + index as f64 * self.step;
                (value, number(value, decimals))
            })
            .collect()
    }
}

/// A number with thousands separated.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { "-" } else { "" };
    format!("{sign}{}{rest}", thousands(whole))
}

/// A number with about four digits.
pub(crate) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    number(value, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[f64], from_zero: bool) -> Vec<String> {
        let axis = Axis::new(values.iter().copied(), from_zero, 5.0, (0.0, 100.0));
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_enclose_all_values() {
        assert_eq!(texts(&[0.13, 0.92], true), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(&[-3.0, 17_000.0], false), ["-5,000", "0", "5,000", "10,000", "15,000", "20,000"]);
        assert_eq!(texts(&[7.0], false), ["2", "4", "6", "8", "10", "12"]);
        assert_eq!(texts(&[], false).len(), 6);
        assert_eq!(texts(&[0.0], true), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(number(1_234_567.891, 1), "1,234,567.9");
        assert_eq!((number(-0.0001, 2), number(-12.0, 0)), ("0.00".to_owned(), "-12".to_owned()));
        assert_eq!([short(2500.0), short(99.5), short(1.0 / 3.0)], ["2,500", "99.50", "0.333"]);
    }
}
