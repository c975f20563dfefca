//! Properties of the cut of a row over the ranks, for every preset and many row lengths.

use ndp_config::{DesignConfig, GemvConfig, GemvShape, RowLayout};
use std::collections::BTreeSet;

/// Row lengths: all short ones, those around every stripe boundary of a few waves, the longest, and random ones.
fn lengths(config: &GemvConfig) -> Vec<u32> {
    let stripe = config.stripe_elems();
    let mut all: BTreeSet<u32> = (1..=40).collect();
    for stripes in 1..=3 * config.ranks() + 1 {
        all.extend([stripes * stripe - 1, stripes * stripe, stripes * stripe + 1]);
    }
    all.extend([4096, 5120, 9216, 13_824, config.max_cols() - 1, config.max_cols()]);
    let mut state = 0x9E37_79B9_u32;
    for _ in 0..300 {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        all.insert(1 + state % config.max_cols());
    }
    all.into_iter().filter(|cols| *cols <= config.max_cols()).collect()
}

fn for_all(check: impl Fn(&GemvConfig, u32, &RowLayout)) {
    for preset in DesignConfig::PRESETS {
        let design = DesignConfig::preset(preset).unwrap();
        let lengths = lengths(design.gemv());
        assert!(lengths.len() > 300, "{preset}: only {} lengths", lengths.len());
        for cols in lengths {
            check(design.gemv(), cols, &RowLayout::new(design.gemv(), cols));
        }
    }
}

#[test]
fn every_stripe_of_every_row_is_on_exactly_one_rank() {
    for_all(|config, cols, layout| {
        for row in [0, 1, 2, 3, 4, 5, 1023, config.max_rows() - 1] {
            let mut taken: Vec<u32> =
                (0..config.ranks()).flat_map(|rank| layout.stripes_of(row, rank)).collect();
            taken.sort_unstable();
            assert_eq!(
                taken,
                (0..layout.stripes()).collect::<Vec<_>>(),
                "{} ranks, {cols}, row {row}",
                config.ranks()
            );
        }
    });
}

#[test]
fn stripes_hold_every_element_once() {
    for_all(|config, cols, layout| {
        let sizes: Vec<u32> = (0..layout.stripes()).map(|stripe| layout.elems_of(stripe)).collect();
        assert_eq!(sizes.iter().sum::<u32>(), cols);
        assert!(sizes.iter().all(|size| (1..=config.stripe_elems()).contains(size)), "{cols}: {sizes:?}");
        assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == config.stripe_elems()), "{cols}");
    });
}

#[test]
fn full_waves_stay_on_their_rank_and_come_first() {
    for_all(|config, cols, layout| {
        for rank in 0..config.ranks() {
            for row in 0..4 {
                let stripes: Vec<u32> = layout.stripes_of(row, rank).collect();
                let waves = layout.full_waves as usize;
                let expected: Vec<u32> =
                    (0..layout.full_waves).map(|wave| wave * config.ranks() + rank).collect();
                assert_eq!(stripes[..waves], expected, "{cols}, row {row}, rank {rank}");
                assert!(stripes.len() <= waves + 1, "{cols}: a rank takes one tail stripe at most");
            }
        }
    });
}

#[test]
fn the_load_is_even_over_as_many_rows_as_there_are_ranks() {
    for_all(|config, cols, layout| {
        let ranks = config.ranks();
        for first in [0, 1, 77] {
            let load =
                |rank| (first..first + ranks).map(|row| layout.stripes_of(row, rank).count()).sum::<usize>();
            for rank in 0..ranks {
                assert_eq!(load(rank), layout.stripes() as usize, "{cols}, rank {rank}, rows from {first}");
            }
        }
        // A rank is ahead by the stripes of a tail at most, or by the stripes that a wave has more.
        let ahead = layout.tail_stripes.min(ranks - layout.tail_stripes) as usize;
        let mut loads = vec![0; ranks as usize];
        for row in 0..2 * ranks {
            for (rank, load) in loads.iter_mut().enumerate() {
                *load += layout.stripes_of(row, rank as u32).count();
            }
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= ahead, "{cols}: {loads:?} after row {row}");
        }
    });
}

#[test]
fn words_per_vector_are_what_a_rank_meets_over_all_rows() {
    for_all(|config, cols, layout| {
        for rank in 0..config.ranks() {
            let met: BTreeSet<u32> = (0..8).flat_map(|row| layout.stripes_of(row, rank)).collect();
            assert_eq!(met.len(), layout.words_per_vector() as usize, "{cols}, rank {rank}: {met:?}");
        }
    });
}

#[test]
fn the_largest_batch_is_the_last_one_that_fits() {
    for_all(|config, cols, _| {
        let fits = |batch| GemvShape { rows: 1, cols, batch }.check(config).is_ok();
        let most = GemvShape::max_batch(config, cols);
        assert!(most == 0 || fits(most), "{cols} at batch {most}");
        assert!(!fits(most + 1), "{cols} at batch {}", most + 1);
    });
}

#[test]
fn rows_without_elements_have_neither_stripes_nor_a_batch() {
    let design = DesignConfig::preset("hermes").unwrap();
    let layout = RowLayout::new(design.gemv(), 0);
    assert_eq!((layout.stripes(), layout.elems_of(0), layout.elems_of(u32::MAX)), (0, 0, 0));
    assert_eq!(GemvShape::max_batch(design.gemv(), 0), 0);
}

#[test]
fn the_longest_row_fits_at_batch_one() {
    for preset in DesignConfig::PRESETS {
        let design = DesignConfig::preset(preset).unwrap();
        let shape = GemvShape { rows: 1, cols: design.gemv().max_cols(), batch: 1 };
        shape.check(design.gemv()).unwrap_or_else(|e| panic!("{preset}: {e}"));
    }
}
