//! The report of an evaluation.

use crate::energy;
use crate::prelude::*;
use crate::system::time;
use ndp_sim::system::{Breakdown, EnergyBreakdown, Evaluation, PolicyResult};

fields! { POLICY
    "policy" "policy" {Text} Screen: "policy of the scheduler";
    "tokens_per_second" "tokens/s" {Real("tokens/s", 2)} Screen: "tokens after the prompt in a second";
    "token_us" "token" {Real("us", 0)} Screen: "mean time of a token";
    "mlp_us" "its MLPs" {Real("us", 0)} Screen: "time of all MLP blocks of a token, as in Fig. 13 of the Hermes paper";
    "gpu_share" "GPU" {Share} Screen: "share of the active neurons that the GPU computed";
    "imbalance" "most/mean" {Real("", 3)} Screen: "active neurons of the most loaded DIMM over the mean of all DIMMs, mean over tokens";
    "upload_bytes_per_token" "to the GPU" {Bytes} Screen: "bytes copied to the GPU for a token";
    "migration_bytes_per_token" "moved" {Bytes} Screen: "bytes that change DIMMs for a token";
    "windows.before" "windows" {Real("", 3)} Verbose: "load of the most loaded DIMM over the mean, for windows as they were computed";
    "windows.planned" "planned" {Real("", 3)} Verbose: "load of the most loaded DIMM over the mean, for windows with the moves planned after them";
    "windows.windows" "number of windows" {Count} Verbose: "windows of blocks";
    "windows.most_before" "" {Real("", 0)} Json: "active neurons of the most loaded DIMM, summed over windows";
    "windows.most_planned" "" {Real("", 0)} Json: "active neurons of the most loaded DIMM with the moves planned after each window, summed";
    "windows.mean" "" {Real("", 0)} Json: "mean of the DIMMs, summed over windows";
    "migrations_dropped" "dropped" {Count} Verbose: "moves that were planned and not made";
    "prompt_us" "prompt" {Real("us", 0)} Verbose: "time of the prompt";
    "flash.hit_rate" "with a slot" {Share} Verbose: "share of the neurons needed by DIMMs that had a slot";
    "flash.resident_share" "slots" {Share} Verbose: "slots of the DIMMs over neurons of the MLPs";
    "flash.bundles_per_token" "bundles" {Real("", 1)} Verbose: "bundles that the SSD reads for a token";
    "flash.ssd_bytes_per_token" "from the SSD" {Bytes} Verbose: "bytes that the SSD reads for a token";
    "flash.ssd_busy_share" "SSD reads" {Share} Verbose: "share of the time in which the SSD reads";
    "flash.ssd_critical_share" "waits for SSD" {Share} Verbose: "share of the time in which the token waits for the SSD";
    "flash" "" {Data} Json: "neurons on an SSD, as in ndp generate; missing if the DIMMs hold all neurons";
    "operation_us" "" {Data} Json: "mean time of a token by operation, in us";
    "operation_cycles" "" {Data} Json: "mean core cycles of the slowest DIMM in a token by operation, as in `ndp layer --dimms`";
    "interpolated" "" {Data} Json: "with --exact: tokens that ran, all tokens, and the error of the interpolation";
    "estimated" "" {Data} Json: "with --fast: programs run and estimated, and the errors of estimates that were compared with a run";
    "time" "" {Data} Json: "time of the tokens by device and cause, in ns";
    "energy" "" {Data} Json: "energy of the tokens by device, part and operation, in fJ";
    "tokens" "" {Data} Json: "each token: time, cycles and neurons";
    "records" "" {Data} Json: "each token: moves of the scheduler";
}

fields! { ABLATION
    "from" "slower policy" {Text} Screen: "policy whose time is divided";
    "to" "faster policy" {Text} Screen: "policy whose time divides";
    "ratio" "here" {Real("", 2)} Screen: "MLP time of the first policy over MLP time of the second";
    "paper" "paper" {Real("", 2)} Screen: "the ratio in Fig. 13 of the Hermes paper (section V-C)";
}

fields! { PREDICTOR
    "name" "goes by" {Text} Screen: "information that the predictor uses";
    "accuracy" "accuracy" {Share} Screen: "correctly predicted neurons over all neurons";
    "precision" "precision" {Share} Screen: "active neurons among those predicted to be active";
    "recall" "recall" {Share} Screen: "predicted neurons among the active ones";
    "attention" "" {Data} Json: "counts of the neurons before attention";
    "mlp" "" {Data} Json: "counts of the neurons of the MLPs";
    "tokens" "" {Data} Json: "accuracy of each token";
    "token_recall" "" {Data} Json: "recall of each token";
}

fn lines(
    x: (&'static str, &'static str),
    (key, factor, axis): (&'static str, f64, &'static str),
    series: (&'static str, &'static str),
    reference: Option<(&'static str, f64)>,
) -> ChartKind {
    let (series, axes) = ((series.0, series.1, ""), [x.1, axis]);
    ChartKind::Lines { x: (x.0, false), y: (key, factor), series, axes, reference }
}

/// The fastest policy, its lead over the others, and the reason.
fn answer(result: &Evaluation) -> (String, Option<String>) {
    let by_rate =
        result.policies.iter().sorted_by(|a, b| b.tokens_per_second.total_cmp(&a.tokens_per_second));
    let by_rate = by_rate.collect_vec();
    let [first, rest @ ..] = &by_rate[..] else { return (String::new(), None) };
    let rate = first.tokens_per_second;
    let mut answer =
        format!("{} runs at {rate:.2} tokens/s after the prompt with policy {}", result.model, first.policy);
    if let [next, ..] = rest {
        let (ratio, other) = (rate / next.tokens_per_second, next.tokens_per_second);
        answer += &format!(", {ratio:.2} times as fast as with {} ({other:.2} tokens/s)", next.policy);
    }
    if let [_, .., last] = rest {
        let (ratio, other) = (rate / last.tokens_per_second, last.tokens_per_second);
        answer += &format!(" and {ratio:.2} times as fast as with {} ({other:.2} tokens/s)", last.policy);
    }
    (answer, time::reason(&first.time))
}

/// `assumed` names the set of efficiencies. `with_energy`: whether tables of energy are on the screen.
pub fn report(result: &Evaluation, assumed: &str, with_energy: bool) -> Result<Report> {
    let Evaluation { policies, predictors, ablation, similarity, .. } = result;
    let (answer, reason) = answer(result);
    let mut report = Report::answer("evaluate", answer)
        .setting(format!(
            "{}, {} weights, {} DIMMs of {}; {} tokens profiled, {} in the prompt, {} generated; active neurons: {}; assumed: set {assumed}; trace: {}",
            result.model,
            result.weights,
            result.dimms,
            result.system,
            result.profiled_tokens,
            result.prompt_tokens,
            result.generated_tokens,
            result.activity.name(),
            result.trace
        ))
        .note("times of DIMMs are cycles of the cycle model; those of GPU, bus and channels follow from their bandwidths and latencies");
    report = reason.into_iter().fold(report, Report::reason);
    if let Some(of) = policies.first().and_then(|first| first.interpolated) {
        let mut note = format!("{} of {} tokens ran, the others are interpolated", of.exact, of.tokens);
        let errors = policies.iter().filter_map(|policy| policy.interpolated?.error);
        if let Some(error) = errors.max_by(f64::total_cmp) {
            note += &format!(", off by {:.1} % in tokens that were left out to see", 100.0 * error);
        }
        report = report.note(note);
    }
    for (policy, e) in policies.iter().filter_map(|p| Some((p.policy, p.estimated.as_ref()?))) {
        report = report.note(format!(
            "{policy} is an estimate: {} of {} programs ran; {} estimates compared with a run are off by {:.2} % together, each by {:.1} %",
            e.run,
            e.run + e.estimated,
            e.checked,
            100.0 * e.error(),
            100.0 * e.mean_distance()
        ));
    }
    report = report
        .figures(figures! {
                "model" "model" {Text} Verbose: "model" = &result.model;
                "weights" "weights" {Text} Verbose: "format of the weights" = result.weights;
                "system" "system" {Text} Verbose: "system" = &result.system;
                "dimms" "DIMMs" {Count} Verbose: "DIMMs" = result.dimms;
                "trace" "trace" {Text} Verbose: "program that made the trace" = &result.trace;
                "activity" "activity" {Text} Verbose: "source of the active neurons: causal, oracle or predicted" = result.activity;
                "merge" "partial results travel" {Text} Verbose: "form of partial results: exact or fp16" = result.merge;
                "profiled_tokens" "tokens profiled" {Count} Verbose: "tokens of the sequences before the last" = result.profiled_tokens;
                "prompt_tokens" "tokens of the prompt" {Count} Verbose: "tokens of the last sequence's prompt" = result.prompt_tokens;
                "generated_tokens" "tokens generated" {Count} Verbose: "tokens of the last sequence after its prompt" = result.generated_tokens;
                "density" "active neurons" {Share} Screen: "share of the neurons that are active" = result.density;
                "placement" = result.placement;
                "placement.gap" "placement above its bound" {Share} Verbose: "objective over bound of the linear relaxation, minus 1";
                "placement.objective_us" "objective of the placement" {Real("us", 1)} Verbose: "time that the placement minimises";
                "placement.bound_us" "bound" {Real("us", 1)} Verbose: "bound of the linear relaxation";
                "placement.gpu_bytes" "neurons on the GPU" {Bytes} Screen: "bytes of neurons that the placement gives the GPU";
                "placement.given" "placement of a file" {Text} Verbose: "whether the placement is from a file; otherwise the offline method computed it";
            })
        .table("policies", "Policies", (POLICY, policies))
        .table("ablation", "MLP time of one policy over that of another", (ABLATION, ablation));
    let each = policies.iter().flat_map(|of| of.operation_us.iter().map(move |one| (of.policy, one)));
    let operations = rows! { each => |(policy, (operation, us))|
        "policy" "policy" {Text} Screen: "policy of the scheduler" = policy;
        "operation" "operation" {Text} Screen: "product of a layer, attention, or the logits" = operation.name();
        "us" "us" {Real("us", 1)} Screen: "time in a token" = us;
    };
    let stacks = ChartKind::Stacks { label: "policy", part: "operation", value: ("us", 1e-3), axis: "ms" };
    report = charts! { report.table_at(Level::Json, None, ("operations", "Time of a token by operation"), operations) =>
        "operations" "Time of a token by operation", "Shorter is faster; the policies differ in the MLP, fc1 and fc2.", stacks;
    };
    let times: Vec<(Option<&'static str>, &Breakdown)> =
        policies.iter().map(|p| (Some(p.policy.name()), &p.time)).collect();
    let energies: Vec<(Option<&'static str>, &EnergyBreakdown)> =
        policies.iter().filter_map(|p| Some((Some(p.policy.name()), p.energy.as_ref()?))).collect();
    report = time::show(report, &times);
    report = energy::show_system(report, &energies, with_energy);
    report = tokens(report, policies);
    let similarity = rows! { (1..).zip(similarity) => |(distance, &similarity)|
        "distance" "distance" {Count} Screen: "distance of two tokens" = distance;
        "similarity" "similarity" {Real("", 3)} Screen: "twice the active neurons that both tokens share over the sum of their active neurons, mean"
            = similarity;
    };
    let (x, y) = (("distance", "distance in tokens"), ("similarity", 1.0, "similarity"));
    let over_distance = lines(x, y, ("", "similarity"), Some(("paper: 0.7 beyond 10", 0.7)));
    report = charts! { report.table_at(Level::Verbose, None, ("similarity", "Similarity of tokens"), similarity) =>
        "similarity" "Similarity of tokens by their distance", "The paper has above 0.9 for neighbours, and 0.7 from a distance of 10 on.", over_distance;
    };
    report = report.table_at(Level::Verbose, None, ("predictors", "Predictors"), (PREDICTOR, predictors));
    let each = predictors.iter().flat_map(|of| {
        let shares = of.tokens.iter().zip(&of.token_recall).enumerate();
        shares.map(move |(token, (accuracy, recall))| (of.name, token, accuracy, recall))
    });
    let predictions = rows! { each => |(name, token, accuracy, recall)|
        "name" "goes by" {Text} Screen: "information that the predictor uses" = name;
        "token" "token" {Count} Screen: "number of the generated token, from 0" = token;
        "accuracy" "accuracy" {Share} Screen: "correctly predicted neurons over all neurons" = accuracy;
        "recall" "recall" {Share} Screen: "predicted neurons among the active ones" = recall;
    };
    let of = |key, axis, reference| lines(("token", "token"), (key, 1.0, axis), ("name", ""), reference);
    Ok(
        charts! { report.table_at(Level::Json, None, ("predictions", "Predictions of each token"), predictions) =>
            "predictions" "Accuracy of the predictors", "Most neurons are not active, so accuracy says little; recall says more.",
                of("accuracy", "accuracy", Some(("paper: 0.98", 0.98)));
            "predictions" "Recall of the predictors", "Part of the active neurons that were predicted.", of("recall", "recall", None);
        },
    )
}

/// By token for each policy, and by DIMM for the last policy, with charts.
fn tokens(report: Report, policies: &[PolicyResult]) -> Report {
    let each = policies.iter().flat_map(|of| of.tokens.iter().enumerate().map(move |token| (of, token)));
    let all = rows! { each => |(of, (token, figures))|
        let cold = figures.dimm_neurons.iter().sum::<u64>();
        let bundles = of.flash.as_ref().and_then(|flash| flash.figures.tokens.get(token));
        "policy" "policy" {Text} Screen: "policy of the scheduler" = of.policy;
        "token" "token" {Count} Screen: "number of the generated token, from 0" = token;
        "gpu_share" "GPU" {Share} Screen: "share of the active neurons that the GPU computed"
            = figures.gpu_neurons as f64 / (figures.gpu_neurons + cold).max(1) as f64;
        "imbalance" "most/mean" {Real("", 3)} Screen: "active neurons of the most loaded DIMM over the mean of all DIMMs"
            = of.records.get(token).map(|record| record.imbalance);
        "bundles" "bundles" {Count} Screen: "bundles that the SSD read" = bundles.map(|token| token.loaded);
    };
    let last = policies.last();
    let loads = last.iter().flat_map(|last| last.tokens.iter().enumerate()).flat_map(|(token, figures)| {
        figures.dimm_neurons.iter().enumerate().map(move |(dimm, neurons)| (token, dimm, neurons))
    });
    let loads = rows! { loads => |(token, dimm, neurons)|
        "token" "token" {Count} Screen: "number of the generated token, from 0" = token;
        "dimm" "DIMM" {Count} Screen: "number of the DIMM, from 0" = dimm;
        "neurons" "neurons" {Count} Screen: "active neurons that it computed" = neurons;
    };
    let by_policy = |key, factor, axis| lines(("token", "token"), (key, factor, axis), ("policy", ""), None);
    let title = last.map_or_else(String::new, |last| format!("Load of each DIMM, policy {}", last.policy));
    let has_flash = all.numbers("bundles").next().is_some();
    let report = charts! { report.table_at(Level::Json, None, ("tokens", "Generated tokens"), all) =>
        "tokens" "Neurons that the GPU has", "Hot neurons are the GPU's, cold ones the DIMMs'.", by_policy("gpu_share", 100.0, "% of the active neurons");
        "tokens" "Imbalance of the DIMMs", "1 is balance: all DIMMs have equally many active neurons.", by_policy("imbalance", 1.0, "most over mean");
    };
    let of_dimms = lines(("token", "token"), ("neurons", 1.0, "active neurons"), ("dimm", "DIMM "), None);
    let by_dimm = ("loads", "Load of each DIMM under the last policy");
    charts! { report.table_at(Level::Json, None, by_dimm, loads) =>
        "loads" title, "Lines that stay together are balanced DIMMs.", of_dimms;
        "tokens" "Bundles that the SSD reads", "Neurons of the MLPs that no slot of a DIMM has are read from the SSD, a bundle each.",
            by_policy("bundles", 1.0, "bundles"), if has_flash;
    }
}
