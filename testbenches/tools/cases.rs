//! Everything that `ndp` prints, case by case.
//!
//! `testbenches/cases/NAME.args` has the arguments of a call in each line, `NAME.out` the output. A call after `# `
//! only prepares the others. `[..]` stands for any text in a line, as for a time. `forms.args` and `slow.args` have no
//! output: it differs from run to run.
//! `SNAPSHOTS=overwrite cargo test --release --test tools cases` writes the outputs.

use ndp_testkit::programs::{Program, remarks};
use serde_json::Value;
use snapbox::{Assert, Data};
use std::path::{Path, PathBuf};
use std::process::Output;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Whether a call printed a result, with checks that passed or failed.
fn is_reported(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 1))
}

/// Paths of the arguments, in order, except the slow ones.
fn cases() -> Vec<PathBuf> {
    let files = std::fs::read_dir(Path::new(ROOT).join("testbenches/cases")).unwrap();
    let mut cases: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    cases.retain(|path| {
        path.extension().is_some_and(|ending| ending == "args") && !path.ends_with("slow.args")
    });
    cases.sort();
    assert!(cases.len() >= 15, "{cases:?}");
    cases
}

/// Runs the calls of a case with more options, in a folder with the project's files.
fn run(case: &Path, options: &str, mut of: impl FnMut(&Program, &str, &Output)) {
    let program = Program::new(env!("CARGO_BIN_EXE_ndp"));
    for name in ["golden", "testbenches"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(name), program.path(name)).unwrap();
    }
    let options = ["report.json", "page.html", "tables"]
        .iter()
        .fold(options.to_owned(), |options, name| options.replace(name, &program.path(name)));
    for call in std::fs::read_to_string(case).unwrap().lines() {
        match call.strip_prefix("# ") {
            Some(call) => _ = program.succeeds(call),
            None => {
                let before = program.left();
                let mut command = program.command(&format!("{call} {options}"));
                if call.starts_with("verify") {
                    // It builds the project's testbenches.
                    command.current_dir(ROOT);
                }
                let output = command.output().unwrap();
                if !is_reported(&output) {
                    assert_eq!(program.left(), before, "`{call}` is refused and leaves a file");
                    assert!(output.stdout.is_empty(), "`{call}` is refused and prints");
                }
                of(&program, call, &output);
            }
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn all_cases_print_what_they_have_to() {
    let check = Assert::new().action_env("SNAPSHOTS");
    let fails = |case: &PathBuf| {
        let mut found = String::new();
        run(case, "", |_, call, output| {
            found += &format!("$ ndp {call}\n{}{}", text(output), remarks(output));
            if !output.status.success() {
                found += &format!("({})\n", output.status);
            }
        });
        let expected = Data::read_from(&case.with_extension("out"), None);
        check.try_eq(Some(&case.display()), found.into(), expected).err().map(|error| error.to_string())
    };
    let failed: Vec<String> =
        cases().iter().filter(|case| !case.ends_with("forms.args")).filter_map(fails).collect();
    assert!(failed.is_empty(), "{}\nSNAPSHOTS=overwrite writes them; see `git diff`", failed.join("\n"));
}

/// The page of `ndp schema`: commands and their lines, in order.
#[derive(Default)]
struct Schema(Vec<(String, Vec<String>)>);

impl Schema {
    const PAGE: &str = "docs/generated/schema.md";
    const HEAD: &str = "| path | unit | meaning |\n| --- | --- | --- |\n";

    fn read() -> Self {
        let page = std::fs::read_to_string(Path::new(ROOT).join(Self::PAGE)).unwrap();
        let section = |text: &str| {
            let (name, lines) = text.split_once('\n').unwrap();
            let lines = lines.lines().filter(|line| line.starts_with("| `")).map(str::to_owned);
            (name.to_owned(), lines.collect())
        };
        Self(page.split("\n## ndp ").skip(1).map(section).collect())
    }

    /// Adds the lines of a report after the last line that it shares with the section.
    fn add(&mut self, command: &str, csv: &str) {
        let known = self.0.iter().position(|(name, _)| name == command).unwrap_or_else(|| {
            self.0.push((command.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        let (lines, mut after) = (&mut self.0[known].1, 0);
        for row in csv::Reader::from_reader(csv.as_bytes()).records() {
            let row = row.unwrap();
            let line = format!("| `{}` | {} | {} |", &row[0], &row[1], &row[2]);
            after = 1 + lines.iter().position(|known| *known == line).unwrap_or_else(|| {
                lines.insert(after, line);
                after
            });
        }
    }

    fn page(mut self) -> String {
        for (name, lines) in Self::read().0 {
            if !self.0.iter().any(|(known, _)| *known == name) {
                self.0.push((name, lines));
            }
        }
        self.0.sort();
        let sections = self
            .0
            .iter()
            .map(|(name, lines)| format!("\n## ndp {name}\n\n{}{}\n", Self::HEAD, lines.join("\n")));
        format!(
            "# JSON of each command\n\nEvery path that `--json` prints, with its unit and meaning, as `ndp schema COMMAND` lists them and `ndp sweep` takes \
             them. `*` is any index. With `--csv DIR`, each table is a file, and `schema.csv` has these lines for that result. Some paths exist only with \
             the options that they belong to.\n{}",
            sections.collect::<String>()
        )
    }
}

#[test]
fn every_report_has_all_forms() {
    let cases = cases();
    all_forms(cases.iter().filter(|case| !case.display().to_string().contains("refusals")));
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn slow_reports_have_all_forms() {
    all_forms([&Path::new(ROOT).join("testbenches/cases/slow.args")]);
}

#[test]
fn a_failure_is_on_standard_error_beside_json() {
    let mut calls = 0;
    run(&Path::new(ROOT).join("testbenches/cases/failures.args"), "--json", |_, call, output| {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["rerun"], format!("ndp {call}"));
        let failed = format!("FAILED: {}\n", report["verdict"].as_str().unwrap());
        assert!(report["holds"] == false && remarks(output).starts_with(&failed), "{}", remarks(output));
        calls += 1;
    });
    assert!(calls > 0);
}

/// All forms come from one value, and the page of `ndp schema` describes it.
fn all_forms<'a>(cases: impl IntoIterator<Item = &'a PathBuf>) {
    let mut schema = Schema::default();
    for case in cases {
        run(case, "--verbose --json=report.json --html=page.html --csv=tables", |program, call, output| {
            let said = remarks(output);
            assert!(is_reported(output), "{call}: {said}");
            let text = text(output);
            let mut lines = text.lines().filter(|line| !line.starts_with("rerun: "));
            assert!(lines.all(|line| line.chars().count() <= 100), "{call}: {text}");
            assert!(text.ends_with(&format!("\nrerun: ndp {call}\n")), "{text}");
            let report = std::fs::read_to_string(program.path("report.json")).unwrap();
            let report: Value = serde_json::from_str(&report).unwrap();
            assert_eq!(report["rerun"], format!("ndp {call}"));
            let verdict = report["verdict"].as_str().unwrap();
            assert_eq!(report["holds"] == false, text.contains("FAILED: "), "{text}");
            let page = std::fs::read_to_string(program.path("page.html")).unwrap();
            assert!(page.contains(&format!("{verdict}</h1>")) && page.ends_with("</html>\n"), "{call}");
            for table in std::fs::read_dir(program.path("tables")).unwrap() {
                let path = table.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::remove_file(&path).unwrap();
                if name == "schema" {
                    schema.add(report["command"].as_str().unwrap(), &text);
                    continue;
                }
                let lines = text.lines().count();
                assert_eq!(report[name].as_array().map(|rows| rows.len() + 1), Some(lines), "{call}: {name}");
            }
        });
    }
    let expected = Data::read_from(&Path::new(ROOT).join(Schema::PAGE), None);
    let shown =
        Assert::new().action_env("SNAPSHOTS").try_eq(Some(&Schema::PAGE), schema.page().into(), expected);
    assert!(shown.is_ok(), "{}\nSNAPSHOTS=overwrite writes it", shown.unwrap_err());
}
