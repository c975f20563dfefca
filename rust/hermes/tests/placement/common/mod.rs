//! Small random problems, and problems as text.

use ndp_hermes::placement::{Instance, Machine, Options, Terms};
use ndp_numerics::SplitMix64;
use ndp_traces::NeuronShape;
use std::collections::BTreeMap;

pub fn below(rng: &mut SplitMix64, n: u64) -> u64 {
    rng.next_u64() % n
}

#[derive(Clone, Copy)]
pub struct Sizes {
    pub layers: u32,
    pub attention: u32,
    pub mlp: u32,
    pub dimms: u32,
    pub group: u32,
}

pub fn frequencies(rng: &mut SplitMix64, shape: &NeuronShape) -> Vec<Vec<f32>> {
    let mut block = |neurons: u32| {
        let skew = below(rng, 4) as i32;
        (0..neurons)
            .map(|_| ((below(rng, 1001) as f32 / 1000.0).powi(skew) - 0.1 * below(rng, 2) as f32).max(0.0))
            .collect()
    };
    shape.blocks().iter().map(|of| block(of.neurons)).collect()
}

/// A GPU of random size competes with DIMMs, which have room for `spare` times the neurons.
pub fn problem(seed: u64, sizes: Sizes, spare: f64) -> (Instance, Vec<Vec<f32>>) {
    let mut rng = SplitMix64::new(seed);
    let shape = NeuronShape::new(sizes.layers, sizes.attention, sizes.mlp);
    let neuron_bytes = [1 + below(&mut rng, 2000), 1 + below(&mut rng, 3000)];
    let all: u64 = shape.blocks().iter().map(|b| u64::from(b.neurons) * neuron_bytes[b.kind as usize]).sum();
    let machine = Machine {
        gpu_bytes: below(&mut rng, all + 1),
        gpu_gbps: [1.0, 5.0, 50.0][below(&mut rng, 3) as usize],
        sync_us: [0.0, 0.01, 0.3][below(&mut rng, 3) as usize],
        dimms: sizes.dimms,
        dimm_bytes: (all as f64 * spare / f64::from(sizes.dimms)).ceil() as u64 + 3000,
        dimm_gbps: 1.0,
        kv_bytes: 0,
        ssd_gbps: None,
    };
    let frequencies = frequencies(&mut rng, &shape);
    let terms = if below(&mut rng, 2) == 0 { Terms::Layer } else { Terms::Block };
    let options = Options { group_neurons: sizes.group, terms, kv_tokens: 0 };
    let instance = Instance::with_machine(shape, neuron_bytes, machine, &frequencies, &options).unwrap();
    (instance, frequencies)
}

/// A row in LP format: name, coefficients, relation, right side.
pub type Row = (String, BTreeMap<String, f64>, String, f64);

pub fn rows(text: &str) -> (BTreeMap<String, f64>, Vec<Row>) {
    let body = &text[text.find(" obj:").unwrap()..text.find("Binaries").unwrap()];
    let words: Vec<&str> = body.split_whitespace().filter(|word| !["Subject", "To"].contains(word)).collect();
    let mut rows: Vec<Row> = Vec::new();
    let (mut sign, mut factor) = (1.0, 1.0);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(row) = rows.last_mut().filter(|_| !word.ends_with(':')) else {
            rows.push((word.trim_end_matches(':').to_owned(), BTreeMap::new(), String::new(), 0.0));
            continue;
        };
        match word {
            "+" => sign = 1.0,
            "-" => sign = -1.0,
            "<=" | ">=" | "=" => {
                row.2 = word.to_owned();
                row.3 = words.next().unwrap().parse().unwrap();
            }
            _ if word.parse::<f64>().is_ok() => factor = word.parse().unwrap(),
            _ => {
                assert!(row.1.insert(word.to_owned(), sign * factor).is_none(), "{word} twice in {}", row.0);
                (sign, factor) = (1.0, 1.0);
            }
        }
    }
    let objective = rows.remove(0).1;
    (objective, rows)
}
