//! Do the proofs prove, and are their mutants found? Those that take seconds; `ndp prove` runs all.

use ndp_synth::formal::{PROOFS, Proof, Prover, Verdict};
use ndp_synth::tools;
use std::collections::BTreeSet;
use std::time::Duration;

/// The tools.
fn prover() -> Prover {
    let limit = Duration::from_secs(600);
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
        assert_ne!(proof.mutated().unwrap(), proof.verilog().unwrap(), "{}", proof.name);
    }
}

/// Proves those of these names, and finds their mutants.
fn all_hold(names: impl IntoIterator<Item = &'static str>) {
    let (prover, folder) = (prover(), tempfile::tempdir().unwrap());
    for name in names {
        let (proof, dir) = (proof(name), folder.path().join(name));
        assert_eq!(prover.prove(proof, &dir).unwrap().verdict, Verdict::Proved, "{name}");
        let mutant = prover.refute(proof, &dir.join("mutant")).unwrap();
        assert_eq!(mutant.verdict, Verdict::Refuted, "the mutant of {name}");
        assert!(!mutant.properties.is_empty(), "{name}");
        assert!(dir.join("mutant/counterexample.vcd").exists(), "{name}");
    }
}

#[test]
fn queues_arbiter_and_places_are_proved_and_their_mutants_found() {
    all_hold(["fifo", "sram_fifo", "oldest_first", "rank_intake"]);
}

#[test]
fn the_queue_between_two_clocks_is_proved_for_every_order_of_edges_and_its_mutant_found() {
    all_hold(["async_fifo"]);
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
    // Nothing is run for it: there is no Yosys of that name.
    let mut other = prover.clone();
    other.yosys.program = "no-such-yosys".into();
    assert_eq!(other.prove(proof, folder.path()).unwrap(), first);
    other.yosys.version = "another version".into();
    assert!(other.prove(proof, folder.path()).is_err());
    std::fs::write(folder.path().join("verdict.json"), "{").unwrap();
    assert!(other.prove(proof, folder.path()).is_err());
}
