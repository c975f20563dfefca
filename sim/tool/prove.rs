//! `ndp verify prove`: proofs of the hardware's properties.
//!
//! The library proves; this file calls it and shows the table.

use crate::prelude::*;
use crate::synth::prover;
use ndp_synth::formal::{Method, Outcome, PROOFS, Proof, Verdict as Found};
use std::fmt::Write;
use std::time::Duration;

/// Prove properties of the hardware, and check that each proof finds its mutants
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp verify prove\n  \
    ndp verify prove fifo oldest\n  \
    ndp verify prove --list\n\n\
    --dir keeps the verdicts and reuses them as long as hardware, method and tools are the same, so an interrupted run resumes. \
    The counterexample of a broken property is <proof>/counterexample.vcd in that folder.")]
pub struct Args {
    /// Select proofs whose name contains one of these texts [default: all proofs]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Folder that keeps verdicts and counterexamples
    #[arg(long, default_value = "target/proofs")]
    dir: PathBuf,
    /// Time limit of one tool run in seconds (1 or more)
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
    /// Write the table to this file as Markdown
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// List the proofs
    #[arg(long)]
    list: bool,
}

struct Row {
    proof: &'static Proof,
    outcome: Outcome,
    mutants: Vec<Outcome>,
}

impl Row {
    fn broken(&self) -> String {
        let of = |mutant: &Outcome| match found(mutant) {
            true => mutant.properties.join(", "),
            false => "NOT FOUND".to_owned(),
        };
        self.mutants.iter().map(of).join("; ")
    }

    fn passed(&self) -> bool {
        self.outcome.verdict == Found::Proved && self.mutants.iter().all(found)
    }
}

fn found(mutant: &Outcome) -> bool {
    mutant.verdict == Found::Refuted
}

fn method(proof: &Proof) -> String {
    match proof.method {
        Method::AnyLength => "runs of any length".to_owned(),
        Method::Cycles(cycles) => format!("runs of {cycles} cycles"),
    }
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let chosen =
        |proof: &&Proof| args.names.is_empty() || args.names.iter().any(|part| proof.name.contains(part));
    let proofs: Vec<&'static Proof> = PROOFS.iter().filter(chosen).collect();
    let known = || PROOFS.iter().map(|proof| proof.name).join(", ");
    ensure!(
        !proofs.is_empty(),
        "no proof has {} in its name; the proofs are {}",
        args.names.join(" or "),
        known()
    );
    if args.list {
        let listed = rows! { proofs.iter() => |proof|
            "name" "proof" {Text} Screen: "proof" = proof.name;
            "says" "the hardware" {Text} Screen: "property that is proved" = proof.says;
            "method" "method" {Text} Screen: "runs that it covers" = method(proof);
        };
        return Ok(Report::answer("verify prove", format!("{} proofs", listed.count()))
            .table("proofs", "Proofs", listed));
    }
    ensure!(args.timeout_s > 0, "--timeout-s = 0 must be at least 1");
    let out = Asked::create(args.out.as_ref())?;
    let prover = prover(Duration::from_secs(args.timeout_s))?;
    let mut rows = Vec::new();
    for (number, &proof) in proofs.iter().enumerate() {
        note!("{}/{}: {}", number + 1, proofs.len(), proof.name);
        let folder = args.dir.join(proof.name);
        let context = || format!("proof {}", proof.name);
        let outcome = prover.prove(proof, &folder).with_context(context)?;
        let mutants = prover.refute(proof, &folder.join("mutant")).with_context(context)?;
        rows.push(Row { proof, outcome, mutants });
    }
    out.write(|| Ok(markdown(&rows)))?;
    let failed = rows.iter().filter(|row| !row.passed()).count();
    let verdict = match failed {
        0 => format!("{} proofs hold, and each mutant breaks a property", rows.len()),
        failed => format!("{failed} of {} proofs do not hold, or miss a mutant", rows.len()),
    };
    let rows = rows! { &rows => |row|
        let Row { proof, outcome, mutants } = row;
        "name" "proof" {Text} Screen: "proof" = proof.name;
        "verdict" "verdict" {Text} Screen: "proved, REFUTED or OPEN" = match outcome.verdict {
            Found::Proved => "proved",
            Found::Refuted => "REFUTED",
            Found::Open => "OPEN",
        };
        "seconds" "time" {Real("s", 1)} Screen: "time of the proof and its mutants"
            = outcome.seconds + mutants.iter().map(|mutant| mutant.seconds).sum::<f64>();
        "broken" "properties that each mutant breaks" {Text} Screen: "properties that each mutant breaks" = row.broken();
        "says" "the hardware" {Text} Verbose: "property that is proved" = proof.says;
        "method" "method" {Text} Verbose: "runs that it covers" = method(proof);
        "outcome" "" {Data} Json: "verdict, properties and time of the proof" = outcome;
        "mutants" "" {Data} Json: "result of each mutant" = mutants;
    };
    Ok(Report::checked("verify prove", failed == 0, verdict).table("proofs", "Proofs", rows))
}

/// Excludes times, which differ between machines.
fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| proof | the hardware | method | properties that each mutant breaks |\n| --- | --- | --- | --- |\n"
            .to_owned();
    for row in rows {
        let Proof { name, says, .. } = row.proof;
        let _ = writeln!(text, "| {name} | {says} | {} | {} |", method(row.proof), row.broken());
    }
    text
}
