//! `ndp serve --rtl`: the small model's texts, generated with channels in RTL while they are served.
//!
//! The same trace is served twice: with channels in RTL, and without data on device models, as `--clocked` does for models of any size. Every iteration has
//! to take the same clocks. Each is also looked up in the planner's tables, which are compared.

use super::machine::{Chips, measured_contexts};
use super::run::{self, Args, Entry, Outcome, Shown};
use crate::tools::{load_model, workspace_path};
use anyhow::{Context, Result, ensure};
use ndp_files::fault;
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_offloading::Mode;
use ndp_pim::{Channel, Pins, Prompt, Sizes, Text, boxed, groups_of, sizes_of};
use ndp_report::Report;
use ndp_serving::{Chunk, KvMemory, Request, Rules, StepTimes, TextSteps, serve, texts};
use ndp_sim::ffi::OpenOptions;
use ndp_sim::hbm::Lockstep;
use serde::Serialize;

/// Temperature of the sampler in hundredths, and its seed.
const SAMPLER: (u32, u64) = (50, 4);

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Iteration {
    /// Of each prompt: tokens before, and tokens of it in this iteration.
    prompts: Vec<(u32, u32)>,
    /// Of each request that generated a token.
    contexts: Vec<u32>,
    /// With channels in RTL, and clock by clock without data.
    ns: u64,
    table_ns: u64,
}

#[derive(Serialize)]
struct Served {
    mode: &'static str,
    iterations: Vec<Iteration>,
}

/// A trace and what serves it.
struct Job<'a> {
    model: &'a Model,
    chips: &'a Chips,
    requests: &'a [Request],
    prompts: &'a [Prompt],
    rules: Rules,
    kv_bytes: Option<u64>,
}

type Asked = Vec<(Vec<Chunk>, Vec<Chunk>, u64)>;

impl Job<'_> {
    /// Serves with these channels, and compares all texts. Also what each iteration was and took.
    fn serve(
        &self,
        mode: Mode,
        channels: Vec<Channel>,
        alone: &[Text],
        shown: &mut Shown,
    ) -> Result<(Entry, Asked)> {
        let Self { model, chips, requests, prompts, rules, kv_bytes } = *self;
        let (memory, arrangement) = (chips.memory(mode), chips.arrangement(mode)?);
        let mut machine =
            TextSteps::new(model, &memory, &chips.hardware, &arrangement, prompts, (channels, kv_bytes))?;
        let (outcome, asked) = iterations(requests, &rules, &mut machine, shown)?;
        for (number, (found, expected)) in machine.session().texts().zip(alone).enumerate() {
            ensure!(
                found == expected,
                fault!("the channel failed: the text of request {} is not that of the software", number + 1)
            );
        }
        let violations: u64 = machine.session().machine().channels().map(Pins::violations).sum();
        ensure!(
            violations == 0,
            fault!("the channel failed: {violations} violations of the memory's protocol")
        );
        Ok((Entry::new(mode.name(), &machine, outcome), asked))
    }
}

/// Serves; also what each iteration was and took.
fn iterations(
    requests: &[Request],
    rules: &Rules,
    machine: &mut dyn StepTimes,
    shown: &mut Shown,
) -> Result<(ndp_serving::Outcome, Asked)> {
    let mut asked = Vec::new();
    let outcome = serve(requests, rules, machine, &mut |one| {
        asked.push((one.prefilled.to_vec(), one.decoded.to_vec(), one.end_ns - one.start_ns));
        shown.iterated(one);
    });
    Ok((outcome?, asked))
}

/// Each prompt's text by itself, in software.
fn alone(model: &Model, prompts: &[Prompt]) -> Result<Vec<Text>> {
    let text = |(number, prompt): (usize, &Prompt)| {
        let Prompt { generate: tokens, temperature_percent, seed, .. } = *prompt;
        let options = GenerateOptions { tokens, temperature_percent, seed };
        let software = &mut SoftwareBackend::new();
        let text = generate_tokens(model, software, &prompt.tokens, &options, |_| {})
            .with_context(|| format!("request {}", number + 1))?;
        Ok(Text { tokens: text.tokens, logits_digests: text.logits_digests })
    };
    prompts.iter().enumerate().map(text).collect()
}

pub fn run(args: &Args, requests: &[Request], rules: Rules, kv_bytes: Option<u64>) -> Result<Report> {
    let model = load_model(&workspace_path("golden/model"))?;
    let longest = requests.iter().map(Request::most_kv_tokens).max().unwrap_or(1);
    let contexts = if args.chips.is_measured() { measured_contexts(longest)? } else { Vec::new() };
    let chips = args.chips.of_model(sizes_of(&model), contexts)?;
    ndp_files::ensure!(chips.parallel.chips() == 1, "--rtl has one chip: leave --tp and --pp out");
    let modes = run::modes(args)?;
    for &mode in &modes {
        groups_of(mode).context("--rtl")?;
    }
    let prompts = texts::prompts(requests, SAMPLER.0, SAMPLER.1);
    let alone = alone(&model, &prompts)?;
    let job = Job { model: &model, chips: &chips, requests, prompts: &prompts, rules, kv_bytes };
    let (sizes, extents) = (Sizes::new(&chips.model), texts::extents(requests));
    let mut shown = Shown::new(requests, 2 * modes.len());
    let (mut entries, mut served) = (Vec::new(), Vec::new());
    for mode in modes {
        let config = chips.memory(mode);
        let rtl = boxed(Lockstep::all(&config, |_| OpenOptions::default())?);
        shown.begin();
        let (entry, asked) = job.serve(mode, rtl, &alone, &mut shown).context(mode.name())?;
        shown.begin();
        let mut outlines = chips.clocked(mode, &sizes, (&extents, false), kv_bytes)?;
        let (_, expected) = iterations(requests, &rules, &mut outlines, &mut shown).context(mode.name())?;
        let differs = asked.iter().zip(&expected).position(|(one, other)| one != other);
        ensure!(
            differs.is_none() && asked.len() == expected.len(),
            fault!(
                "the channel failed: {}: iteration {} is another one in RTL than clock by clock without data",
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
        entries.push(entry);
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
