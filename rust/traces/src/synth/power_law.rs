//! Frequencies of a block's neurons: a power law with a ceiling.
//!
//! The neuron of relative rank `q` (0 the most active, 1 the least) is active for a share `f(q) = min(F, c * q^-a)` of
//! all tokens.

/// Frequencies of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// `F`: the highest frequency.
    pub ceiling: f64,
    /// `a`.
    pub exponent: f64,
    /// `c`: frequency of the least active neuron.
    pub least: f64,
}

/// The `x` between `low` and `high` at which `above` becomes true.
pub fn bisect(mut low: f64, mut high: f64, steps: u32, above: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..steps {
        let middle = 0.5 * (low + high);
        *(if above(middle) { &mut high } else { &mut low }) = middle;
    }
    0.5 * (low + high)
}

impl PowerLaw {
    /// The law with this mean, which is below the ceiling.
    pub fn with_density(density: f64, ceiling: f64, exponent: f64) -> Self {
        let law = |least| Self { ceiling, exponent, least };
        law(bisect(0.0, ceiling, 50, |least| law(least).density() > density))
    }

    /// Relative rank where `f` reaches `frequency`, at most 1.
    pub fn rank(&self, frequency: f64) -> f64 {
        (self.least / frequency).powf(1.0 / self.exponent).min(1.0)
    }

    /// `f(rank)`.
    pub fn frequency(&self, rank: f64) -> f64 {
        (self.least * rank.powf(-self.exponent)).min(self.ceiling)
    }

    /// Integral of `f` from 0 to `rank`.
    pub fn activations(&self, rank: f64) -> f64 {
        let plateau = self.rank(self.ceiling);
        if rank <= plateau {
            return self.ceiling * rank;
        }
        let b = 1.0 - self.exponent;
        let tail = if b.abs() < 1e-9 { (rank / plateau).ln() } else { (rank.powf(b) - plateau.powf(b)) / b };
        self.ceiling * plateau + self.least * tail
    }

    /// Mean of `f`: the share of active neurons.
    pub fn density(&self) -> f64 {
        self.activations(1.0)
    }

    /// Smallest share of the neurons with this `part` of the activations.
    pub fn share(&self, part: f64) -> f64 {
        let wanted = part * self.density();
        bisect(0.0, 1.0, 40, |rank| self.activations(rank) > wanted)
    }
}

/// [`PowerLaw::share`] for several blocks of equal width.
pub fn joint_share(laws: &[PowerLaw], part: f64) -> f64 {
    let wanted = part * laws.iter().map(PowerLaw::density).sum::<f64>();
    let ceiling = laws.iter().fold(0.0, |most: f64, law| most.max(law.ceiling));
    // All neurons above a frequency, in every block; those at the ceiling are alike.
    let having = |frequency: f64| laws.iter().map(|law| law.activations(law.rank(frequency))).sum::<f64>();
    let neurons = |frequency: f64| laws.iter().map(|law| law.rank(frequency)).sum::<f64>();
    let mean = if having(ceiling) >= wanted {
        wanted / ceiling
    } else {
        neurons(bisect(0.0, ceiling, 50, |frequency| having(frequency) < wanted))
    };
    mean / laws.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_is_that_of_the_frequencies() {
        for exponent in [0.5, 1.0, 1.3] {
            let law = PowerLaw::with_density(0.15, 0.9, exponent);
            assert!((law.density() - 0.15).abs() < 1e-9);
            let count = 100_000;
            let sum: f64 = (0..count).map(|k| law.frequency((k as f64 + 0.5) / count as f64)).sum();
            assert!((sum / count as f64 - 0.15).abs() < 1e-4, "{exponent}: {sum}");
            let share = law.share(0.8);
            assert!((law.activations(share) - 0.12).abs() < 1e-9);
            assert!((joint_share(&[law, law], 0.8) - share).abs() < 1e-6);
        }
    }

    #[test]
    fn blocks_of_different_density_are_more_skewed_together() {
        let laws = [0.05, 0.25].map(|density| PowerLaw::with_density(density, 0.9, 1.0));
        let joint = joint_share(&laws, 0.8);
        assert!(joint < 0.5 * (laws[0].share(0.8) + laws[1].share(0.8)), "{joint}");
    }
}
