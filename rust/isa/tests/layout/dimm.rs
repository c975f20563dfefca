//! Do regions never overlap?

use ndp_config::DesignConfig;
use ndp_files::said;
use ndp_isa::layout::{DimmMap, Region};

fn small() -> DesignConfig {
    let text = "name = \"d\"\n[gemv]\nranks = 2\nmultipliers = 16\nbuffer_kib = 16\n[dram]\nrow_bits = 8";
    DesignConfig::from_toml(text).unwrap()
}

#[test]
fn regions_follow_each_other_and_do_not_overlap() {
    let config = small();
    let mut map = DimmMap::new(&config);
    let vectors = map.add_vectors("x", 100, 3).unwrap();
    assert_eq!((vectors.address(), map.used_bursts()), (0, 6)); // 12 bursts of the DIMM
    let list = map.add_bursts("list", 3).unwrap();
    assert_eq!((list, map.used_bursts()), (12, 8));
    let matrix = map.add_matrix("w", 10, 128).unwrap();
    assert_eq!((matrix.base(), map.used_bursts()), (256, 256 + 20));
    assert_eq!(map.matrix("w"), Some(&matrix));
    assert!(map.matrix("x").is_none() && map.get("y").is_none());
    assert_eq!(map.regions().map(|(name, _)| name).collect::<Vec<_>>(), ["list", "w", "x"]);
    assert_eq!(map.get("list"), Some(&Region::Bursts { address: 12, bursts: 3 }));
}

#[test]
fn what_does_not_fit_or_has_a_taken_name_changes_nothing() {
    let config = small();
    let mut map = DimmMap::new(&config);
    map.add_bursts("a", 1).unwrap();
    let taken = map.add_matrix("a", 1, 1).unwrap_err().to_string();
    assert_eq!(taken, "\"a\" is placed already");
    let full = map.add_matrix("b", 131_072, 128).unwrap_err().to_string();
    assert_eq!(full, "b needs 262144 bursts of each rank, 261888 of 262144 are free");
    assert_eq!(map.used_bursts(), 1);
    map.add_matrix("b", 130_944, 128).unwrap();
    assert_eq!(map.used_bursts(), 1 << 18);
    assert!(said(&map.add_bursts("c", 1)).contains(" 0 of 262144 are free"));
}
