//! `ndp compare`: policies on a system, by batch: rate, energy, price, and where the time goes.

use crate::ignored;
use crate::prelude::*;
use ndp_config::WeightFormat;
use ndp_energy::{Energy, EnergyConstants};
use ndp_systems::{Assumptions, Device, DimmModel, Machine, Policy, Run, RunCosts, Workload, dense_note};

/// Default of `--assume`, and of `base` in a file of assumptions.
pub const DEFAULT_SET: &str = "hermes";

/// Compare ways to run a model on a system: tokens per second, per joule and per dollar, and where the time goes
///
/// Times of NDP-DIMMs come from the cycle model of the core. All other times come from the bandwidths and throughputs
/// of the system and from the assumptions. A policy that the system cannot run is listed with the reason.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp compare --llm relu-llama2-70b\n  \
    ndp compare --llm relu-llama2-70b --system mine.toml --policies hermes,hermes-host --batches 1,4 --html compare.html\n  \
    ndp compare --llm opt-66b --policies flexgen,deja-vu,hermes --prompt 64 --output 512 --assume stated --json")]
pub struct Args {
    /// Model: a preset such as relu-llama2-70b, or a path ending in .toml
    // `None` with a subcommand.
    #[arg(long, required = true)]
    llm: Option<String>,
    /// Weight format: fp16, int8 or int4 [default: the format in the model's file, else fp16]
    #[arg(long, value_name = "FORMAT", value_parser = |name: &str| WeightFormat::named(name).ok_or("expected fp16, int8 or int4"))]
    weights: Option<WeightFormat>,
    /// System: hermes, hermes-3090, hermes-t4, pc-high, pc-low, a100x5, a100-80gb, m1-max or a path ending in .toml
    #[arg(long, default_value = "hermes")]
    system: String,
    /// NDP core of each DIMM: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Policies, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    policies: Vec<Policy>,
    /// Batch sizes: numbers of sequences that run together, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1")]
    batches: Vec<u32>,
    /// Number of tokens of each prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    prompt: u32,
    /// Number of tokens to generate for each prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    output: u32,
    /// Assumptions beyond the system file: a paper's set, `stated` (none), or a path ending in .toml, whose keys
    /// override those of the set that its key `base` names (without that key: hermes)
    #[arg(long, value_name = "SET|FILE.toml", default_value = DEFAULT_SET)]
    assume: String,
    /// Energy constants of the DRAM: ddr4-3200-x8, ddr4-3200-x16 or a path ending in .toml [default: by the bank
    /// groups of the design]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_dram: Option<String>,
    /// Energy constants of the cores' logic: hermes-asap7 or a path ending in .toml [default: hermes-asap7, in
    /// proportion to the multipliers]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_core: Option<String>,
    /// Energy constants of links, bus, GPU, host and storage: hermes, hermes-3090, hermes-t4 or a path ending in
    /// .toml [default: by the name of the system]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    energy_system: Option<String>,
}

/// Device for which a token waits longest, with the time in ns.
fn longest(run: &Run) -> (&'static str, f64) {
    let waiting = Device::ALL.map(|device| (device.name(), run.token.ns_waiting_for(device)));
    waiting.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// Parts of the time of a token, in ns.
fn times<'r>(parts: impl Iterator<Item = (Policy, &'r Run, &'static str, f64)>) -> Values {
    rows! { parts => |(policy, run, name, ns)|
        "policy" "policy" {Text} Screen: "policy" = policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = run.batch;
        "name" "part" {Text} Screen: "computation or transfer, or device that the token waits for" = name;
        "ms" "ms" {Real("ms", 2)} Screen: "time in a token of each sequence" = ns / 1e6;
        "share" "share" {Share} Screen: "share of the token's time" = ns / run.token.ns();
    }
}

/// The fastest policy, its lead over the next one, and the device for which its token waits.
fn answer(runs: &[(Policy, Run)]) -> (String, String) {
    let by_rate = runs.iter().map(|entry| (entry.1.tokens_per_second(), entry));
    let by_rate = by_rate.sorted_by(|(a, _), (b, _)| b.total_cmp(a)).collect_vec();
    let named = |(policy, run): &(Policy, Run)| {
        let several = runs.iter().any(|(_, other)| other.batch != run.batch);
        let batch = if several { format!(" at batch {}", run.batch) } else { String::new() };
        format!("{}{batch}", policy.name())
    };
    let [(rate, first), rest @ ..] = &by_rate[..] else { return Default::default() };
    let mut answer = format!("{} runs at {rate:.2} tokens/s", named(first));
    if let Some((other, next)) = rest.iter().find(|(_, (policy, _))| *policy != first.0) {
        let (ratio, next) = (rate / other, named(next));
        answer += &format!(", {ratio:.2} times as fast as {next} ({other:.2} tokens/s)");
    }
    let (ns, (device, waits)) = (first.1.token.ns(), longest(&first.1));
    let device = if device == "software" { device.to_owned() } else { format!("the {device}") };
    let (ms, percent) = (ns / 1e6, 100.0 * (waits / ns));
    let reason = format!(
        "after the prompt a token takes {ms:.2} ms, and waits for {device} during {percent:.0} % of it"
    );
    (answer, reason)
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let asked = [&args.energy_dram, &args.energy_core, &args.energy_system].map(|asked| asked.as_deref());
    let named = ["the DRAM's energy", "the cores' energy", "the system's energy"];
    let files = FileSet::new()
        .configuration("the model", args.llm.as_deref().unwrap_or_default())
        .configuration("the system", &args.system)
        .configuration("the configuration", &args.config)
        .configuration("the assumptions", &args.assume);
    let energy = named.into_iter().zip(asked.map(Option::unwrap_or_default));
    args.form.files(energy.fold(files, |files, (what, path)| files.configuration(what, path))).check()?;
    let model = LlmShape::load(args.llm.as_deref().unwrap_or_default())?;
    let model = args.weights.map_or(model.clone(), |weights| model.with_weights(weights));
    let system = SystemConfig::load(&args.system)?;
    ignored::warn("compare", &args.system, &[&ignored::COMPARE[..], &[ignored::COMPARE_LINKS]].concat())?;
    let design = DesignConfig::load(&args.config)?;
    let assumptions = Assumptions::chosen(&args.assume, DEFAULT_SET).context("--assume")?;
    let costs = RunCosts::new(&design, &EnergyConstants::load(&design, system.name(), asked)?);
    let dimms = DimmModel::new(&design);
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let policies = if args.policies.is_empty() { Policy::ALL.to_vec() } else { args.policies.clone() };
    let (mut runs, mut refused) = (Vec::new(), Vec::new());
    for &batch in &args.batches {
        let work = Workload::new(&model, args.prompt, args.output, batch)?;
        for &policy in &policies {
            match policy.run(&machine, &work) {
                Ok(run) => runs.push((policy, run)),
                Err(error) => refused.push((policy, batch, format!("{error:#}"))),
            }
        }
    }
    if let Some((.., reason)) = refused.first().filter(|_| runs.is_empty()) {
        bail!("no policy runs {} on '{}': {reason}", model.name(), system.name());
    }
    let (answer, reason) = answer(&runs);
    let entries = rows! { &runs => |(policy, run)|
        let rate = run.tokens_per_second();
        let (waits_for, most) = longest(run);
        "policy" "policy" {Text} Screen: "policy" = policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = run.batch;
        "tokens_per_second" "with prompt" {Real("tokens/s", 2)} Screen: "rate from the first byte of the prompt to the last token" = rate;
        "decode_tokens_per_second" "decode" {Real("tokens/s", 2)} Screen: "rate after the prompt" = run.decode_tokens_per_second();
        "token_ms" "token" {Real("ms", 2)} Screen: "time of a token of each sequence" = run.token.ns() / 1e6;
        "waits_for" "waits for" {Text} Screen: "device that the token waits for longest" = waits_for;
        "waits_share" "of it" {Share} Screen: "share of the token's time that it waits for this device" = most / run.token.ns();
        "joules_per_token" "energy of a token" {Energy} Screen: "energy of a token, the prompt's share included"
            = costs.per_token(&machine, run).iter().fold(Energy::default(), |sum, (_, energy)| sum + *energy);
        "per_kilodollar" "tokens/s per $1,000" {Real("", 2)} Screen: "rate for each 1,000 US dollars of the system's price"
            = system.usd().filter(|usd| *usd > 0.0).map(|usd| 1e3 * rate / usd);
        "prefill_ms" "prefill" {Real("ms", 0)} Verbose: "time of the prompt" = run.prefill.ns() / 1e6;
        "resident" "in the GPU" {Share} Verbose: "share of the weights in the GPU's memory" = run.resident;
    };
    let steps = times(runs.iter().flat_map(|(policy, run)| {
        run.token.names().into_iter().map(move |name| (*policy, run, name, run.token.ns_of(name)))
    }));
    let waiting = runs.iter().flat_map(|(policy, run)| {
        Device::ALL.map(|device| (*policy, run, device.name(), run.token.ns_waiting_for(device)))
    });
    let waiting = times(waiting.filter(|(.., ns)| *ns > 0.0));
    let joules = runs.iter().flat_map(|(policy, run)| {
        costs.per_token(&machine, run).into_iter().map(move |(device, energy)| (policy, run, device, energy))
    });
    let joules = rows! { joules => |(policy, run, device, energy)|
        ..energy;
        "policy" "policy" {Text} Screen: "policy" = policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = run.batch;
        "name" "device" {Text} Screen: "device" = device.name();
        "fj" "J" {Real("fJ", 0)} Json: "energy in a token, the prompt's share included";
        "low_fj" "at least" {Real("fJ", 0)} Json: "with all constants at the lower ends of their ranges";
        "high_fj" "at most" {Real("fJ", 0)} Json: "with all constants at the upper ends of their ranges";
    };
    let refused = rows! { refused => |(policy, batch, reason)|
        "policy" "policy" {Text} Screen: "policy" = policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = batch;
        "reason" "reason" {Text} Screen: "reason why the system cannot run it" = reason;
    };
    let setting = format!(
        "{} with {} weights on the system {}, {} tokens in, {} out; assumed: set {}",
        model.name(),
        model.weights(),
        system.name(),
        args.prompt,
        args.output,
        assumptions.name
    );
    let bars = ChartKind::Rows { label: "policy,batch", value: "tokens_per_second" };
    let stack = |value, axis| ChartKind::Stacks { label: "policy,batch", part: "name", value, axis };
    let report = Report::answer("compare", answer).reason(reason).setting(setting);
    Ok(dense_note(&model, &policies)
        .into_iter()
        .fold(report, Report::note)
        .note("an estimate: bandwidths, throughputs and the efficiencies of the assumed set; only the NDP-DIMMs' times are the cycle model's. `ndp evaluate` runs a trace on the exact model")
        .figures(figures! {
            "prompt" "tokens of the prompt" {Count} Json: "tokens of each prompt" = args.prompt;
            "output" "tokens generated" {Count} Json: "tokens that are generated for each prompt" = args.output;
            "usd" "price" {Real("US dollars", 0)} Verbose: "price of the system, if its file has prices" = system.usd();
        })
        .table("entries", "Policies", entries)
        .chart(Chart::new("entries", "Tokens per second", "With the prompt.", bars))
        .table_at(Level::Verbose, None, ("steps", "Time of a token by step"), steps)
        .table_at(Level::Verbose, None, ("waiting", "Time of a token by the device it waits for"), waiting)
        .chart(Chart::new("waiting", "Device that a token waits for", "The longest part is the bottleneck.", stack(("share", 100.0), "% of a token")))
        .table_at(Level::Json, None, ("joules", "Energy of a token by device"), joules)
        .chart(Chart::new("joules", "Energy of a token", "The prompt's share is included.", stack(("fj", 1e-15), "J")))
        .table("refused", "Policies that the system cannot run", refused)
        .data("model", "sizes of the model", &model)
        .data("system", "the system", &system)
        .data("config", "the configuration of the core (docs/configuration.md)", &design)
        .data("assumptions", "assumptions beyond the system's file (docs/papers.md)", &assumptions))
}
