//! A product for a unit: the rows that take part, the origin of the weights, and the vectors.

use super::unit::Backdoor;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_files::{Result, bail, refusal};
use ndp_isa::layout::{AxpyTiling, DimmMap, MatrixLayout, row_order};
use ndp_isa::planner::{Epilogue, Mode, Plan, Sizes, Tile, can_share_scales};
use ndp_numerics::{QuantisedRow, SCALED, f16};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// `[count x cols]`, the rows that take part, row-major, written by backdoor access before the product.
    Given(&'a [f16], &'a Backdoor),
    /// As `Given`, with INT8 or INT4 weights.
    Quantised(WeightFormat, &'a [&'a QuantisedRow], &'a Backdoor),
    /// Already in DRAM: tiles of columns, each with its first column.
    Resident(&'a [Tile]),
}

#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Row by row or column by column.
    pub mode: Mode,
    pub rows: u32,
    pub cols: u32,
    /// The rows that take part, in order; `None` for all.
    pub active: Option<&'a [u32]>,
    pub weights: Weights<'a>,
    /// DOT: `[batch x cols]`; AXPY: `[batch x count]`.
    pub vectors: &'a [f16],
}

impl Product<'_> {
    pub(super) fn sizes(&self) -> Result<Sizes> {
        let count = self.active.map_or(self.rows as usize, <[u32]>::len);
        let cols = self.cols as usize;
        let expect = |what, found: usize, expected: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(refusal!("{what} has {found} elements, expected {expected}"))
            }
        };
        match self.weights {
            Weights::Given(weights, _) => expect("the matrix", weights.len(), count.saturating_mul(cols))?,
            Weights::Quantised(_, rows, _) => {
                expect("the matrix", rows.len(), count)?;
                for row in rows {
                    expect("a row of the matrix", row.numbers.len(), cols)?;
                    expect("scales of a row", row.scales.len(), cols.div_ceil(SCALED))?;
                }
            }
            Weights::Resident(_) => {}
        }
        let length = if self.mode == Mode::Dot { cols } else { count };
        let batch = self.vectors.len().checked_div(length).unwrap_or(0);
        expect("the vectors", self.vectors.len(), batch.max(1) * length.max(1))?;
        if let Some(row) = self.active.and_then(|active| active.iter().find(|row| **row >= self.rows)) {
            let (value, max) = (u64::from(*row), u64::from(self.rows).saturating_sub(1));
            bail!("active row = {value} must be in 0..={max}");
        }
        Ok(Sizes {
            rows: self.rows,
            cols: self.cols,
            count: count as u32,
            batch: batch as u32,
            listed: self.active.is_some(),
        })
    }

    pub fn format(&self) -> WeightFormat {
        match self.weights {
            Weights::Given(..) => WeightFormat::Fp16,
            Weights::Quantised(format, ..) => format,
            Weights::Resident(tiles) => {
                tiles.first().map_or(WeightFormat::Fp16, |(_, layout)| layout.weights())
            }
        }
    }

    /// Layouts by tiles of columns, for an AXPY also their cut. Weights that are not in DRAM yet get a place.
    pub(super) fn matrices(
        &self,
        config: &DesignConfig,
        map: &mut DimmMap,
        sizes: &Sizes,
    ) -> Result<(Option<AxpyTiling>, Vec<Tile>)> {
        if let Weights::Resident(tiles) = self.weights {
            let cut = match self.mode {
                Mode::Dot => None,
                Mode::Axpy => Some(Plan::passes(config, tiles, sizes)?),
            };
            return Ok((cut, tiles.to_vec()));
        }
        let (format, rows) = (self.format(), sizes.rows);
        let mut add = |name: &str, cols| {
            if format != WeightFormat::Fp16 && !sizes.listed && can_share_scales(config, cols) {
                map.add_sharing_scales(name, rows, cols, format)
            } else {
                map.add_weights(name, rows, cols, format)
            }
        };
        if self.mode == Mode::Dot {
            return Ok((None, vec![(0, add("w", sizes.cols)?)]));
        }
        let tiling = Plan::tiling(config, sizes)?;
        let mut layouts = Vec::new();
        for tile in &tiling.tiles {
            layouts.push((tile.first, add(&format!("w {}", tile.first), tile.cols)?));
        }
        Ok((Some(tiling), layouts))
    }

    pub(super) fn check(&self, epilogue: &Epilogue<'_>, sizes: &Sizes) -> Result<()> {
        let outputs = sizes.outputs(self.mode) as usize;
        for (what, operand, expected) in [
            ("the bias", epilogue.bias, outputs),
            ("the residual", epilogue.residual, outputs * sizes.batch as usize),
        ] {
            if let Some(found) = operand.map(<[f16]>::len).filter(|found| *found != expected) {
                bail!("{what} has {found} elements, expected {expected}");
            }
        }
        Ok(())
    }

    /// For each place of the list, the index of its active row.
    pub(super) fn order(&self, sizes: &Sizes, layouts: &[&MatrixLayout]) -> Vec<u32> {
        self.active.map_or_else(|| (0..sizes.count).collect(), |active| row_order(layouts, active))
    }
}

/// [`Product::order`] of the last rows of each matrix, by its first burst: FC1 computes the same rows for each token.
#[derive(Debug, Default)]
pub(super) struct Orders(HashMap<u32, Ordered>);

#[derive(Debug)]
struct Ordered {
    layout: MatrixLayout,
    rows: Vec<u32>,
    order: Vec<u32>,
}

impl Orders {
    pub fn of(&mut self, product: &Product<'_>, sizes: &Sizes, layouts: &[&MatrixLayout]) -> Vec<u32> {
        let (Some(active), [layout]) = (product.active, layouts) else {
            return product.order(sizes, layouts);
        };
        if let Some(Ordered { layout: of, rows, order }) = self.0.get(&layout.base())
            && (of, rows.as_slice()) == (*layout, active)
        {
            return order.clone();
        }
        let order = product.order(sizes, layouts);
        let ordered = Ordered { layout: (*layout).clone(), rows: active.to_vec(), order: order.clone() };
        self.0.insert(layout.base(), ordered);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_remembered_of_the_same_rows_of_the_same_matrix_only() -> Result<()> {
        let config = DesignConfig::preset("hermes")?;
        let mut orders = Orders::default();
        let mut found = Vec::new();
        // A matrix of another width in the same place, the first one again, and other rows of it.
        for (cols, step) in [(5120, 3), (4096, 3), (5120, 3), (5120, 5)] {
            let layout = MatrixLayout::new(&config, 0, 4096, cols)?;
            let active: Vec<u32> = (0..200).map(|row| row * step).collect();
            let vectors = vec![f16::from_bits(0); cols as usize];
            let (active, weights) = (Some(active.as_slice()), Weights::Resident(&[]));
            let product = Product { mode: Mode::Dot, rows: 4096, cols, active, weights, vectors: &vectors };
            let sizes = product.sizes()?;
            let order = product.order(&sizes, &[&layout]);
            assert_eq!(orders.of(&product, &sizes, &[&layout]), order, "{cols} columns, each {step}th row");
            found.push(order);
        }
        assert!(found[0] != found[1] && found[0] == found[2] && found[0] != found[3]);
        Ok(())
    }
}
