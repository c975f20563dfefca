//! Rotary embedding on the core, from DRAM to DRAM: the host puts halves of heads side by side, the core rotates them.

use super::unit::{GemvRun, GemvUnit};
use ndp_files::Result;
use ndp_isa::planner::{RotaryPiece, rotary_program};
use ndp_model::RotaryOp;

impl GemvUnit {
    /// Rotates queries or keys, `[tokens x width]`.
    pub fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<GemvRun> {
        let config = self.core.config().clone();
        let pairs: Vec<_> = op.pairs().collect();
        // The layout refuses counts beyond 32 bits.
        let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let mut map = self.free_map();
        let pieces = RotaryPiece::cut(&config, &mut map, count)?;
        for piece in &pieces {
            let of = |element: u32| &pairs[(piece.first + element) as usize];
            let [first, second, cosines, sines] = &piece.inputs;
            self.place_block(first, |_, element| op.states()[of(element).0[0]]);
            self.place_block(second, |_, element| op.states()[of(element).0[1]]);
            self.place_block(cosines, |_, element| of(element).1[0]);
            self.place_block(sines, |_, element| of(element).1[1]);
            piece.outputs.iter().for_each(|block| self.blank(block));
        }
        let figures = self.alone(async |unit| {
            let figures = unit.execute(&rotary_program(&config, &pieces)).await?;
            unit.fetch_blocks(pieces.iter().flat_map(|piece| piece.outputs)).await?;
            Ok(figures)
        })?;
        // The core sees only the elements that are rotated.
        let mut bits: Vec<u16> = op.states().iter().map(|state| state.to_bits()).collect();
        for piece in &pieces {
            for (half, block) in piece.outputs.iter().enumerate() {
                for element in 0..block.elements() {
                    bits[pairs[(piece.first + element) as usize].0[half]] = self.element(block, 0, element);
                }
            }
        }
        Ok(GemvRun { bits, passes: pieces.len() as u32, figures })
    }
}
