//! `ndp compare`: policies on a system, by batch: rate, energy, price, and where the time goes.

use crate::ignored;
use crate::machine::{self, Ran, Text};
use crate::prelude::*;
use crate::system::args::LinksChoice;
use crate::tools::{ASSUMED, ESTIMATE};
use ndp_config::WeightFormat;
use ndp_energy::{Energy, EnergyConstants};
use ndp_sim::system::ActivitySource;
use ndp_systems::{
    Assumption, Assumptions, Device, DimmModel, Key, Machine, Policy, Run, RunCosts, Workload, dense_note,
};
use ndp_traces::TraceReader;

/// Compare ways to run a model on a system: tokens per second, per joule and per dollar, and where the time goes
///
/// hermes and hermes-base run on the machine of `ndp evaluate`: placement, predictor, moves, links and the
/// cycle model of the cores. Their results are kept in the user's cache folder, or in NDP_CACHE. All other policies
/// are estimates from the bandwidths and throughputs of the system and from the assumptions. A
/// policy that the system cannot run is listed with the reason.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp compare --llm relu-llama2-70b\n  \
    ndp compare --llm relu-llama2-70b --system mine.toml --policies hermes,hermes-host --batches 1,4 --html compare.html\n  \
    ndp compare --llm opt-66b --policies flexgen,deja-vu,hermes --prompt 64 --output 512 --assume stated --json")]
pub struct Args {
    /// Model: a preset such as relu-llama2-70b (an unknown name lists them), a path ending in .toml, or a checkpoint's config.json
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
    /// Activation trace whose last sequences are the texts, prompt and output [default: a synthetic one, the same as
    /// `ndp trace synth` makes for this model, prompt and output, with one sequence more than the batch; of a prompt
    /// over 128 tokens only the last 128 have activity]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "output", "formula"])]
    trace: Option<PathBuf>,
    /// Share of MLP neurons that thresholds leave active (0.01..=0.5), for a model without ReLU: the synthetic trace has
    /// the statistics of such a model, not those that the papers report of ReLU [default: all are active]
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["trace", "formula"])]
    density: Option<f64>,
    /// With --trace: number of tokens of each prompt before the trace begins. Only attention sees them: their
    /// activity is unknown
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace", value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    earlier: u32,
    /// Number of generated tokens that run on the machine, spread evenly over the output; the others are interpolated
    #[arg(long, value_name = "N", default_value_t = machine::EXACT, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "formula")]
    exact: u64,
    /// Run every program of these tokens on the cycle model; otherwise programs like those that ran before are
    /// estimated, and the report states the error
    #[arg(long, conflicts_with = "formula")]
    every_program: bool,
    /// Which neurons hermes computes [default: predicted; with --density causal, which has the text of the thresholds]
    #[arg(long, value_enum, conflicts_with = "formula")]
    activity: Option<ActivitySource>,
    /// Model of the DIMM-links: controllers and lanes, or bytes over bandwidth [default: rtl for up to 8 DIMMs]
    #[arg(long, value_enum, conflicts_with = "formula")]
    links: Option<LinksChoice>,
    /// Ignore kept results of earlier runs
    #[arg(long, conflicts_with = "formula")]
    fresh: bool,
    /// Estimate all policies, DIMMs included, with closed formulas
    #[arg(long)]
    formula: bool,
    /// Assumptions beyond the system file: a paper's set, `stated` (none), or a path ending in .toml, whose keys
    /// override those of the set that its key `base` names (without that key: hermes)
    #[arg(long, value_name = "SET|FILE.toml", default_value = ASSUMED)]
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

/// A policy at a batch size.
pub struct Entry {
    policy: Policy,
    batch: u32,
    /// From the machine, not from formulas.
    is_exact: bool,
    /// Tokens per second, the prompt's time included.
    with_prompt: f64,
    /// Tokens per second after the prompt.
    decode: f64,
    token_ns: f64,
    prefill_ns: f64,
    /// Share of the weights in the GPU's memory.
    resident: f64,
    /// Time of a token in ns, by computation or transfer.
    steps: Vec<(String, f64)>,
    /// Core cycles of the slowest DIMM in a token, by computation; none from formulas.
    cycles: Vec<(String, f64)>,
    /// Time of a token in ns, by the device that it waits for.
    waits: Vec<(String, f64)>,
    /// Energy of a token by device, the prompt's share included.
    joules: Vec<(String, Energy)>,
}

impl Entry {
    fn estimate(policy: Policy, run: &Run, joules: Vec<(Device, Energy)>) -> Self {
        let names = run.token.names().into_iter();
        let waits = Device::ALL.map(|device| (device.name().to_owned(), run.token.ns_waiting_for(device)));
        Self {
            policy,
            batch: run.batch,
            is_exact: false,
            with_prompt: run.tokens_per_second(),
            decode: run.decode_tokens_per_second(),
            token_ns: run.token.ns(),
            prefill_ns: run.prefill.ns(),
            resident: run.resident,
            steps: names.map(|name| (name.to_owned(), run.token.ns_of(name))).collect(),
            cycles: Vec::new(),
            waits: waits.into_iter().filter(|(_, ns)| *ns > 0.0).collect(),
            joules: joules.into_iter().map(|(device, energy)| (device.name().to_owned(), energy)).collect(),
        }
    }

    /// From the machine.
    fn exact(policy: Policy, ran: &Ran, whole: machine::Whole) -> Self {
        let ns = |named: &[(String, f64)]| named.iter().map(|(name, us)| (name.clone(), us * 1e3)).collect();
        Self {
            policy,
            batch: ran.batch,
            is_exact: true,
            with_prompt: whole.with_prompt,
            decode: ran.tokens_per_second,
            token_ns: ran.token_us * 1e3,
            prefill_ns: whole.prefill.ns(),
            resident: whole.resident,
            steps: ns(&ran.operation_us),
            cycles: ran.operation_cycles.clone(),
            waits: ns(&ran.waits_us),
            joules: whole.joules,
        }
    }

    /// Device for which a token waits longest, with the time in ns.
    fn longest(&self) -> (&str, f64) {
        let longest = self.waits.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        longest.map_or(("", 0.0), |(device, ns)| (device.as_str(), *ns))
    }
}

/// Assumptions that change a rate by less are not shown.
const LEAST_EFFECT: f64 = 0.05;

/// An assumption with its effect on the rate of a policy, the prompt included.
struct Effect {
    policy: Policy,
    batch: u32,
    name: &'static str,
    value: Option<f64>,
    unit: &'static str,
    reason: String,
    /// Rate without the assumption over the rate with it.
    without: f64,
    /// From the machine, not from formulas.
    is_exact: bool,
}

impl Effect {
    fn size(&self) -> f64 {
        (self.without - 1.0).abs()
    }
}

/// Those of at least [`LEAST_EFFECT`], largest first.
fn largest(effects: impl IntoIterator<Item = Effect>) -> Vec<Effect> {
    let matters = |effect: &Effect| effect.size() >= LEAST_EFFECT;
    let size = |effect: &Effect| -effect.without.ln().abs();
    effects.into_iter().filter(matters).sorted_by(|a, b| size(a).total_cmp(&size(b))).collect()
}

/// By the formulas, whatever their size.
fn effects<'m>(
    machine: &'m Machine<'m>,
    policy: Policy,
    work: &'m Workload,
    run: &'m Run,
) -> impl Iterator<Item = (Key, Effect)> {
    machine.assumptions.assumed().filter_map(move |(key, assumption)| {
        let assumptions = machine.assumptions.with(key, key.stated());
        let other = policy.run(&Machine { assumptions: &assumptions, ..*machine }, work).ok()?;
        let without = other.tokens_per_second() / run.tokens_per_second();
        let Assumption { value, reason } = assumption.clone();
        let (name, unit, batch) = (key.name(), key.unit(), work.batch);
        Some((
            key,
            Effect { policy, batch, name, value: Some(value), unit, reason, without, is_exact: false },
        ))
    })
}

/// Of one token in the middle of the text, run with and without each assumption that matters by the formulas. What
/// cannot run without one has no row.
fn effects_on_machine(
    exact: &machine::Machine<'_>,
    machine: &Machine<'_>,
    (work, density): (&Workload, f64),
    by_formula: impl Iterator<Item = (Key, Effect)>,
    (policy, costs): (Policy, &RunCosts),
) -> Result<Vec<Effect>> {
    let Workload { ref model, batch, .. } = *work;
    let by_formula =
        by_formula.filter(|(key, effect)| machine::takes(*key) && effect.size() >= LEAST_EFFECT / 2.0);
    let exact = machine::Machine { exact: 1, shows: false, ..*exact };
    let rate = |exact: machine::Machine<'_>, machine: &Machine<'_>| -> Result<f64> {
        Ok(exact.run(model, policy, batch)?.with_prompt(machine, model, costs)?.with_prompt)
    };
    let with = rate(exact, machine)?;
    let effect = |(key, effect): (Key, Effect)| {
        let assumptions = machine.assumptions.with(key, key.stated());
        let system = assumptions.on(machine.system).ok()?;
        let other = Machine { assumptions: &assumptions, ..*machine };
        let without = rate(machine::Machine { system: &system, ..exact }, &other).ok()? / with;
        Some(Effect { without, is_exact: true, ..effect })
    };
    let mut found: Vec<_> = by_formula.filter_map(effect).collect();
    if policy == Policy::Hermes && density < 1.0 {
        let named = |name, value, reason: String, other| -> Option<Effect> {
            let without = rate(other, machine).ok()? / with;
            Some(Effect { policy, batch, name, value, unit: "", reason, without, is_exact: true })
        };
        if exact.activity == ActivitySource::Predicted {
            let known = machine::Machine { activity: ActivitySource::Oracle, ..exact };
            found.extend(named(
                "predictor",
                None,
                "Hermes, section IV-C1 (docs/predictor.md)".to_owned(),
                known,
            ));
        }
        let dense = machine::Machine { text: Text::Dense(exact.text.tokens()), ..exact };
        let source = match exact.text {
            Text::Traced { .. } => "the trace",
            Text::Thresholded(..) => "a synthetic trace, fitted to SmolLM2 with thresholds (docs/traces.md)",
            _ => "a synthetic trace, fitted to the papers' statistics (docs/traces.md)",
        };
        found.extend(named("active_share", Some(density), source.to_owned(), dense));
    }
    Ok(largest(found))
}

/// Parts of the time of a token, in ns.
fn times<'e>(entries: &'e [Entry], parts: fn(&'e Entry) -> &'e [(String, f64)]) -> Values {
    let parts = entries.iter().flat_map(|entry| parts(entry).iter().map(move |part| (entry, part)));
    rows! { parts => |(entry, (name, ns))|
        "policy" "policy" {Text} Screen: "policy" = entry.policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = entry.batch;
        "name" "part" {Text} Screen: "computation or transfer, or device that the token waits for" = name;
        "ms" "ms" {Real("ms", 2)} Screen: "time in a token of each sequence" = ns / 1e6;
        "share" "share" {Share} Screen: "share of the token's time" = ns / entry.token_ns;
    }
}

/// The fastest policy, its lead over the next one, and the device for which its token waits.
fn answer(entries: &[Entry]) -> (String, String) {
    let by_rate = entries.iter().sorted_by(|a, b| b.with_prompt.total_cmp(&a.with_prompt)).collect_vec();
    let named = |entry: &Entry| {
        let several = entries.iter().any(|other| other.batch != entry.batch);
        let batch = if several { format!(" at batch {}", entry.batch) } else { String::new() };
        format!("{}{batch}", entry.policy.name())
    };
    let [first, rest @ ..] = &by_rate[..] else { return Default::default() };
    let mut answer = format!("{} runs at {:.2} tokens/s with its prompt", named(first), first.with_prompt);
    if let Some(next) = rest.iter().find(|next| next.policy != first.policy) {
        let (ratio, name) = (first.with_prompt / next.with_prompt, named(next));
        answer += &format!(", {ratio:.2} times as fast as {name} ({:.2} tokens/s)", next.with_prompt);
    }
    let (ns, (device, waits)) = (first.token_ns, first.longest());
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
    let files = args.trace.iter().fold(files, |files, path| files.input("the trace", path));
    let energy = named.into_iter().zip(asked.map(Option::unwrap_or_default));
    args.form.files(energy.fold(files, |files, (what, path)| files.configuration(what, path))).check()?;
    let model = LlmShape::load(args.llm.as_deref().unwrap_or_default())?;
    let model = args.weights.map_or(model.clone(), |weights| model.with_weights(weights));
    let system = SystemConfig::load(&args.system)?;
    if args.formula {
        ignored::warn("compare", &args.system, &[&ignored::COMPARE[..], &[ignored::COMPARE_LINKS]].concat())?;
    }
    let design = DesignConfig::load(&args.config)?;
    let assumptions = Assumptions::chosen(&args.assume, ASSUMED).context("--assume")?;
    let constants = EnergyConstants::load(&design, system.name(), asked)?;
    let costs = RunCosts::new(&design, &constants);
    let dimms = DimmModel::new(&design);
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let policies = if args.policies.is_empty() { Policy::ALL.to_vec() } else { args.policies.clone() };
    let (prompt, output) = match &args.trace {
        None => (args.prompt, args.output),
        Some(path) => {
            let reader = TraceReader::open(path)?;
            let header = reader.header();
            let of_text = |tokens: u64| u32::try_from(tokens / header.sequences.max(1)).unwrap_or(u32::MAX);
            (args.earlier + of_text(header.prompt_tokens), of_text(header.tokens - header.prompt_tokens))
        }
    };
    let text = match &args.trace {
        None => match args.density {
            Some(share) => Text::Thresholded([prompt, output], share),
            None => Text::Synthetic([prompt, output]),
        },
        Some(path) => Text::Traced { path, tokens: [prompt, output], earlier: args.earlier },
    };
    let activity = args.activity.unwrap_or(match args.density {
        Some(_) => ActivitySource::Causal,
        None => ActivitySource::Predicted,
    });
    ensure!(
        args.density.is_none() || model.is_dense(),
        "--density is for models without ReLU, {} has one: its trace follows its family",
        model.name()
    );
    let assumed_system = assumptions.on(&system)?;
    let exact = machine::Machine {
        activity,
        linked: args.links.map(|links| links == LinksChoice::Rtl),
        exact: args.exact,
        every_program: args.every_program,
        fresh: args.fresh,
        shows: true,
        ..machine::Machine::new((&design, &assumed_system), text, &constants)
    };
    let (mut entries, mut refused, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut assumed = Vec::new();
    for (&batch, &policy) in iproduct!(&args.batches, &policies) {
        let work = Workload::new(&model, prompt, output, batch)?;
        let mut entry = || -> Result<Entry> {
            // Formulas also check the capacity.
            let run = policy.run(&machine, &work)?;
            let by_formula = effects(&machine, policy, &work, &run);
            if args.formula || !machine::runs(policy, batch, &system) {
                assumed.extend(largest(by_formula.map(|(_, effect)| effect)));
                return Ok(Entry::estimate(policy, &run, costs.per_token(&machine, &run)));
            }
            let ran = exact.run(&model, policy, batch)?;
            notes.push(ran.note(policy, activity));
            let whole = ran.with_prompt(&machine, &model, &costs)?;
            let (of, by) = ((&work, ran.density), (policy, &costs));
            assumed.extend(effects_on_machine(&exact, &machine, of, by_formula, by)?);
            Ok(Entry::exact(policy, &ran, whole))
        };
        match entry() {
            Ok(entry) => entries.push(entry),
            Err(error) => refused.push((policy, batch, format!("{error:#}"))),
        }
    }
    if let Some((.., reason)) = refused.first().filter(|_| entries.is_empty()) {
        bail!("no policy runs {} on '{}': {reason}", model.name(), system.name());
    }
    let (answer, reason) = answer(&entries);
    let table = rows! { &entries => |entry|
        let (waits_for, most) = entry.longest();
        "policy" "policy" {Text} Screen: "policy" = entry.policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = entry.batch;
        "source" "from" {Text} Screen: "machine (run, as in ndp evaluate) or formula (estimate)" = if entry.is_exact { "machine" } else { "formula" };
        "tokens_per_second" "with prompt" {Real("tokens/s", 2)} Screen: "rate from the first byte of the prompt to the last token" = entry.with_prompt;
        "decode_tokens_per_second" "decode" {Real("tokens/s", 2)} Screen: "rate after the prompt" = entry.decode;
        "token_ms" "token" {Real("ms", 2)} Screen: "time of a token of each sequence" = entry.token_ns / 1e6;
        "waits_for" "waits for" {Text} Screen: "device that the token waits for longest" = waits_for;
        "waits_share" "of it" {Share} Screen: "share of the token's time that it waits for this device" = most / entry.token_ns;
        "joules_per_token" "energy of a token" {Energy} Screen: "energy of a token, the prompt's share included"
            = entry.joules.iter().fold(Energy::default(), |sum, (_, energy)| sum + *energy);
        "per_kilodollar" "tokens/s per $1,000" {Real("", 2)} Screen: "rate for each 1,000 US dollars of the system's price"
            = system.usd().filter(|usd| *usd > 0.0).map(|usd| 1e3 * entry.with_prompt / usd);
        "prefill_ms" "prefill" {Real("ms", 0)} Verbose: "time of the prompt" = entry.prefill_ns / 1e6;
        "resident" "in the GPU" {Share} Verbose: "share of the weights in the GPU's memory" = entry.resident;
    };
    let assumed = rows! { assumed => |effect|
        "policy" "policy" {Text} Screen: "policy" = effect.policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = effect.batch;
        "assumption" "assumption" {Text} Screen: "key of the assumption (docs/papers.md), predictor, or active_share" = effect.name;
        "value" "value" {Real("", 3)} Screen: "value of the assumption" = effect.value;
        "unit" "unit" {Text} Verbose: "unit of the value" = effect.unit;
        "without" "rate without it" {Real("x", 2)} Screen: "rate with the prompt, if the assumption is replaced by its neutral value, over the rate with it; without the predictor the active neurons are known, without the active share all are active" = effect.without;
        "source" "from" {Text} Verbose: "machine (a token of the middle runs, with and without the assumption) or formula" = if effect.is_exact { "machine" } else { "formula" };
        "reason" "source" {Text} Screen: "source or reason" = effect.reason;
    };
    let steps = times(&entries, |entry| &entry.steps);
    let waiting = times(&entries, |entry| &entry.waits);
    let joules = entries.iter().flat_map(|entry| entry.joules.iter().map(move |part| (entry, part)));
    let joules = rows! { joules => |(entry, (device, energy))|
        ..energy;
        "policy" "policy" {Text} Screen: "policy" = entry.policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = entry.batch;
        "name" "device" {Text} Screen: "device" = device;
        "fj" "J" {Real("fJ", 0)} Json: "energy in a token, the prompt's share included";
        "low_fj" "at least" {Real("fJ", 0)} Json: "with all constants at the lower ends of their ranges";
        "high_fj" "at most" {Real("fJ", 0)} Json: "with all constants at the upper ends of their ranges";
    };
    let cycles = entries.iter().flat_map(|entry| entry.cycles.iter().map(move |one| (entry, one)));
    let cycles = rows! { cycles => |(entry, (name, cycles))|
        "policy" "policy" {Text} Screen: "policy" = entry.policy;
        "batch" "batch" {Count} Screen: "sequences at the same time" = entry.batch;
        "name" "part" {Text} Screen: "computation" = name;
        "cycles" "cycles" {Real("cycles", 1)} Screen: "core cycles of the slowest DIMM in a token, as in `ndp layer --dimms`"
            = cycles;
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
        prompt,
        output,
        assumptions.name
    );
    let bars = ChartKind::Rows { label: "policy,batch", value: "tokens_per_second" };
    let stack = |value, axis| ChartKind::Stacks { label: "policy,batch", part: "name", value, axis };
    let mut report = Report::answer("compare", answer).reason(reason).setting(setting);
    if entries.iter().any(|entry| !entry.is_exact) {
        report = report.note(format!("\"formula\" is {ESTIMATE}"));
    }
    let kept = args.density.map(|share| {
        let percent = 100.0 * share;
        format!("thresholds leave {percent:.0} % of the MLP neurons active in hermes; the text is another then (ndp model perplexity)")
    });
    let windows = model.window_note(prompt.saturating_add(output));
    let notes = kept.or(dense_note(&model, &policies)).into_iter().chain(windows).chain(notes);
    Ok(notes
        .fold(report, Report::note)
        .figures(figures! {
            "prompt" "tokens of the prompt" {Count} Json: "tokens of each prompt" = prompt;
            "output" "tokens generated" {Count} Json: "tokens that are generated for each prompt" = output;
            "usd" "price" {Real("US dollars", 0)} Verbose: "price of the system, if its file has prices" = system.usd();
        })
        .table("entries", "Policies", table)
        .chart(Chart::new("entries", "Tokens per second", "With the prompt.", bars))
        .table_at(Level::Verbose, None, ("steps", "Time of a token by step"), steps)
        .table_at(Level::Verbose, None, ("waiting", "Time of a token by the device it waits for"), waiting)
        .chart(Chart::new("waiting", "Device that a token waits for", "The longest part is the bottleneck.", stack(("share", 100.0), "% of a token")))
        .table_at(Level::Json, None, ("cycles", "Core cycles of a token by computation"), cycles)
        .table_at(Level::Json, None, ("joules", "Energy of a token by device"), joules)
        .chart(Chart::new("joules", "Energy of a token", "The prompt's share is included.", stack(("fj", 1e-15), "J")))
        .table("assumed", "Assumptions that change a rate by 5 % or more", assumed)
        .table("refused", "Policies that the system cannot run", refused)
        .data("model", "sizes of the model", &model)
        .data("system", "the system", &system)
        .data("config", "the configuration of the core (docs/configuration.md)", &design)
        .data("assumptions", "assumptions beyond the system's file (docs/papers.md)", &assumptions))
}
