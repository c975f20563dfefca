//! Documents: every path that they name exists.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// `README.md`, those of folders, and what lies in `docs`.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.extend(["README.md", "synth/README.md"].map(|name| root().join(name)));
    pages.sort();
    pages
}

/// What stands between backticks, and the text without it.
fn code_spans(line: &str) -> (Vec<&str>, String) {
    let parts: Vec<&str> = line.split('`').collect();
    let code = parts.iter().skip(1).step_by(2).copied().collect();
    (code, parts.iter().step_by(2).copied().collect())
}

/// The paths of the repository that a code span names: words that begin with something in its root. `{a,b}` is each of both, and a
/// module may go without `.rs`. Names with `*` or capital letters for a choice are no paths.
fn paths(span: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || "./_-{},*".contains(c);
    let words = span.split(|c| !word(c)).map(|word| word.trim_end_matches(['.', ',']));
    let in_root = |word: &&str| {
        word.split_once('/')
            .is_some_and(|(first, _)| !first.is_empty() && first != "target" && root().join(first).is_dir())
    };
    let expand =
        |word: &str| match word.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?))) {
            Some((before, (inner, after))) => {
                inner.split(',').map(|one| format!("{before}{one}{after}")).collect()
            }
            None => vec![word.to_owned()],
        };
    words.filter(|word| !word.contains('*')).filter(in_root).flat_map(expand).collect()
}

#[test]
fn every_path_in_the_documents_exists() {
    let (mut missing, mut found) = (Vec::new(), 0);
    for page in documents() {
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        let mut in_block = false;
        for (number, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            let mut complain = |path: &str| missing.push(format!("{name}:{}: {path}", number + 1));
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                continue;
            }
            if in_block {
                continue;
            }
            let (spans, text) = code_spans(line);
            for path in spans.iter().flat_map(|span| paths(span)) {
                found += 1;
                let [plain, module] = [root().join(&path), root().join(format!("{path}.rs"))];
                if !plain.exists() && !module.exists() {
                    complain(&path);
                }
            }
            // Links: what follows `](`, without a section.
            for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                if !target.is_empty() && !target.contains("://") {
                    found += 1;
                    if !page.parent().unwrap().join(target).exists() {
                        complain(target);
                    }
                }
            }
        }
    }
    assert!(found > 200, "only {found} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}
