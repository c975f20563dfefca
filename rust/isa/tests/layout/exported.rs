//! Do exported sums lie where the document puts them?

use ndp_config::DesignConfig;
use ndp_files::said;
use ndp_isa::layout::{ExportedSums, MatrixLayout};
use std::collections::BTreeSet;

fn configs() -> Vec<DesignConfig> {
    let wide = "name = \"wide\"\n[gemv]\nlanes = 16\nmultipliers = 32\nranks = 4\nbuffer_kib = 64\n\
        acc_bits = 120\nacc_segments = 6";
    let mut configs: Vec<_> =
        DesignConfig::PRESETS.iter().map(|preset| DesignConfig::preset(preset).unwrap()).collect();
    configs.push(DesignConfig::from_toml(wide).unwrap());
    configs
}

#[test]
fn a_word_is_a_row_of_one_wave() {
    for config in configs() {
        let gemv = config.gemv();
        let address = config.dram().bursts() as u32 - 3;
        let words = gemv.slice_words().min(5);
        let exported = ExportedSums::new(&config, address, words).unwrap();
        let wave = gemv.ranks() * gemv.stripe_elems();
        let rows = MatrixLayout::new(&config, address, words, wave).unwrap();
        assert_eq!(exported.bursts_per_rank(), rows.bursts_per_rank());
        for (word, slice) in (0..words).flat_map(|w| (0..exported.slices()).map(move |s| (w, s))) {
            let (place, chunk) = exported.locate(word, slice);
            // Lane 0 of the slice's unit is that element of the row.
            let first = rows.locate(word, slice * gemv.lanes());
            assert_eq!((place.rank, place.burst), (first.rank, first.burst));
            assert_eq!(exported.elements(chunk), ((1 << gemv.lanes()) - 1) << first.element);
        }
        let bursts: Vec<_> = exported.bursts().collect();
        let places: BTreeSet<_> = bursts.iter().map(|burst| burst.place).collect();
        assert_eq!(bursts.len(), places.len());
        assert_eq!(bursts.len() as u64, exported.bursts_per_rank() * u64::from(gemv.ranks()));
        for burst in bursts {
            let located = burst.slices.clone().map(|slice| exported.locate(burst.word, slice));
            assert!(located.eq((0..).zip(burst.slices).map(|(chunk, _)| (burst.place, chunk))));
        }
    }
}

#[test]
fn what_is_packed_is_unpacked() {
    for config in configs() {
        let exported = ExportedSums::new(&config, 0, 1).unwrap();
        let chunks = config.gemv().beat_chunks();
        let sums: Vec<u128> = (1..=u128::from(chunks)).map(|n| n << 100 | 0xABCD << n).collect();
        let burst = exported.pack(sums.iter().copied());
        assert_eq!(exported.unpack(&burst).collect::<Vec<_>>(), sums);
        assert_eq!(burst[0], sums[0] as u64);
        let second = config.gemv().lanes() as usize / 4;
        assert_eq!(burst[second], sums[1] as u64);
    }
}

#[test]
fn words_and_addresses_beyond_the_design_are_refused() {
    let config = DesignConfig::preset("tiny").unwrap();
    let bursts = config.dram().bursts() as u32;
    assert!(ExportedSums::new(&config, bursts - 1, 64).is_ok());
    for (address, words) in [(0, 0), (0, 65), (bursts, 1)] {
        assert!(said(&ExportedSums::new(&config, address, words)).contains(" must be in "));
    }
}
