//! The predictor against the paper's rules, written down one neuron at a time, over random streams, tables and rules.

use ndp_hermes::predictor::{LayerTable, NeuronStates, Parents, Predictor, PredictorKind, PredictorRules};
use ndp_numerics::SplitMix64;
use ndp_traces::{Activity, NeuronShape};

/// Hermes, section IV-C1, literally: no planes, no lists of children.
struct Naive {
    sizes: Vec<usize>,
    states: Vec<Vec<i32>>,
    parents: Vec<Vec<Parents>>,
    active: Vec<Vec<bool>>,
}

impl Naive {
    fn predicts(&self, rules: &PredictorRules, kind: PredictorKind, block: usize, neuron: usize) -> bool {
        let before = if block == 0 { self.sizes.len() - 1 } else { block - 1 };
        let s1 = self.states[block][neuron];
        let s2 = self.parents[block][neuron]
            .iter()
            .flatten()
            .filter(|&&p| self.active[before][p as usize])
            .count() as i32;
        match kind {
            PredictorKind::Both => s1 + i32::from(rules.lambda()) * s2 > i32::from(rules.threshold()),
            PredictorKind::TokenOnly => s1 > i32::from(rules.hot_threshold()),
            PredictorKind::LayerOnly => s2 == 2,
        }
    }

    fn observe(&mut self, rules: &PredictorRules, block: usize, active: Vec<bool>) {
        for (state, &active) in self.states[block].iter_mut().zip(&active) {
            *state = if active { (*state + i32::from(rules.gain())).min(15) } else { (*state - 1).max(0) };
        }
        self.active[block] = active;
    }
}

fn packed(bits: impl Iterator<Item = bool>) -> Vec<u64> {
    let bits: Vec<bool> = bits.collect();
    bits.chunks(64).map(|c| c.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit))).collect()
}

fn random_parents(rng: &mut SplitMix64, limit: u32) -> Parents {
    let first = rng.next_u64() as u32 % limit;
    let second = rng.next_u64() as u32 % limit;
    match rng.next_u64() % 8 {
        0 => [None, None],
        1 => [Some(first), None],
        _ if first == second => [Some(first), None],
        _ => [Some(first), Some(second)],
    }
}

/// Streams that change rarely, so that states reach both ends, with an occasional different token.
fn compare(shape: &NeuronShape, rules: PredictorRules, kind: PredictorKind, tokens: usize, seed: u64) {
    println!("seed {seed}, {rules:?}, {kind:?}, {} neurons", shape.neurons());
    let mut rng = SplitMix64::new(seed);
    let sizes: Vec<usize> = shape.blocks().iter().map(|block| block.neurons as usize).collect();
    let before = |block: usize| sizes[(block + sizes.len() - 1) % sizes.len()] as u32;
    let parents: Vec<Vec<Parents>> = (0..sizes.len())
        .map(|block| (0..sizes[block]).map(|_| random_parents(&mut rng, before(block))).collect())
        .collect();
    let table = LayerTable::new(shape, &parents).unwrap();
    let mut states = NeuronStates::new(shape);
    let mut naive = Naive {
        states: sizes.iter().map(|&size| vec![0; size]).collect(),
        active: sizes.iter().map(|&size| vec![false; size]).collect(),
        sizes: sizes.clone(),
        parents,
    };
    // The last tenth of each block stays at 0 for a while, so that some groups are quiet.
    for (block, &size) in sizes.iter().enumerate() {
        for neuron in 0..size * 9 / 10 {
            let state = (rng.next_u64() % 16) as u8;
            states.set_state(block, neuron as u32, state).unwrap();
            naive.states[block][neuron] = state.into();
        }
    }
    let mut predictor = Predictor::new(states, &table, rules, kind).unwrap();
    for (block, &size) in sizes.iter().enumerate() {
        let active: Vec<bool> = (0..size).map(|_| rng.next_u64().is_multiple_of(4)).collect();
        predictor.set_activity(block, &packed(active.iter().copied())).unwrap();
        naive.active[block] = active;
    }
    for token in 0..tokens {
        for (block, &size) in sizes.iter().enumerate() {
            let expected = packed((0..size).map(|neuron| naive.predicts(&rules, kind, block, neuron)));
            let mut out = vec![u64::MAX; size.div_ceil(64)];
            predictor.predict(block, &mut out).unwrap();
            assert_eq!(out, expected, "token {token} block {block}");

            let other = token % 20 == 19;
            let active = (0..size).map(|neuron| match rng.next_u64() % 16 {
                0 => !naive.active[block][neuron] && (neuron < size * 9 / 10 || token > 30),
                _ if other => rng.next_u64().is_multiple_of(4),
                _ => naive.active[block][neuron],
            });
            let active: Vec<bool> = active.collect();
            predictor.observe(block, &packed(active.iter().copied())).unwrap();
            naive.observe(&rules, block, active);

            let found = (0..size).map(|neuron| i32::from(predictor.states().state(block, neuron as u32)));
            assert!(found.eq(naive.states[block].iter().copied()), "states: token {token} block {block}");
            let mut hot = vec![0; size.div_ceil(64)];
            predictor.states().hot(&rules, block, &mut hot).unwrap();
            let is_hot = |&state: &i32| state > i32::from(rules.hot_threshold());
            assert_eq!(
                hot,
                packed(naive.states[block].iter().map(is_hot)),
                "hot: token {token} block {block}"
            );
        }
    }
}

#[test]
fn the_papers_rules_give_the_same_bits_for_every_kind_and_shape() {
    let shapes =
        [(1, 1, 2), (2, 64, 512), (3, 100, 700), (2, 513, 1537), (1, 0, 130), (2, 90, 0), (2, 2000, 511)];
    for ((layers, attention, mlp), seed) in shapes.into_iter().zip(1..) {
        for kind in PredictorKind::ALL {
            compare(&NeuronShape::new(layers, attention, mlp), PredictorRules::default(), kind, 60, seed);
        }
    }
}

#[test]
fn blocks_wider_than_16_bit_positions_reach_give_the_same_bits() {
    let shape = NeuronShape::new(1, 300, 2 * 32768 + 77);
    compare(&shape, PredictorRules::default(), PredictorKind::Both, 25, 11);
}

#[test]
fn other_rules_give_the_same_bits() {
    let shape = NeuronShape::new(2, 130, 600);
    let mut rng = SplitMix64::new(5);
    for seed in 100..200 {
        let mut below = |limit: u64| (rng.next_u64() % limit) as u8;
        let rules = PredictorRules::new(1 + below(15), below(16), below(46), below(15)).unwrap();
        for kind in PredictorKind::ALL {
            compare(&shape, rules, kind, 12, seed);
        }
    }
}

#[test]
fn every_state_moves_and_predicts_as_the_rules_say() {
    let shape = NeuronShape::new(1, 2, 16 * 2 * 3);
    for gain in 1..=15 {
        let rules = PredictorRules::new(gain, 6, 15, 10).unwrap();
        let children =
            (0..96u32).map(|n| [[None, None], [Some(0), None], [Some(0), Some(1)]][n as usize % 3]);
        let table = LayerTable::new(&shape, &[vec![[None; 2]; 2], children.collect()]).unwrap();
        let mut states = NeuronStates::new(&shape);
        (0..96).for_each(|n| states.set_state(1, n, (n / 6) as u8).unwrap());
        let mut predictor = Predictor::new(states, &table, rules, PredictorKind::Both).unwrap();
        predictor.observe(0, &[0b11]).unwrap();
        let mut out = [0; 2];
        predictor.predict(1, &mut out).unwrap();
        assert_eq!(out.to_vec(), packed((0..96).map(|n| n / 6 + 6 * (n % 3) > 15)), "gain {gain}");
        predictor.observe(1, &packed((0..96).map(|n| n / 3 % 2 == 1))).unwrap();
        for n in 0..96 {
            let state = (n / 6) as u8;
            let next = if n / 3 % 2 == 1 { (state + gain).min(15) } else { state.saturating_sub(1) };
            assert_eq!(predictor.states().state(1, n), next, "gain {gain} neuron {n}");
        }
    }
}

#[test]
fn a_parent_of_all_children_is_followed() {
    let shape = NeuronShape::new(1, 3, 1000);
    let table = LayerTable::new(&shape, &[vec![[None; 2]; 3], vec![[Some(2), Some(0)]; 1000]]).unwrap();
    let states = NeuronStates::from_frequencies(&shape, &[0.5; 1003]).unwrap();
    let mut predictor =
        Predictor::new(states, &table, PredictorRules::default(), PredictorKind::Both).unwrap();
    let mut predicted = |bits: u64| {
        predictor.observe(0, &[bits]).unwrap();
        let mut out = vec![0; 16];
        predictor.predict(1, &mut out).unwrap();
        out.iter().map(|word| word.count_ones()).sum::<u32>()
    };
    assert_eq!([predicted(0b101), predicted(0b001), predicted(0b111), predicted(0b010)], [1000, 0, 1000, 0]);
}

#[test]
fn states_alone_are_updated_as_the_predictor_does_it() {
    let shape = NeuronShape::new(1, 700, 100);
    let (rules, mut rng) = (PredictorRules::default(), SplitMix64::new(3));
    let table = LayerTable::sample(&shape, std::iter::empty()).unwrap();
    let mut states = NeuronStates::new(&shape);
    let mut predictor = Predictor::new(states.clone(), &table, rules, PredictorKind::TokenOnly).unwrap();
    for _ in 0..40 {
        let mut token = Activity::new(&shape);
        token.block_mut(&shape, 0)[..10].fill_with(|| rng.next_u64() & rng.next_u64());
        predictor.observe(0, token.block(&shape, 0)).unwrap();
        states.update(&rules, 0, token.block(&shape, 0)).unwrap();
        assert!((0..700).all(|n| states.state(0, n) == predictor.states().state(0, n)));
    }
}

#[test]
fn the_state_table_has_half_a_byte_per_neuron() {
    let model = ndp_config::LlmShape::preset("llama2-70b").unwrap();
    let states = NeuronStates::new(&NeuronShape::of(&model));
    assert_eq!(states.bytes() as u64, model.neurons() / 2);
}

#[test]
fn bad_input_is_refused_with_its_values() {
    let shape = NeuronShape::new(1, 10, 70);
    let table = LayerTable::sample(&shape, std::iter::empty()).unwrap();
    let (rules, kind) = (PredictorRules::default(), PredictorKind::Both);
    let mut predictor = Predictor::new(NeuronStates::new(&shape), &table, rules, kind).unwrap();
    let text = |r: ndp_files::Result<()>| r.unwrap_err().to_string();
    assert_eq!(text(predictor.observe(2, &[0])), "block 2 does not exist, the shape has 2");
    assert_eq!(text(predictor.observe(1, &[0])), "words of the block: 1 entries, expected 2");
    assert!(text(predictor.observe(0, &[1 << 10])).contains("0x0000000000000400"));
    assert!(text(predictor.set_activity(0, &[1 << 63])).contains("10 neurons"));
    assert_eq!(text(predictor.predict(0, &mut [0; 2])), "words of the block: 2 entries, expected 1");
    let other = NeuronStates::new(&NeuronShape::new(1, 10, 71));
    let error = Predictor::new(other, &table, rules, kind).unwrap_err().to_string();
    assert_eq!(
        error,
        "the table is for another shape: 2 blocks with 80 neurons, expected 2 blocks with 81 neurons"
    );
    let mut wrong = vec![0.5; 80];
    wrong[12] = f64::NAN;
    let error = NeuronStates::from_frequencies(&shape, &wrong).unwrap_err().to_string();
    assert_eq!(error, "frequency of neuron 2 of block 1 is NaN, it must be 0..=1");
    assert!(NeuronStates::from_frequencies(&shape, &[0.5; 79]).is_err());
    assert_eq!(text(NeuronStates::new(&shape).set_state(0, 3, 16)), "state = 16 must be in 0..=15");
    assert_eq!(text(NeuronStates::new(&shape).set_state(0, 10, 1)), "neuron = 10 must be in 0..=9");
}
