//! Places of a model's weights: one for each weight, with an inverse, and slots that neurons can move between.

use ndp_config::{BlockKind, DesignConfig, LlmShape};
use ndp_isa::layout::{DimmMap, MatrixPlace, RowRange};
use ndp_isa::planner::{Home, ModelImage, Slots, Weight, WeightMatrix};
use std::collections::HashSet;

fn shapes() -> Vec<(DesignConfig, LlmShape)> {
    let configs = ["tiny", "hermes", "hermes-32"].map(|name| DesignConfig::preset(name).unwrap());
    let shapes = [
        LlmShape::opt_like("short", 2, 96, 3, 200, 256).unwrap(),
        LlmShape::opt_like("tails", 1, 1152, 9, 300, 256).unwrap(),
    ];
    configs.iter().flat_map(|config| shapes.iter().map(|shape| (config.clone(), shape.clone()))).collect()
}

fn slots(config: &DesignConfig, shape: &LlmShape) -> Slots {
    let homes: Vec<Vec<u32>> = (0..2 * shape.layers() as usize)
        .map(|block| (0..shape.block_neurons(BlockKind::of_block(block))).map(|n| n * n % 7 % 3).collect())
        .collect();
    Slots::new(config, 3, &homes, true)
}

#[test]
fn every_weight_has_one_place_and_every_place_one_weight() {
    for (config, shape) in shapes() {
        let slots = slots(&config, &shape);
        let mut map = DimmMap::new(&config);
        let mut image = ModelImage::place(&mut map, &config, &shape, &slots.sizes(), 1).unwrap();
        let ranks: Vec<u32> = (1..=shape.layers()).map(|layer| 23 * layer).collect();
        image.place_predictors(&mut map, (&ranks, shape.hidden()), true).unwrap();
        let mut taken = HashSet::new();
        for (layer, &rank) in ranks.iter().enumerate() {
            let layout = image.predictor(layer).unwrap();
            assert_eq!((layout.rows(), layout.cols()), (rank, shape.hidden()));
            assert!((0..rank).all(|row| (0..layout.cols()).all(|col| taken.insert(layout.locate(row, col)))));
        }
        for block in 0..image.blocks() {
            let of_model = WeightMatrix::of(BlockKind::of_block(block), &shape).to_vec();
            let own = [WeightMatrix::Predictor, WeightMatrix::Bias];
            let own = own.into_iter().filter(|_| BlockKind::of_block(block) == BlockKind::Mlp);
            for matrix in of_model.into_iter().chain(own) {
                let mut col = 0;
                for (first, layout) in image.tiles(block, matrix) {
                    assert_eq!((*first, layout.rows()), (col, image.slots(block)));
                    for slot in (0..image.slots(block)).step_by(7) {
                        for within in 0..layout.cols() {
                            let place = layout.locate(slot, within);
                            assert!(taken.insert(place), "{place:?} of {} is taken twice", config.name());
                            let weight = Weight { block, matrix, slot, col: first + within };
                            assert_eq!(image.weight_at(place), Some(weight));
                        }
                    }
                    col += layout.cols();
                }
                assert_eq!(col, matrix.cols(&shape).unwrap_or(ranks[block / 2]));
            }
        }
        let behind = MatrixPlace { rank: 0, burst: map.used_bursts() as u32, element: 0 };
        assert_eq!(image.weight_at(behind), None);
    }
}

#[test]
fn ranges_hold_a_row_and_little_else_and_match_those_of_slots_alike() {
    for (config, shape) in shapes() {
        let slots = slots(&config, &shape);
        let ranks = config.gemv().ranks();
        let image =
            ModelImage::place(&mut DimmMap::new(&config), &config, &shape, &slots.sizes(), 1).unwrap();
        for block in 0..image.blocks() {
            for (_, layout) in image.matrices(block).iter().flat_map(|(_, tiles)| tiles) {
                for slot in 0..image.slots(block) {
                    let bursts: Vec<(u32, u32)> =
                        layout.row_ranges(slot).iter().flat_map(bursts_of).collect();
                    let mut held: Vec<(u32, u32)> =
                        layout.row_places(slot).iter().map(|place| (place.rank, place.burst)).collect();
                    held.sort_unstable();
                    let mut sorted = bursts.clone();
                    sorted.sort_unstable();
                    assert_eq!(sorted, held, "{} slot {slot}", config.name());
                    // Same order of elements as in a slot that is equal modulo the ranks.
                    let other = slot % ranks;
                    let others: Vec<(u32, u32)> =
                        layout.row_ranges(other).iter().flat_map(bursts_of).collect();
                    for (at, from) in bursts.iter().zip(&others) {
                        let element = |(rank, burst): &(u32, u32)| {
                            let place = MatrixPlace { rank: *rank, burst: *burst, element: 0 };
                            layout.element_at(place).map(|(_, col)| col)
                        };
                        assert_eq!(element(at), element(from), "{} slots {slot}, {other}", config.name());
                    }
                }
            }
        }
    }
}

fn bursts_of(range: &RowRange) -> Vec<(u32, u32)> {
    let RowRange { address, count, ranks } = *range;
    let of_burst = |burst| (0..32).filter(move |rank| ranks >> rank & 1 == 1).map(move |rank| (rank, burst));
    (address..address + count).flat_map(of_burst).collect()
}

#[test]
fn neurons_move_to_free_slots_that_are_alike() {
    let config = DesignConfig::preset("hermes").unwrap();
    let shape = LlmShape::opt_like("short", 1, 96, 3, 200, 256).unwrap();
    let mut slots = slots(&config, &shape);
    let sizes = slots.sizes();
    assert!(sizes.iter().all(|size| size.is_multiple_of(4)), "{sizes:?}");
    let (mut moved, mut stayed) = (0, 0);
    for neuron in 0..200 {
        let from = slots.home(1, neuron);
        if from.dimm == 2 {
            continue;
        }
        let Some(to) = slots.reserve(1, neuron, 2) else {
            stayed += 1;
            continue;
        };
        assert_eq!((to.dimm, to.slot % 4), (2, from.slot % 4));
        assert_eq!(slots.home(1, neuron), from, "until its weights have come");
        if neuron % 5 == 0 {
            slots.give_back(1, to);
            assert_eq!(slots.reserve(1, neuron, 2), Some(to), "it is free again");
        }
        slots.settle(1, neuron, to);
        assert_eq!(slots.home(1, neuron), to);
        moved += 1;
    }
    assert!(moved >= 8 && stayed > 0, "{moved} moved, {stayed} stayed");
    let homes: HashSet<Home> = (0..200).map(|neuron| slots.home(1, neuron)).collect();
    assert_eq!(homes.len(), 200, "no slot has two neurons");
}

#[test]
fn a_model_that_is_too_large_is_refused_by_name() {
    let config = DesignConfig::preset("tiny").unwrap();
    let shape = LlmShape::opt_like("large", 2, 1024, 8, 4096, 256).unwrap();
    let error = ModelImage::place(&mut DimmMap::new(&config), &config, &shape, &[1 << 23; 4], 1).unwrap_err();
    assert!(error.to_string().contains("layer 0 k 0"), "{error}");
}
