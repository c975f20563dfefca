//! Does ordering a list remove the conflicts, and keep the ranks even?

use ndp_config::DesignConfig;
use ndp_isa::layout::{MatrixLayout, measure_order, order_rows};
use ndp_numerics::SplitMix64;

fn random_list(random: &mut SplitMix64, rows: u32, percent: u64) -> Vec<u32> {
    (0..rows).filter(|_| random.next_u64() % 100 < percent).collect()
}

#[test]
fn random_lists_lose_their_conflicts_and_stay_even() {
    for preset in ["hermes", "hermes-x8"] {
        random_lists_lose_their_conflicts(&DesignConfig::preset(preset).unwrap());
    }
}

fn random_lists_lose_their_conflicts(config: &DesignConfig) {
    let mut random = SplitMix64::new(11);
    let mut before_total = 0;
    for cols in [4096, 5120, 7168, 8192, 9216, 12_288, 13_824, 4608, 5000] {
        for percent in [10, 3, 40] {
            let layout = MatrixLayout::new(config, 0x300, 16_384, cols).unwrap();
            let given = random_list(&mut random, 8192, percent);
            let before = measure_order(&layout, &given);
            let mut rows = given.clone();
            order_rows(&[&layout], &mut rows);
            let after = measure_order(&layout, &rows);
            println!("{cols} columns, {} rows: {before:?} -> {after:?}", rows.len());
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, given, "the same rows");
            assert!(after.conflicts <= 1, "{cols}, {percent} %: {after:?} of {}", rows.len());
            assert!(after.imbalance <= 2 && after.rank_imbalance <= 2, "{cols}, {percent} %: {after:?}");
            before_total += before.conflicts;
        }
    }
    assert!(before_total > 0, "there was nothing to do");
}

#[test]
fn a_shuffled_list_is_as_good_as_a_sorted_one_in_what_matters() {
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::new(&config, 0, 16_384, 5120).unwrap();
    let mut random = SplitMix64::new(12);
    let mut rows = random_list(&mut random, 4096, 10);
    for i in (1..rows.len()).rev() {
        rows.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
    }
    let before = measure_order(&layout, &rows);
    order_rows(&[&layout], &mut rows);
    let after = measure_order(&layout, &rows);
    assert!(before.conflicts > rows.len() / 10 && before.imbalance > 3, "{before:?}");
    assert!(after.conflicts <= 4 && after.imbalance <= 2, "{after:?}");
}

#[test]
fn conflicts_are_counted_where_a_bank_changes_its_row() {
    // 32 bursts per row and rank: eight rows share a DRAM row, and bank 0 comes again after 32 rows.
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::new(&config, 0, 4096, 4096).unwrap();
    let conflicts = |rows: &[u32]| measure_order(&layout, rows).conflicts;
    assert_eq!(conflicts(&[0, 1, 7, 8, 16, 24]), 0);
    assert_eq!(conflicts(&[0, 32, 64, 33, 34]), 3);
    assert_eq!(conflicts(&[7, 39]), 1);
    // A row over two banks: 144 bursts, rows 0 and 1 share bank 0, row 1 ends in bank 1.
    let layout = MatrixLayout::new(&config, 0, 4096, 18_432).unwrap();
    let conflicts = |rows: &[u32]| measure_order(&layout, rows).conflicts;
    assert_eq!(conflicts(&[0, 1, 2]), 0);
    assert_eq!(conflicts(&[1, 8]), 1, "bank 1 of row 1 and bank 0 with bank 1 of the next DRAM row");
    assert_eq!(conflicts(&[0, 4]), 0, "banks 2 and 0");
}

#[test]
fn with_four_bank_groups_twice_as_many_rows_are_open() {
    // 32 bursts per row and rank: bank 0 of groups 0 and 1 comes again after 64 rows.
    let config = DesignConfig::preset("hermes-x8").unwrap();
    let layout = MatrixLayout::new(&config, 0, 4096, 4096).unwrap();
    let conflicts = |rows: &[u32]| measure_order(&layout, rows).conflicts;
    assert_eq!(conflicts(&[0, 32, 8, 40, 56]), 0);
    assert_eq!(conflicts(&[0, 64]), 1);
    assert_eq!(conflicts(&[0, 7, 64 + 3, 32, 64 + 32]), 2);
}

#[test]
fn lists_of_one_kind_or_one_bank_come_back_whole() {
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::new(&config, 0, 16_384, 5120).unwrap();
    for mut rows in [vec![], vec![7], vec![4, 4, 4], (0..40).map(|k| 4 * k).collect::<Vec<u32>>()] {
        let given = rows.clone();
        order_rows(&[&layout], &mut rows);
        rows.sort_unstable();
        assert_eq!(rows, given);
    }
    // Nothing can be done about rows that all are in bank 0, but nothing gets lost either.
    let layout = MatrixLayout::new(&config, 0, 16_384, 4096).unwrap();
    let mut rows: Vec<u32> = (0..50).map(|k| 32 * k).collect();
    order_rows(&[&layout], &mut rows);
    assert_eq!(measure_order(&layout, &rows).conflicts, 49);
}

#[test]
fn the_order_is_the_same_every_time() {
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::new(&config, 0, 16_384, 13_824).unwrap();
    let mut first = random_list(&mut SplitMix64::new(13), 4096, 10);
    let mut second = first.clone();
    order_rows(&[&layout], &mut first);
    order_rows(&[&layout], &mut second);
    assert_eq!(first, second);
}

#[test]
fn one_list_suits_all_tiles_of_a_matrix() {
    let config = DesignConfig::preset("hermes").unwrap();
    let mut random = SplitMix64::new(13);
    for widths in [&[4096, 3072][..], &[2048, 2048, 1024], &[4096, 4096, 1536], &[5120, 2048], &[2048, 512]] {
        let mut base = 0;
        let layouts: Vec<MatrixLayout> = widths
            .iter()
            .map(|cols| {
                let layout = MatrixLayout::new(&config, base, 10_240, *cols).unwrap();
                base += u32::try_from(layout.bursts_per_rank()).unwrap().next_multiple_of(1024);
                layout
            })
            .collect();
        let given = random_list(&mut random, 10_240, 10);
        let mut rows = given.clone();
        order_rows(&layouts.iter().collect::<Vec<_>>(), &mut rows);
        let quality: Vec<_> = layouts.iter().map(|layout| measure_order(layout, &rows)).collect();
        println!("{widths:?}, {} rows: {quality:?}", rows.len());
        for found in &quality {
            assert!(found.imbalance <= 2 && found.rank_imbalance <= 2, "{widths:?}: {found:?}");
            assert!(found.conflicts <= rows.len() / 50, "{widths:?}: {found:?}");
        }
        rows.sort_unstable();
        assert_eq!(rows, given, "the same rows");
    }
}
