//! Are the mappings of an HBM2 memory bijections, and do they keep to their partitions?

use std::collections::{BTreeMap, BTreeSet};

use ndp_config::HbmConfig;
use ndp_isa::layout::hbm::{CacheElement, HbmAddress, HbmElement, Interleaved, KvMap};

fn tiny() -> HbmConfig {
    HbmConfig::preset("librapim-tiny").unwrap()
}

fn addresses(c: &HbmConfig, rows: std::ops::Range<u32>) -> Vec<HbmAddress> {
    let mut all = Vec::new();
    for channel in 0..c.channels() {
        for bank in 0..c.banks() {
            for row in rows.clone() {
                all.extend((0..32).map(|column| HbmAddress { channel, bank, row, column }));
            }
        }
    }
    all
}

#[test]
fn interleaving_is_a_bijection_onto_its_rows() {
    let c = tiny();
    let map = Interleaved::new(&c, 5, 9).unwrap();
    let places: BTreeSet<HbmAddress> = (0..map.columns()).map(|index| map.place(index).unwrap()).collect();
    assert_eq!(places, addresses(&c, 5..14).into_iter().collect());
    for index in 0..map.columns() {
        assert_eq!(map.index(map.place(index).unwrap()).unwrap(), index);
    }
}

#[test]
fn interleaving_goes_round_channels_and_bank_groups_first() {
    let c = HbmConfig::preset("librapim").unwrap();
    let map = Interleaved::new(&c, 0, c.weight_rows()).unwrap();
    let at = |index| map.place(index).unwrap();
    let first: Vec<u32> = (0..64).map(|index| at(index).channel).collect();
    assert_eq!(first, (0..64).collect::<Vec<_>>());
    // Every fourth access of a channel is in the same bank group.
    let banks: Vec<u32> = (0..5).map(|i| at(64 * i).bank).collect();
    assert_eq!(banks, [0, 4, 8, 12, 0]);
    assert_eq!(at(64 * 4), HbmAddress { channel: 0, bank: 0, row: 0, column: 1 });
    assert_eq!(at(64 * 4 * 32), HbmAddress { channel: 0, bank: 1, row: 0, column: 0 });
    assert_eq!(at(64 * 4 * 32 * 4), HbmAddress { channel: 0, bank: 0, row: 1, column: 0 });
    let last = HbmAddress { channel: 63, bank: 15, row: 8191, column: 31 };
    assert_eq!(at(map.columns() - 1), last);
    for index in (0..map.columns()).step_by(1_000_003) {
        assert_eq!(map.index(at(index)).unwrap(), index);
    }
}

#[test]
fn keys_and_values_fill_places_of_their_own_and_come_back() {
    let c = tiny();
    for (head_dim, positions) in [(16, 40), (32, 33), (16, 1)] {
        let map = KvMap::new(&c, 24, head_dim, positions).unwrap();
        assert!(map.heads() > 0);
        let mut seen: BTreeMap<HbmElement, (CacheElement, bool)> = BTreeMap::new();
        for head in 0..map.heads() {
            for position in 0..u64::from(positions) {
                for element in 0..u64::from(head_dim) {
                    let at = CacheElement { head, position, element };
                    for (place, value) in [(map.key(at).unwrap(), false), (map.value(at).unwrap(), true)] {
                        assert!((24..64).contains(&place.address.row), "{place:?}");
                        assert_eq!(seen.insert(place, (at, value)), None, "{place:?}");
                    }
                }
            }
        }
        for address in addresses(&c, 24..64) {
            for lane in 0..16 {
                let place = HbmElement { address, lane };
                let known = seen.get(&place).copied();
                let expected = |value| known.filter(|&(_, of)| of == value).map(|(at, _)| at);
                assert_eq!(map.key_of(place).unwrap(), expected(false), "{place:?}");
                assert_eq!(map.value_of(place).unwrap(), expected(true), "{place:?}");
            }
        }
    }
}

#[test]
fn a_head_is_in_one_channel_and_a_mac_command_works_on_neighbours() {
    let c = HbmConfig::preset("librapim").unwrap();
    let map = KvMap::new(&c, 8192, 128, 4096).unwrap();
    // In each bank 256 keys, four to a row, and 8 elements of 8 * 512 values: 64 heads to a channel.
    assert_eq!((map.key_rows(), map.value_rows(), map.heads()), (64, 64, 64 * 64));
    let head = 64 * 3 + 5;
    let at = |position, element| CacheElement { head, position, element };
    for first in [0, 16, 512, 4080] {
        for element in [0, 15, 16, 127] {
            // The same row, column and lane of all banks: keys of 16 positions.
            let keys: Vec<HbmElement> =
                (first..first + 16).map(|p| map.key(at(p, element)).unwrap()).collect();
            for (bank, key) in (0..).zip(&keys) {
                assert_eq!((key.address.channel, key.address.bank), (5, bank));
                assert_eq!(u64::from(key.lane), element % 16);
                assert_eq!(HbmAddress { bank: 0, ..key.address }, keys[0].address);
            }
        }
    }
    for first in [0, 16, 112] {
        let values: Vec<HbmElement> = (first..first + 16).map(|e| map.value(at(700, e)).unwrap()).collect();
        for (bank, value) in (0..).zip(&values) {
            assert_eq!((value.address.channel, value.address.bank, value.lane), (5, bank, 700 % 16));
            assert_eq!(HbmAddress { bank: 0, ..value.address }, values[0].address);
        }
    }
    let value = |position| map.value(at(position, 7)).unwrap().address;
    let values = 8192 + 3 * 128 + 64;
    assert_eq!((value(0).row, value(511).row, value(512).row), (values, values, values + 8));
    assert_eq!((value(0).column, value(511).column), (0, 31));
}

#[test]
fn offloaded_caches_share_the_weight_partition_without_touching_the_weights() {
    let c = tiny();
    let weights = Interleaved::new(&c, 0, 20).unwrap();
    let offloaded = Interleaved::new(&c, 20, 4).unwrap();
    let caches = KvMap::new(&c, c.weight_rows(), 16, 40).unwrap();
    let of = |map: &Interleaved| -> BTreeSet<HbmAddress> {
        (0..map.columns()).map(|index| map.place(index).unwrap()).collect()
    };
    let (weights, offloaded) = (of(&weights), of(&offloaded));
    assert!(weights.is_disjoint(&offloaded));
    assert!(offloaded.iter().all(|place| place.row < c.weight_rows()));
    let at = CacheElement { head: 0, position: 0, element: 0 };
    assert!(caches.key(at).unwrap().address.row >= c.weight_rows());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let c = tiny();
    let text = |result: ndp_files::Result<()>| result.unwrap_err().to_string();
    assert_eq!(text(Interleaved::new(&c, 24, 1).map(drop)), "first row = 24 must be in 0..=23");
    assert_eq!(text(Interleaved::new(&c, 4, 21).map(drop)), "rows = 21 must be in 1..=20");
    assert_eq!(text(KvMap::new(&c, 23, 16, 4).map(drop)), "first row = 23 must be in 24..=63");
    assert_eq!(text(KvMap::new(&c, 24, 24, 4).map(drop)), "head_dim = 24 must be in 32..=32");
    assert_eq!(text(KvMap::new(&c, 24, 16, 2561).map(drop)), "rows of a head = 45 must be in 1..=40");
    let map = Interleaved::new(&c, 0, 1).unwrap();
    assert_eq!(text(map.place(256).map(drop)), "column index = 256 must be in 0..=255");
    let outside = HbmAddress { channel: 0, bank: 0, row: 1, column: 0 };
    assert_eq!(text(map.index(outside).map(drop)), "row = 1 must be in 0..=0");
    let newton = HbmConfig::preset("newton-aim").unwrap();
    assert!(KvMap::new(&newton, 0, 128, 16).is_ok(), "without slicing any row will do");
}
