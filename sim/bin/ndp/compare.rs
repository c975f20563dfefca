//! `ndp compare`: policies on a system, by batch: rate, energy, price, and where the time goes.

use crate::ignored;
use anyhow::{Context, Result};
use ndp_config::{DesignConfig, LlmShape, SystemConfig, WeightFormat};
use ndp_energy::{Energy, EnergyConstants};
use ndp_files::{FileSet, OutputFile};
use ndp_report::{BarChart, Rows};
use ndp_systems::{Assumptions, Device, DimmModel, Machine, Policy, Run, RunCosts, Steps, Workload};
use serde::Serialize;
use std::path::PathBuf;

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
    #[arg(long)]
    llm: String,
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
    /// Write a page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// A part of a token's time.
#[derive(Serialize)]
struct Part {
    name: &'static str,
    ms: f64,
}

/// A policy with a batch.
#[derive(Serialize)]
struct Entry {
    policy: Policy,
    batch: u32,
    /// From the first byte of the prompt to the last token.
    tokens_per_second: f64,
    /// Without the prompt.
    decode_tokens_per_second: f64,
    prefill_ms: f64,
    /// A token of each sequence.
    token_ms: f64,
    /// The same by what is computed or moved.
    steps: Vec<Part>,
    /// The same by the device that is waited for.
    waiting: Vec<Part>,
    /// Share of the weights in the GPU's memory.
    resident: f64,
    joules_per_token: Energy,
    joules: Vec<(Device, Energy)>,
    /// Tokens per second for 1,000 US dollars, if the system has prices.
    per_kilodollar: Option<f64>,
}

/// What a system cannot do.
#[derive(Serialize)]
struct Refusal {
    policy: Policy,
    batch: u32,
    reason: String,
}

#[derive(Serialize)]
struct Outcome<'a> {
    command: &'static str,
    model: &'a LlmShape,
    system: &'a SystemConfig,
    usd: Option<f64>,
    config: &'a DesignConfig,
    assumptions: &'a Assumptions,
    prompt: u32,
    output: u32,
    entries: Vec<Entry>,
    refused: Vec<Refusal>,
}

fn entry(policy: Policy, run: &Run, machine: &Machine<'_>, costs: &RunCosts) -> Entry {
    let ms = |ns: f64| ns / 1e6;
    let parts = |steps: &Steps| {
        steps.names().into_iter().map(|name| Part { name, ms: ms(steps.ns_of(name)) }).collect()
    };
    let waiting = Device::ALL
        .into_iter()
        .map(|device| Part { name: device.name(), ms: ms(run.token.ns_waiting_for(device)) });
    let joules = costs.per_token(machine, run);
    let rate = run.tokens_per_second();
    Entry {
        policy,
        batch: run.batch,
        tokens_per_second: rate,
        decode_tokens_per_second: run.decode_tokens_per_second(),
        prefill_ms: ms(run.prefill.ns()),
        token_ms: ms(run.token.ns()),
        steps: parts(&run.token),
        waiting: waiting.filter(|part| part.ms > 0.0).collect(),
        resident: run.resident,
        joules_per_token: joules.iter().fold(Energy::default(), |sum, (_, energy)| sum + *energy),
        joules,
        per_kilodollar: machine.system.usd().filter(|usd| *usd > 0.0).map(|usd| 1e3 * rate / usd),
    }
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let mut files = FileSet::new();
    for (what, path) in [
        ("the model", Some(&args.llm)),
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
    files.optional("--html", args.html.as_ref()).check()?;
    let model = LlmShape::load(&args.llm)?;
    let model = args.weights.map_or(model.clone(), |weights| model.with_weights(weights));
    let system = SystemConfig::load(&args.system)?;
    ignored::warn("compare", &args.system, &[&ignored::COMPARE[..], &[ignored::COMPARE_LINKS]].concat())?;
    let design = DesignConfig::load(&args.config)?;
    let assumptions = Assumptions::chosen(&args.assume, DEFAULT_SET).context("--assume")?;
    let asked = [&args.energy_dram, &args.energy_core, &args.energy_system].map(|asked| asked.as_deref());
    let costs = RunCosts::new(&design, &EnergyConstants::load(&design, system.name(), asked)?);
    let html = args.html.as_deref().map(OutputFile::create).transpose()?;
    let dimms = DimmModel::new(&design);
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let policies = if args.policies.is_empty() { Policy::ALL.to_vec() } else { args.policies.clone() };
    let (mut entries, mut refused) = (Vec::new(), Vec::new());
    for &batch in &args.batches {
        let work = Workload::new(&model, args.prompt, args.output, batch)?;
        for &policy in &policies {
            match policy.run(&machine, &work) {
                Ok(run) => entries.push(entry(policy, &run, &machine, &costs)),
                Err(error) => refused.push(Refusal { policy, batch, reason: error.to_string() }),
            }
        }
    }
    if let Some(Refusal { reason, .. }) = refused.first().filter(|_| entries.is_empty()) {
        bail!("no policy runs {} on '{}': {reason}", model.name(), system.name());
    }
    let outcome = Outcome {
        command: "compare",
        model: &model,
        system: &system,
        usd: system.usd(),
        config: &design,
        assumptions: &assumptions,
        prompt: args.prompt,
        output: args.output,
        entries,
        refused,
    };
    if let Some(file) = html {
        let text = page(&outcome)?;
        file.finish(|out| out.write_all(text.as_bytes()))?;
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print(&outcome);
    }
    Ok(())
}

const HEAD: [&str; 9] = [
    "policy",
    "batch",
    "tokens/s",
    "decode",
    "prefill ms",
    "token ms",
    "J/token",
    "tokens/s per $1,000",
    "waits for",
];

/// The columns of [`HEAD`].
fn cells(entry: &Entry) -> Vec<String> {
    let most = entry.waiting.iter().max_by(|a, b| a.ms.total_cmp(&b.ms));
    let waits = most.map(|part| format!("{} {:.0} %", part.name, 100.0 * part.ms / entry.token_ms));
    vec![
        entry.policy.name().to_owned(),
        entry.batch.to_string(),
        format!("{:.2}", entry.tokens_per_second),
        format!("{:.2}", entry.decode_tokens_per_second),
        format!("{:.0}", entry.prefill_ms),
        format!("{:.2}", entry.token_ms),
        format!("{:.2}", entry.joules_per_token.joules()),
        entry.per_kilodollar.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}")),
        waits.unwrap_or_default(),
    ]
}

fn print(outcome: &Outcome<'_>) {
    let Outcome { model, system, assumptions, prompt, output, usd, .. } = outcome;
    let price = usd.map_or_else(String::new, |usd| format!(", ${usd:.0}"));
    say!(
        "{}, {} weights, on {}{price}; assumed: {}; {prompt} tokens in, {output} out\n",
        model.name(),
        model.weights(),
        system.name(),
        assumptions.name
    );
    say!(
        "{:<21}{:>6}{:>10}{:>10}{:>12}{:>11}{:>10}{:>13}   waits for",
        "policy",
        "batch",
        "tokens/s",
        "decode",
        "prefill ms",
        "token ms",
        "J/token",
        "per $1,000"
    );
    for entry in &outcome.entries {
        let c = cells(entry);
        say!(
            "{:<21}{:>6}{:>10}{:>10}{:>12}{:>11}{:>10}{:>13}   {}",
            c[0],
            c[1],
            c[2],
            c[3],
            c[4],
            c[5],
            c[6],
            c[7],
            c[8]
        );
    }
    for entry in &outcome.entries {
        let parts: Vec<String> = entry
            .steps
            .iter()
            .filter(|part| part.ms > 0.0)
            .map(|part| format!("{} {:.2}", part.name, part.ms))
            .collect();
        say!("\n{} at batch {}, ms of a token: {}", entry.policy.name(), entry.batch, parts.join(", "));
    }
    for Refusal { policy, batch, reason } in &outcome.refused {
        say!("\n{} at batch {batch}: {reason}", policy.name());
    }
}

fn page(outcome: &Outcome<'_>) -> Result<String> {
    let Outcome { model, system, assumptions, prompt, output, entries, .. } = outcome;
    let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
    let mut report = crate::made::begin(&format!("{} on {}", model.name(), system.name()))
        .paragraph(&format!(
            "{} weights, {prompt} tokens in, {output} out; assumed: {}.",
            model.weights(),
            assumptions.name
        ))
        .table(&HEAD, &rows);
    let mut batches: Vec<u32> = entries.iter().map(|entry| entry.batch).collect();
    batches.dedup();
    for batch in batches {
        let entries: Vec<&Entry> = entries.iter().filter(|entry| entry.batch == batch).collect();
        let labels = || entries.iter().map(|entry| entry.policy.name());
        let mut rates = Rows::new(&format!("Tokens/s with prefill, batch {batch}"));
        for entry in &entries {
            let text =
                format!("{:.2}, decode alone {:.2}", entry.tokens_per_second, entry.decode_tokens_per_second);
            rates = rates.row(entry.policy.name(), entry.tokens_per_second, &text, 0);
        }
        let mut time = BarChart::new("Device that a token waits for", "% of a token", labels()).stacked();
        let mut energy =
            BarChart::new("Energy of a token, its share of the prefill included", "J", labels()).stacked();
        for device in Device::ALL {
            let share = |entry: &&Entry| {
                let ms = entry.waiting.iter().filter(|part| part.name == device.name()).map(|part| part.ms);
                100.0 * ms.sum::<f64>() / entry.token_ms
            };
            let joules = |entry: &&Entry| {
                entry.joules.iter().filter(|(of, _)| *of == device).map(|(_, energy)| energy.joules()).sum()
            };
            let [shares, energies]: [Vec<f64>; 2] =
                [entries.iter().map(share).collect(), entries.iter().map(joules).collect()];
            // A device that nobody uses is not in the legend.
            if shares.iter().any(|share| *share > 0.0) {
                time = time.bars(device.name(), shares);
            }
            if energies.iter().any(|joules| *joules > 0.0) {
                energy = energy.bars(device.name(), energies);
            }
        }
        report = report.section(&format!("Batch {batch}")).chart(&rates.draw()?).chart(&time.draw()?);
        for entry in &entries {
            let rows: Vec<Vec<String>> = entry
                .steps
                .iter()
                .map(|part| vec![part.name.to_owned(), format!("{:.3}", part.ms)])
                .collect();
            report = report.folded_table(
                &format!("{}: ms of a token", entry.policy.name()),
                &["step", "ms"],
                &rows,
            );
        }
        report = report.chart(&energy.draw()?);
    }
    for Refusal { policy, batch, reason } in &outcome.refused {
        report = report.paragraph(&format!("{} at batch {batch}: {reason}.", policy.name()));
    }
    Ok(report.finish())
}
