//! Weights of 8 and 4 bits: does every weight and every scale have a place of its own, as the document defines it, and
//! an inverse?

use std::collections::{BTreeMap, BTreeSet};

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{DimmAddress, MatrixLayout, MatrixPlace, Packer, elements_of};
use ndp_numerics::{QuantisedRow, SplitMix64, f16};

const QUANTISED: [(WeightFormat, u32); 2] = [(WeightFormat::Int8, 2), (WeightFormat::Int4, 4)];

/// One, two and four ranks; stripes of 2 to 64 places.
fn designs() -> Vec<DesignConfig> {
    let text = |ranks, multipliers| {
        format!(
            "name = \"d{ranks}\"\n[gemv]\nranks = {ranks}\nmultipliers = {multipliers}\nbuffer_kib = 256\n\
             weight_formats = \"all\"\n[dram]\nrow_bits = 8"
        )
    };
    let sizes = [(1, 8), (2, 16), (4, 32), (4, 64), (4, 256), (4, 1024)];
    sizes.map(|(ranks, multipliers)| DesignConfig::from_toml(&text(ranks, multipliers)).unwrap()).into()
}

fn lengths(config: &DesignConfig) -> impl Iterator<Item = u32> {
    let stripe = config.gemv().stripe_elems();
    (0..18).flat_map(move |n| [n * stripe + 1, n * stripe + stripe / 2 + 3, (n + 1) * stripe])
}

#[test]
fn weights_and_scales_lie_where_the_document_says() {
    for config in designs() {
        let gemv = config.gemv();
        let (stripe, beats, ranks) = (gemv.stripe_elems(), gemv.beats_per_stripe(), gemv.ranks());
        for ((weights, per_burst), cols) in
            QUANTISED.into_iter().flat_map(|f| lengths(&config).map(move |n| (f, n)))
        {
            let (base, rows) = (70, 9);
            let layout = MatrixLayout::with_weights(&config, base, rows, cols, weights).unwrap();
            let mut longest = 0;
            for rank in 0..ranks {
                let mut first = base;
                for row in 0..rows {
                    assert_eq!(layout.burst_at(layout.offset(row, rank)), first, "{cols}, {row}, {rank}");
                    let stripes: Vec<u32> = layout.cut().stripes_of(row, rank).collect();
                    let places = stripes.len() as u32 * beats;
                    let bursts = |places: u32| places.div_ceil(32) + places.div_ceil(per_burst);
                    let inside =
                        stripes.iter().map(|stripe| layout.cut().elems_of(*stripe).div_ceil(32)).sum();
                    assert_eq!(layout.row_bursts(row, rank), bursts(inside));
                    // Rows of a single stripe begin a whole stripe apart, rows without a tail whole waves.
                    let whole = layout.cut().stripes() == 1 || layout.cut().tail_stripes == 0;
                    let length = bursts(if whole { places } else { inside });
                    let mut of_rank = layout.weight_places(row, rank);
                    for place in 0..places {
                        let col = stripes[(place / beats) as usize] * stripe + place % beats * 32;
                        if col >= cols {
                            continue;
                        }
                        let found = of_rank.next().unwrap();
                        assert_eq!(found.col, col);
                        // 32 places and their scales.
                        let block = first + place / 32 * (1 + 32 / per_burst);
                        let burst = block + 1 + place % 32 / per_burst;
                        assert_eq!(found.scale, Some((u64::from(block - base), place % 32)));
                        assert_eq!(found.burst, u64::from(burst - base));
                        let element = place % per_burst * 32;
                        assert_eq!(found.element, element);
                        for within in 0..32.min(cols - col) {
                            let at = MatrixPlace { rank, burst, element: element + within };
                            assert_eq!(layout.locate(row, col + within), at);
                            assert_eq!(layout.element_at(at), Some((row, col + within)), "{at:?}");
                        }
                        let scale = MatrixPlace { rank, burst: block, element: 0 };
                        assert_eq!(layout.element_at(scale), None);
                    }
                    assert_eq!(of_rank.next(), None);
                    first += length;
                }
                longest = longest.max(first - base);
            }
            assert_eq!(layout.bursts_per_rank(), u64::from(longest));
        }
    }
}

#[test]
fn rows_that_share_scales_follow_each_other_without_a_gap() {
    for config in designs() {
        let (beats, ranks) = (config.gemv().beats_per_stripe(), config.gemv().ranks());
        let stripe = config.gemv().stripe_elems();
        for ((weights, per_burst), cols) in
            QUANTISED.into_iter().flat_map(|f| lengths(&config).map(move |n| (f, n)))
        {
            let (base, rows) = (70, 41);
            let layout = MatrixLayout::sharing_scales(&config, base, rows, cols, weights).unwrap();
            let mut longest = 0;
            for rank in 0..ranks {
                // The next burst, and the bursts of weights before it.
                let (mut next, mut numbers) = (base, 0);
                for row in 0..rows {
                    let first = layout.burst_at(layout.offset(row, rank));
                    assert_eq!(first, next, "{cols}, {row}, {rank}");
                    let inside = |stripe| layout.cut().elems_of(stripe).div_ceil(32);
                    let places = layout.cut().stripes_of(row, rank);
                    let places: Vec<u32> =
                        places.flat_map(|s| (0..inside(s)).map(move |at| (s * beats + at) * 32)).collect();
                    assert_eq!(stripe, beats * 32);
                    let found: Vec<_> = layout.weight_places(row, rank).collect();
                    assert_eq!(found.iter().map(|place| place.col).collect::<Vec<_>>(), places);
                    for (index, place) in (0..).zip(&found) {
                        let number = numbers + index / per_burst;
                        let scales = base + number / (32 / per_burst) * (32 / per_burst + 1);
                        let burst = scales + 1 + number % (32 / per_burst);
                        let scale = number % (32 / per_burst) * per_burst + index % per_burst;
                        assert_eq!(place.scale, Some((u64::from(scales - base), scale)));
                        assert_eq!(place.burst, u64::from(burst - base));
                        for within in 0..32.min(cols - place.col) {
                            let element = index % per_burst * 32 + within;
                            let at = MatrixPlace { rank, burst, element };
                            assert_eq!(layout.locate(row, place.col + within), at);
                            assert_eq!(layout.element_at(at), Some((row, place.col + within)), "{at:?}");
                        }
                        assert_eq!(layout.element_at(MatrixPlace { rank, burst: scales, element: 0 }), None);
                        next = next.max(burst + 1);
                    }
                    numbers += (places.len() as u32).div_ceil(per_burst);
                    assert_eq!(layout.row_bursts(row, rank), next - first);
                }
                longest = longest.max(next - base);
            }
            assert_eq!(layout.bursts_per_rank(), u64::from(longest));
        }
    }
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::sharing_scales(&config, 0, 16_384, 512, WeightFormat::Int8).unwrap();
    assert_eq!(layout.bursts_per_rank(), 4096 * 8 * 17 / 16, "half a burst of scales for each row");
    let fp16 = MatrixLayout::sharing_scales(&config, 0, 8, 512, WeightFormat::Fp16).unwrap();
    assert!(!fp16.shared());
}

#[test]
fn two_stripes_of_512_weights_take_nine_bursts_in_int4() {
    let config = DesignConfig::preset("hermes").unwrap();
    for (weights, one, two) in
        [(WeightFormat::Fp16, 16, 32), (WeightFormat::Int8, 9, 17), (WeightFormat::Int4, 5, 9)]
    {
        let bursts = |cols| MatrixLayout::unbounded(&config, 0, cols, weights).row_bursts(0, 0);
        assert_eq!((bursts(2048), bursts(4096), bursts(8192)), (one, two, 2 * two));
    }
}

#[test]
fn what_is_packed_is_unpacked_and_nothing_twice() {
    let mut random = SplitMix64::new(3);
    for config in designs() {
        for ((weights, _), cols) in QUANTISED.into_iter().flat_map(|f| lengths(&config).map(move |n| (f, n)))
        {
            // Across the end of the DRAM.
            let base = config.dram().bursts() as u32 - 5;
            check_packing(
                &config,
                &MatrixLayout::with_weights(&config, base, 7, cols, weights).unwrap(),
                &mut random,
            );
            check_packing(
                &config,
                &MatrixLayout::sharing_scales(&config, base, 7, cols, weights).unwrap(),
                &mut random,
            );
        }
    }
}

fn check_packing(config: &DesignConfig, layout: &MatrixLayout, random: &mut SplitMix64) {
    let (cols, weights) = (layout.cols(), layout.weights());
    let mut packer = Packer::new(layout);
    let (mut memory, mut rows) = (BTreeMap::new(), Vec::new());
    for row in 0..7 {
        let spare = 8 - weights.bits();
        let numbers = (0..cols).map(|_| (random.next_u64() as i8) >> spare).collect();
        let scales = (0..cols.div_ceil(32)).map(|_| f16::from_bits(random.next_u64() as u16 & 0xBFFF));
        let values = QuantisedRow { numbers, scales: scales.collect() };
        let packed = layout.pack_quantised(row, &values);
        let ranges: BTreeSet<(u32, u32)> = layout
            .row_ranges(row)
            .into_iter()
            .flat_map(|range| {
                (0..4).filter(move |rank| range.ranks >> rank & 1 == 1).map(move |rank| (rank, range))
            })
            .flat_map(|(rank, range)| {
                let total = config.dram().bursts();
                (0..range.count)
                    .map(move |at| (rank, ((u64::from(range.address) + u64::from(at)) % total) as u32))
            })
            .collect();
        if !layout.shared() {
            assert_eq!(packed.iter().map(|p| (p.rank, p.burst)).collect::<BTreeSet<_>>(), ranges);
        }
        for burst in packer.row(packed) {
            let place = DimmAddress { rank: burst.rank, burst: burst.burst }.to_burst(config);
            assert!(memory.insert(place, burst.data).is_none());
        }
        rows.push(values);
    }
    for burst in packer.finish() {
        let place = DimmAddress { rank: burst.rank, burst: burst.burst }.to_burst(config);
        assert!(memory.insert(place, burst.data).is_none());
    }
    for (row, values) in (0..).zip(&rows) {
        assert_eq!(&layout.unpack_quantised(config, row, |burst| memory[&burst]), values);
    }
}

#[test]
fn nibbles_begin_in_the_lowest_bits() {
    let config = DesignConfig::preset("hermes").unwrap();
    let layout = MatrixLayout::with_weights(&config, 0, 1, 64, WeightFormat::Int4).unwrap();
    let mut numbers = vec![0; 64];
    (numbers[0], numbers[1], numbers[33]) = (-8, 3, 7);
    let scales = vec![f16::from_bits(0x3C00), f16::from_bits(0x1234)];
    let packed = layout.pack_quantised(0, &QuantisedRow { numbers, scales });
    assert_eq!((packed[0].burst, elements_of(&packed[0].data)[..3].to_vec()), (0, vec![0x3C00, 0x1234, 0]));
    assert_eq!((packed[1].burst, packed[1].data), (1, [0x38, 0, 0x70, 0, 0, 0, 0, 0]));
    assert_eq!(packed.len(), 2);
}
