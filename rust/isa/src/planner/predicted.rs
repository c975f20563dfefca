//! FC1 of the neurons that a low-rank predictor finds, in one program of the core that has their weights.
//!
//! `t = A a` and `s = B t + bias` are two DOTs and an addition; a `select` turns the core's list of all neurons into
//! the list of FC1 rows. The results follow this list, then +0, so another `select` can choose among them.

use crate::layout::{DimmMap, MatrixLayout, VectorBlock};
use crate::planner::kept::KeptOutputs;
use crate::planner::product::{Piece, Plan, Sizes, load, operands, store};
use crate::{Activation, Condition, Instruction, Numbers, Product, block_words};
use ndp_config::{DesignConfig, require};
use ndp_files::Result;

/// Places of a layer's low-rank predictor.
#[derive(Clone, Copy, Debug)]
pub struct Prediction<'a> {
    /// `A`, a row for each number of `t`.
    pub input: &'a MatrixLayout,
    /// `B`, a row for each slot.
    pub rows: &'a MatrixLayout,
    /// Biases of the first MLP layer, a row of one element for each slot; `None` without.
    pub bias: Option<&'a MatrixLayout>,
}

impl Plan {
    /// Plan of a DOT with one vector and the listed rows that the predictor finds, then ReLU. [`Plan::lists`] has all
    /// neurons, [`Plan::biases`] the addends of `s` in that order. Results stay in `kept`, their rows in the list
    /// memory from entry 0.
    ///
    /// A second block must hold 1.0. Fails for results of several chunks, or if predictor or operands do not fit.
    pub fn predicted(
        config: &DesignConfig,
        map: &mut DimmMap,
        layout: &MatrixLayout,
        sizes: &Sizes,
        kept: &KeptOutputs,
        prediction: &Prediction<'_>,
    ) -> Result<(Self, Option<VectorBlock>)> {
        let Sizes { cols, count, .. } = *sizes;
        let chunks = kept.chunks.len() as u32;
        require(chunks == 1, "chunks of the results", chunks, "be 1, for a predictor on the core")?;
        let dst = kept.chunks[0].dst;
        let (rank, words, free) = (prediction.rows.cols(), block_words(config, count, 1), kept.free());
        // In order: predictions, their biases, `t`, and 1.0.
        let (s, other, t) = (free.start, free.start + words, free.start + 2 * words);
        let one = t + block_words(config, rank, 1);
        let end = one + block_words(config, 1, 1);
        let rule = format!("be at most {}", free.end);
        require(end <= free.end, "last word of a prediction in the buffer", end, rule)?;
        let mut plan = Self { matrices: vec![(0, layout.clone())], passes: 1, ..Self::default() };
        let mut block = |name: &str, cols| map.add_vectors(name, cols, 1);
        let product = |src, dst, layout: &MatrixLayout, (count, list, selected)| {
            Instruction::Dot(Product { src, dst, count, list, selected, ..operands(layout) })
        };
        let activate = |operation: Activation, dst| operation.in_place(dst, count, 1);
        let [input, bias, output] = [block("x", cols)?, block("bias", count)?, block("y", count)?];
        let ones = prediction.bias.map(|_| block("one", 1)).transpose()?;
        plan.instructions.push(load(kept.source, &input));
        plan.list(map, sizes, 0, count, 0)?;
        plan.instructions.push(product(kept.source, t, prediction.input, (rank, None, false)));
        plan.instructions.push(load(other, &bias));
        plan.instructions.extend(ones.as_ref().map(|block| load(one, block)));
        // Zeros stay after the last result.
        plan.instructions.push(Instruction::Zero { dst, count: words });
        plan.instructions.push(product(t, s, prediction.rows, (count, Some(0), false)));
        plan.instructions.push(activate(Activation::Add { other }, s));
        let numbers = Numbers::Listed(0);
        plan.instructions.push(Instruction::Select {
            src: s,
            dst: other,
            cols: count,
            batch: 1,
            list: 0,
            numbers,
            condition: Condition::POSITIVE,
        });
        plan.instructions.push(product(kept.source, dst, layout, (count, Some(0), true)));
        if let Some(bias) = prediction.bias {
            plan.instructions.push(Instruction::Zero { dst: s, count: words });
            plan.instructions.push(product(one, s, bias, (count, Some(0), true)));
            plan.instructions.push(activate(Activation::Add { other: s }, dst));
        }
        plan.instructions.push(activate(Activation::Relu, dst));
        plan.instructions.push(store(dst, &output));
        let piece = |block| Piece { block, first: 0, vector: 0 };
        (plan.inputs, plan.biases, plan.outputs) =
            (vec![piece(input)], vec![piece(bias)], vec![piece(output)]);
        Ok((plan, ones))
    }
}
