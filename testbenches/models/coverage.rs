//! Does `ndp verify coverage` name exactly the code that a run left out, accept waivers, and refuse those that waive
//! nothing?

use crate::program::{fails, ndp, stderr};
use common::Outcome;
use ndp_hdl::designs::BuildError;
use ndp_hdl_language::{Design, HdlError, Module, ModuleBuilder, cat, zeros};
use ndp_sim::ffi::{Hardware, Model, OpenOptions, rtl};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;

/// A block whose parts are reached or not.
#[derive(Debug)]
struct Reached;

impl Hardware for Reached {
    fn name(&self) -> &str {
        "reached"
    }

    fn elaborate(&self, _: &str) -> Result<Design, BuildError> {
        Ok(Design::new(&reached()?)?)
    }
}

/// One register takes every number, another one only 15.
fn reached() -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new("reached", "a branch that small numbers do not reach");
    let data = module.input("data_i", 4, "number");
    let last = module.reg("last_q", 4).reset(0);
    last.next(data);
    let full = module.hold("full_q", data, data.all());
    module.output("last_o", last, "the number before");
    module.output("full_o", full, "15 after the first one");
    module.output("even_o", cat([zeros(2), !data.bit(0)]), "two bits that are always 0, and one");
    module.finish()
}

/// Runs models on the numbers of 0 to 7, one of them on odd ones only.
fn run_in(folder: &Path) -> Outcome {
    for step in [2, 1] {
        let options = OpenOptions { coverage: Some(folder.to_owned()), ..OpenOptions::default() };
        let mut model = Model::open(&rtl(&Reached, "reached")?, &options)?;
        let data = model.input("data_i")?;
        model.reset(2);
        for number in (8 - step..8).chain((0..8).step_by(step as usize)) {
            model.set(data, number);
            model.tick();
        }
    }
    Ok(())
}

fn line(folder: &Path, waivers: &str) -> Result<String, Box<dyn Error>> {
    let file = folder.join("waivers.toml");
    std::fs::write(&file, waivers)?;
    Ok(format!("verify coverage --data {} --waivers {} --json", folder.display(), file.display()))
}

const WAIVED: &str = r#"
[[coverage]]
block = "coverage"
signal = "full_*"
reason = "no number is 15"
[[coverage]]
block = "coverage"
signal = "*"
bits = [3, 3]
reason = "all numbers are below 8"
[[coverage]]
block = "coverage"
line = "if full_q"
reason = "no number is 15"
"#;

#[test]
fn what_is_not_covered_is_named_exactly() -> Outcome {
    let folder = tempfile::tempdir()?;
    run_in(folder.path())?;
    let output = ndp(&line(folder.path(), "")?)?;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let (rows, row) = (&report["blocks"], &report["blocks"][0]);
    assert_eq!((rows.as_array().map(Vec::len), row["block"].as_str()), (Some(1), Some("coverage")));
    let gaps = row["gaps"].as_array().ok_or("no gaps")?.iter();
    let gaps: Vec<String> = gaps.map(|gap| format!("{} {}", gap["what"], gap["bits"])).collect();
    let expected = [
        "\"data_i\" [3]",
        "\"full_o\" [0,1,2,3]",
        "\"full_q\" [0,1,2,3]",
        "\"if full_q\" []",
        "\"last_o\" [3]",
        "\"last_q\" [3]",
    ];
    assert_eq!(gaps, expected, "{row:#}");
    // Five signals of 4 bits and the one bit of `even_o` that is not constant.
    assert_eq!((row["bits"]["all"].as_u64(), row["bits"]["covered"].as_u64()), (Some(21), Some(10)));
    assert_eq!(row["lines"]["covered"].as_u64().map(|covered| covered + 1), row["lines"]["all"].as_u64());
    let places = row["gaps"].as_array().into_iter().flatten().map(|gap| gap["place"].as_str());
    assert!(places.flatten().all(|place| place.starts_with("testbenches/models/coverage.rs:")), "{row:#}");
    Ok(())
}

#[test]
fn a_waiver_holds_and_one_that_waives_nothing_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    run_in(folder.path())?;
    let output = ndp(&line(folder.path(), WAIVED)?)?;
    assert!(output.status.success(), "{}", stderr(&output));
    let idle = format!(
        "{WAIVED}[[coverage]]\nblock = \"coverage\"\nsignal = \"last_q\"\nbits = [0, 2]\nreason = \"none\"\n"
    );
    let said = "the waiver of coverage, `last_q`, bits 0 to 2 waives nothing";
    fails(&line(folder.path(), &idle)?, 2, said)?;
    let unclear = "[[coverage]]\nblock = \"coverage\"\nreason = \"none\"\n";
    fails(&line(folder.path(), unclear)?, 2, "needs either `signal` or `line`")?;
    let silent = "[[mutant]]\nblock = \"fifo\"\nchange = \"*\"\nreason = \" \"\n";
    fails(&line(folder.path(), silent)?, 2, "a waiver has no reason")
}
