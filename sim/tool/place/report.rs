//! The report of a placement.

use crate::prelude::*;
use ndp_hermes::placement::{Certificate, Instance, MilpReport, PowerInferReport, Terms, TierCertificate};
use ndp_report::Unit;
use serde::Serialize;

const US: Unit = Unit::Real("us", 2);
const MS: Unit = Unit::Real("s", 4);

/// Properties of the run that the instance does not contain.
#[derive(Debug, Serialize)]
pub struct Origin {
    pub system: String,
    pub method: String,
    pub frequencies: String,
    pub terms: Terms,
    pub group_neurons: u32,
    pub grouping_seconds: f64,
    pub placing_seconds: f64,
}

/// Results of methods that solve another problem as well.
#[derive(Default)]
pub struct Own {
    pub powerinfer: Option<PowerInferReport>,
    pub milp: Option<MilpReport>,
    pub tiers: Option<TierCertificate>,
}

pub fn report(
    model: &LlmShape,
    instance: &Instance,
    certificate: &Certificate,
    origin: &Origin,
    own: &Own,
) -> Report {
    let machine = instance.machine();
    let figures = figures! {
        ..origin;
        "objective_us" "time" {US} Head: "equation 1 of Hermes: time of the neurons of a token" = certificate.objective_us;
        "bound_us" "lower bound" {US} Head: "no placement takes less: linear relaxation with every neuron by itself" = certificate.bound_us;
        "gap" "gap" {Real("", 6)} Head: "objective_us / bound_us - 1" = certificate.gap;
        "gpu_bytes" "on the GPU" {Bytes} Screen: "bytes of the GPU's neurons" = certificate.gpu_bytes;
        "gpu_capacity_bytes" "room on the GPU" {Bytes} Screen: "bytes of the GPU for neurons" = machine.gpu_bytes;
        "dimm_bytes" "on each DIMM" {Bytes} Screen: "bytes of each DIMM's neurons" = &certificate.dimm_bytes;
        "dimm_capacity_bytes" "room on a DIMM" {Bytes} Screen: "bytes of a DIMM for neurons" = machine.dimm_bytes;
        "kv_bytes_per_dimm" "kept for keys and values" {Bytes} Screen: "bytes that a DIMM keeps for keys and values" = machine.kv_bytes;
        "seconds" "time of placing" {MS} Screen: "wall-clock time of grouping and placing, without reading the trace" = origin.grouping_seconds + origin.placing_seconds;
        "grouping_seconds" "grouping" {MS} Verbose: "wall-clock time of grouping";
        "placing_seconds" "placing" {MS} Verbose: "wall-clock time of placing";
        "group_bound_us" "bound of groups" {US} Verbose: "no placement of whole groups takes less" = certificate.group_bound_us;
        "price" "price" {Real("", 4)} Verbose: "frequency of the neuron that fills the GPU in the bound; 0 if the GPU is not full"
            = certificate.price;
        "groups" "groups" {Count} Verbose: "groups of neurons" = instance.groups().len();
        "group_neurons" "neurons in a group" {Count} Verbose: "most neurons of a group";
        "dimms" "DIMMs" {Count} Json: "DIMMs" = machine.dimms;
        "model" "model" {Text} Json: "model" = model.name();
        "system" "system" {Text} Json: "system";
        "method" "method" {Text} Json: "method";
        "frequencies" "frequencies" {Text} Json: "origin of the frequencies: a seed or a trace";
        "terms" "terms" {Text} Json: "terms of the sum: layers, or attention and MLP by themselves";
    };
    let first_blocks = instance.terms().iter().map(|blocks| instance.shape().blocks()[blocks.start]);
    let layers = rows! { first_blocks.zip(&certificate.terms) => |(block, term)|
        ..*term;
        "layer" "layer" {Count} Screen: "layer" = block.layer;
        "gpu_us" "GPU" {US} Screen: "time of the GPU";
        "dimm_us" "slowest DIMM" {US} Screen: "time of the slowest DIMM";
        "ssd_us" "SSD" {US} Screen: "time of the SSD";
        "dimm_mean_us" "mean DIMM" {US} Screen: "time of each DIMM if all had the same load";
        "bound_us" "bound" {US} Screen: "time in the relaxation; one term may take less where another takes more";
    };
    let answer = format!(
        "the neurons of a token take {:.2} us, {:.4} % above the least that any placement takes",
        certificate.objective_us,
        100.0 * certificate.gap
    );
    let mut report = Report::answer("place", answer)
        .setting(format!(
            "{} on {} with {} DIMMs, method {}, frequencies from {}",
            model.name(),
            origin.system,
            machine.dimms,
            origin.method,
            origin.frequencies
        ))
        .figures(figures)
        .table_at(Level::Verbose, None, ("layers", "Terms of the sum"), layers);
    let gb = |bytes: u64| bytes as f64 / 1e9;
    if let Some(own) = &own.tiers {
        let us: f64 = own.terms.iter().map(|term| term.ssd_us).sum();
        report = report
            .note(format!(
                "the SSD alone has {:.2} GB of neurons; reading the needed ones takes {us:.2} us",
                gb(own.ssd_bytes)
            ))
            .data("tiers", "certificate of three tiers (docs/placement.md)", own);
    }
    if let Some(own) = &own.powerinfer {
        let least = own.least_neurons.iter().flatten();
        report = report
            .note(format!(
                "PowerInfer's impact is {:.1} of at most {:.1} (gap {:.4} %); {} of {} blocks are allowed, with at least {} to {} neurons",
                own.impact,
                own.impact_bound,
                own.impact_gap * 100.0,
                least.clone().count(),
                own.least_neurons.len(),
                least.clone().min().unwrap_or(&0),
                least.max().unwrap_or(&0)
            ))
            .note(format!(
                "the GPU has {:.2} of {:.2} GB and {:.2} GB of predictors, the CPU {:.2} of {:.2} GB and {:.2} GB of predictors",
                gb(own.gpu_bytes),
                gb(own.gpu_capacity_bytes),
                gb(own.predictor_gpu_bytes),
                gb(own.cpu_bytes),
                gb(own.cpu_capacity_bytes),
                gb(own.predictor_cpu_bytes)
            ))
            .data("powerinfer", "PowerInfer's own problem (docs/placement.md)", own);
    }
    if let Some(own) = &own.milp {
        let end = if own.timed_out { "was stopped by the time limit" } else { "finished" };
        report = report
            .note(format!(
                "the solver {end}: {:.2} us with even DIMMs, {} variables",
                own.reduced_us, own.variables
            ))
            .data("milp", "the solver's result (docs/placement.md)", own);
    }
    report
}
