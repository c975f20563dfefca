//! `ndp serve --rtl`: texts of the small model, generated with channels in RTL while they are served.
//!
//! The trace is served twice: with channels in RTL, and without data on device models, as with `--clocked`. Every
//! iteration has to take the same clocks in both runs, and is also compared with the planner's tables.

use super::run::{self, Entry, Job, Outcome, Shown};
use crate::prelude::*;
use anyhow::ensure;
use ndp_files::fault;
use ndp_librapim::host::{Pins, Prompt, Sizes, Text, boxed, groups_of, sizes_of};
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_sim::ffi::OpenOptions;
use ndp_sim::hbm::Lockstep;
use ndp_systems::serving::{Chunk, KvMemory, StepTimes, TextSteps, texts};
use serde::Serialize;

/// Temperature of the sampler in hundredths, and its seed.
const SAMPLER: (u32, u64) = (50, 4);

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Iteration {
    /// For each prompt: earlier tokens, and tokens in this iteration.
    prompts: Vec<(u32, u32)>,
    /// Context of each request that generated a token.
    contexts: Vec<u32>,
    /// Time with channels in RTL, or clock by clock without data.
    ns: u64,
    table_ns: u64,
}

#[derive(Serialize)]
struct Served {
    mode: &'static str,
    iterations: Vec<Iteration>,
}

type Asked = Vec<(Vec<Chunk>, Vec<Chunk>, u64)>;

/// Compares the texts of a machine with those from software.
fn check(machine: &TextSteps<'_>, alone: &[Text]) -> Result<()> {
    for (number, (found, expected)) in machine.session().texts().zip(alone).enumerate() {
        ensure!(
            found == expected,
            fault!("the channel failed: the text of request {} differs from the software's text", number + 1)
        );
    }
    let violations: u64 = machine.session().machine().channels().map(Pins::violations).sum();
    ensure!(violations == 0, fault!("the channel failed: {violations} violations of the memory's protocol"));
    Ok(())
}

/// Serves the trace, and records each iteration.
fn iterations(
    job: &Job<'_>,
    machine: &mut dyn StepTimes,
    shown: &mut Shown,
) -> Result<(ndp_systems::serving::Outcome, Asked)> {
    let mut asked = Vec::new();
    let outcome = job.serve(machine, shown, |one| {
        asked.push((one.prefilled.to_vec(), one.decoded.to_vec(), one.end_ns - one.start_ns));
    });
    Ok((outcome?, asked))
}

/// Text of each prompt, generated on its own in software.
fn alone(model: &Model, prompts: &[Prompt]) -> Result<Vec<Text>> {
    let text = |(number, prompt): (usize, &Prompt)| {
        let Prompt { generate: tokens, temperature_percent, seed, .. } = *prompt;
        let options = GenerateOptions::new(tokens, temperature_percent, seed);
        let software = &mut SoftwareBackend::new();
        let text = generate_tokens(model, software, &prompt.tokens, &options, |_| {})
            .with_context(|| format!("request {}", number + 1))?;
        Ok(Text { tokens: text.tokens, logits_digests: text.logits_digests })
    };
    prompts.iter().enumerate().map(text).collect()
}

pub fn run(job: &Job<'_>) -> Result<Report> {
    let Job { args, requests, rules, kv_bytes } = *job;
    let model = load_model(&workspace_path("golden/model"))?;
    let chips = args.chips.of_model(sizes_of(&model), job.contexts()?)?;
    ndp_files::ensure!(chips.parallel.chips() == 1, "--rtl has one chip: leave --tp and --pp out");
    let modes = run::modes(args)?;
    for &mode in &modes {
        groups_of(mode).context("--rtl")?;
    }
    let prompts = texts::prompts(requests, SAMPLER.0, SAMPLER.1);
    let alone = alone(&model, &prompts)?;
    let (sizes, extents) = (Sizes::new(&chips.model), texts::extents(requests));
    let mut shown = Shown::new(requests, 2 * modes.len());
    let (mut entries, mut served) = (Vec::new(), Vec::new());
    for mode in modes {
        let config = chips.memory(mode);
        let rtl = boxed(Lockstep::all(&config, |_| OpenOptions::default())?);
        let (hardware, arrangement) = (&chips.hardware, chips.arrangement(mode)?);
        let channels = (rtl, kv_bytes);
        let mut machine = TextSteps::new(&model, &config, hardware, &arrangement, &prompts, channels)
            .context(mode.name())?;
        let (outcome, asked) = iterations(job, &mut machine, &mut shown).context(mode.name())?;
        check(&machine, &alone).context(mode.name())?;
        entries.push(Entry::new(mode.name(), &machine, outcome));
        let mut timed = chips.clocked(mode, &sizes, (&extents, false), kv_bytes)?;
        let (_, expected) = iterations(job, &mut timed, &mut shown).context(mode.name())?;
        let differs = asked.iter().zip(&expected).position(|(one, other)| one != other);
        ensure!(
            differs.is_none() && asked.len() == expected.len(),
            fault!(
                "the channel failed: {}: iteration {} in RTL differs from the iteration clock by clock without data",
                mode.name(),
                differs.unwrap_or(asked.len().min(expected.len()))
            )
        );
        let mut steps =
            chips.serving(&chips.model, mode, KvMemory { bytes: u64::MAX, bytes_per_token: 1 })?;
        let mut iterations = Vec::new();
        for (prompts, tokens, ns) in asked {
            iterations.push(Iteration {
                prompts: prompts.iter().map(|chunk| (chunk.history, chunk.tokens)).collect(),
                contexts: tokens.iter().map(Chunk::context).collect(),
                ns,
                table_ns: steps.step(&prompts, &tokens)?.ns,
            });
        }
        served.push(Served { mode: mode.name(), iterations });
    }
    drop(shown);
    let outcome = Outcome {
        machine: super::machine::Kind::Librapim,
        model: "the small model".to_owned(),
        on: format!("an NPU with {} channels in RTL", chips.memory.channels()),
        rules,
        entries,
        refused: Vec::new(),
    };
    let mut report = super::report::report(&outcome)?
        .note("texts and logits are the software's; every iteration takes the clocks of --clocked")
        .data(
            "modes",
            "each iteration: chunks of prompts, contexts of tokens, ns in RTL and by tables",
            &served,
        );
    for Served { mode, iterations } in &served {
        for (what, with_prompts) in [("of tokens alone", false), ("with prompts", true)] {
            let of: Vec<&Iteration> =
                iterations.iter().filter(|one| one.prompts.is_empty() != with_prompts).collect();
            let sum = |ns: fn(&Iteration) -> u64| of.iter().map(|&one| ns(one)).sum::<u64>();
            let ratios = of.iter().map(|one| one.table_ns as f64 / one.ns as f64);
            let (least, most) = ratios
                .fold((f64::INFINITY, 0f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
            let (ns, table) = (sum(|one| one.ns), sum(|one| one.table_ns));
            if !of.is_empty() {
                report = report.note(format!(
                    "{mode}: {} iterations {what} take {ns} ns, {table} by tables, {:.3} times as many ({least:.3} to {most:.3})",
                    of.len(),
                    table as f64 / ns as f64
                ));
            }
        }
    }
    Ok(report)
}
