//! Do tiles fit, cover every column, and cost no more than they must?

use ndp_config::{DesignConfig, RowLayout};
use ndp_isa::layout::{ColumnTile, column_tiles};

#[test]
fn tiles_cover_all_columns_and_fit_the_buffer() {
    for preset in DesignConfig::PRESETS {
        let config = DesignConfig::preset(preset).unwrap();
        let gemv = config.gemv();
        let words = |n| RowLayout::new(gemv, n).words_per_vector();
        for cols in [1, 100, 511, 512, 1536, 2048, 3000, 3584, 4096, 5120, 7168, 13_824, 36_864, 50_272] {
            for batch in [1, 2, 3, 4, 5, 8, 16] {
                for count in [1, 410, 1000] {
                    let all = gemv.slice_words();
                    let tiling = match column_tiles(&config, cols, batch, count, all) {
                        Ok(tiling) => tiling,
                        Err(error) => {
                            let needed = gemv.lanes() + words(count);
                            assert!(needed > all);
                            let text = "words of accumulators and factors do not fit";
                            assert_eq!(
                                error.to_string(),
                                format!("{needed} {text}, {all} of the buffer are free")
                            );
                            continue;
                        }
                    };
                    let mut next = 0;
                    for tile in &tiling.tiles {
                        assert!(tile.first == next && tile.cols > 0, "{preset}, {cols}: {tiling:?}");
                        next += tile.cols;
                        let last = next == cols;
                        assert!(last || tile.cols % gemv.stripe_elems() == 0, "{preset}, {cols}: {tiling:?}");
                        for &pass in &tiling.passes {
                            let used = (words(tile.cols) * gemv.lanes() + words(count)) * pass;
                            assert!(used <= all, "{preset}, {cols} x {batch}: {tiling:?}");
                        }
                    }
                    assert_eq!(next, cols);
                    assert_eq!(tiling.passes.iter().sum::<u32>(), batch);
                    assert!(tiling.passes.iter().all(|pass| (1..=gemv.max_batch()).contains(pass)));
                    assert!(tiling.accumulator_words + tiling.factor_words <= all);
                }
            }
        }
    }
}

#[test]
fn the_papers_unit_keeps_four_vectors_in_a_pass() {
    let config = DesignConfig::preset("hermes").unwrap();
    let tiling = |cols, batch| column_tiles(&config, cols, batch, 410, 64).unwrap();
    // 64 words: four vectors of a one-word tile take 4 * (8 + 1) = 36. With two words only three vectors would fit.
    for (cols, tiles) in [(4096, 2), (8192, 4), (12_288, 6)] {
        let four = tiling(cols, 4);
        assert_eq!((four.passes, four.tiles.len()), (vec![4], tiles));
        assert!(four.tiles.iter().all(|tile| tile.cols == 2048));
    }
    // From four vectors upward reading is hidden, so 16 vectors cost 16 windows in three passes.
    let sixteen = tiling(4096, 16);
    assert!(sixteen.passes.iter().all(|pass| *pass >= 4), "{sixteen:?}");
    assert_eq!(sixteen.passes.len(), 3);
    assert_eq!(sixteen.cycles_per_row, 16.0 * 11.0 * 2.0);
    // At batch 1 the fewest tiles win: 7 words of accumulators, 2048 columns each.
    let one = tiling(13_824, 1);
    assert_eq!(one.tiles.len(), 2, "{one:?}");
}

#[test]
fn three_left_over_stripes_are_two_tiles_when_words_are_short() {
    let config = DesignConfig::preset("hermes").unwrap();
    let tiling = column_tiles(&config, 3584, 4, 410, 64).unwrap();
    // 2048 columns, then 1536: three stripes would take three words, but two take one.
    let tile = |first, cols| ColumnTile { first, cols };
    assert_eq!(tiling.tiles, [tile(0, 2048), tile(2048, 1024), tile(3072, 512)]);
}

#[test]
fn what_cannot_fit_is_refused_with_both_numbers() {
    let config = DesignConfig::preset("hermes").unwrap();
    let error = column_tiles(&config, 4096, 1, 410, 8).unwrap_err();
    assert_eq!(error.to_string(), "9 words of accumulators and factors do not fit, 8 of the buffer are free");
    assert!(column_tiles(&config, 0, 1, 1, 64).is_err() && column_tiles(&config, 1, 0, 1, 64).is_err());
    assert!(column_tiles(&config, 1, 1, 0, 64).is_err() && column_tiles(&config, 1, 1, 1, 65).is_err());
}
