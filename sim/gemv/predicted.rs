//! FC1 of the neurons that a core predicts itself, with a low-rank predictor in its DRAM.

use super::product::{Product, Weights};
use super::unit::{GemvRun, GemvUnit, Kept};
use ndp_config::BEAT_ELEMS;
use ndp_files::{Result, bail};
use ndp_isa::layout::MatrixLayout;
use ndp_isa::planner::{Epilogue, KeptOutputs, Mode, Plan, Prediction};
use ndp_numerics::f16;
use std::collections::HashSet;

impl GemvUnit {
    /// DOT and ReLU of the rows that the core predicts among those that take part, `[count]`, +0 for the others, and
    /// the predicted rows. `bias` is the predictor's. Results stay as in [`GemvUnit::product_kept_async`].
    pub(crate) async fn predicted_async(
        &mut self,
        product: &Product<'_>,
        (prediction, bias): (&Prediction<'_>, &[f16]),
        (outputs, next): (&KeptOutputs, &MatrixLayout),
    ) -> Result<(GemvRun, Vec<u32>)> {
        let config = self.core.config().clone();
        let (sizes, mut map) = (product.sizes()?, self.free_map());
        let (Weights::Resident([(_, layout)]), Some(active)) = (product.weights, product.active) else {
            bail!("the model's weights = a product's own: systems of DIMMs run models with rows in DRAM");
        };
        let (plan, one) = Plan::predicted(&config, &mut map, layout, &sizes, outputs, prediction)?;
        let mut order = product.order(&sizes, &[next]);
        let epilogue = Epilogue { bias: Some(bias), ..Epilogue::default() };
        self.place(product, &epilogue, &sizes, &plan, &order).await?;
        if let Some(one) = one {
            self.place_block(&one, |_, _| f16::ONE);
        }
        let figures = self.execute(&plan.instructions).await?;
        let row = |at: &u32| active[*at as usize];
        let rows: Vec<u32> = order.iter().map(row).collect();
        let places: Vec<Vec<u32>> = rows.chunks(BEAT_ELEMS as usize).map(<[u32]>::to_vec).collect();
        let predicted = self.selected(&places).await?.rows;
        // Predicted rows come first; the values stored after them have to be +0.
        let is_predicted: HashSet<u32> = predicted.iter().copied().collect();
        order.sort_by_key(|at| !is_predicted.contains(&row(at)));
        let bits = self.collect(Mode::Dot, &sizes, &plan, &order).await?;
        let rows = order.iter().map(row).collect();
        let (outputs, lists, earlier_masks) = (outputs.clone(), None, places.len());
        self.kept = Some(Kept { outputs, lists, rows, earlier_masks, map });
        Ok((GemvRun { bits, passes: plan.passes, figures }, predicted))
    }
}
