//! Gated MLPs on one core: the gate's results stay in the buffer, and FC2 takes them (after a ReLU the positive ones)
//! times another matrix's products. RTL and model, against software.

use super::partial::Cut;
use super::product::{Product, Weights};
use super::unit::{GemvOptions, GemvUnit};
use crate::core::{Backend, CoreOptions};
use crate::stimulus::DataKind;
use ndp_config::DesignConfig;
use ndp_isa::Activation;
use ndp_isa::Condition;
use ndp_isa::layout::{DimmMap, MatrixLayout};
use ndp_isa::planner::{Epilogue, KeptOutputs, Mode, Tile};
use ndp_numerics::{ExactSum, dot, f16, mul, relu, silu};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

const ROWS: u32 = 300;
const COLS: u32 = 128;

/// Gate, up and FC2 in the DRAM of a core, a row for each neuron.
struct Mlp {
    unit: GemvUnit,
    tiles: [Tile; 3],
    rows: [Vec<Vec<f16>>; 3],
}

impl Mlp {
    fn open(backend: Backend) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::preset("tiny")?;
        let (mut unit, backdoor) =
            GemvUnit::open(&config, &GemvOptions::from(CoreOptions { backend, ..CoreOptions::default() }))?;
        let mut map = DimmMap::new(&config);
        let mut add =
            |name| -> Result<MatrixLayout, Box<dyn Error>> { Ok(map.add_matrix(name, ROWS, COLS)?) };
        let layouts = [add("gate")?, add("up")?, add("fc2")?];
        let rows = [1, 2, 3].map(|seed| {
            let values = DataKind::Gaussian.weights(ROWS as usize, COLS as usize, seed);
            values.chunks(COLS as usize).map(<[f16]>::to_vec).collect::<Vec<_>>()
        });
        unit.occupy(map);
        for (layout, rows) in layouts.iter().zip(&rows) {
            (0..).zip(rows).for_each(|(row, values)| unit.poke_row(&backdoor, layout, row, values));
        }
        Ok(Self { unit, tiles: layouts.map(|layout| (0, layout)), rows })
    }

    /// Gate and product of a neuron.
    fn factors(&self, function: fn(f16) -> f16, row: u32, x: &[f16]) -> [f16; 2] {
        let [gate, up, _] = &self.rows;
        [function(dot(&gate[row as usize], x)), dot(&up[row as usize], x)]
    }
}

/// Some of the rows, unordered.
fn active() -> Vec<u32> {
    (0..ROWS).filter(|row| row % 3 != 1).map(|row| row * 7 % ROWS).collect()
}

fn vectors(batch: u32) -> Vec<f16> {
    DataKind::Gaussian.weights(batch as usize, COLS as usize, 9)
}

#[test]
fn fc2_takes_what_a_kept_gate_lets_through() -> Outcome {
    kept_gate((Activation::Relu, relu), Some(Condition::POSITIVE))
}

#[test]
fn fc2_takes_all_results_of_a_gate_that_is_not_relu() -> Outcome {
    kept_gate((Activation::Silu, silu), None)
}

#[test]
fn fc2_takes_results_of_a_gate_above_a_threshold() -> Outcome {
    kept_gate((Activation::Silu, silu), Some(Condition::magnitude(f16::from_f64(0.2))))
}

fn kept_gate((activation, function): (Activation, fn(f16) -> f16), condition: Option<Condition>) -> Outcome {
    for (backend, batch) in [(Backend::Rtl, 1), (Backend::Rtl, 2), (Backend::Cycles, 2)] {
        let mut mlp = Mlp::open(backend)?;
        let (active, x) = (active(), vectors(batch));
        let config = mlp.unit.config().clone();
        let kept = KeptOutputs::new(&config, (COLS, active.len() as u32, batch), COLS, (true, condition));
        let kept = kept.ok_or("there is room for this")?;
        let [gate, up, fc2] = mlp.tiles.clone();
        let product = Product {
            mode: Mode::Dot,
            rows: ROWS,
            cols: COLS,
            active: Some(&active),
            weights: Weights::Resident(std::slice::from_ref(&gate)),
            vectors: &x,
        };
        let epilogue = Epilogue { activation: Some(activation), ..Epilogue::default() };
        let (run, met) = mlp.unit.alone(async |unit| {
            let run = unit.product_kept_async(&product, &epilogue, Some((&kept, &fc2.1))).await?;
            unit.begin_partial_of_kept((&fc2.1, Some(&up.1)), &[])?;
            let met =
                unit.meet_async((batch, &Cut::all(COLS)), &[], true, &Epilogue::default(), None).await?;
            Ok((run, met))
        })?;
        let mut sums = vec![ExactSum::default(); (COLS * batch) as usize];
        let mut selected = 0;
        for (k, &row) in active.iter().enumerate() {
            let factors: Vec<[f16; 2]> =
                x.chunks(COLS as usize).map(|x| mlp.factors(function, row, x)).collect();
            for (vector, [gate, _]) in factors.iter().enumerate() {
                assert_eq!(run.bits[vector * active.len() + k], gate.to_bits(), "row {row}, vector {vector}");
            }
            let taken = |gate: f16| condition.is_none_or(|condition| condition.passes(gate));
            selected += usize::from(factors.iter().any(|[gate, _]| taken(*gate)));
            for (vector, [gate, up]) in factors.into_iter().enumerate() {
                let gate = if taken(gate) { gate } else { f16::ZERO };
                let own = sums[vector * COLS as usize..].iter_mut().zip(&mlp.rows[2][row as usize]);
                own.for_each(|(sum, weight)| sum.mul_add(*weight, mul(gate, up)));
            }
        }
        let expected: Vec<u16> = sums.iter().map(|sum| sum.round().to_bits()).collect();
        assert_eq!(met.bits, expected, "batch {batch}");
        let all = selected == active.len();
        let expected = if condition.is_none() { all } else { batch > 1 || !all };
        assert!(selected > active.len() / 3 && expected, "{selected}");
    }
    Ok(())
}
