//! `ndp compare`: policies on a system, by batch: rate, energy, price, and where the time goes.

use crate::ignored;
use crate::output::OutputArgs;
use anyhow::{Context, Result};
use ndp_config::{DesignConfig, LlmShape, SystemConfig, WeightFormat};
use ndp_energy::{Energy, EnergyConstants};
use ndp_files::FileSet;
use ndp_report::{Chart, ChartKind, Level, Report, fields, figures};
use ndp_systems::{Assumptions, Device, DimmModel, Machine, Policy, Run, RunCosts, Workload};
use serde::Serialize;

/// Set of assumptions without `--assume`, and below a file of assumptions without `base`.
pub const DEFAULT_SET: &str = "hermes";

/// Compare ways to run a model on a system: tokens per second, joule and dollar, and where the time goes
///
/// Times of NDP-DIMMs come from the cycle model of the core, all others from the bandwidths and throughputs of the system and from what is assumed.
/// A policy that the system cannot run is listed with the reason.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp compare --llm llama2-70b\n  \
    ndp compare --llm llama2-70b --system mine.toml --policies hermes,hermes-host --batches 1,4 --html compare.html\n  \
    ndp compare --llm opt-66b --policies flexgen,deja-vu,hermes --prompt 64 --output 512 --assume stated --json")]
pub struct Args {
    /// Model: a preset such as llama2-70b, or a path ending in .toml.
    // Missing with a subcommand.
    #[arg(long, required = true)]
    llm: Option<String>,
    /// What the matrices of the layers are made of; FP16, or what the model's file says, if left out.
    #[arg(long, value_name = "FORMAT", value_parser = |name: &str| WeightFormat::named(name).ok_or("expected fp16, int8 or int4"))]
    weights: Option<WeightFormat>,
    /// System: hermes, hermes-3090, hermes-t4, pc-high, pc-low, a100x5, a100-80gb, m1-max or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    system: String,
    /// Core of the DIMMs: a preset or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Policies, separated by commas. All if left out.
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    policies: Vec<Policy>,
    /// Sequences at the same time, separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1")]
    batches: Vec<u32>,
    /// Tokens of each prompt.
    #[arg(long, value_name = "N", default_value_t = 128)]
    prompt: u32,
    /// Tokens that are generated for each.
    #[arg(long, value_name = "N", default_value_t = 128)]
    output: u32,
    /// What is assumed beyond the system's file: a paper's set, stated (nothing), or a path ending in .toml, which lies over the set that its key base names, or else
    /// over hermes.
    #[arg(long, value_name = "SET|FILE.toml", default_value = DEFAULT_SET)]
    assume: String,
    /// Constants of the energy of DRAM, cores and system: presets or paths ending in .toml.
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_dram: Option<String>,
    /// As --energy-dram, of the cores' logic.
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_core: Option<String>,
    /// As --energy-dram, of links, GPU, host and storage.
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_system: Option<String>,
    #[command(flatten)]
    pub form: OutputArgs,
}

/// A part of a token's time or energy.
#[derive(Serialize)]
struct Part<T: Serialize> {
    policy: Policy,
    batch: u32,
    name: &'static str,
    #[serde(flatten)]
    part: T,
}

#[derive(Serialize)]
struct Time {
    ms: f64,
    share: f64,
}

fields! { TIME
    "policy" "policy" {Text} Screen: "policy";
    "batch" "batch" {Count} Screen: "sequences at the same time";
    "name" "part" {Text} Screen: "computation or transfer, or device that the token waits for";
    "ms" "ms" {Real("ms", 2)} Screen: "time in a token of each sequence";
    "share" "share" {Share} Screen: "part of the token's time";
}

fields! { JOULES
    "policy" "policy" {Text} Screen: "policy";
    "batch" "batch" {Count} Screen: "sequences at the same time";
    "name" "device" {Text} Screen: "device";
    "fj" "J" {Real("fJ", 0)} Json: "energy in a token, the prompt's share included";
    "low_fj" "at least" {Real("fJ", 0)} Json: "with all constants at the lower ends of their ranges";
    "high_fj" "at most" {Real("fJ", 0)} Json: "with all constants at the upper ends of their ranges";
}

/// A policy with a batch.
#[derive(Serialize)]
struct Entry {
    policy: Policy,
    batch: u32,
    tokens_per_second: f64,
    decode_tokens_per_second: f64,
    prefill_ms: f64,
    token_ms: f64,
    resident: f64,
    joules_per_token: Energy,
    per_kilodollar: Option<f64>,
    waits_for: &'static str,
    waits_share: f64,
}

fields! { ENTRY
    "policy" "policy" {Text} Screen: "policy";
    "batch" "batch" {Count} Screen: "sequences at the same time";
    "tokens_per_second" "with prompt" {Real("tokens/s", 2)} Screen: "rate from the first byte of the prompt to the last token";
    "decode_tokens_per_second" "decode" {Real("tokens/s", 2)} Screen: "rate after the prompt";
    "token_ms" "token" {Real("ms", 2)} Screen: "time of a token of each sequence";
    "waits_for" "waits for" {Text} Screen: "device that the token waits for longest";
    "waits_share" "of it" {Share} Screen: "part of the token's time that it waits for this device";
    "joules_per_token" "energy of a token" {Energy} Screen: "energy of a token, the prompt's share included";
    "per_kilodollar" "tokens/s per $1,000" {Real("", 2)} Screen: "rate for each 1,000 US dollars of the system's price";
    "prefill_ms" "prefill" {Real("ms", 0)} Verbose: "time of the prompt";
    "resident" "in the GPU" {Share} Verbose: "part of the weights in the GPU's memory";
}

/// A policy that the system cannot run.
#[derive(Serialize)]
struct Refusal {
    policy: Policy,
    batch: u32,
    reason: String,
}

fields! { REFUSAL
    "policy" "policy" {Text} Screen: "policy";
    "batch" "batch" {Count} Screen: "sequences at the same time";
    "reason" "reason" {Text} Screen: "why the system cannot run it";
}

/// Tables of a policy's token: the policy itself, its time by steps and by devices, its energy by devices.
#[derive(Default)]
struct Tables {
    entries: Vec<Entry>,
    steps: Vec<Part<Time>>,
    waiting: Vec<Part<Time>>,
    joules: Vec<Part<Energy>>,
    refused: Vec<Refusal>,
}

impl Tables {
    fn add(&mut self, policy: Policy, run: &Run, machine: &Machine<'_>, costs: &RunCosts) {
        let batch = run.batch;
        let time = |ns: f64| Time { ms: ns / 1e6, share: ns / run.token.ns() };
        let steps = run.token.names().into_iter().map(|name| (name, run.token.ns_of(name)));
        let waiting = Device::ALL.map(|device| (device.name(), run.token.ns_waiting_for(device)));
        let joules = costs.per_token(machine, run);
        let (waits_for, most) = waiting.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        let rate = run.tokens_per_second();
        self.entries.push(Entry {
            policy,
            batch,
            tokens_per_second: rate,
            decode_tokens_per_second: run.decode_tokens_per_second(),
            prefill_ms: run.prefill.ns() / 1e6,
            token_ms: run.token.ns() / 1e6,
            resident: run.resident,
            joules_per_token: joules.iter().fold(Energy::default(), |sum, (_, energy)| sum + *energy),
            per_kilodollar: machine.system.usd().filter(|usd| *usd > 0.0).map(|usd| 1e3 * rate / usd),
            waits_for,
            waits_share: time(most).share,
        });
        let part = |(name, ns)| Part { policy, batch, name, part: time(ns) };
        self.steps.extend(steps.map(part));
        self.waiting.extend(waiting.into_iter().filter(|(_, ns)| *ns > 0.0).map(part));
        self.joules.extend(joules.iter().map(|(of, energy)| Part {
            policy,
            batch,
            name: of.name(),
            part: *energy,
        }));
    }

    /// The fastest policy, how much faster it is than the next, and what its token waits for.
    fn answer(&self) -> (String, String) {
        let mut by_rate: Vec<&Entry> = self.entries.iter().collect();
        by_rate.sort_by(|a, b| b.tokens_per_second.total_cmp(&a.tokens_per_second));
        let batch = |entry: &Entry| {
            let several = self.entries.iter().any(|other| other.batch != entry.batch);
            if several { format!(" at batch {}", entry.batch) } else { String::new() }
        };
        let [first, rest @ ..] = &by_rate[..] else { return Default::default() };
        let mut answer = format!(
            "{}{} runs at {:.2} tokens/s",
            first.policy.name(),
            batch(first),
            first.tokens_per_second
        );
        if let Some(next) = rest.iter().find(|entry| entry.policy != first.policy) {
            let ratio = first.tokens_per_second / next.tokens_per_second;
            answer += &format!(
                ", {ratio:.2} times as fast as {}{} ({:.2} tokens/s)",
                next.policy.name(),
                batch(next),
                next.tokens_per_second
            );
        }
        let reason = format!(
            "after the prompt a token takes {:.2} ms, and waits for {} during {:.0} % of it",
            first.token_ms,
            named(first.waits_for),
            100.0 * first.waits_share
        );
        (answer, reason)
    }
}

/// A device in a sentence.
fn named(device: &str) -> String {
    if device == "software" { device.to_owned() } else { format!("the {device}") }
}

/// Runs the job.
///
/// # Errors
/// For a file that cannot be used, and if the system runs none of the policies.
pub fn run(args: &Args) -> Result<Report> {
    let mut files = FileSet::new();
    for (what, path) in [
        ("the model", args.llm.as_ref()),
        ("the system", Some(&args.system)),
        ("the configuration", Some(&args.config)),
        ("the assumptions", Some(&args.assume)),
        ("the DRAM's energy", args.energy_dram.as_ref()),
        ("the cores' energy", args.energy_core.as_ref()),
        ("the system's energy", args.energy_system.as_ref()),
    ] {
        if let Some(path) = path {
            files = files.configuration(what, path);
        }
    }
    args.form.files(files).check()?;
    let model = LlmShape::load(args.llm.as_deref().unwrap_or_default())?;
    let model = args.weights.map_or(model.clone(), |weights| model.with_weights(weights));
    let system = SystemConfig::load(&args.system)?;
    ignored::warn("compare", &args.system, &[&ignored::COMPARE[..], &[ignored::COMPARE_LINKS]].concat())?;
    let design = DesignConfig::load(&args.config)?;
    let assumptions = Assumptions::chosen(&args.assume, DEFAULT_SET).context("--assume")?;
    let asked = [&args.energy_dram, &args.energy_core, &args.energy_system].map(|asked| asked.as_deref());
    let costs = RunCosts::new(&design, &EnergyConstants::load(&design, system.name(), asked)?);
    let dimms = DimmModel::new(&design);
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let policies = if args.policies.is_empty() { Policy::ALL.to_vec() } else { args.policies.clone() };
    let mut tables = Tables::default();
    for &batch in &args.batches {
        let work = Workload::new(&model, args.prompt, args.output, batch)?;
        for &policy in &policies {
            match policy.run(&machine, &work) {
                Ok(run) => tables.add(policy, &run, &machine, &costs),
                Err(error) => tables.refused.push(Refusal { policy, batch, reason: error.to_string() }),
            }
        }
    }
    if let Some(Refusal { reason, .. }) = tables.refused.first().filter(|_| tables.entries.is_empty()) {
        bail!("no policy runs {} on '{}': {reason}", model.name(), system.name());
    }
    let (answer, reason) = tables.answer();
    let setting = format!(
        "{} with {} weights on the system {}, {} tokens in, {} out; assumed: set {}",
        model.name(),
        model.weights(),
        system.name(),
        args.prompt,
        args.output,
        assumptions.name
    );
    let chart = |table, title: &str, caption: &str, kind| Chart {
        table,
        title: title.to_owned(),
        caption: caption.to_owned(),
        kind,
    };
    let stack = |value, axis| ChartKind::Stacks { label: "policy,batch", part: "name", value, axis };
    Ok(Report::answer("compare", answer)
        .reason(reason)
        .setting(setting)
        .note("an estimate: bandwidths, throughputs and the efficiencies of the assumed set; only the NDP-DIMMs' times are the cycle model's. `ndp evaluate` runs a trace on the exact model")
        .figures(figures! {
            "prompt" "tokens of the prompt" {Count} Json: "tokens of each prompt" = args.prompt;
            "output" "tokens generated" {Count} Json: "tokens that are generated for each prompt" = args.output;
            "usd" "price" {Real("US dollars", 0)} Verbose: "price of the system, if its file has prices" = system.usd();
        })
        .table("entries", "Policies", (ENTRY, &tables.entries))
        .chart(chart("entries", "Tokens per second", "With the prompt.", ChartKind::Rows { label: "policy,batch", value: "tokens_per_second" }))
        .table_at(Level::Verbose, None, ("steps", "Time of a token by step"), (TIME, &tables.steps))
        .table_at(Level::Verbose, None, ("waiting", "Time of a token by the device it waits for"), (TIME, &tables.waiting))
        .chart(chart("waiting", "Device that a token waits for", "The longest part is the bottleneck.", stack(("share", 100.0), "% of a token")))
        .table_at(Level::Json, None, ("joules", "Energy of a token by device"), (JOULES, &tables.joules))
        .chart(chart("joules", "Energy of a token", "The prompt's share is included.", stack(("fj", 1e-15), "J")))
        .table("refused", "Policies that the system cannot run", (REFUSAL, &tables.refused))
        .data("model", "sizes of the model", &model)
        .data("system", "the system", &system)
        .data("config", "the configuration of the core (docs/configuration.md)", &design)
        .data("assumptions", "what is assumed beyond the system's file (docs/papers.md)", &assumptions))
}
