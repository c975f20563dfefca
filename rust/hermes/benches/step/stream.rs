//! Activity to measure with: two-state Markov chains, and parents about as active as the child.

use ndp_hermes::predictor::{LayerTable, Parents, previous_block};
use ndp_numerics::SplitMix64;
use ndp_traces::{Activity, NeuronShape};

const DENSITY: f64 = 0.15;
/// Share of active neurons that are active in a much later token too: where the Hermes paper's figure 4a flattens.
const FAR: f64 = 0.7;
/// Tokens, played forwards and backwards, so that neighbours stay neighbours.
const TOKENS: usize = 20;

/// A kind of activity.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    /// Share of active neurons that stay active for the next token.
    pub overlap: f64,
    /// Some neurons are nearly always active, most nearly never; otherwise all equally often.
    pub skewed: bool,
    /// Neurons of a block are numbered by frequency; otherwise at random.
    pub sorted: bool,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub const CASES: [Case; 7] = [
    Case { name: "alike_0.90", overlap: 0.90, skewed: false, sorted: false },
    Case { name: "alike_0.95", overlap: 0.95, skewed: false, sorted: false },
    Case { name: "skewed_0.90", overlap: 0.90, skewed: true, sorted: false },
    Case { name: "skewed_0.95", overlap: 0.95, skewed: true, sorted: false },
    Case { name: "sorted_0.90", overlap: 0.90, skewed: true, sorted: true },
    Case { name: "sorted_0.95", overlap: 0.95, skewed: true, sorted: true },
    Case { name: "unrelated", overlap: DENSITY, skewed: false, sorted: false },
];

pub struct Stream {
    pub tokens: Vec<Activity>,
    pub frequencies: Vec<f64>,
    pub table: LayerTable,
}

fn unit(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Beta distribution with mean `DENSITY` and second moment `FAR * DENSITY`, by Johnk's method.
fn skewed_frequency(rng: &mut SplitMix64) -> f64 {
    let variance = DENSITY * (FAR - DENSITY);
    let sum = DENSITY * (1.0 - DENSITY) / variance - 1.0;
    loop {
        let x = unit(rng).powf(1.0 / (sum * DENSITY));
        let y = unit(rng).powf(1.0 / (sum * (1.0 - DENSITY)));
        if x + y > 0.0 && x + y <= 1.0 {
            return x / (x + y);
        }
    }
}

impl Stream {
    pub fn new(shape: &NeuronShape, case: Case) -> Self {
        let mut rng = SplitMix64::new(7);
        let mut by_block: Vec<Vec<f64>> = Vec::new();
        for block in shape.blocks() {
            let one = |_| if case.skewed { skewed_frequency(&mut rng) } else { DENSITY };
            by_block.push((0..block.neurons).map(one).collect());
        }
        if case.sorted {
            by_block.iter_mut().for_each(|block| block.sort_by(|a, b| b.total_cmp(a)));
        }
        let far = if case.skewed { FAR } else { DENSITY };
        let stay = (case.overlap - far) / (1.0 - far);
        let mut tokens = vec![Activity::new(shape); TOKENS];
        for (number, frequencies) in by_block.iter().enumerate() {
            for (neuron, &frequency) in frequencies.iter().enumerate() {
                let mut active = unit(&mut rng) < frequency;
                for token in &mut tokens {
                    if unit(&mut rng) >= stay {
                        active = unit(&mut rng) < frequency;
                    }
                    token.block_mut(shape, number)[neuron / 64] |= u64::from(active) << (neuron % 64);
                }
            }
        }
        let parents: Vec<Vec<Parents>> = (0..by_block.len())
            .map(|block| parents(&by_block[block], &by_block[previous_block(shape, block)], &mut rng))
            .collect();
        let table = LayerTable::new(shape, &parents).expect("the parents exist");
        Self { tokens, frequencies: by_block.concat(), table }
    }

    pub fn play(&self) -> impl Iterator<Item = &Activity> {
        let back = self.tokens[1..TOKENS - 1].iter().rev();
        self.tokens.iter().chain(back).cycle()
    }
}

/// Largest difference of rank by frequency between child and parents, as a share of the block.
const SPREAD: f64 = 0.01;

/// Two parents per child: close in rank by frequency, or random if all neurons are alike.
fn parents(children: &[f64], previous: &[f64], rng: &mut SplitMix64) -> Vec<Parents> {
    let ranked = |frequencies: &[f64]| {
        let mut order: Vec<u32> = (0..frequencies.len() as u32).collect();
        order.sort_by(|&a, &b| frequencies[b as usize].total_cmp(&frequencies[a as usize]));
        order
    };
    let alike = children.iter().all(|f| f == &children[0]);
    let candidates = ranked(previous);
    let mut all = vec![[None; 2]; children.len()];
    for (rank, child) in ranked(children).into_iter().enumerate() {
        let mut near = || {
            let place = rank as f64 / children.len() as f64 + SPREAD * (2.0 * unit(rng) - 1.0);
            let place = if alike || !(0.0..1.0).contains(&place) { unit(rng) } else { place };
            candidates[(place * candidates.len() as f64) as usize]
        };
        let first = near();
        let second = std::iter::repeat_with(near).find(|&second| second != first);
        all[child as usize] = [Some(first), second];
    }
    all
}
