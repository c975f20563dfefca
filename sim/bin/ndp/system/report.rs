//! What is said of one run: as text, and as JSON.

use super::run::{Choice, Host, Outcome, Predictions, Quality, is_exact, rerun};
use crate::energy;
use crate::gemv::name;
use crate::golden::{Comparison, verdict_text};
use crate::tools::{Tools, grouped, per_second, percent};
use ndp_config::DesignConfig;
use ndp_scheduler::TokenRecord;
use ndp_sim::core::Backend;
use ndp_sim::error::Mismatch;
use ndp_sim::system::{
    ActivitySource, Breakdown, Differences, DimmFigures, EnergyBreakdown, Event, FlashSummary, GpuNumerics,
    LinkFigures, MergeFigures, Operation, PathBytes, Place, TokenFigures,
};
use serde::Serialize;

/// What an operation took, over all layers and tokens.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OperationFigures {
    pub operation: Operation,
    /// Programs of all cores, their cycles and time.
    pub programs: u64,
    pub dimm_cycles: u64,
    pub dimm_ns: u64,
    /// Time of GPU, bus and memory channels by their bandwidths, and of the links.
    pub gpu_ns: u64,
    pub bus_ns: u64,
    pub channel_ns: u64,
    pub link_ns: u64,
    /// Time of the host's predictor.
    pub host_ns: u64,
    /// Time of the SSD.
    pub ssd_ns: u64,
}

/// In the order of a layer; `behind` leaves out what came before that time.
pub fn operations(events: &[Event], behind: u64) -> Vec<OperationFigures> {
    let mut all: Vec<OperationFigures> = Vec::new();
    let order = [
        Operation::Q,
        Operation::K,
        Operation::V,
        Operation::Attention,
        Operation::Projection,
        Operation::Fc1,
        Operation::Fc2,
        Operation::Head,
    ];
    for operation in order {
        let mut sum = OperationFigures {
            operation,
            programs: 0,
            dimm_cycles: 0,
            dimm_ns: 0,
            gpu_ns: 0,
            bus_ns: 0,
            channel_ns: 0,
            link_ns: 0,
            host_ns: 0,
            ssd_ns: 0,
        };
        let mut any = false;
        for event in events.iter().filter(|e| e.operation == operation && e.begin_ns >= behind) {
            let ns = event.end_ns - event.begin_ns;
            any = true;
            match event.place {
                Place::Gpu => sum.gpu_ns += ns,
                Place::Host => sum.host_ns += ns,
                Place::Ssd => sum.ssd_ns += ns,
                Place::BusDown | Place::BusUp => sum.bus_ns += ns,
                Place::Channel(_) => sum.channel_ns += ns,
                Place::LinkIn(_) | Place::LinkOut(_) => sum.link_ns += ns,
                Place::Dimm(_) => {
                    sum.programs += u64::from(event.program.is_some());
                    sum.dimm_cycles += event.program.as_ref().map_or(0, |program| program.cycles);
                    sum.dimm_ns += ns;
                }
            }
        }
        if any {
            all.push(sum);
        }
    }
    all
}

#[derive(Serialize)]
struct Predictor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a Predictions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    perplexity: Option<&'a Quality>,
}

#[derive(Serialize)]
struct Simulation {
    threads: usize,
    seconds: f64,
}

/// What a run comes to, in JSON. `simulation` is the only part that differs from run to run.
#[derive(Serialize)]
pub struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    /// What stood for the cores and links.
    backend: Backend,
    #[serde(flatten)]
    choice: Choice,
    gpu_percent: u32,
    gpu_numerics: GpuNumerics,
    prompt: &'a str,
    text: &'a str,
    tokens: usize,
    seed: u64,
    stalls_percent: u32,
    outputs_checked: u64,
    mismatches: u64,
    first_mismatches: &'a [Mismatch],
    protocol_violations: u64,
    backdoor_accesses: u64,
    cycles_equal_model: bool,
    /// Whether text and logits are those of exact sums in software, and from which token on one of them is not.
    text_identical: bool,
    logits_identical: bool,
    first_difference: Option<usize>,
    differences: Differences,
    /// Of the slowest cores behind the prompt.
    cycles: u64,
    cycles_per_token: f64,
    /// At the core's clock, the slowest cores of each step alone.
    tokens_per_second: f64,
    /// With the GPU, the bus and links that are not in RTL by their bandwidths.
    system_ns_per_token: f64,
    system_tokens_per_second: f64,
    prompt_ns: u64,
    gpu_neurons: u64,
    per_dimm: &'a [DimmFigures],
    /// Cycles of the core that has most over the mean.
    imbalance: f64,
    per_token: &'a [TokenFigures],
    operations: Vec<OperationFigures>,
    time: &'a Breakdown,
    energy: &'a EnergyBreakdown,
    bytes: PathBytes,
    merge: MergeFigures,
    activity: ActivitySource,
    /// What the scheduler moved.
    uploads: u64,
    upload_bytes: u64,
    migrations: u64,
    migration_bytes: u64,
    /// What went over links in RTL, and their bit error rate; none if they were not simulated.
    links: Option<&'a LinkFigures>,
    /// What came from the SSD; none if the DIMMs hold all neurons.
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<FlashSummary>,
    bit_error_rate: f64,
    faults: Vec<String>,
    predictor: Predictor<'a>,
    golden: Option<&'a Comparison>,
    failure: Option<&'a str>,
    rerun: String,
    simulation: Simulation,
    tools: Tools,
}

impl<'a> Report<'a> {
    /// Of a run.
    pub fn new(host: &'a Host<'_>, outcome: &'a Outcome) -> Self {
        let figures = &outcome.figures;
        let (cycles_per_token, system_ns_per_token) = outcome.per_token();
        Self {
            command: "generate",
            config: host.config,
            backend: host.args.unit.backend,
            choice: outcome.choice,
            gpu_percent: host.args.gpu_percent,
            gpu_numerics: host.args.gpu_numerics,
            prompt: &host.job.prompt,
            text: &outcome.generation.text,
            tokens: outcome.generation.tokens.len(),
            seed: host.job.options.seed,
            stalls_percent: host.args.unit.stalls,
            outputs_checked: figures.outputs_checked,
            mismatches: figures.mismatches,
            first_mismatches: &outcome.mismatches[..outcome.mismatches.len().min(16)],
            protocol_violations: outcome.violations,
            backdoor_accesses: outcome.backdoor_accesses,
            cycles_equal_model: outcome.is_on_time(),
            text_identical: outcome.same_text,
            logits_identical: outcome.difference.is_none(),
            first_difference: outcome.difference,
            differences: figures.differences,
            cycles: figures.critical_cycles,
            cycles_per_token,
            tokens_per_second: per_second(cycles_per_token / host.config.core().clock_ghz()),
            system_ns_per_token,
            system_tokens_per_second: per_second(system_ns_per_token),
            prompt_ns: figures.prompt_ns,
            gpu_neurons: figures.gpu_neurons,
            per_dimm: &figures.dimms,
            imbalance: figures.imbalance(),
            per_token: &figures.tokens,
            operations: operations(&outcome.events, figures.prompt_ns),
            time: &outcome.breakdown,
            energy: &outcome.energy,
            bytes: figures.bytes,
            merge: figures.merge,
            activity: host.args.activity,
            uploads: outcome.sum(|record| record.uploads),
            upload_bytes: outcome.sum(|record| record.upload_bytes),
            migrations: outcome.sum(|record| record.migrations),
            migration_bytes: outcome.sum(|record| record.migration_bytes),
            links: figures.links.as_ref(),
            flash: outcome.flash(),
            bit_error_rate: host.args.ber,
            faults: host.args.faults.iter().map(ToString::to_string).collect(),
            predictor: Predictor { text: outcome.predictions.as_ref(), perplexity: outcome.quality.as_ref() },
            golden: outcome.golden.as_ref(),
            failure: outcome.failure.as_deref(),
            rerun: rerun(host, outcome.choice),
            simulation: Simulation { threads: host.threads, seconds: outcome.wall.as_secs_f64() },
            tools: Tools::new(),
        }
    }
}

/// How text and logits compare with those of exact sums in software.
pub fn text_verdict(outcome: &Outcome) -> String {
    match outcome.difference {
        None => "equal to exact sums in software, logits too".to_owned(),
        Some(token) if outcome.same_text => {
            format!("equal to exact sums in software, but logits differ from token {token} on")
        }
        Some(token) => format!("differs from exact sums in software, text or logits from token {token} on"),
    }
}

/// Bytes by the way that they took, with what they are.
pub fn paths(outcome: &Outcome) -> Vec<(&'static str, &'static str, u64)> {
    let PathBytes {
        bus_inputs,
        bus_gpu_sums,
        bus_prompt_cache,
        bus_results,
        channel_data,
        channel_control,
        link_sums,
        link_qkv,
        ssd_bundles,
    } = outcome.figures.bytes;
    let of = |value: fn(&TokenRecord) -> u64| outcome.sum(value);
    let [uploads, migrations] = match &outcome.figures.links {
        Some(links) => [links.upload_bytes, links.migration_bytes],
        None => [of(|record| record.upload_bytes), of(|record| record.migration_bytes)],
    };
    vec![
        ("bus from the GPU", "inputs", bus_inputs),
        ("bus from the GPU", "sums of the GPU", bus_gpu_sums),
        ("bus from the GPU", "keys and values of the prompt", bus_prompt_cache),
        ("bus to the GPU", "results", bus_results),
        ("bus to the GPU", "neurons for the GPU", uploads),
        ("channels", "data and lists", channel_data),
        ("channels", "instructions and status", channel_control),
        ("links", "partial sums", link_sums),
        ("links", "q, k, v", link_qkv),
        ("links", "neurons that migrate", migrations),
        ("SSD", "bundles of neurons", ssd_bundles),
    ]
}

/// The run as text.
pub fn print(host: &Host<'_>, outcome: &Outcome) {
    let (figures, args) = (&outcome.figures, host.args);
    let Choice { dimms, policy, merge } = outcome.choice;
    say!(
        "\n{}/ndp_core, {dimms} DIMM(s), policy {policy}, {} % of the neurons on the GPU, seed {}, {} % stalls",
        host.config.name(),
        args.gpu_percent,
        host.job.options.seed,
        args.unit.stalls
    );
    say!(
        "activity {}, GPU adds {}, partial results travel {}; the prompt is the GPU's",
        name(args.activity),
        name(args.gpu_numerics),
        name(merge)
    );
    say!("device              neurons        cycles  by the model  programs  bytes of sums sent");
    let by_model = |cycles: u64| if outcome.predicted { cycles.to_string() } else { "-".to_owned() };
    let gpu_sent = figures.gpu_sent_bytes;
    say!("GPU          {:14} {:>13} {:>13} {:>9} {gpu_sent:19}", figures.gpu_neurons, "", "", "");
    for (index, dimm) in figures.dimms.iter().enumerate() {
        say!(
            "DIMM {index:<7} {:14} {:13} {:>13} {:9} {:19}",
            dimm.neurons,
            dimm.cycles,
            by_model(dimm.model_cycles),
            dimm.programs,
            dimm.sent_bytes
        );
    }
    say!("load               {:.3} times the mean on the DIMM that has most", figures.imbalance());
    let (checked, mismatches) = (grouped(figures.outputs_checked), figures.mismatches);
    match args.unit.backend {
        Backend::Rtl => {
            let violations = outcome.violations;
            say!(
                "outputs            {checked} checked, {mismatches} mismatches, {violations} violations of DRAM timing"
            );
        }
        Backend::Cycles => {
            say!(
                "outputs            {checked} checked, {mismatches} mismatches; cycle model and functional model, no RTL"
            );
        }
    }
    say!("text               {}", text_verdict(outcome));
    if !is_exact(host, outcome.choice) {
        let ndp_sim::system::Differences { compared, different, largest } = figures.differences;
        say!(
            "rounding           {} of {} results differ from exact sums of the same inputs, by {largest} FP16 numbers at most",
            grouped(different),
            grouped(compared)
        );
    }
    let (cycles, ns) = outcome.per_token();
    say!(
        "DIMMs side by side {} cycles per token, {:.0} tokens/s at {} MHz",
        grouped(cycles as u64),
        per_second(cycles / host.config.core().clock_ghz()),
        host.config.core().clock_mhz()
    );
    say!(
        "whole system       {} ns per token, {:.0} tokens/s with {}; prompt {} ns",
        grouped(ns as u64),
        per_second(ns),
        timed_by_bandwidth(outcome),
        grouped(figures.prompt_ns)
    );
    let merge = figures.merge;
    say!(
        "merge {:<12} {} parts handed over, {} cycles to add those of a product and finish; {} bytes over links, {} over the bus",
        name(merge.format),
        grouped(merge.handed_over),
        grouped(merge.meet_cycles / merge.meetings.max(1)),
        grouped(merge.link_bytes),
        grouped(merge.bus_bytes)
    );
    for (path, what, bytes) in paths(outcome).into_iter().filter(|(.., bytes)| *bytes > 0) {
        say!("{path:<18} {:>14} bytes of {what}", grouped(bytes));
    }
    say!(
        "moved              {} neurons to the GPU, {} from DIMM to DIMM",
        outcome.sum(|record| record.uploads),
        outcome.sum(|record| record.migrations)
    );
    if let Some(links) = &figures.links {
        print_links(links, args.ber);
    }
    if let Some(flash) = outcome.flash() {
        super::flash::print(&flash);
    }
    say!(
        "operation    programs   cycles of DIMMs      ns of GPU      ns of bus ns of channels    ns of links     ns of host"
    );
    for row in operations(&outcome.events, figures.prompt_ns) {
        let OperationFigures {
            operation,
            programs,
            dimm_cycles,
            gpu_ns,
            bus_ns,
            channel_ns,
            link_ns,
            host_ns,
            ..
        } = row;
        let name = operation.name();
        say!(
            "{name:<12} {programs:8} {dimm_cycles:17} {gpu_ns:14} {bus_ns:14} {channel_ns:14} {link_ns:14} {host_ns:14}"
        );
    }
    super::time::print(&outcome.breakdown);
    if args.unit.energy.energy {
        energy::print(&outcome.energy);
    }
    if let Some(predictions) = &outcome.predictions {
        say!("predicted          accuracy  precision  recall");
        for (name, hits) in [
            ("attention", &predictions.attention),
            ("MLP", &predictions.mlp),
            ("all neurons", &predictions.all),
        ] {
            let [accuracy, precision, recall] = [hits.accuracy, hits.precision, hits.recall].map(percent);
            say!("  {name:<16} {accuracy:>8}  {precision:>9}  {recall:>6}");
        }
    }
    if let Some(quality) = &outcome.quality {
        quality.print();
    }
    if !outcome.is_on_time() {
        say!("cycle model        DIFFERS from the RTL");
    }
    say!("golden             {}", verdict_text(outcome.golden.as_ref()));
    if let Some(path) = &args.html {
        say!("report             {}", path.display());
    }
    if let Some(path) = &args.records.timeline {
        say!("timeline           {} (open it in ui.perfetto.dev)", path.display());
    }
    let seconds = outcome.wall.as_secs_f64();
    say!("simulation         {seconds:.1} s, {} core(s) at the same time", host.threads.min(dimms as usize));
}

/// Whose times are not simulated.
pub fn timed_by_bandwidth(outcome: &Outcome) -> &'static str {
    match outcome.figures.links {
        Some(_) => "GPU and bus by their bandwidths",
        None => "GPU, bus and links by their bandwidths",
    }
}

/// What links in RTL carried, and what it cost them.
fn print_links(links: &LinkFigures, ber: f64) {
    let LinkFigures { messages, bytes, cycles, repeated, migrations, uploads, failed_moves, .. } = *links;
    say!(
        "links              {} messages of {} bytes, {} cycles each; {repeated} sent again as a whole",
        grouped(messages),
        grouped(bytes / messages.max(1)),
        grouped(cycles / messages.max(1))
    );
    say!(
        "arrived            {migrations} neurons from DIMM to DIMM, {uploads} at the GPU; {failed_moves} stayed where they were"
    );
    say!("lanes              bit error rate {ber:e}, {} wrong bits", grouped(links.wrong_bits));
    say!("link of     flits sent      again  wrong CRC  out of order  replays  after a time  without credit");
    for (dimm, of) in links.counters.iter().enumerate() {
        say!(
            "DIMM {dimm:<4} {:12} {:10} {:10} {:13} {:8} {:13} {:15}",
            of.flits_sent,
            of.sent_again,
            of.wrong_crc,
            of.out_of_order,
            of.replays_asked,
            of.replays_timed,
            of.without_credit
        );
    }
}
