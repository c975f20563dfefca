//! Documents: every path, section and cargo target that they name exists, no page is too long, they use the field's
//! words, and the numbers that they call measured are the stored ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn pages_of(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect()
}

/// Pages in the root, in folders, and in `docs`.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/tutorial", "docs/generated", "synth", "golden"];
    let mut pages: Vec<PathBuf> = folders.into_iter().flat_map(pages_of).collect();
    pages.sort();
    pages
}

fn name_of(page: &Path) -> String {
    page.strip_prefix(root()).unwrap().display().to_string()
}

/// Lines of a page outside of blocks of code, with their numbers.
fn prose(page: &Path) -> Vec<(usize, String)> {
    let mut in_block = false;
    let text = fs::read_to_string(page).unwrap();
    let outside = text.lines().enumerate().filter(|(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !fence && !in_block
    });
    outside.map(|(number, line)| (number + 1, line.to_owned())).collect()
}

/// A section's name in a link, as GitHub derives it from the heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The second section of a name has suffix `-1`, and so on.
fn has_section(page: &Path, section: &str) -> bool {
    let headings = prose(page).into_iter().filter(|(_, line)| line.starts_with('#'));
    let names: Vec<String> = headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect();
    let count = |name: &str| names.iter().filter(|other| *other == name).count();
    let numbered = section.rsplit_once('-').and_then(|(name, n)| Some((name, n.parse::<usize>().ok()?)));
    count(section) > 0 || numbered.is_some_and(|(name, n)| count(name) > n)
}

/// Texts between backticks, and the line without them.
fn code_spans(line: &str) -> (Vec<&str>, String) {
    let parts: Vec<&str> = line.split('`').collect();
    let code = parts.iter().skip(1).step_by(2).copied().collect();
    (code, parts.iter().step_by(2).copied().collect())
}

/// The paths of the repository that a code span names: words that begin with an entry of its root. `{a,b}` is each of
/// both, and a module may go without `.rs`. Names with `*` or capital letters for a choice are no paths.
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
fn every_path_and_section_in_the_documents_exists() {
    let (mut missing, mut found) = (Vec::new(), 0);
    for page in documents() {
        for (number, line) in prose(&page) {
            let mut complain = |what: &str| missing.push(format!("{}:{number}: {what}", name_of(&page)));
            let (spans, text) = code_spans(&line);
            for path in spans.iter().flat_map(|span| paths(span)) {
                found += 1;
                let [plain, module] = [root().join(&path), root().join(format!("{path}.rs"))];
                if !plain.exists() && !module.exists() {
                    complain(&path);
                }
            }
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if target.contains("://") {
                    continue;
                }
                found += 1;
                let (file, section) = target.split_once('#').unwrap_or((target, ""));
                let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
                if !file.exists() || !section.is_empty() && !has_section(&file, section) {
                    complain(target);
                }
            }
        }
    }
    assert!(found > 200, "only {found} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Lines of a page that a reader can take in, and bytes of the first page.
const MOST_LINES: usize = 350;
const MOST_BYTES: u64 = 8000;
/// Mean words of a sentence on the first pages.
const MOST_WORDS: f64 = 18.0;

#[test]
fn no_page_is_too_long() {
    let long: Vec<String> = documents()
        .iter()
        .filter(|page| !page.starts_with(root().join("docs/generated")))
        .map(|page| (fs::read_to_string(page).unwrap().lines().count(), page))
        .filter(|(lines, _)| *lines > MOST_LINES)
        .map(|(lines, page)| format!("{}: {lines} lines", name_of(page)))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    let bytes = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(bytes <= MOST_BYTES, "README.md has {bytes} bytes");
}

/// Words of each sentence of the running text, without tables, headings and targets of links.
fn sentences(page: &Path) -> Vec<usize> {
    let mut text = String::new();
    for (_, line) in prose(page) {
        let line = line.trim().to_owned();
        if line.starts_with(['|', '#', '!']) || line.is_empty() {
            text += "\n";
            continue;
        }
        // Items of a list are sentences of their own.
        let item =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        text += if item { "\n" } else { " " };
        text += line.trim_start_matches(|c: char| c == '-' || c == '.' || c.is_ascii_digit());
    }
    let ends = |text: &str| text.replace(". ", "\n").replace("? ", "\n");
    ends(&text)
        .lines()
        .map(|sentence| sentence.split_whitespace().count())
        .filter(|words| *words > 0)
        .collect()
}

#[test]
fn sentences_are_short_where_a_reader_begins() {
    let mut pages = pages_of("docs/tutorial");
    pages.push(root().join("README.md"));
    for page in pages {
        let words = sentences(&page);
        let mean = words.iter().sum::<usize>() as f64 / words.len() as f64;
        assert!(words.len() > 5 && mean <= MOST_WORDS, "{}: {mean:.1} words a sentence", name_of(&page));
    }
}

/// The project's former words that the field does not use.
const PRIVATE: [&str; 9] = [
    "planted",
    "memory that computes",
    "memories that compute",
    "in no time",
    "apart",
    "nobody",
    "somebody",
    "whoever",
    " whom ",
];

#[test]
fn documents_use_the_words_of_the_field() {
    let mut found = Vec::new();
    for page in documents() {
        for (number, line) in prose(&page) {
            let line = line.to_lowercase();
            let words = PRIVATE.iter().filter(|word| !line.starts_with('>') && line.contains(**word));
            found.extend(words.map(|word| format!("{}:{number}: {word}", name_of(&page))));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let pages = ["docs", "docs/tutorial", "docs/generated"].into_iter().flat_map(pages_of);
    for page in pages.filter(|page| !page.ends_with("SUMMARY.md")) {
        let name = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
        assert_eq!(summary.matches(&format!("]({name})")).count(), 1, "{name} in docs/SUMMARY.md");
    }
}

/// Complaints of `docs/measured/results.py --check` in a folder with the documents.
fn complaint(root: &Path) -> String {
    let script = root.join("docs/measured/results.py");
    let output = Command::new("python3").arg(script).arg("--check").output().expect("python3 starts");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), text.is_empty(), "{text}");
    text
}

fn copy_of_documents(to: &Path) {
    for folder in ["docs", "docs/tutorial", "docs/generated", "docs/measured"] {
        fs::create_dir_all(to.join(folder)).unwrap();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, to.join(folder).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    fs::copy(root().join("README.md"), to.join("README.md")).unwrap();
}

#[test]
fn marked_numbers_and_tables_are_those_of_the_stored_results() {
    assert_eq!(complaint(&root()), "");
}

#[test]
fn a_number_that_has_drifted_is_named() {
    let folder = tempfile::tempdir().unwrap();
    copy_of_documents(folder.path());
    let change = |name: &str, from: &str, to: &str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name} lacks {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    assert_eq!(complaint(folder.path()), "");
    // A number, its file and line, and the expected number.
    change("README.md", "0.993<!--products.most-->", "0.994<!--products.most-->");
    let text = complaint(folder.path());
    let line = fs::read_to_string(root().join("README.md")).unwrap();
    let line = 1 + line.lines().position(|line| line.contains("<!--products.most-->")).unwrap();
    assert!(
        text.contains(&format!("README.md:{line}: 0.994, expected 0.993: products.most is 0.99")),
        "{text}"
    );
    change("README.md", "0.994<!--products.most-->", "0.993<!--products.mist-->");
    assert!(complaint(folder.path()).contains("<!--products.mist-->: no such figure"));
    change("README.md", "products.mist", "products.most");
    // A table, and a changed result.
    change("docs/generated/results.md", "| 7.34 |", "| 7.14 |");
    assert!(complaint(folder.path()).contains("docs/generated/results.md is not what"));
    change("docs/generated/results.md", "| 7.14 |", "| 7.34 |");
    let results = fs::read_to_string(folder.path().join("docs/results.md")).unwrap();
    let (before, _) = results.split_once("<!--layer.cycles-->").unwrap();
    let shown = before.rsplit(' ').next().unwrap();
    let cycles = shown.replace(',', "");
    change("docs/measured/layer.json", &format!("\"cycles\": {cycles}"), "\"cycles\": 1");
    let text = complaint(folder.path());
    assert!(text.contains("docs/results.md:") && text.contains(&format!("{shown}, expected 1")), "{text}");
}

/// Files of tests: those that simulate RTL, and each crate's own.
fn test_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut todo = ["hdl", "rust", "synth", "testbenches"].map(PathBuf::from).to_vec();
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap().map(|entry| entry.unwrap()) {
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true if path.ends_with("target") => {}
                true => todo.push(path),
                false => files.push(path),
            }
        }
    }
    let is_test = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let own = name.starts_with("testbenches/") && !name.starts_with("testbenches/common/");
        let of_crate = name.contains("/tests/") && !name.contains("/common/");
        (own || of_crate)
            && name.ends_with(".rs")
            && !name.ends_with("/mod.rs")
            && !name.ends_with("/main.rs")
    };
    files.retain(is_test);
    files.sort();
    files
}

fn purpose(file: &Path) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_table_of_tests_is_that_of_their_headers() {
    let mut page = "# Tests\n\nGenerated from the first words of each file, by `SNAPSHOTS=overwrite cargo test -p ndp-hdl --test tests table_of_tests`. \
                    `make exhaustive` runs the tests that `make test` leaves out.\n"
        .to_owned();
    let mut folder = None;
    for file in test_files() {
        if file.parent() != folder.as_deref() {
            folder = file.parent().map(Path::to_path_buf);
            page += &format!(
                "\n## {}\n\n| file | question |\n| --- | --- |\n",
                folder.as_ref().unwrap().display()
            );
        }
        let name = file.file_name().unwrap().to_string_lossy();
        let purpose = purpose(&file);
        assert!(!purpose.is_empty(), "{} does not say what it asks", file.display());
        page += &format!("| [`{name}`](../../{}) | {purpose} |\n", file.display());
    }
    let path = root().join("docs/generated/tests.md");
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, &page).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    let differs = text.lines().zip(page.lines()).find(|(is, should)| is != should);
    assert!(
        text == page,
        "docs/generated/tests.md is out of date; SNAPSHOTS=overwrite writes it: {differs:#?}"
    );
}

#[test]
fn the_picture_of_the_crates_is_that_of_the_manifests() {
    let output =
        Command::new("python3").args(["docs/crates.py", "--check"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Targets of the packages, such as `bin gen-rtl`. Those without a name are what cargo takes where a command names no package.
fn targets() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let by_default = metadata["workspace_default_members"].as_array().unwrap().contains(&package["id"]);
        for target in package["targets"].as_array().unwrap() {
            let name =
                format!("{} {}", target["kind"][0].as_str().unwrap(), target["name"].as_str().unwrap());
            if by_default {
                found.entry(String::new()).or_default().push(name.clone());
            }
            found.entry(package["name"].as_str().unwrap().to_owned()).or_default().push(name);
        }
    }
    found
}

/// The package, and targets such as `bin gen-rtl`, in a line with a command for cargo.
fn named_by(line: &str) -> Option<(&str, Vec<String>)> {
    let command =
        ["cargo ", "$(CARGO) ", "cargo_test,"].iter().find_map(|name| Some(line.split_once(name)?.1))?;
    let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
    let (mut package, mut targets) = ("", Vec::new());
    for pair in words.windows(2) {
        let name = pair[1].trim_end_matches(['`', '.', ',', ';', ')']);
        match pair[0] {
            "-p" | "--package" => package = name,
            "--bin" | "--bench" | "--example" | "--test" => targets.push(format!("{} {name}", &pair[0][2..])),
            _ => {}
        }
    }
    Some((package, targets))
}

#[test]
fn every_package_and_target_that_a_command_names_exists() {
    let targets = targets();
    let missing_in = |line: &str| -> Vec<String> {
        let Some((package, wanted)) = named_by(line) else { return Vec::new() };
        match targets.get(package) {
            // CRATE stands for any of them.
            None if package == "CRATE" => Vec::new(),
            None => vec![format!("package {package}")],
            Some(all) => wanted.into_iter().filter(|name| !all.contains(name)).collect(),
        }
    };
    assert_eq!(missing_in("cargo run --bin ndp-fuzz -- --cases 1"), ["bin ndp-fuzz"], "it needs a package");
    assert_eq!(missing_in("cargo test -p ndp-fuzz"), ["package ndp-fuzz"]);

    let scripts = ["Makefile", ".ci/install", ".ci/run", ".ci/dependencies"].map(|name| root().join(name));
    let (mut missing, mut found) = (Vec::new(), 0);
    for page in documents().into_iter().chain(scripts) {
        for line in fs::read_to_string(&page).unwrap().lines() {
            found += named_by(line).map_or(0, |(_, targets)| targets.len());
            missing
                .extend(missing_in(line).iter().map(|what| format!("{}: no {what}: {line}", name_of(&page))));
        }
    }
    assert!(found > 50, "only {found} targets were found");
    assert!(missing.is_empty(), "{missing:#?}");
}
