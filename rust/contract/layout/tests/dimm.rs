//! Do regions stay apart, and do models arrive from their files?

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ndp_config::DesignConfig;
use ndp_layout::{DimmMap, LayoutError, Region, SafetensorsFile, elements_of, load_matrices};

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
    assert_eq!(map.free_bursts(), (1 << 18) - 276);
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
    assert_eq!(map.free_bursts(), 0);
    assert!(matches!(map.add_bursts("c", 1), Err(LayoutError::Capacity { free: 0, .. })));
}

/// A safetensors file by hand: header and bytes.
fn write(path: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_fp16_matrix_of_a_file_is_placed_and_its_rows_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    // b: 3 x 70 at byte 8, a: 2 x 2 before it; a vector and a matrix of another type are passed over.
    let header = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F16","shape":[3,70],"data_offsets":[8,428]},
        "bias":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},
        "a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},
        "f":{"dtype":"F32","shape":[1,1],"data_offsets":[428,432]}}"#;
    let data: Vec<u8> = (0..216u16).flat_map(|i| (1000 + i).to_le_bytes()).collect();
    write(&path, header, &data);
    let mut map = DimmMap::new(&small());
    let mut bursts = BTreeMap::new();
    let names = load_matrices(&path, &mut map, &mut |p| {
        bursts.insert((p.rank, p.burst), p.data);
    })
    .unwrap();
    assert_eq!(names, ["a", "b"]);
    for (name, first, rows, cols) in [("a", 1000, 2, 2), ("b", 1004, 3, 70)] {
        let layout = map.matrix(name).unwrap();
        assert_eq!((layout.rows(), layout.cols()), (rows, cols));
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            let place = layout.locate(row, col);
            let found = elements_of(&bursts[&(place.rank, place.burst)])[place.element as usize];
            assert_eq!(u32::from(found), first + row * cols + col, "{name}[{row}, {col}]");
        }
    }
    // Once more does not go: the names are taken, and nothing is written.
    let again = load_matrices(&path, &mut map, &mut |_| panic!("nothing is placed"));
    assert!(matches!(again, Err(LayoutError::NameTaken { .. })));
    let mut file = SafetensorsFile::open(&path).unwrap();
    assert_eq!(file.tensors().len(), 4);
    let reason = file.rows("f").unwrap_err().to_string();
    assert!(reason.ends_with("tensor f is F32 [1, 1], not an F16 matrix"), "{reason}");
    assert!(file.rows("nothing").unwrap_err().to_string().ends_with("tensor nothing is missing"));
}

#[test]
fn broken_files_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.safetensors");
    let reason = || SafetensorsFile::open(&path).unwrap_err().to_string();
    assert!(reason().starts_with("cannot read"));
    fs::write(&path, [1, 2, 3]).unwrap();
    assert!(reason().ends_with("3 bytes, at least 8 are expected"));
    fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert!(reason().ends_with("header of 18446744073709551615 bytes, at most 0 are expected"));
    write(&path, "{", &[]);
    assert!(reason().contains("header: "));
    write(&path, r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#, &[0; 3]);
    assert!(reason().ends_with("tensor a: bytes 0..4 of 3"));
    write(&path, r#"{"a":{"dtype":"F16","shape":[3],"data_offsets":[0,4]}}"#, &[0; 4]);
    assert!(reason().ends_with("tensor a: 4 bytes for the shape [3]"));
    write(&path, r#"{"a":{"dtype":"F16","shape":[9223372036854775807,4],"data_offsets":[0,4]}}"#, &[0; 4]);
    assert!(reason().contains("tensor a: 4 bytes"));
    write(&path, r#"{"a":{"shape":[3],"data_offsets":[0,4]}}"#, &[0; 4]);
    assert!(reason().contains("tensor a: missing field"));
}
