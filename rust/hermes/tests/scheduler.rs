//! Do hot/cold adjustment, remapping and migration keep their invariants for arbitrary input?

use ndp_config::{BlockKind, LlmShape, SystemConfig};
use ndp_hermes::placement::Placement;
use ndp_hermes::scheduler::remap::{Move, window_load};
use ndp_hermes::scheduler::{Migration, Residency, WindowCounts, adjust, remap};
use ndp_traces::{NeuronShape, ones};
use proptest::prelude::*;

const DIMMS: u32 = 5;

fn model() -> LlmShape {
    LlmShape::opt_like("small", 2, 70, 7, 150, 100).unwrap()
}

/// The GPU holds `gpu` bytes of neurons of [`model`], each DIMM `dimm` bytes.
fn system(gpu: u64, dimm: u64) -> SystemConfig {
    let gpu = (model().resident_bytes() + gpu) as f64 / 1e9;
    SystemConfig::from_toml(&format!(
        "name = \"small\"
         [gpu]
         memory_gb = {gpu:.12}
         workspace_gb = 0.0
         bandwidth_gbps = 900.0
         tflops = 300.0
         [bus]
         bandwidth_gbps = 64.0
         sync_us = 1.0
         [dimms]
         count = {DIMMS}
         capacity_gb = {:.12}
         bandwidth_gbps = 100.0
         link_gbps = 25.0",
        dimm as f64 / 1e9
    ))
    .unwrap()
}

/// Neurons dealt by `seed`; the GPU has every `one_in`-th.
fn residency(seed: u64, one_in: u32, gpu_bytes: u64) -> Residency {
    let (model, shape) = (model(), NeuronShape::of(&model()));
    let mut placement = Placement::new(&shape);
    for (index, block) in shape.blocks().iter().enumerate() {
        let hash = |n: u32| {
            let z = seed.wrapping_add((u64::from(n) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 32
        };
        for (n, dimm) in (0..).zip(placement.dimms_mut(index)) {
            *dimm = (hash(n) % u64::from(DIMMS)) as u8;
        }
        (0..block.neurons as usize).step_by(one_in as usize).for_each(|n| placement.set_gpu(index, n, true));
    }
    let used: u64 = shape
        .blocks()
        .iter()
        .map(|block| u64::from(block.neurons.div_ceil(one_in)) * model.neuron_bytes(block.kind))
        .sum();
    Residency::new(&model, &system(used + gpu_bytes, 3 * model.neurons_bytes() / u64::from(DIMMS)), placement)
        .unwrap()
}

fn bits(neurons: u32) -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<bool>(), neurons as usize).prop_map(|active| {
        let word = |chunk: &[bool]| chunk.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit));
        active.chunks(64).map(word).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn loads_count_each_active_neuron_once(seed: u64, active in bits(150)) {
        let residency = residency(seed, 7, 0);
        let load = residency.load(1, &active);
        prop_assert_eq!(load.gpu + load.cold(), ones(&active).count() as u32);
        let on_gpu = ones(&active).filter(|&neuron| residency.on_gpu(1, neuron)).count() as u32;
        prop_assert_eq!(load.gpu, on_gpu);
        for dimm in 0..DIMMS as u8 {
            let here = |&neuron: &u32| !residency.on_gpu(1, neuron) && residency.dimms(1)[neuron as usize] == dimm;
            prop_assert_eq!(load.dimms[usize::from(dimm)], ones(&active).filter(here).count() as u32);
        }
    }

    #[test]
    fn adjustment_brings_the_hottest_and_keeps_the_bytes(
        seed: u64, hot in bits(150), room in 0u64..4, most in 0usize..80, scores in proptest::collection::vec(0u8..16, 150),
    ) {
        let bytes = model().neuron_bytes(BlockKind::Mlp);
        let mut residency = residency(seed, 5, room * bytes);
        let before = residency.clone();
        let score = |neuron: u32| scores[neuron as usize];
        let uploads = adjust(&mut residency, 1, &hot, most, score);
        residency.check().unwrap();
        prop_assert!(uploads.len() <= most);
        for upload in &uploads {
            prop_assert!(!before.on_gpu(1, upload.neuron) && residency.on_gpu(1, upload.neuron));
            if let Some(over) = upload.over {
                prop_assert!(before.on_gpu(1, over) && !residency.on_gpu(1, over));
                prop_assert!(score(over) < score(upload.neuron));
            }
        }
        // No neuron left is hotter than one that came, and no colder neuron of the GPU could have made room.
        let left = ones(&hot).filter(|&n| !residency.on_gpu(1, n)).map(score).max();
        let came = uploads.iter().map(|upload| score(upload.neuron)).min();
        if let (Some(left), Some(came)) = (left, came) {
            prop_assert!(left <= came);
        }
        if let Some(left) = left.filter(|_| uploads.len() < most) {
            prop_assert!(ones(residency.gpu(1)).all(|n| score(n) >= left));
        }
        prop_assert_eq!(residency.gpu(0), before.gpu(0));
        prop_assert_eq!(residency.dimms(1), before.dimms(1));
    }

    #[test]
    fn remapping_never_makes_the_most_loaded_dimm_worse(
        seed: u64, tokens in proptest::collection::vec(bits(150), 1..6),
    ) {
        let mut residency = residency(seed, 6, 0);
        let mut counts = WindowCounts::new(&residency);
        tokens.iter().for_each(|active| counts.count(1, active));
        let before = window_load(&residency, 1, counts.block(1));
        let moves = remap(&residency, 1, counts.block(1));
        for step in &moves {
            prop_assert_eq!(residency.dimms(1)[step.neuron as usize], step.from);
            prop_assert!(!residency.on_gpu(1, step.neuron) && counts.block(1)[step.neuron as usize] > 0);
            // Each DIMM is in one pair, as sender or receiver.
            prop_assert!(moves.iter().all(|other| other.from != step.to && (other.from != step.from || other.to == step.to)));
            prop_assert!(residency.migrate(1, step.neuron, step.to));
        }
        residency.check().unwrap();
        let after = window_load(&residency, 1, counts.block(1));
        prop_assert_eq!(before.iter().sum::<u64>(), after.iter().sum::<u64>());
        prop_assert!(after.iter().max() <= before.iter().max());
        let spread = |load: &[u64]| load.iter().max().unwrap() - load.iter().min().unwrap();
        prop_assert!(spread(&after) <= spread(&before));
        // The pair of most and least loaded is balanced as far as single neurons allow.
        if let Some(Move { from, to, .. }) = moves.first() {
            let (from, to) = (after[usize::from(*from)], after[usize::from(*to)]);
            prop_assert!(from >= to || to - from < 1 + tokens.len() as u64);
        }
    }

    #[test]
    fn migration_conserves_bytes_and_keeps_within_the_links(
        seed: u64, active in bits(150), gaps in proptest::collection::vec(0u64..2000, 1..40),
    ) {
        let mut residency = residency(seed, 6, 0);
        let mut counts = WindowCounts::new(&residency);
        counts.count(1, &active);
        let before = residency.clone();
        let moves = remap(&residency, 1, counts.block(1));
        let planned = moves.len() as u64;
        let mut migration = Migration::default();
        migration.plan(moves);
        let mut carried = 0;
        for gap in gaps {
            let busiest = migration.advance(&mut residency, gap);
            prop_assert!(busiest <= gap);
            carried += busiest;
            residency.check().unwrap();
        }
        let bytes = model().neuron_bytes(BlockKind::Mlp);
        let elsewhere = residency.dimms(1).iter().zip(before.dimms(1)).filter(|(now, then)| now != then).count() as u64;
        prop_assert_eq!(migration.moved, elsewhere);
        prop_assert_eq!(migration.bytes, elsewhere * bytes);
        prop_assert_eq!(migration.moved + migration.dropped + migration.waiting() as u64, planned);
        prop_assert!(carried * u64::from(DIMMS / 2) >= migration.bytes);
        prop_assert_eq!(residency.dimm_used().iter().sum::<u64>(), before.dimm_used().iter().sum::<u64>());
    }
}

#[test]
fn the_most_active_neurons_go_to_the_least_loaded_dimm() {
    // Neurons 0..10 on DIMM 0: 0 and 1 active in all tokens, the others in one; none elsewhere.
    let (model, shape) = (model(), NeuronShape::of(&model()));
    let mut placement = Placement::new(&shape);
    for block in 0..shape.blocks().len() {
        placement.dimms_mut(block).iter_mut().enumerate().for_each(|(n, dimm)| *dimm = (n % 5) as u8);
    }
    placement.dimms_mut(1)[..10].fill(0);
    let mut residency = Residency::new(&model, &system(0, model.neurons_bytes()), placement).unwrap();
    let mut counts = WindowCounts::new(&residency);
    for token in 0..5 {
        counts.count(1, &[if token == 0 { 0x3FF } else { 3 }, 0, 0]);
        assert_eq!(counts.end_token(5), token == 4);
    }
    // 18 activations on DIMM 0: 13 to 5 without the first neuron, 8 to 10, which is closer, without both of five.
    let moves = remap(&residency, 1, counts.block(1));
    let moved: Vec<u32> = moves.iter().map(|step| step.neuron).collect();
    assert_eq!(moved, [0, 1]);
    assert!(moves.iter().all(|step| step.from == 0 && step.to == 4));
    // A gap for one neuron, then one for all, before which the second has gone elsewhere.
    let bytes = model.neuron_bytes(BlockKind::Mlp);
    let mut migration = Migration::default();
    migration.plan(moves);
    assert_eq!(migration.advance(&mut residency, 2 * bytes - 1), bytes);
    assert_eq!((migration.moved, migration.waiting()), (1, 1));
    residency.migrate(1, 1, 3);
    assert_eq!(migration.advance(&mut residency, 100 * bytes), 0);
    assert_eq!((migration.moved, migration.dropped, migration.waiting()), (1, 1, 0));
    assert_eq!(window_load(&residency, 1, counts.block(1)), [8, 0, 0, 5, 5]);
    // The next window finds DIMM 0 still highest; the pair of 3 and 4 does not matter to it.
    let moves = remap(&residency, 1, counts.block(1));
    assert_eq!(moves.iter().map(|step| (step.from, step.to)).collect::<Vec<_>>(), [(0, 2); 4]);
}

#[test]
fn placements_that_do_not_fit_are_refused() {
    let (model, shape) = (model(), NeuronShape::of(&model()));
    let all_on = |dimm: u8| {
        let mut placement = Placement::new(&shape);
        (0..shape.blocks().len()).for_each(|block| placement.dimms_mut(block).fill(dimm));
        placement
    };
    let fits = system(0, model.neurons_bytes());
    let error =
        |system: &SystemConfig, placement| Residency::new(&model, system, placement).unwrap_err().to_string();
    assert!(Residency::new(&model, &fits, all_on(4)).is_ok());
    assert!(error(&fits, all_on(5)).contains("DIMM 5 must be in 0..=4"));
    let small = system(0, model.neurons_bytes() - 1);
    assert!(error(&small, all_on(1)).contains("DIMM 1 holds"));
    let mut on_gpu = all_on(0);
    on_gpu.set_gpu(0, 0, true);
    assert!(error(&fits, on_gpu).contains("the GPU holds 0 bytes"));
    let other = Placement::new(&NeuronShape::new(1, 8, 16));
    assert!(error(&fits, other).starts_with("neurons = 24 must be "));
}
