//! What the unit is told to do: loads of activations, dot products, and waiting for them.
//!
//! A list of commands is one run of the driver. They are offered in order; a dot product may be given while the one
//! before it still runs. What is loaded where is up to the caller, within the capacity that is checked here.

use crate::error::SimError;
use ndp_config::{GemvConfig, GemvShape, RowLayout};
use ndp_numerics::f16;

/// One command, borrowing its operands.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Fills the activation buffer from slice word `base` on.
    Load {
        /// Elements of one vector.
        cols: u32,
        /// Vectors.
        batch: u32,
        /// First slice word, the same in every unit.
        base: u32,
        /// `[batch x cols]`, row-major.
        activations: &'a [f16],
    },
    /// `y[b][r] = sum_k weights[r, k] * x[b][k]` with the vectors loaded at `base`.
    Dot {
        /// Rows of the weights.
        rows: u32,
        /// Elements of a row; the same as of the load.
        cols: u32,
        /// Vectors.
        batch: u32,
        /// First slice word of the vectors.
        base: u32,
        /// `[rows x cols]`, row-major.
        weights: &'a [f16],
    },
    /// Nothing more is offered until every result so far has come out, so that what follows may overwrite the buffer.
    Drain,
}

impl Command<'_> {
    /// Slice words that vectors of this shape take.
    pub fn slice_words(config: &GemvConfig, cols: u32, batch: u32) -> u32 {
        RowLayout::new(config, cols).words_per_vector() * batch
    }

    /// Checks the shape, the place in the buffer and the lengths of the operands.
    ///
    /// # Errors
    /// [`SimError::Config`], [`SimError::Range`] for a base that is too high, [`SimError::Length`].
    pub fn check(&self, config: &GemvConfig) -> Result<(), SimError> {
        let (shape, base, what, found) = match *self {
            Self::Load { cols, batch, base, activations } => {
                (GemvShape { rows: 1, cols, batch }, base, "activations", activations.len())
            }
            Self::Dot { rows, cols, batch, base, weights } => {
                (GemvShape { rows, cols, batch }, base, "weights", weights.len())
            }
            Self::Drain => return Ok(()),
        };
        shape.check(config)?;
        let max = config.slice_words() - Self::slice_words(config, shape.cols, shape.batch);
        if base > max {
            return Err(SimError::Range { key: "base", value: base.into(), min: 0, max: max.into() });
        }
        let vectors = if what == "weights" { shape.rows } else { shape.batch };
        let expected = vectors as usize * shape.cols as usize;
        if found != expected {
            return Err(SimError::Length { what, found, expected });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::DesignConfig;

    #[test]
    fn what_does_not_fit_is_refused_with_value_and_limit() {
        let config = DesignConfig::preset("tiny").unwrap();
        let config = config.gemv();
        let v = vec![f16::from_bits(0); 128];
        let load = |cols, batch, base| Command::Load { cols, batch, base, activations: &v }.check(config);
        assert!(load(64, 2, 0).is_ok());
        assert!(load(64, 2, config.slice_words() - 2).is_ok());
        let message = load(64, 2, config.slice_words() - 1).unwrap_err().to_string();
        assert_eq!(message, format!("base = {} must be in 0..=62", config.slice_words() - 1));
        assert!(matches!(load(0, 2, 0), Err(SimError::Config(_))));
        let message = load(64, 1, 0).unwrap_err().to_string();
        assert_eq!(message, "activations has 128 elements, expected 64");
        let dot = Command::Dot { rows: 3, cols: 64, batch: 1, base: 0, weights: &v }.check(config);
        assert_eq!(dot.unwrap_err().to_string(), "weights has 128 elements, expected 192");
        assert!(Command::Drain.check(config).is_ok());
    }
}
