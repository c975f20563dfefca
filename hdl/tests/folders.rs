//! Folders of blocks: each uses only earlier ones, which excludes cycles.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: [(&str, &[&str]); 8] = [
    ("common", &[]),
    ("arithmetic", &["common"]),
    ("activation", &["common", "arithmetic"]),
    ("gemv", &["common", "arithmetic", "activation"]),
    ("memory", &["common"]),
    ("link", &["common"]),
    ("front_end", &["common", "arithmetic", "activation", "gemv", "memory", "link"]),
    ("pim", &["common", "arithmetic"]),
];

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The folders that a file's code names in any way, without comments.
fn used(text: &str) -> BTreeSet<&str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let paths = code.flat_map(|line| line.split("blocks::").skip(1));
    paths.map(|path| path.split(|c: char| c != '_' && !c.is_ascii_lowercase()).next().unwrap()).collect()
}

#[test]
fn a_folder_of_blocks_uses_only_those_before_it() {
    let blocks = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/blocks");
    let folders = entries(&blocks).into_iter().filter(|path| path.is_dir());
    let names: BTreeSet<String> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, FOLDERS.iter().map(|(name, _)| (*name).to_owned()).collect());
    let mut uses = 0;
    for (index, (folder, may_use)) in FOLDERS.iter().enumerate() {
        for other in *may_use {
            assert!(FOLDERS[..index].iter().any(|(earlier, _)| earlier == other), "{folder} before {other}");
        }
        for file in entries(&blocks.join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("super::super"), "{}", file.display());
            for other in used(&text) {
                uses += 1;
                assert!(may_use.contains(&other), "{} uses {other}", file.display());
            }
        }
    }
    assert!(uses > 20, "only {uses} uses were found");
}
