//! The correlation table: sampling, stored contents, refusals, and independence of the order of the neurons.

use ndp_hermes::predictor::{
    Confusion, LayerTable, Parents, PredictorKind, PredictorRules, evaluate, previous_block,
};
use ndp_numerics::SplitMix64;
use ndp_traces::{Activity, NeuronShape};

fn random_tokens(shape: &NeuronShape, count: usize, seed: u64) -> Vec<Activity> {
    let mut rng = SplitMix64::new(seed);
    let mut token = Activity::new(shape);
    let mut tokens = Vec::new();
    for _ in 0..count {
        for (number, block) in shape.blocks().iter().enumerate() {
            for neuron in 0..block.neurons {
                // Neuron 0 never, neuron 1 always, the others from rarely to often, with rare changes.
                let active = neuron == 1 || rng.next_u64() % 64 < u64::from(neuron);
                if rng.next_u64().is_multiple_of(3) || neuron == 1 {
                    let word = &mut token.block_mut(shape, number)[neuron as usize / 64];
                    *word = *word & !(1 << (neuron % 64)) | u64::from(active) << (neuron % 64);
                }
            }
        }
        tokens.push(token.clone());
    }
    tokens
}

/// Jaccard index of all pairs, by definition.
fn naive_parents(shape: &NeuronShape, tokens: &[Activity], block: usize, child: u32) -> Parents {
    let before = previous_block(shape, block);
    let bit =
        |token: &Activity, block, n: u32| token.block(shape, block)[n as usize / 64] >> (n % 64) & 1 == 1;
    let pairs: Vec<(&Activity, &Activity)> = if block > 0 {
        tokens.iter().zip(tokens).collect()
    } else {
        tokens[1..].iter().zip(tokens).collect()
    };
    let mut found: Vec<(u64, u64, u32)> = Vec::new();
    for parent in 0..shape.blocks()[before].neurons {
        let both = pairs.iter().filter(|(t, p)| bit(t, block, child) && bit(p, before, parent)).count();
        let either = pairs.iter().filter(|(t, p)| bit(t, block, child) || bit(p, before, parent)).count();
        if both > 0 {
            found.push((both as u64, either as u64, parent));
        }
    }
    found.sort_by(|a, b| (b.0 * a.1).cmp(&(a.0 * b.1)).then(a.2.cmp(&b.2)));
    [found.first().map(|f| f.2), found.get(1).map(|f| f.2)]
}

#[test]
fn sampled_parents_are_the_two_best_of_all_pairs() {
    for (shape, count) in [
        (NeuronShape::new(2, 20, 75), 130),
        (NeuronShape::new(1, 66, 9), 64),
        (NeuronShape::new(3, 0, 12), 9),
        // Most are like another one.
        (NeuronShape::new(2, 70, 40), 3),
    ] {
        let tokens = random_tokens(&shape, count, count as u64);
        let table = LayerTable::sample(&shape, tokens.iter().cloned()).unwrap();
        for (number, block) in shape.blocks().iter().enumerate() {
            for child in 0..block.neurons {
                let expected = naive_parents(&shape, &tokens, number, child);
                assert_eq!(table.parents(number, child), expected, "block {number} neuron {child}");
            }
            assert_eq!(table.parents(number, 0), [None, None], "never active");
        }
    }
}

#[test]
fn a_table_survives_being_saved_and_every_damage_is_found() {
    let shape = NeuronShape::new(2, 7, 5);
    let table = LayerTable::sample(&shape, random_tokens(&shape, 50, 1).into_iter()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    table.save(&path).unwrap();
    assert_eq!(LayerTable::load(&path).unwrap(), table);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing but the table");
    let good = std::fs::read(&path).unwrap();
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 1 << (byte % 8);
        std::fs::write(&path, &bad).unwrap();
        assert!(LayerTable::load(&path).is_err(), "byte {byte}");
    }
    for length in 0..good.len() {
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(LayerTable::load(&path).is_err(), "length {length}");
    }
    let mut bad = good.clone();
    bad[30] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let error = LayerTable::load(&path).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("table"), "{error}");
    assert!(LayerTable::load(&directory.path().join("none")).unwrap_err().to_string().contains("none"));
    assert!(table.save(&directory.path().join("no/where")).is_err());
}

#[test]
fn parents_that_cannot_be_are_refused() {
    let shape = NeuronShape::new(1, 2, 3);
    let with = |parents: Parents| {
        LayerTable::new(&shape, &[vec![[None; 2]; 2], vec![[None; 2], parents, [None; 2]]])
    };
    assert!(with([Some(0), Some(1)]).is_ok());
    for parents in [[Some(2), None], [Some(1), Some(1)], [None, Some(0)], [Some(0), Some(9)]] {
        let error = with(parents).unwrap_err().to_string();
        assert!(error.starts_with("neuron 1 of block 1: parents"), "{error}");
    }
    assert!(LayerTable::new(&shape, &[]).is_err());
    assert!(LayerTable::new(&shape, &[vec![[None; 2]; 2], vec![[None; 2]; 2]]).is_err());
}

#[test]
fn predictions_are_counted_by_what_was_and_what_was_predicted() {
    let mut counts = Confusion::default();
    counts.count(70, &[0b0111, 1], &[0b1011, 0]);
    let expected =
        Confusion { true_positives: 2, false_positives: 2, false_negatives: 1, true_negatives: 65 };
    assert_eq!(counts, expected);
    assert_eq!((counts.accuracy(), counts.precision(), counts.recall()), (67.0 / 70.0, 0.5, 2.0 / 3.0));
}

#[test]
fn a_sequence_that_is_too_short_is_refused() {
    let shape = NeuronShape::new(1, 4, 4);
    let table = LayerTable::sample(&shape, std::iter::empty()).unwrap();
    let run = |prefill, count: usize| {
        let tokens = vec![Activity::new(&shape); count];
        evaluate(&shape, &table, PredictorRules::default(), PredictorKind::Both, prefill, tokens.into_iter())
    };
    assert!(run(3, 4).is_ok());
    assert_eq!(
        run(0, 4).unwrap_err().to_string(),
        format!("tokens of the prefill = 0 must be in 1..={}", u64::MAX)
    );
    assert!(run(4, 4).unwrap_err().to_string().starts_with("tokens behind the prefill = 0"));
}
