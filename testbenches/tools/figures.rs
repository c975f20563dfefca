//! `ndp figures`: files, stored numbers, refusals, and how many numbers of the papers are met.

use ndp_testkit::programs::Program;
use serde_json::Value;
use std::fs;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("figures")
}

fn text(program: &Program, line: &str) -> String {
    String::from_utf8(program.succeeds(line).stdout).unwrap()
}

#[test]
fn a_quick_run_writes_every_file_and_keeps_what_it_has_computed() {
    let program = program();
    let out = program.path("out");
    let line = format!("--quick --paper hermes --figure 9,10,12,17 --out {out}");
    let first = text(&program, &line);
    let csv = fs::read_to_string(format!("{out}/hermes.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("figure,item,unit,paper,stated,fitted,exact,ratio,cause"));
    assert!(lines.clone().count() >= 6 && csv.contains("\"Fig. 9, 10\""), "{csv}");
    let json: Value = serde_json::from_slice(&fs::read(format!("{out}/figures.json")).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    for row in rows {
        let ratio = row["fitted"].as_f64().unwrap() / row["paper"].as_f64().unwrap();
        let found = row["ratio"].as_f64().unwrap();
        assert!((found / ratio - 1.0).abs() < 1e-15, "{row}");
        let agrees = (ratio - 1.0).abs() <= 0.15 + 1e-9;
        assert_eq!(row["cause"].as_str().unwrap().is_empty(), agrees, "{row}");
    }
    let html = fs::read_to_string(format!("{out}/figures.html")).unwrap();
    assert!(html.matches("<svg").count() >= rows.len() / 2 && html.contains("What is assumed"));
    assert!(fs::read_to_string(format!("{out}/hermes-fig-17-1.svg")).unwrap().starts_with("<svg"));
    // The documents match today's figures.
    for (name, page, least, of_formulas) in [
        ("hermes", include_str!("../../docs/generated/figures-hermes.md"), 6, 6),
        ("energy", include_str!("../../docs/generated/figures-energy.md"), 3, 8),
    ] {
        let table = fs::read_to_string(format!("{out}/{name}.md")).unwrap();
        let computed: Vec<&str> = table.lines().filter(|line| line.starts_with("| Fig.")).collect();
        assert!(computed.len() >= least, "{table}");
        for line in computed {
            // The pages have exact numbers too, with other ratios and causes.
            let cells = line.split(" | ").take(of_formulas).collect::<Vec<_>>().join(" | ");
            assert!(
                page.lines().any(|line| line.starts_with(&format!("{cells} |"))),
                "docs/generated/figures-{name}.md lacks\n{line}\nwrite it anew with `ndp figures`"
            );
        }
    }
    // A system's token takes the time and energy that `ndp compare` reports.
    let bar = &json["energy"][0];
    assert_eq!(
        (&bar["figure"], &bar["system"], &bar["model"]),
        (&"Fig. 9".into(), &"accelerate on hermes".into(), &"opt-13b".into())
    );
    let compare = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("compare");
    for set in ["stated", "fitted"] {
        let assumed = if set == "fitted" { "hermes" } else { set };
        let line = format!("--llm opt-13b --policies accelerate --assume {assumed} --json");
        let compared: Value = serde_json::from_str(&text(&compare, &line)).unwrap();
        for key in ["tokens_per_second", "joules_per_token"] {
            assert_eq!(bar[set][key], compared["entries"][0][key], "{set} {key}");
        }
    }
    let energy = fs::read_to_string(format!("{out}/energy.csv")).unwrap();
    let columns = |line: &str| line.split(',').count();
    assert_eq!(energy.lines().count(), 1 + json["energy"].as_array().unwrap().len());
    assert!(energy.lines().all(|line| columns(line) == columns(energy.lines().next().unwrap())), "{energy}");

    // Kept numbers are used as they are; `--fresh` replaces them. Changed ones are computed again.
    let kept: Vec<_> =
        fs::read_dir(format!("{out}/kept")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), rows.len());
    let times =
        || -> Vec<_> { kept.iter().map(|path| fs::metadata(path).unwrap().modified().unwrap()).collect() };
    let before = times();
    assert_eq!(text(&program, &line), first);
    assert_eq!(times(), before);
    assert_eq!(text(&program, &format!("{line} --fresh")), first);
    assert!(times().iter().zip(&before).all(|(after, before)| after > before));
    for path in &kept {
        let changed = fs::read_to_string(path).unwrap().replace("[", "[1");
        fs::write(path, changed).unwrap();
    }
    assert_eq!(text(&program, &line), first);
    fs::write(&kept[0], "nonsense").unwrap();
    assert_eq!(text(&program, &line), first);
}

#[test]
fn figures_are_chosen_by_number_and_others_refused() {
    let program = program();
    let out = program.path("out");
    let text = text(&program, &format!("--figure 17 --paper hermes --formula --out {out}"));
    assert!(text.contains("TensorRT-LLM, batch 16") && !text.contains("Fig. 9"), "{text}");
    assert!(text.lines().any(|line| line.contains("Fig. 17") && line.contains("batch 16")), "{text}");
    for (figures, figure) in [("99", "99"), ("17,99", "99")] {
        program.refused(
            &format!("--paper hermes --figure {figures} --out {out}"),
            &format!("--figure '{figure}': unknown figure, expected one of\n  hermes: section I; Fig. 4a; "),
        );
    }
    program.refused("--figure , --quick", "--figure has '' twice");
    program.refused("--paper herms", "'herms'");
    let file = program.file("file", "");
    program.refused(&format!("--quick --out {file}"), "file");
}

/// Times of work in memory are measured on the device model, which the formulas are shorter than.
#[test]
fn numbers_of_librapim_are_computed_with_measured_times() {
    let program = program();
    let out = program.path("out");
    text(&program, &format!("--paper librapim --figure 19,20a --out {out}"));
    let json: Value = serde_json::from_slice(&fs::read(format!("{out}/figures.json")).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.len() > 8);
    for row in rows {
        let [exact, fitted, paper] = ["exact", "fitted", "paper"].map(|key| row[key].as_f64().unwrap());
        assert_eq!(row["ratio"].as_f64().unwrap(), if exact == paper { 1.0 } else { exact / paper }, "{row}");
        // Longer times of the banks lower what LibraPIM gains, and their utilisation.
        let attacc = row["item"].as_str().unwrap().starts_with("AttAcc");
        assert!(exact < fitted || attacc && exact == fitted, "{row}");
    }
    // A later run for other numbers keeps them.
    let bars = || {
        let csv = fs::read_to_string(format!("{out}/energy.csv")).unwrap();
        csv.lines().filter(|line| line.starts_with("librapim,")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = bars();
    assert!(!before.is_empty() && before.iter().all(|line| !line.ends_with(",,,,")), "{before:?}");
    text(&program, &format!("--quick --paper flash --out {out}"));
    assert_eq!(bars(), before);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn hermes_has_the_rate_of_compare() {
    let program = program();
    let out = program.path("out");
    text(&program, &format!("--paper hermes --figure abstract --out {out}"));
    let json: Value = serde_json::from_slice(&fs::read(format!("{out}/figures.json")).unwrap()).unwrap();
    let compare = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("compare");
    let line = "--llm relu-llama2-70b --policies hermes --exact 3 --fresh --json";
    let compared: Value = serde_json::from_str(&text(&compare, line)).unwrap();
    assert_eq!(json["rows"][0]["exact"], compared["entries"][0]["tokens_per_second"]);
}

#[test]
fn a_second_paper_joins_the_first_one_in_the_folder() {
    let program = program();
    let out = program.path("out");
    let read = |name: &str| fs::read_to_string(format!("{out}/{name}")).unwrap();
    text(&program, &format!("--figure 17 --paper hermes --formula --out {out}"));
    let csv = read("hermes.csv");
    let said = text(&program, &format!("--quick --paper flash --out {out}"));
    assert!(said.starts_with("flash: ") && !said.contains("Fig. 17"), "{said}");
    let page = read("figures.html");
    for title in ["hermes, Fig. 17", "hermes: ", "flash: ", "flash, Fig. 4"] {
        assert!(page.contains(&format!("\">{title}")), "{title}");
    }
    assert_eq!(read("hermes.csv"), csv);
    // A second run for fewer numbers removes none.
    text(&program, &format!("--quick --paper flash --out {out} --fresh"));
    let numbers = |page: &str| page.split_once("<td>command</td>").map(|(numbers, _)| numbers.to_owned());
    assert!(numbers(&page).is_some() && numbers(&read("figures.html")) == numbers(&page));
    let json: Value = serde_json::from_str(&read("figures.json")).unwrap();
    let papers: Vec<&str> =
        json["rows"].as_array().unwrap().iter().map(|row| row["paper_name"].as_str().unwrap()).collect();
    assert!(papers.contains(&"hermes") && papers.contains(&"flash"));
    // Numbers of another build do not count.
    fs::remove_dir_all(format!("{out}/kept")).unwrap();
    let output = program.succeeds(&format!("--quick --paper flash --out {out}"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("hermes.csv comes from another build") && said.contains("ndp figures --paper hermes"),
        "{said}"
    );
}

#[test]
fn no_file_takes_what_is_printed() {
    let program = program();
    fs::create_dir(program.path("out")).unwrap();
    for name in ["figures.json", "hermes.md"] {
        let file = program.file(&format!("out/{name}"), "kept");
        program.spares_what_it_reads("--quick --paper hermes --figure 17 --out out", &file);
    }
}
