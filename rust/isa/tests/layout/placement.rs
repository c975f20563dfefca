//! Does every element have one place of its own, as the rules define it?

use std::collections::{BTreeMap, BTreeSet};

use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_isa::layout::{
    BufferLayout, DimmAddress, DramPlace, MatrixLayout, MatrixPlace, VectorBlock, elements_of, pack_elements,
    pack_matrix, pack_words, words_of,
};
use ndp_numerics::{SplitMix64, f16};

/// Small designs with one, two and four ranks; 256 rows of DRAM.
fn designs() -> Vec<DesignConfig> {
    let text = |ranks, multipliers| {
        format!(
            "name = \"d{ranks}\"\n[gemv]\nranks = {ranks}\nmultipliers = {multipliers}\nbuffer_kib = 16\n[dram]\nrow_bits = 8"
        )
    };
    [(1, 8), (2, 16), (4, 16), (4, 32)].map(|(r, m)| DesignConfig::from_toml(&text(r, m)).unwrap()).into()
}

const FORMATS: [WeightFormat; 3] = [WeightFormat::Fp16, WeightFormat::Int8, WeightFormat::Int4];

fn lengths(config: &DesignConfig) -> Vec<u32> {
    let stripe = config.gemv().stripe_elems();
    (0..18)
        .flat_map(|stripes| [stripes * stripe + 1, stripes * stripe + stripe / 2, (stripes + 1) * stripe])
        .collect()
}

#[test]
fn rows_begin_where_the_rows_before_them_end() {
    for config in designs() {
        for (cols, weights) in
            lengths(&config).into_iter().flat_map(|cols| FORMATS.map(|format| (cols, format)))
        {
            let layout = MatrixLayout::unbounded(&config, 0, cols, weights);
            let ranks = config.gemv().ranks();
            let mut counted = vec![0u64; ranks as usize];
            for row in 0..50 {
                for (rank, counted) in (0..).zip(&mut counted) {
                    let what = format!("{cols}, {weights:?}, row {row}, rank {rank}");
                    assert_eq!(layout.offset(row, rank), *counted, "{what}");
                    let stripes = layout.cut().stripes_of(row, rank);
                    let places: u32 = stripes.map(|stripe| layout.cut().elems_of(stripe).div_ceil(32)).sum();
                    assert_eq!(layout.row_bursts(row, rank), layout.place_bursts(places), "{what}");
                    // Rows of a single stripe begin a whole stripe apart, rows without a tail whole waves.
                    let whole = layout.cut().stripes() == 1 || layout.cut().tail_stripes == 0;
                    let kept =
                        if whole { places.next_multiple_of(layout.beats_per_stripe()) } else { places };
                    *counted += u64::from(layout.place_bursts(kept));
                }
                // As many rows as there are ranks load these alike.
                if (row + 1) % ranks == 0 {
                    assert!(counted.iter().all(|count| *count == counted[0]), "{cols}: {counted:?}");
                }
            }
            let groups = u64::from(MatrixLayout::MAX_ROWS / ranks);
            assert_eq!(layout.offset(MatrixLayout::MAX_ROWS, 0), groups * layout.offset(ranks, 0));
        }
    }
}

#[test]
fn elements_follow_each_other_in_the_order_of_the_stripes() {
    for config in designs() {
        let stripe_elems = config.gemv().stripe_elems();
        for cols in lengths(&config) {
            let (base, rows) = (300, 9);
            let layout = MatrixLayout::new(&config, base, rows, cols).unwrap();
            let mut expected = BTreeMap::new();
            let mut longest = 0;
            for rank in 0..config.gemv().ranks() {
                let mut burst = base;
                for row in 0..rows {
                    for stripe in layout.cut().stripes_of(row, rank) {
                        let bursts = layout.cut().elems_of(stripe).div_ceil(BEAT_ELEMS);
                        for within in 0..bursts * BEAT_ELEMS {
                            let place = MatrixPlace {
                                rank,
                                burst: burst + within / BEAT_ELEMS,
                                element: within % BEAT_ELEMS,
                            };
                            expected.insert(place, (row, stripe * stripe_elems + within));
                        }
                        let whole = layout.cut().stripes() == 1 || layout.cut().tail_stripes == 0;
                        burst += if whole { layout.beats_per_stripe() } else { bursts };
                    }
                }
                longest = longest.max(burst - base);
            }
            assert_eq!(u64::from(longest), layout.bursts_per_rank());
            let mut elements = 0;
            for (&place, &(row, col)) in &expected {
                let inside = col < cols;
                assert_eq!(layout.element_at(place), inside.then_some((row, col)), "{cols}: {place:?}");
                if inside {
                    assert_eq!(layout.locate(row, col), place);
                    elements += 1;
                }
            }
            assert_eq!(elements, rows * cols);
            for rank in 0..config.gemv().ranks() {
                for burst in [base - 1, base + longest] {
                    assert_eq!(layout.element_at(MatrixPlace { rank, burst, element: 0 }), None);
                }
            }
        }
    }
}

#[test]
fn data_beyond_the_last_burst_go_on_at_the_first() {
    let config = &designs()[2];
    let bursts = config.dram().bursts() as u32;
    let layout = MatrixLayout::new(config, bursts - 3, 40, 200).unwrap();
    let mut seen = BTreeSet::new();
    for (row, col) in (0..40).flat_map(|row| (0..200).map(move |col| (row, col))) {
        let place = layout.locate(row, col);
        assert!(place.burst < bursts && seen.insert(place));
        assert_eq!(layout.element_at(place), Some((row, col)));
    }
    assert!(seen.iter().any(|place| place.burst == 0) && seen.iter().any(|place| place.burst == bursts - 1));
    let vectors = VectorBlock::new(config, 4 * bursts - 2, 100, 3).unwrap();
    assert_eq!(vectors.locate(0, 0), (u64::from(4 * bursts - 2), 0));
    assert_eq!(vectors.locate(2, 0), (0, 0));
    assert_eq!(vectors.element_at(0, 5), Some((2, 5)));
}

#[test]
fn vector_blocks_alternate_their_beats() {
    let config = &designs()[1];
    for (elements, batch) in [(1, 1), (32, 4), (33, 3), (100, 16), (64, 2)] {
        let block = VectorBlock::new(config, 1000, elements, batch).unwrap();
        let mut places = BTreeSet::new();
        let mut burst = 1000;
        for beat in 0..elements.div_ceil(32) {
            for vector in 0..batch {
                for within in 0..32 {
                    let element = 32 * beat + within;
                    let inside = element < elements;
                    assert_eq!(block.element_at(burst, within), inside.then_some((vector, element)));
                    if inside {
                        assert_eq!(block.locate(vector, element), (burst, within));
                        places.insert((burst, within));
                    }
                }
                burst += 1;
            }
        }
        assert_eq!(burst, 1000 + u64::from(block.bursts()));
        assert_eq!(places.len() as u32, elements * batch);
        assert_eq!((block.element_at(999, 0), block.element_at(burst, 0)), (None, None));
    }
}

#[test]
fn every_rank_finds_in_its_slices_what_its_stripes_need() {
    for config in designs() {
        let (ranks, lanes) = (config.gemv().ranks(), config.gemv().lanes());
        for cols in lengths(&config) {
            for batch in [1, 3] {
                let layout = BufferLayout::new(&config, cols, batch);
                let matrix = MatrixLayout::unbounded(&config, 0, cols, WeightFormat::Fp16);
                // A rank has the same element of a row and of each vector.
                for (row, col) in (0..8).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                    let rank = matrix.locate(row, col).rank;
                    for vector in [0, batch - 1] {
                        assert!(layout.locate(vector, col).ranks >> rank & 1 == 1, "{cols}: {row}, {col}");
                    }
                }
                // Inverse, and no place twice.
                let mut held = 0;
                for (vector, element) in (0..batch).flat_map(|v| (0..cols).map(move |e| (v, e))) {
                    let place = layout.locate(vector, element);
                    for rank in (0..ranks).filter(|rank| place.ranks >> rank & 1 == 1) {
                        let back = layout.element_at(place.word, rank, place.tile, place.lane);
                        assert_eq!(back, Some((vector, element)));
                        held += 1;
                    }
                }
                let tiles = config.gemv().units_per_rank();
                let places = (0..layout.words() + 1).flat_map(|w| (0..ranks).map(move |r| (w, r)));
                let places = places.flat_map(|(w, r)| (0..tiles).map(move |t| (w, r, t)));
                let found = places
                    .flat_map(|(w, r, t)| (0..lanes).map(move |l| (w, r, t, l)))
                    .filter(|&(w, r, t, l)| layout.element_at(w, r, t, l).is_some());
                assert_eq!(found.count(), held, "{cols} x {batch}");
            }
        }
    }
}

#[test]
fn burst_addresses_come_apart_and_together() {
    let place = |bank_group, column, bank, row| DramPlace { bank_group, bank, row, column };
    let config = DesignConfig::preset("hermes").unwrap();
    let two = |burst| DramPlace::from_burst(config.dram(), burst);
    assert_eq!(two(0), place(0, 0, 0, 0));
    assert_eq!(two(1), place(1, 0, 0, 0));
    assert_eq!(two(255), place(1, 127, 0, 0));
    assert_eq!(two(256), place(0, 0, 1, 0));
    assert_eq!(two(1024 + 2), place(0, 1, 0, 1));
    let x8 = DesignConfig::preset("hermes-x8").unwrap();
    let four = |burst| DramPlace::from_burst(x8.dram(), burst);
    assert_eq!(four(1), place(1, 0, 0, 0));
    assert_eq!(four(255), place(1, 127, 0, 0));
    assert_eq!(four(256), place(2, 0, 0, 0));
    assert_eq!(four(256 + 512 + 1), place(3, 0, 1, 0));
    assert_eq!(four(2048 + 2), place(0, 1, 0, 1));
    let mut random = SplitMix64::new(1);
    for _ in 0..1000 {
        let address = random.next_u64() & ((1 << 29) - 1);
        let dimm = DimmAddress::from_burst(&config, address);
        assert_eq!((u64::from(dimm.rank), u64::from(dimm.burst)), (address % 4, address / 4));
        assert_eq!(dimm.to_burst(&config), address);
        for dram in [config.dram(), x8.dram()] {
            assert_eq!(DramPlace::from_burst(dram, dimm.burst).to_burst(dram), dimm.burst);
        }
        let burst: [u64; 8] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(pack_elements(elements_of(&burst)), burst);
        assert_eq!(pack_words(words_of(&burst)), burst);
    }
    assert_eq!(pack_elements([1, 2, 3, 4, 5])[..2], [0x0004_0003_0002_0001, 5]);
    assert_eq!(pack_words([7, 8, 9])[..2], [0x8_0000_0007, 9]);
}

#[test]
fn packed_bursts_hold_every_element_at_its_place_and_zeros_elsewhere() {
    for config in designs() {
        for cols in lengths(&config) {
            let rows = 7;
            let value = |row: u32, col: u32| f16::from_bits((1 + row * cols + col) as u16);
            let layout = MatrixLayout::new(&config, 5, rows, cols).unwrap();
            let mut bursts = BTreeMap::new();
            let read = |row, into: &mut [f16]| {
                into.iter_mut().zip(0..).for_each(|(x, col)| *x = value(row, col));
            };
            pack_matrix(&layout, read, |p| {
                assert!(bursts.insert((p.rank, p.burst), p.data).is_none(), "a burst comes once");
            });
            for (&(rank, burst), data) in &bursts {
                for (element, bits) in (0..).zip(elements_of(data)) {
                    let at = layout.element_at(MatrixPlace { rank, burst, element });
                    assert_eq!(bits, at.map_or(0, |(row, col)| value(row, col).to_bits()));
                }
            }
            assert_eq!(bursts.len() as u32, rows * cols.div_ceil(BEAT_ELEMS));
        }
    }
}

#[test]
fn sizes_that_the_design_does_not_have_are_refused() {
    let config = &designs()[1];
    let message = |base, rows, cols| MatrixLayout::new(config, base, rows, cols).unwrap_err().to_string();
    assert_eq!(message(0, 0, 5), "rows = 0 must be in 1..=16777216");
    assert_eq!(message(0, 1, 8193), "cols = 8193 must be in 1..=8192");
    assert_eq!(message(1 << 18, 1, 5), "base = 262144 must be in 0..=262143");
    assert_eq!(message(0, 1 << 20, 200), {
        "a matrix of 1048576 x 200 needs 3670016 bursts of each rank, 262144 of 262144 are free"
    });
}
