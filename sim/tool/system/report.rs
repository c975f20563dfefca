use super::run::{Choice, Host, Outcome, Quality, is_exact};
use super::time;
use crate::energy;
use crate::figures::instructions;
use crate::gemv::name;
use crate::golden::verdict_text;
use crate::made;
use crate::phases;
use crate::prelude::*;
use crate::report::LISTED;
use crate::tools::per_second;
use ndp_hermes::scheduler::TokenRecord;
use ndp_report::{Fold, Folds, counted, decimal, optional};
use ndp_sim::core::Backend;
use ndp_sim::system::{Differences, Event, Operation, PathBytes, Resource, TokenFigures, imbalance};
use serde::Serialize;
use serde_json::json;

/// One row per operation over all layers and tokens, in the order of a layer. Counts only events that begin at
/// `behind` or later.
fn operations(events: &[Event], behind: u64) -> Values {
    let of = |operation| events.iter().filter(move |e| e.operation == operation && e.begin_ns >= behind);
    rows! { Operation::ALL.into_iter().filter(|operation| of(*operation).next().is_some()) => |operation|
        let programs = || of(operation).filter_map(|event| event.program.as_ref());
        let ns = |is: fn(Resource) -> bool| {
            of(operation).filter(|event| is(event.place)).map(|event| event.end_ns - event.begin_ns).sum::<u64>()
        };
        "operation" "operation" {Text} Screen: "product of a layer, attention, or the logits" = operation;
        "programs" "programs" {Count} Screen: "programs of all cores" = programs().count();
        "dimm_cycles" "cycles of DIMMs" {Cycles} Screen: "core cycles of these programs, summed"
            = programs().map(|program| program.cycles).sum::<u64>();
        "dimm_ns" "DIMMs ns" {Count} Screen: "time of these programs, summed" = ns(|place| matches!(place, Resource::Dimm(_)));
        "gpu_ns" "GPU ns" {Count} Screen: "time of the GPU, by its bandwidth and throughput" = ns(|place| matches!(place, Resource::Gpu));
        "bus_ns" "bus ns" {Count} Screen: "time of the bus, by its bandwidth" = ns(|place| matches!(place, Resource::BusDown | Resource::BusUp));
        "channel_ns" "channels ns" {Count} Screen: "time of the memory channels, by their bandwidth" = ns(|place| matches!(place, Resource::Channel(_)));
        "link_ns" "links ns" {Count} Screen: "time of the links" = ns(|place| matches!(place, Resource::LinkIn(_) | Resource::LinkOut(_)));
        "host_ns" "host ns" {Count} Screen: "time of the host's predictor" = ns(|place| matches!(place, Resource::Host));
        "ssd_ns" "SSD ns" {Count} Screen: "time of the SSD" = ns(|place| matches!(place, Resource::Ssd));
    }
}

/// Compares text and logits with exact sums in software.
pub fn text_verdict(outcome: &Outcome) -> String {
    match outcome.difference {
        None => "equal to exact sums in software, logits too".to_owned(),
        Some(token) if outcome.same_text => {
            format!("equal to exact sums in software, but logits differ from token {token} on")
        }
        Some(token) => format!("differs from exact sums in software, text or logits from token {token} on"),
    }
}

/// Bytes of each path, with their contents.
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
    } = outcome.ran.figures.bytes;
    let of = |value: fn(&TokenRecord) -> u64| outcome.sum(value);
    let [uploads, migrations] = match &outcome.ran.figures.links {
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

#[derive(Default, Serialize)]
pub struct Predictor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a super::run::Predictions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<&'a Quality>,
}

pub fn show_quality(report: Report, quality: Option<&Quality>) -> Report {
    let rows = rows! { quality.iter().flat_map(|quality| quality.rows()) => |(neurons, perplexity, hits)|
        ..perplexity;
        "neurons" "neurons" {Text} Screen: "neurons that are computed" = neurons;
        "per_token" "perplexity" {Real("", 4)} Screen: "perplexity of a token";
        "right" "largest logit right" {Count} Screen: "tokens that had the largest logit";
        "tokens" "of tokens" {Count} Screen: "tokens that were predicted";
        "accuracy" "accuracy" {Share} Screen: "correctly predicted neurons over all neurons" = hits.and_then(|hits| hits.accuracy);
        "precision" "precision" {Share} Screen: "active neurons among those predicted to be active" = hits.and_then(|hits| hits.precision);
        "recall" "recall" {Share} Screen: "predicted neurons among the active ones" = hits.and_then(|hits| hits.recall);
    };
    let report = report.table("quality", "Perplexity of a stored text", rows);
    match quality {
        Some(Quality { text, .. }) => report.note(format!("the perplexity is that of {text}, in software")),
        None => report,
    }
}

pub fn notes(report: Report, host: &Host<'_>, has_gpu: bool, linked: bool) -> Report {
    let links = if linked { "" } else { ", links" };
    let report = report.note(if has_gpu {
        format!(
            "times of GPU{links} and bus are bytes over their bandwidths; the GPU computes the prompt, and has room for {} % of the neurons",
            host.args.gpu_percent
        )
    } else {
        "weights are in the DRAM before each product; inputs and results take the bandwidth of the memory channel; LayerNorm, embeddings and sampling on the host take no \
         time"
            .to_owned()
    });
    match host.args.unit.backend {
        Backend::Rtl => report,
        Backend::Cycles => report.note("cycle model and functional model of the cores, no RTL"),
    }
}

fn lines(key: &'static str, factor: f64, axis: &'static str, series: &'static str) -> ChartKind {
    let series = (series, if series.is_empty() { axis } else { "DIMM " }, "");
    let (x, y, axes) = (("position", false), (key, factor), ["token", axis]);
    ChartKind::Lines { x, y, series, axes, reference: None }
}

pub fn report(host: &Host<'_>, outcome: &Outcome) -> Result<Report> {
    let (figures, args) = (&outcome.ran.figures, host.args);
    let Choice { dimms, policy, merge } = outcome.choice;
    let (has_gpu, (_, decode_cycles, _)) = (policy.is_some(), figures.generated());
    let per_token = outcome.per_token();
    let checked = grouped(figures.outputs_checked);
    let outputs = match (figures.mismatches, args.unit.backend, outcome.ran.violations) {
        (0, Backend::Cycles, _) => format!("{checked} outputs equal exact arithmetic"),
        (0, Backend::Rtl, 0) => {
            format!("{checked} outputs equal exact arithmetic, no DRAM timing rule is broken")
        }
        (wrong, _, broken) => {
            format!(
                "{wrong} of {checked} outputs differ from exact arithmetic, {broken} DRAM timing rules are broken"
            )
        }
    };
    let rate = per_token.map(|(_, ns)| format!("{} tokens/s; ", decimal(per_second(ns), 0)));
    let rate = rate.filter(|_| figures.mismatches == 0).unwrap_or_default();
    let verdict = format!(
        "{rate}{outputs}; text {}; stored text: {}",
        text_verdict(outcome),
        verdict_text(outcome.golden.as_ref())
    );
    let mut report = outcome
        .failures(host)
        .into_iter()
        .fold(Report::checked("generate", outcome.is_sound(), verdict), Report::note)
        .setting(format!(
            "{} on {} of {}, {}, {} weights, seed {}, {} % stalls",
            counted(outcome.generation.tokens.len() as u64, "token"),
            counted(dimms.into(), "DIMM"),
            host.config.name(),
            match policy {
                None => format!("no GPU, {} neurons", name(args.neurons)),
                Some(policy) => format!(
                    "policy {policy}, activity {}, partial results {}",
                    name(args.activity),
                    name(merge)
                ),
            },
            args.weights,
            host.job.options.seed,
            args.unit.stalls
        ));
    report = time::reason(&outcome.breakdown).into_iter().fold(report, Report::reason);
    report = notes(report, host, has_gpu, figures.links.is_some());
    if !is_exact(host, outcome.choice) {
        let Differences { compared, different, largest } = figures.differences;
        report = report.note(format!(
            "{} of {} results differ from exact sums of the same inputs, by {largest} FP16 numbers at most",
            grouped(different),
            grouped(compared)
        ));
    }
    let energy = (outcome.energy.tokens > 0).then(|| outcome.energy.total.per(outcome.energy.tokens));
    report = report.figures(figures! {
            ..outcome.choice;
            ..optional("merge_figures", &has_gpu.then_some(figures.merge));
            "system_tokens_per_second" "whole system" {Real("tokens/s", 0)} Head: "tokens after the prompt in a second, with GPU, bus and links; null without such a token"
                = per_token.map(|(_, ns)| per_second(ns));
            "system_ns_per_token" "a token" {Real("ns", 0)} Head: "mean time of a token after the prompt" = per_token.map(|(_, ns)| ns);
            "tokens_per_second" "DIMMs side by side" {Real("tokens/s", 0)} Head: "tokens after the prompt in a second if only the slowest DIMM of each step took time"
                = per_token.map(|(cycles, _)| per_second(cycles / host.config.core().clock_ghz()));
            "energy_per_token" "energy of a token" {Energy} Head: "energy of a token after the prompt: DRAM, cores, links, bus, GPU and host" = energy;
            "cycles_per_token" "cycles of a token" {Real("cycles", 0)} Verbose: "core cycles of the slowest DIMM of each step, mean of the tokens after the prompt"
                = per_token.map(|(cycles, _)| cycles);
            "prompt_ns" "prompt" {Real("ns", 0)} Screen: "time of the prompt, on the GPU by its bandwidth and throughput" = figures.prompt_ns;
            "prompt_cycles" "cycles of the prompt" {Cycles} Verbose: "core cycles until the first token is known; 0 if the GPU computes the prompt"
                = figures.critical_cycles - decode_cycles;
            "imbalance" "load, most over mean" {Real("", 3)} Screen: "cycles of the busiest DIMM over the mean of the DIMMs"
                = has_gpu.then(|| figures.imbalance());
            "uploads" "neurons to the GPU" {Count} Screen: "neurons that the scheduler copied to the GPU"
                = has_gpu.then(|| outcome.sum(|record| record.uploads));
            "migrations" "neurons between DIMMs" {Count} Screen: "neurons that the scheduler moved from DIMM to DIMM"
                = has_gpu.then(|| outcome.sum(|record| record.migrations));
            "cycles" "cycles" {Cycles} Screen: "core cycles of the slowest DIMM of each step, summed" = figures.critical_cycles;
            "outputs_checked" "outputs" {Count} Verbose: "outputs of the cores compared with exact arithmetic" = figures.outputs_checked;
            "mismatches" "wrong outputs" {Count} Verbose: "outputs that differ" = figures.mismatches;
            "first_mismatches" "first mismatches" {Data} Json: "first wrong outputs: product, row, batch, expected and actual bits"
                = outcome.ran.mismatches.iter().take(LISTED).collect::<Vec<_>>();
            "protocol_violations" "broken timing rules" {Count} Verbose: "broken timing rules of the DRAM" = outcome.ran.violations;
            "backdoor_accesses" "backdoor accesses" {Count} Verbose: "bursts of DRAM that were read or written by backdoor access after loading"
                = outcome.ran.backdoor_accesses;
            "cycles_equal_model" "cycles equal the model" {Text} Verbose: "whether each core takes the cycles that the cycle model predicts"
                = outcome.is_on_time();
            "text_identical" "text equals software" {Text} Verbose: "whether all tokens equal the result of exact sums in software" = outcome.same_text;
            "logits_identical" "logits equal software" {Text} Verbose: "whether all logits equal the result of exact sums in software"
                = outcome.difference.is_none();
            "first_difference" "first difference" {Count} Verbose: "first token whose value or logits differ, from 0" = outcome.difference;
            "differences" = figures.differences;
            "differences.compared" "sums compared" {Count} Verbose: "results compared with exact sums of the same inputs; 0 if all sums are exact";
            "differences.different" "sums that differ" {Count} Verbose: "results that differ from the exact sums: the cost of rounding in transit";
            "differences.largest" "largest difference" {Count} Verbose: "largest distance, in FP16 numbers between the two";
            "gpu_neurons" "neurons of the GPU" {Count} Verbose: "neurons that the GPU computed, except for the prompt"
                = has_gpu.then_some(figures.gpu_neurons);
            "gpu_sent_bytes" "sums of the GPU" {Bytes} Verbose: "bytes of partial sums that the GPU sent to cores"
                = has_gpu.then_some(figures.gpu_sent_bytes);
            "upload_bytes" "copied to the GPU" {Bytes} Verbose: "bytes of the neurons that were copied to the GPU"
                = has_gpu.then(|| outcome.sum(|record| record.upload_bytes));
            "migration_bytes" "moved between DIMMs" {Bytes} Verbose: "bytes of the neurons that changed DIMMs"
                = has_gpu.then(|| outcome.sum(|record| record.migration_bytes));
            "merge_figures.meetings" "products merged" {Count} Verbose: "programs that finished a product of several devices, or some columns of it";
            "merge_figures.handed_over" "partial results" {Count} Verbose: "partial results that cores handed over";
            "merge_figures.meet_cycles" "cycles of merging" {Cycles} Verbose: "core cycles of these programs";
            "merge_figures.link_bytes" "partial results, links" {Bytes} Verbose: "bytes that cores sent over links";
            "merge_figures.bus_bytes" "partial results, bus" {Bytes} Verbose: "bytes that the GPU sent over the bus";
            "merge_figures.format" "" {Text} Json: "form of partial results";
            "bytes" "" {Data} Json: "bytes by path, as in the table paths" = figures.bytes;
            "backend" "backend" {Text} Verbose: "rtl or cycles" = args.unit.backend;
            "model" "model" {Text} Verbose: "folder or GGUF file of the model" = host.job.model.display().to_string();
            "neurons" "neurons" {Text} Verbose: "neurons that take part: active or all" = args.neurons;
            "weights" "weights" {Text} Verbose: "format of the weights" = args.weights;
            "quantisation" "" {Data} Json: "distance of quantised weights from the given ones" = host.quantisation;
            "temperature_percent" "temperature" {Real("%", 0)} Verbose: "sampling temperature times 100" = host.job.options.sampling.temperature_percent;
            "dimms" "DIMMs" {Count} Verbose: "DIMMs";
            "policy" "policy" {Text} Verbose: "policy of the scheduler; null without a GPU";
            "merge" "partial results travel" {Text} Verbose: "form of partial results: exact or fp16";
            "gpu_percent" "neurons on the GPU" {Real("%", 0)} Verbose: "percentage of the neurons that fit on the GPU"
                = has_gpu.then_some(args.gpu_percent);
            "gpu_numerics" "GPU adds" {Text} Verbose: "exact or fp32" = has_gpu.then_some(args.gpu_numerics);
            "activity" "activity" {Text} Verbose: "source of the active neurons: causal, oracle or predicted" = has_gpu.then_some(args.activity);
            "bit_error_rate" "bit error rate" {Real("", 9)} Verbose: "bit error rate of the links' lanes" = args.ber;
            "faults" "faults" {Text} Verbose: "requested faults of links" = args.faults.iter().map(ToString::to_string).collect::<Vec<_>>();
            "seed" "seed" {Count} Verbose: "seed of sampler, stalls and placement" = host.job.options.seed;
            "stalls_percent" "stalls" {Real("%", 0)} Verbose: "cycles in which the host is not ready" = args.unit.stalls;
            "tokens" "tokens" {Count} Verbose: "tokens generated" = outcome.generation.tokens.len();
            "prompt" "prompt" {Text} Verbose: "text that is continued" = &host.job.prompt;
            "prompt_ids" "" {Data} Json: "tokens of the prompt" = &host.job.prompt_ids;
            "text" "text" {Text} Verbose: "text that was generated" = &outcome.generation.text;
            "text_ids" "" {Data} Json: "generated tokens; the last one may be one that ends a text" = &outcome.generation.tokens;
            "top_k" "top-k" {Count} Verbose: "number of tokens that can be drawn; 0 for all" = host.job.options.sampling.top_k;
            "top_p_percent" "top-p" {Real("%", 0)} Verbose: "probability that the tokens which can be drawn reach"
                = host.job.options.sampling.top_p_percent;
            "links" "" {Data} Json: "links in RTL: messages, bytes, cycles, repeats, migrations, uploads, wrong bits; null if they were not simulated"
                = figures.links.as_ref();
            "links.messages" "messages over links" {Count} Verbose: "messages with partial sums, Q, K and V that arrived";
            "links.bytes" "bytes of messages" {Bytes} Verbose: "their bytes";
            "links.cycles" "cycles of messages" {Cycles} Verbose: "core cycles from the first instruction's offer to the end of the later side, summed";
            "links.repeated" "messages sent again" {Count} Verbose: "messages that were sent again as a whole";
            "links.failed_moves" "failed moves" {Count} Verbose: "neurons that did not arrive and stayed where they were";
            "links.wrong_bits" "wrong bits" {Count} Verbose: "bits that independent errors changed on all lanes";
            "predictor" "" {Data} Json: "hits of the live predictor for this text (text), and its effect on a fixed text (perplexity)"
                = Predictor { text: outcome.predictions.as_ref(), perplexity: outcome.quality.as_ref() };
            "golden" "" {Data} Json: "comparison with a stored text, or null if there is none" = outcome.golden.as_ref();
            "failure" "failure" {Text} Verbose: "reason why the run ended early" = outcome.failure.as_deref();
            "simulation" = json!({"threads": host.threads, "seconds": outcome.wall.as_secs_f64()});
            "simulation.threads" "cores at a time" {Count} Verbose: "cores simulated at the same time";
            "simulation.seconds" "simulation" {Real("s", 1)} Verbose: "wall-clock time of the simulation";
        });
    if let Some(core) = &outcome.core {
        report = report.figures(core.throughput.clone()).table("classes", "Products", core.classes.clone());
    }
    report = time::show(report, &[(None, &outcome.breakdown)]);
    report = time::last_token(outcome)?.into_iter().fold(report, Report::chart);
    let cores = rows! { figures.dimms.iter().enumerate() => |(dimm, figures)|
        ..figures;
        "dimm" "DIMM" {Count} Screen: "number of the DIMM, from 0" = dimm;
        "neurons" "neurons" {Count} Screen: "neurons that it computed";
        "cycles" "cycles" {Cycles} Screen: "core cycles of its programs";
        "model_cycles" "predicted" {Cycles} Screen: "core cycles that the cycle model predicts";
        "programs" "programs" {Count} Screen: "programs";
        "sent_bytes" "sums sent" {Bytes} Screen: "bytes of partial sums sent to other cores";
        "instructions" "instructions" {Count} Verbose: "instructions";
    };
    report = report.table("per_dimm", "DIMMs", cores);
    if let Some(flash) = outcome.flash() {
        let flash = figures! {
            ..flash;
            "resident_share" "with a slot" {Share} Screen: "slots of the DIMMs over neurons of the MLPs";
            "hit_rate" "hits" {Share} Screen: "share of the neurons needed by DIMMs that had a slot";
            "bundles_per_token" "bundles of a token" {Real("", 1)} Screen: "bundles that the SSD reads for a token";
            "ssd_bytes_per_token" "read for a token" {Bytes} Screen: "bytes that the SSD reads for a token";
            "ssd_busy_share" "SSD reads" {Share} Screen: "share of the time in which the SSD reads";
            "ssd_critical_share" "token waits for it" {Share} Screen: "share of the time in which the token waits for the SSD";
            "moved_bytes_without_holes_per_token" "would move" {Bytes} Verbose: "bytes that would change slots for a token if the slots in use had to be without holes; in this run none does";
            "neurons" "neurons" {Count} Verbose: "neurons of all MLP blocks";
            "slots" "slots" {Count} Verbose: "slots for them on all DIMMs";
            "bundle_bytes" "a bundle" {Bytes} Verbose: "bytes of a bundle";
            "moves_without_holes" "moves without holes" {Count} Json: "bundles that would have changed slots if the slots in use had to be without holes";
            "port_cycles" "cycles of ports" {Cycles} Json: "core cycles of the ports of all DIMMs";
            "tokens" "tokens" {Data} Json: "each token after the prompt: neurons needed, loaded and deleted, time of the SSD in ns, further rounds of MLPs";
        };
        report = report.group(Level::Screen, ("flash", "Neurons on an SSD"), flash);
    }
    report = predictions(report, outcome);
    report = energy::show_system(report, &[(None, &outcome.energy)], args.unit.energy.energy);
    if let Some(core) = &outcome.core {
        report = core.energy.show(report, "core_energy", args.unit.energy.energy);
    }
    let level = if has_gpu { Level::Verbose } else { Level::Screen };
    report = phases::show(&outcome.sums.phases, report, level);
    let zeros = rows! { &outcome.generation.sparsity => |layer|
        "qkv_input" "QKV input" {Share} Screen: "share of the inputs of Q, K and V that is 0" = layer.qkv_input.fraction();
        "ffn_hidden" "FFN hidden" {Share} Screen: "share of the FFN's hidden activations that is 0" = layer.ffn_hidden.fraction();
    };
    report = report
        .table_at(Level::Verbose, None, ("instructions", "Instructions"), instructions(&outcome.sums))
        .table_at(Level::Verbose, None, ("sparsity", "Zeros of each layer"), zeros);
    report = tokens(report, outcome);
    let title = "Operations, all layers and tokens after the prompt";
    let operations = operations(&outcome.ran.events, figures.prompt_ns);
    report = report.table_at(Level::Verbose, None, ("operations", title), operations);
    let paths = rows! { paths(outcome).into_iter().filter(|(.., bytes)| *bytes > 0) => |(path, what, bytes)|
        "path" "path" {Text} Screen: "path of the bytes" = path;
        "what" "holds" {Text} Screen: "data" = what;
        "bytes" "bytes" {Count} Screen: "bytes after the prompt" = bytes;
    };
    let bars = ChartKind::Rows { label: "path,what", value: "bytes" };
    let chart = Chart::new("paths", "Bytes by path", "After the prompt, all tokens together.", bars);
    report = report.table_at(Level::Verbose, None, ("paths", "Bytes by path"), paths).chart(chart);
    let links = rows! { figures.links.iter().flat_map(|links| links.counters.iter().enumerate()) => |(dimm, counters)|
        ..counters;
        "dimm" "DIMM" {Count} Screen: "DIMM at the end of the link" = dimm;
        "flits_sent" "flits sent" {Count} Screen: "flits sent, repeated ones included";
        "sent_again" "again" {Count} Screen: "flits sent again";
        "accepted" "accepted" {Count} Screen: "flits accepted";
        "wrong_crc" "wrong CRC" {Count} Screen: "flits with a wrong CRC";
        "out_of_order" "out of order" {Count} Screen: "flits out of order";
        "replays_asked" "replays" {Count} Screen: "replays that the other side requested";
        "replays_timed" "after a time" {Count} Screen: "replays after a timeout";
        "without_credit" "without credit" {Count} Screen: "slots in which a flit waited for credit";
        "full" "full" {Count} Screen: "core cycles with a full replay buffer";
    };
    Ok(report
        .table_at(Level::Verbose, None, ("link_ends", "Links"), links)
        .folds(programs(host, outcome))
        .data("time", "time of the tokens by device and cause, in ns", &outcome.breakdown)
        .data("energy", "energy of the tokens by device, part and operation, in fJ", &outcome.energy)
        .data("config", "the configuration (docs/configuration.md)", host.config)
        .data("tools", "versions of the tools", &Tools::new()))
}

fn predictions(report: Report, outcome: &Outcome) -> Report {
    let of = outcome.predictions.iter();
    let kinds = of.flat_map(|of| [("attention", &of.attention), ("MLP", &of.mlp), ("all neurons", &of.all)]);
    let kinds = rows! { kinds => |(neurons, hits)|
        ..hits;
        "neurons" "neurons" {Text} Screen: "kind of block" = neurons;
        "accuracy" "accuracy" {Share} Screen: "correctly predicted neurons over all neurons";
        "precision" "precision" {Share} Screen: "active neurons among those predicted to be active";
        "recall" "recall" {Share} Screen: "predicted neurons among the active ones";
        "true_positives" "active, predicted" {Count} Verbose: "neurons that are active and predicted";
        "false_positives" "predicted only" {Count} Verbose: "neurons that are predicted and not active";
        "false_negatives" "active only" {Count} Verbose: "neurons that are active and not predicted";
        "true_negatives" "neither" {Count} Verbose: "neurons that are neither";
    };
    show_quality(report.table("predictions", "Predictions", kinds), outcome.quality.as_ref())
}

/// Tables and charts by token after the prompt, and by DIMM for each token.
fn tokens(report: Report, outcome: &Outcome) -> Report {
    let figures = &outcome.ran.figures;
    let hits = outcome.predictions.as_ref().map_or(&[][..], |predictions| &predictions.tokens);
    let bundles = figures.flash.as_ref().map_or(&[][..], |flash| &flash.tokens);
    let tokens = rows! { figures.tokens.iter().enumerate() => |(index, token)|
        let cold = token.dimm_neurons.iter().sum::<u64>();
        let (record, hits) = (outcome.records.get(index), hits.get(index));
        ..token;
        "position" "token" {Count} Screen: "its position in the text, from 0";
        "ns" "ns" {Count} Screen: "time of the token";
        "critical_cycles" "cycles" {Cycles} Screen: "core cycles of the slowest DIMM of each step, summed";
        "gpu_neurons" "neurons of the GPU" {Count} Screen: "neurons that the GPU computed";
        "gpu_share" "GPU's share" {Share} Screen: "share of the computed neurons that the GPU had"
            = token.gpu_neurons as f64 / (token.gpu_neurons + cold).max(1) as f64;
        "imbalance" "most over mean" {Real("", 3)} Screen: "cycles of the busiest DIMM over the mean of the DIMMs"
            = imbalance(token.dimm_cycles.iter().copied());
        "uploads" "to the GPU" {Count} Screen: "neurons copied to the GPU" = record.map(|record| record.uploads);
        "migrations" "between DIMMs" {Count} Screen: "neurons that changed DIMMs" = record.map(|record| record.migrations);
        "bundles" "bundles" {Count} Screen: "bundles that the SSD read" = bundles.get(index).map(|token| token.loaded);
        "accuracy" "accuracy" {Share} Screen: "correctly predicted neurons over all neurons" = hits.and_then(|hits| hits.accuracy);
        "precision" "precision" {Share} Screen: "active neurons among those predicted to be active" = hits.and_then(|hits| hits.precision);
        "recall" "recall" {Share} Screen: "predicted neurons among the active ones" = hits.and_then(|hits| hits.recall);
        "dimm_neurons" "" {Data} Json: "neurons that each core computed";
        "dimm_cycles" "" {Data} Json: "core cycles of each core";
    };
    let loads = figures.tokens.iter().flat_map(|token| {
        let each = token.dimm_cycles.iter().zip(&token.dimm_neurons).enumerate();
        each.map(move |(dimm, (cycles, neurons))| (token.position, dimm, cycles, neurons))
    });
    let loads = rows! { loads => |(position, dimm, cycles, neurons)|
        "position" "token" {Count} Screen: "position in the text, from 0" = position;
        "dimm" "DIMM" {Count} Screen: "number of the DIMM, from 0" = dimm;
        "cycles" "cycles" {Cycles} Screen: "core cycles of its programs" = cycles;
        "neurons" "neurons" {Count} Screen: "neurons that it computed" = neurons;
    };
    let report = report
        .table_at(Level::Verbose, None, ("per_token", "Tokens after the prompt"), tokens)
        .table_at(Level::Json, None, ("loads", "Load of each DIMM"), loads);
    charts! { report =>
        "loads" "Load of each DIMM", "Lines that stay together are balanced DIMMs.", lines("cycles", 1.0, "cycles", "dimm");
        "per_token" "Imbalance of the DIMMs", "1 is balance: all DIMMs take the same cycles.", lines("imbalance", 1.0, "most over mean", "");
        "per_token" "Neurons that the GPU has", "Hot neurons are the GPU's, cold ones the DIMMs'.", lines("gpu_share", 100.0, "% of neurons", "");
        "per_token" "Neurons copied to the GPU", "The scheduler follows what becomes hot.", lines("uploads", 1.0, "neurons", "");
        "per_token" "Neurons moved between DIMMs", "The scheduler evens out the DIMMs after each window.", lines("migrations", 1.0, "neurons", "");
        "per_token" "Bundles that the SSD reads", "Neurons without a slot.", lines("bundles", 1.0, "bundles", ""), if !bundles.is_empty();
        "per_token" "Recall of the predictor", "Active neurons that were predicted.", lines("recall", 100.0, "% of active neurons", ""), if !hits.is_empty();
    }
}

/// Lists the work of each token in each device, with commands that show it again.
fn programs(host: &Host<'_>, outcome: &Outcome) -> Folds {
    let command = made::rerun();
    let begin = outcome.ran.figures.prompt_ns;
    let events = outcome.ran.events.iter().filter(|event| event.begin_ns >= begin);
    let events = events.sorted_by_key(|event| (event.position, event.begin_ns)).collect_vec();
    let fold = |token: &TokenFigures| {
        let of_text = token.position.checked_sub(host.prompt_tokens);
        let spelt = of_text.and_then(|index| Some((index, outcome.generation.tokens.get(index)?)));
        let text = spelt.and_then(|(index, token)| {
            let before = [&host.job.prompt_ids[..], &outcome.generation.tokens[..index]].concat();
            host.model.vocabulary.continuation(&before, std::slice::from_ref(token)).ok()
        });
        let shown = text.map_or_else(String::new, |text| format!("{text:?}"));
        let summary = format!(
            "token {} {shown}: {} cycles of the slowest DIMMs, {} ns",
            token.position,
            grouped(token.critical_cycles),
            grouped(token.ns)
        );
        let own = events.iter().filter(|event| event.position == token.position);
        Fold { summary, rows: own.map(|event| (event_row(event), event_values(event))).collect() }
    };
    let options = match outcome.choice.policy {
        None => [
            "--shown-program PROGRAM --timeline-products 1 --commands program-PROGRAM.txt",
            "--waves program-PROGRAM.fst --wave-start FIRST --wave-stop LAST",
        ],
        Some(_) => [
            "--shown-dimm DIMM --shown-program PROGRAM --timeline-products 1 --commands program-PROGRAM.txt",
            "--shown-dimm DIMM --waves program-PROGRAM.fst --wave-start FIRST --wave-stop LAST",
        ],
    };
    Folds {
        title: "Work of each token",
        text: "Each token with its layers, operations and devices. A program of a core has a number and a range of that core's cycles; neurons are those \
               whose products or outputs it computes, by their numbers in the block (inputs of Q, K, V; outputs of FC1). Tokens of the text are counted from \
               0, the prompt's too; the logits after the token at a position choose the next one. Click on a program's row: its DIMM, number and cycles go \
               into these commands."
            .to_owned(),
        commands: vec![
            (
                "This command writes the program's instructions and all DRAM commands with their times.",
                command.clone(),
                options[0],
            ),
            (
                "This command writes the signals of its cycles in RTL, for GTKWave or Surfer.",
                command.replacen(" --backend cycles", "", 1),
                options[1],
            ),
        ],
        names: &["DIMM", "PROGRAM", "FIRST", "LAST"],
        head: &[
            "layer",
            "operation",
            "part",
            "device",
            "from ns",
            "to ns",
            "program",
            "core cycles",
            "instructions",
            "bytes",
            "neurons",
        ],
        folds: outcome.ran.figures.tokens.iter().map(fold).collect(),
    }
}

/// DIMM, number, first and last cycle of a core's program.
fn event_values(event: &Event) -> Vec<String> {
    match (event.place, &event.program) {
        (Resource::Dimm(dimm), Some(ran)) => {
            [dimm.into(), ran.number, ran.first_cycle, ran.first_cycle + ran.cycles]
                .map(|n: u64| n.to_string())
                .to_vec()
        }
        _ => Vec::new(),
    }
}

fn event_row(event: &Event) -> Vec<String> {
    let program = event.program.as_ref();
    let or_nothing = |value: Option<String>| value.unwrap_or_default();
    vec![
        or_nothing(event.layer.map(|layer| layer.to_string())),
        event.operation.name().to_owned(),
        event.what.to_owned(),
        event.place.to_string(),
        event.begin_ns.to_string(),
        event.end_ns.to_string(),
        or_nothing(program.map(|program| program.number.to_string())),
        or_nothing(program.map(|p| format!("{}..{}", p.first_cycle, p.first_cycle + p.cycles))),
        or_nothing(program.map(|program| program.instructions.to_string())),
        if event.bytes > 0 { event.bytes.to_string() } else { String::new() },
        event.neurons.iter().join(" "),
    ]
}
