//! Mutants of the description in models, and the tests that `ndp verify mutate` lists for each block.
//!
//! `hdl/language/tests/mutants.rs` tests the mutants themselves.

use crate::models::native::random_pins;
use crate::program::{fails, json};
use common::Outcome;
use common::rtl::{argument, design_config};
use ndp_hdl_language::Direction;
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Hardware, Model, OpenOptions, Rtl, rtl};
use ndp_verilate::mutate::Mutant;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::error::Error;
use std::process::Command;

/// `count` mutants of a block, evenly spread.
fn some(config: &str, block: &str, count: usize) -> Result<Vec<Mutant>, Box<dyn Error>> {
    let all = Mutant::all(&design_config(config)?.elaborate(block)?);
    Ok(all.iter().step_by(all.len() / count).take(count).cloned().collect())
}

fn mutated(config: &str, block: &str, mutants: &[Mutant], number: u32) -> Result<Rtl, Box<dyn Error>> {
    let rtl = Rtl::with_mutants(&design_config(config)?, block, mutants, number);
    Ok(rtl.map_err(|lines| lines.join("\n"))?)
}

/// Answers of a block without a clock to random operands.
fn answers(rtl: &Rtl) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut model = Model::open(rtl, &OpenOptions::default())?;
    let of = |direction| rtl.ports.iter().filter(move |port| port.direction == direction);
    let inputs = of(Direction::Input).map(|port| Ok((model.input(&port.name)?, port.width)));
    let inputs = inputs.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let outputs =
        of(Direction::Output).map(|port| model.output(&port.name)).collect::<Result<Vec<_>, _>>()?;
    let mut random = SplitMix64::new(1);
    let mut answers = Vec::new();
    for _ in 0..4000 {
        for (pin, width) in &inputs {
            // Small values too, which shifts and exponents need.
            let value = random.next_u64() >> (64 - width) >> (random.next_u64() % u64::from(*width));
            model.set(*pin, value);
        }
        model.eval();
        answers.extend(outputs.iter().map(|pin| model.get(*pin)));
    }
    Ok(answers)
}

#[test]
fn one_model_has_all_mutants_and_without_a_number_it_is_the_original() -> Outcome {
    let mutants = some("tiny", "product_aligner", 12)?;
    let original = answers(&rtl(&design_config("tiny")?, "product_aligner")?)?;
    let of = |number| answers(&mutated("tiny", "product_aligner", &mutants, number)?);
    assert!(of(0)? == original);
    let all = (1..=12).map(of).collect::<Result<BTreeSet<_>, _>>()?;
    // Few are alike, or the original.
    assert!(all.iter().filter(|answers| **answers != original).count() >= 9, "{}", all.len());
    Ok(())
}

#[test]
fn both_forms_of_model_have_the_same_mutants() -> Outcome {
    for &(block, cycles) in ndp_testkit::some(&[("host_port", 400), ("compute_tile", 200)]) {
        let mutants = some("tiny", block, 10)?;
        for number in 0..=10 {
            random_pins(&mutated("tiny", block, &mutants, number)?, cycles, number.into())?;
        }
    }
    Ok(())
}

#[test]
fn every_block_with_a_score_names_tests_and_proofs_that_exist() -> Outcome {
    let listed = Command::new(std::env::current_exe()?).arg("--list").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let tests: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let proofs = json("verify prove --list --json")?;
    let names = |value: &serde_json::Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let proofs = proofs["proofs"].as_array().ok_or("no proofs")?;
    let proofs: Vec<&str> = proofs.iter().filter_map(|proof| proof["name"].as_str()).collect();
    assert!(proofs.len() > 20);
    let blocks = json("verify mutate --list --json")?;
    let blocks = blocks["blocks"].as_array().ok_or("no list")?;
    assert!(blocks.len() > 20);
    let mut files: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for block in blocks {
        let name = block["name"].as_str().unwrap_or_default();
        let own = names(&block["tests"]);
        assert!(!own.is_empty(), "{name}");
        for filter in own {
            assert!(
                tests.iter().any(|test| test.contains(&filter)),
                "{name}: no test has {filter} in its name"
            );
        }
        for proof in names(&block["proofs"]) {
            assert!(proofs.contains(&&*proof), "{name}: no proof is called {proof}");
        }
        let design = names(&block["design"]);
        let files = match files.entry(design) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (_, design) = ndp_synth::source::design(&argument(&new.key()[0]), &new.key()[1])?;
                let all = Mutant::all(&design);
                new.insert(all.iter().map(|mutant| mutant.file().to_owned()).collect())
            }
        };
        let file = format!("/{name}.rs");
        assert!(files.iter().any(|of| of.ends_with(&file)), "{name} has no mutants in its design");
    }
    Ok(())
}

#[test]
fn a_block_without_tests_is_refused() -> Outcome {
    let waivers = tempfile::NamedTempFile::new()?;
    std::fs::write(&waivers, "[[mutant]]\nblock = \"nothing\"\nchange = \"*\"\nreason = \"none\"\n")?;
    let line = format!("verify mutate --block fifo --waivers {}", waivers.path().display());
    fails(&line, 2, "no tests are known for block 'nothing'")
}
