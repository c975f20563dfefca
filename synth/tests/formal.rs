//! Do the proofs hold, and are their mutants found? These are the proofs that take seconds; `ndp verify prove` runs
//! all.

use ndp_hdl_language::mutate::{Mutant, replaced};
use ndp_hdl_language::{Design, Module, ModuleBuilder};
use ndp_synth::formal::{PROOFS, Proof, Prover, Verdict};
use ndp_synth::tools;
use ndp_synth::tools::Timeout;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

fn prover() -> Prover {
    let limit = Duration::from_secs(7200);
    let yosys = tools::yosys(std::env::var("YOSYS").ok(), limit).unwrap();
    Prover { abc: tools::abc(None, &yosys, limit).unwrap(), yosys, limit }
}

fn proof(name: &str) -> &'static Proof {
    PROOFS.iter().find(|proof| proof.name == name).unwrap()
}

#[test]
fn every_proof_has_a_name_of_its_own_and_a_mutant_that_changes_one_place() {
    let names: BTreeSet<&str> = PROOFS.iter().map(|proof| proof.name).collect();
    assert_eq!(names.len(), PROOFS.len());
    for proof in PROOFS {
        let (mutants, original) = (proof.mutated().unwrap(), proof.design().unwrap());
        let texts: BTreeSet<String> = mutants.iter().map(|mutant| proof.verilog(mutant).unwrap()).collect();
        assert!(!texts.is_empty() && texts.len() == mutants.len(), "{}", proof.name);
        assert!(!texts.contains(&proof.verilog(&original).unwrap()), "{}", proof.name);
    }
}

#[test]
fn a_property_that_a_proof_leaves_out_is_in_one_that_leaves_out_nothing() {
    let states = |proof: &Proof, name: &str| {
        let design = Design::new(&proof.design().unwrap()).unwrap();
        design.verilog().contains(&format!(" {name}: assert ("))
    };
    for proof in PROOFS {
        for name in proof.elsewhere {
            let whole = |other: &&Proof| other.any.is_empty() && other.elsewhere.is_empty();
            assert!(states(proof, name), "{} has no {name}", proof.name);
            assert!(PROOFS.iter().filter(whole).any(|other| states(other, name)), "no proof has {name}");
        }
    }
}

/// Proves these, and finds their mutants.
fn all_hold(names: impl IntoIterator<Item = &'static str>) {
    let (prover, folder) = (prover(), tempfile::tempdir().unwrap());
    for name in names {
        let (proof, dir) = (proof(name), folder.path().join(name));
        let proved = prover.prove(proof, &dir).unwrap();
        assert_eq!(proved.verdict, Verdict::Proved, "{name}: {:?}", proved.properties);
        let mutants = prover.refute(proof, &dir.join("mutant")).unwrap();
        for (number, mutant) in mutants.iter().enumerate() {
            let place = if mutants.len() == 1 { String::new() } else { format!("{}/", number + 1) };
            assert_eq!(mutant.verdict, Verdict::Refuted, "mutant {} of {name}", number + 1);
            println!("{name}: mutant {} breaks {:?}", number + 1, mutant.properties);
            assert!(!mutant.properties.is_empty(), "{name}");
            assert!(dir.join(format!("mutant/{place}counterexample.vcd")).exists(), "{name}");
        }
    }
}

#[test]
fn queues_arbiter_places_and_receiver_are_proved_and_their_mutants_found() {
    all_hold(["fifo", "sram_fifo", "matrix_arbiter", "rank_intake", "link_receiver"]);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn everything_is_proved_and_all_mutants_are_found() {
    all_hold(PROOFS.iter().map(|proof| proof.name));
}

#[test]
fn a_verdict_is_kept_while_what_it_follows_from_is_the_same() {
    let (prover, folder) = (prover(), tempfile::tempdir().unwrap());
    let proof = proof("fifo");
    let first = prover.prove(proof, folder.path()).unwrap();
    // It does not run again: there is no Yosys of that name.
    let mut other = prover.clone();
    other.yosys.program = "no-such-yosys".into();
    assert_eq!(other.prove(proof, folder.path()).unwrap(), first);
    other.yosys.version = "another version".into();
    assert!(other.prove(proof, folder.path()).is_err());
    std::fs::write(folder.path().join("verdict.json"), "{").unwrap();
    assert!(other.prove(proof, folder.path()).is_err());
}

#[test]
fn a_search_that_runs_out_of_time_proves_nothing() {
    // ABC takes more than a minute for it, and stops by itself a second before the limit.
    let (prover, folder) =
        (Prover { limit: Duration::from_secs(5), ..prover() }, tempfile::tempdir().unwrap());
    match prover.prove(proof("fp16_adder"), folder.path()) {
        Ok(outcome) => assert_eq!(outcome.verdict, Verdict::Open),
        Err(error) => assert!(error.is::<Timeout>(), "{error}"),
    }
}

#[test]
fn mutants_that_are_the_same_hardware_are_told_from_others() {
    // A stage without a reset, a memory, and a flag that an assumption keeps at 0.
    let m = ModuleBuilder::new("stage", "Holds words.");
    let (valid, data) = (m.input("valid_i", 1, "write"), m.input("data_i", 4, "word"));
    let never = m.input("never_i", 1, "is 0");
    m.assume("never", !never, "it is not used");
    let place = m.reg("place_q", 2).reset(0).enable(valid);
    place.next(place.plus_one());
    let memory = m.memory("words", 4, 4);
    memory.write(valid, place, data);
    let last = m.reg("last_q", 4).enable(valid);
    last.next(data);
    let both = m.reg("both_q", 1).reset(0);
    both.next((valid | never) & data.any());
    m.output("both_o", both, "a word that is not 0");
    m.output("last_o", last, "the last word");
    m.output("read_o", memory.read(place), "the oldest word");
    let module = m.finish().unwrap();
    let (prover, folder) = (prover(), tempfile::tempdir().unwrap());
    let verdict = |mutated: &Rc<Module>| prover.equivalent(&module, mutated, folder.path()).unwrap().verdict;
    assert_eq!(verdict(&module), Verdict::Proved, "itself");
    let mutants = Mutant::all(&Design::new(&module).unwrap());
    let of = |words: &str| {
        let mutant = mutants.iter().find(|mutant| mutant.words(&module) == words);
        replaced(&module, mutant.unwrap_or_else(|| panic!("no mutant: {words}"))).unwrap().unwrap()
    };
    // The assumption makes one the same.
    assert_eq!(verdict(&of("next both_q: (valid_i | never_i) becomes valid_i")), Verdict::Proved);
    assert_eq!(verdict(&of("next both_q: (valid_i | never_i) becomes never_i")), Verdict::Refuted);
    assert_eq!(verdict(&of("enable last_q: valid_i becomes 1")), Verdict::Refuted);
    assert_eq!(verdict(&of("register place_q never changes")), Verdict::Refuted);
}
