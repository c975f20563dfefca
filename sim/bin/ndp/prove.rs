//! `ndp prove`: proofs of the hardware's properties.
//!
//! What is proved, and how, is in the library; this file runs it and shows the table.

use crate::synth::from_env;
use crate::verdict::Verdict;
use anyhow::{Context, Result};
use ndp_files::{OutputFile, print, say};
use ndp_synth::formal::{Method, Outcome, PROOFS, Proof, Prover, Verdict as Found};
use ndp_synth::tools;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Prove properties of the hardware, and find the mutants of each proof
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp prove\n  \
    ndp prove fifo oldest\n  \
    ndp prove --list\n\n\
    Verdicts stay in --dir, and are taken from there while hardware, method and tools are the same: a run that was stopped goes on. \
    A run that breaks a property is there as <proof>/counterexample.vcd.")]
pub struct Args {
    /// Proofs whose name contains one of these [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Where verdicts and counterexamples are kept
    #[arg(long, default_value = "target/proofs")]
    dir: PathBuf,
    /// Limit of one run of a tool in seconds
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// List the proofs
    #[arg(long)]
    list: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    says: &'static str,
    method: String,
    outcome: Outcome,
    mutants: Vec<Outcome>,
}

impl Row {
    fn passed(&self) -> bool {
        self.outcome.verdict == Found::Proved && self.mutants.iter().all(found)
    }

    fn verdict(&self) -> &'static str {
        match self.outcome.verdict {
            Found::Proved => "proved",
            Found::Refuted => "REFUTED",
            Found::Open => "OPEN",
        }
    }

    /// The properties that each mutant breaks.
    fn broken(&self) -> String {
        let of = |mutant: &Outcome| match found(mutant) {
            true => mutant.properties.join(", "),
            false => "NOT FOUND".to_owned(),
        };
        self.mutants.iter().map(of).collect::<Vec<_>>().join("; ")
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

/// Runs the job.
pub fn run(args: &Args) -> Result<Verdict> {
    let chosen =
        |proof: &&Proof| args.names.is_empty() || args.names.iter().any(|part| proof.name.contains(part));
    let proofs: Vec<&Proof> = PROOFS.iter().filter(chosen).collect();
    let known = || PROOFS.iter().map(|proof| proof.name).collect::<Vec<_>>().join(", ");
    ensure!(
        !proofs.is_empty(),
        "no proof has a name with {} in it; there are {}",
        args.names.join(" or "),
        known()
    );
    if args.list && args.json {
        print(&serde_json::to_string_pretty(&proofs.iter().map(|proof| proof.name).collect::<Vec<_>>())?);
        return Ok(Verdict::Agreed);
    }
    if args.list {
        for proof in proofs {
            say!("{:<24} {} ({})", proof.name, proof.says, method(proof));
        }
        return Ok(Verdict::Agreed);
    }
    ensure!(args.timeout_s > 0, "--timeout-s = 0 must be at least 1");
    let limit = Duration::from_secs(args.timeout_s);
    let out = args.out.as_deref().map(OutputFile::create).transpose()?;
    let yosys = tools::yosys(from_env("YOSYS"), limit)?;
    let abc = tools::abc(from_env("ABC"), &yosys, limit)?;
    let prover = Prover { yosys, abc, limit };
    let mut rows = Vec::new();
    for (number, proof) in proofs.iter().enumerate() {
        note!("{}/{}: {}", number + 1, proofs.len(), proof.name);
        let folder = args.dir.join(proof.name);
        let context = || format!("proof {}", proof.name);
        let outcome = prover.prove(proof, &folder).with_context(context)?;
        let mutants = prover.refute(proof, &folder.join("mutant")).with_context(context)?;
        rows.push(Row { name: proof.name, says: proof.says, method: method(proof), outcome, mutants });
    }
    if let Some(out) = out {
        out.finish(|file| file.write_all(markdown(&rows).as_bytes()))?;
    }
    if args.json {
        print(&serde_json::to_string_pretty(&rows)?);
    } else {
        say!("{:<24} {:<8} {:>7}  {}", "proof", "verdict", "s", "properties that each mutant breaks");
        for row in &rows {
            let seconds = row.outcome.seconds + row.mutants.iter().map(|mutant| mutant.seconds).sum::<f64>();
            say!("{:<24} {:<8} {seconds:>7.1}  {}", row.name, row.verdict(), row.broken());
        }
    }
    Ok(if rows.iter().all(Row::passed) { Verdict::Agreed } else { Verdict::Differed })
}

/// The table, without times, which differ from machine to machine.
fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| proof | the hardware | method | properties that each mutant breaks |\n| --- | --- | --- | --- |\n"
            .to_owned();
    for row in rows {
        let _ = writeln!(text, "| {} | {} | {} | {} |", row.name, row.says, row.method, row.broken());
    }
    text
}
