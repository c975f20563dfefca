//! Table of the standard normal distribution and its inverse.

/// Steps of the table.
const STEPS: usize = 16384;
/// Covers `-LIMIT..=LIMIT`.
const LIMIT: f64 = 8.0;

/// Phi at equidistant points, by Simpson's rule.
#[derive(Clone, Debug)]
pub struct Normal {
    integral: Vec<f64>,
}

impl Default for Normal {
    fn default() -> Self {
        Self::new()
    }
}

impl Normal {
    /// Fills the table.
    pub fn new() -> Self {
        let step = 2.0 * LIMIT / STEPS as f64;
        let density = |x: f64| (-0.5 * x * x).exp();
        let mut integral = vec![0.0];
        let mut sum = 0.0;
        for k in 0..STEPS {
            let x = -LIMIT + k as f64 * step;
            sum += step / 6.0 * (density(x) + 4.0 * density(x + step / 2.0) + density(x + step));
            integral.push(sum);
        }
        integral.iter_mut().for_each(|value| *value /= sum);
        Self { integral }
    }

    /// Probability that a standard normal variable is below `x`; error below 1e-7.
    pub fn phi(&self, x: f64) -> f64 {
        let at = ((x + LIMIT) / (2.0 * LIMIT) * STEPS as f64).clamp(0.0, STEPS as f64 - 1e-6);
        let k = at as usize;
        self.integral[k] + (at - k as f64) * (self.integral[k + 1] - self.integral[k])
    }

    /// The `x` below which a standard normal variable is with `probability`.
    pub fn inverse(&self, probability: f64) -> f64 {
        let above = self.integral.partition_point(|&value| value < probability).clamp(1, STEPS);
        let (low, high) = (self.integral[above - 1], self.integral[above]);
        let part = if high > low { ((probability - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
        -LIMIT + (above as f64 - 1.0 + part) * 2.0 * LIMIT / STEPS as f64
    }

    /// Midpoints of `count` equally likely parts.
    pub fn quantiles(&self, count: usize) -> Vec<f64> {
        (0..count).map(|k| self.inverse((k as f64 + 0.5) / count as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_and_its_inverse_have_their_known_values() {
        let normal = Normal::new();
        for (x, phi) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.959_963_985, 0.025), (3.0, 0.998_650_102)] {
            assert!((normal.phi(x) - phi).abs() < 1e-7, "{x}");
            assert!((normal.inverse(phi) - x).abs() < 1e-5, "{x}");
        }
        assert_eq!((normal.phi(-99.0), normal.inverse(0.0)), (0.0, -LIMIT));
        assert!(normal.phi(99.0) > 1.0 - 1e-9 && normal.inverse(1.0) > 7.0);
    }
}
