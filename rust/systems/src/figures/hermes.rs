//! What the evaluation of Hermes states (section V).

use super::study::mean;
use super::{Bar, Item, Study, contradicted, item, known};
use crate::assumption::Key;
use crate::error::SystemsError;
use crate::machine::Workload;
use crate::policies::Policy;
use crate::run::{Device, Run};
use ndp_config::{LlmShape, SystemConfig};
use ndp_scheduler::Policy as Scheduling;

/// OPT models, which Fig. 9 and 11 have.
const OPT: [&str; 3] = ["opt-13b", "opt-30b", "opt-66b"];
/// All of them.
const ALL: [&str; 6] = ["opt-13b", "opt-30b", "opt-66b", "llama2-13b", "llama2-70b", "falcon-40b"];
/// The large ones of Fig. 10, of which the paper has the mean over Hermes-base.
const LARGE: [&str; 2] = ["llama2-70b", "falcon-40b"];
/// Batches of Fig. 11.
const BATCHES: [u32; 5] = [1, 2, 4, 8, 16];
/// The model whose trace Fig. 4 and 13 are computed with; the paper has the mean of its models in Fig. 13.
pub const TRACED: &str = "llama2-13b";
/// Multipliers of Fig. 16, as presets of the core.
pub const UNITS: [(u32, &str); 5] =
    [(32, "hermes-32"), (64, "hermes-64"), (128, "hermes-128"), (256, "hermes"), (512, "hermes-512")];

type Value = Result<f64, SystemsError>;

fn run(study: &Study<'_>, policy: Policy, model: &str, batch: u32) -> Result<Run, SystemsError> {
    study.run("hermes", policy, model, batch)
}

fn rate(study: &Study<'_>, policy: Policy, model: &str, batch: u32) -> Value {
    Ok(run(study, policy, model, batch)?.tokens_per_second())
}

/// One policy's rate over another's.
fn over(study: &Study<'_>, a: Policy, b: Policy, model: &str, batch: u32) -> Value {
    Ok(rate(study, a, model, batch)? / rate(study, b, model, batch)?)
}

/// Mean of such ratios over models at batch 1.
fn mean_over(study: &Study<'_>, a: Policy, b: Policy, models: &[&'static str]) -> Value {
    mean(models, |model| over(study, a, b, model, 1))
}

/// Mean over models and batches.
fn batched(study: &Study<'_>, a: Policy, b: Policy, models: &[&'static str]) -> Value {
    mean(&BATCHES, |batch| mean(models, |model| over(study, a, b, model, batch)))
}

/// Least (`1.0`) or greatest (`-1.0`) ratio of Hermes to Hermes-host.
fn over_host(study: &Study<'_>, sign: f64) -> Value {
    let ratios =
        ALL.iter().map(|model| Ok(sign * over(study, Policy::Hermes, Policy::HermesHost, model, 1)?));
    let ratios: Vec<f64> = ratios.collect::<Result<_, SystemsError>>()?;
    Ok(sign * ratios.into_iter().fold(f64::INFINITY, f64::min))
}

/// The batch at which Hermes gains least over Hermes-base, mean over the large models.
fn least_gain(study: &Study<'_>) -> Value {
    let gain = |batch| mean(&LARGE, |model| over(study, Policy::Hermes, Policy::HermesBase, model, batch));
    let mut least = (f64::INFINITY, 0);
    for batch in BATCHES {
        let found = gain(batch)?;
        if found < least.0 {
            least = (found, batch);
        }
    }
    Ok(f64::from(least.1))
}

/// The system with so many DIMMs.
fn of_dimms(dimms: u32) -> Result<SystemConfig, SystemsError> {
    Ok(SystemConfig::preset("hermes")?.with_dimms(dimms)?)
}

/// Hermes with `dimms` DIMMs.
fn with_dimms(study: &Study<'_>, model: &str, dimms: u32) -> Result<Run, SystemsError> {
    let work = Workload::new(&LlmShape::preset(model)?, 128, 128, 1)?;
    study.run_on(&of_dimms(dimms)?, "hermes", Policy::Hermes, &work)
}

/// Models of Fig. 15.
const SMALL: [&str; 2] = ["opt-13b", "opt-30b"];

/// The system with another GPU. The paper has PCIe 4.0 with all GPUs (section V-A1), though a T4 has PCIe 3.0.
fn of_gpu(system: &str) -> Result<SystemConfig, SystemsError> {
    let hermes = SystemConfig::preset("hermes")?;
    Ok(SystemConfig::preset(system)?.with_bus_gbps(hermes.bus().bandwidth_gbps)?)
}

/// The 4090's rate over another GPU's.
fn over_gpu(study: &Study<'_>, system: &str) -> Value {
    mean(&SMALL, |model| {
        let system = of_gpu(system)?;
        let work = Workload::new(&LlmShape::preset(model)?, 128, 128, 1)?;
        let other = study.run_on(&system, "hermes", Policy::Hermes, &work)?.tokens_per_second();
        Ok(rate(study, Policy::Hermes, model, 1)? / other)
    })
}

/// Tokens per second of OPT-13B with the core of so many multipliers.
fn with_units(study: &Study<'_>, design: &str, batch: u32) -> Value {
    let work = Workload::new(&LlmShape::preset("opt-13b")?, 128, 128, batch)?;
    let run = study.run_on(&SystemConfig::preset("hermes")?, design, Policy::Hermes, &work)?;
    Ok(run.decode_tokens_per_second())
}

/// The least number of multipliers with at least 95 % of the rate of the next, at batch 1.
fn knee(study: &Study<'_>) -> Value {
    for pair in UNITS.windows(2) {
        if with_units(study, pair[0].1, 1)? >= 0.95 * with_units(study, pair[1].1, 1)? {
            return Ok(f64::from(pair[0].0));
        }
    }
    Ok(f64::from(UNITS[UNITS.len() - 1].0))
}

/// Hermes' rate for LLaMA2-70B over that of TensorRT-LLM on five A100.
fn over_tensor_rt(study: &Study<'_>, batch: u32) -> Value {
    let theirs = study.run("a100x5", Policy::TensorRtLlm, "llama2-70b", batch)?.tokens_per_second();
    Ok(rate(study, Policy::Hermes, "llama2-70b", batch)? / theirs)
}

/// Of Deja Vu's time, the share of the bus.
fn deja_vu_bus(study: &Study<'_>) -> Value {
    mean(&OPT, |model| bus_share(study, Policy::DejaVu, model))
}

/// A system's price.
fn usd(system: &str) -> Value {
    Ok(SystemConfig::preset(system)?.usd().unwrap_or(f64::NAN))
}

/// What the scheduler's numbers are tried with.
pub const TRIED: &[(Key, &[f64])] = &[
    (Key::Sync, &[0.0, 10.0, 50.0]),
    (Key::Skew, &[0.5, 0.75]),
    (Key::Cluster, &[1.0, 64.0, 512.0, 1024.0, 4096.0]),
    (Key::Contiguous, &[0.0]),
    (Key::HotShare, &[0.05, 0.1, 0.4]),
];

/// A number of the scheduler.
const fn traced(item: Item) -> Item {
    Item { tried: Some(TRIED), ..item }
}

/// Time of the MLP blocks under one setting of the scheduler over that under another.
fn step(study: &Study<'_>, from: Scheduling, to: Scheduling) -> Value {
    Ok(study.trace(TRACED)?.ratio(from, to))
}

/// Share of a token of LLaMA2-70B that the host's predictor takes.
fn predictor_share(study: &Study<'_>) -> Value {
    let (model, system) = (LlmShape::preset("llama2-70b")?, SystemConfig::preset("hermes")?);
    let ns = system.predictor_ps(model.neurons() as usize) as f64 / 1e3;
    Ok(ns / run(study, Policy::Hermes, "llama2-70b", 1)?.token.ns())
}

/// Rate of a DIMM-link over that of a copy by the host: read from one DIMM and written to the other, over channels that two DIMMs share.
fn link_over_host() -> Value {
    let system = SystemConfig::preset("hermes")?;
    let channel = system.channel();
    Ok(system.dimms().link_gbps / (channel.bandwidth_gbps / f64::from(channel.dimms) / 2.0))
}

/// Share of the bus in a policy's token.
fn bus_share(study: &Study<'_>, policy: Policy, model: &str) -> Value {
    let token = run(study, policy, model, 1)?.token;
    Ok(token.busy_ns(Device::Bus) / token.ns())
}

/// All of them.
pub const ITEMS: &[Item] = &[
    item("section I", "FlexGen's time on the bus, OPT", "%", 99.0, |s| {
        Ok(100.0 * mean(&OPT, |model| bus_share(s, Policy::FlexGen, model))?)
    }),
    item("section I", "time on the bus with sparsity, OPT-66B", "%", 90.0, |s| {
        Ok(100.0 * bus_share(s, Policy::DejaVu, "opt-66b")?)
    }),
    traced(item("Fig. 4a", "similarity of adjacent tokens, LLaMA-13B, above", "%", 90.0, |s| {
        Ok(100.0 * s.trace(TRACED)?.similarity[0])
    })),
    traced(item("Fig. 4a", "similarity beyond a distance of 10, LLaMA-13B", "%", 70.0, |s| {
        Ok(100.0 * s.trace(TRACED)?.similarity[1])
    })),
    traced(item("Fig. 4b", "neuron active if its parent is, above", "%", 90.0, |s| {
        Ok(100.0 * s.trace(TRACED)?.layer)
    })),
    traced(item("section III-B", "hot neurons that change", "%", 52.0, |s| {
        Ok(100.0 * s.trace(TRACED)?.hot_change)
    })),
    traced(item("section III-B", "fixed partition over an oracle", "x", 1.63, |s| {
        let trace = s.trace(TRACED)?;
        let fixed = trace.policy(Scheduling::Partition).map_or(f64::NAN, |found| found.mlp_us);
        Ok(fixed / trace.oracle_us)
    })),
    traced(item("section III-C", "most loaded DIMM over the mean, 1.2 to 2.5", "x", 1.85, |s| {
        Ok(s.trace(TRACED)?.policy(Scheduling::Partition).map_or(f64::NAN, |found| found.imbalance))
    })),
    known(
        item("section IV-A", "DIMM-link over a copy by the host, more than", "x", 62.0, |_| link_over_host()),
        "62 times less than 25 GB/s is 0.4 GB/s, a sixteenth of what a channel that two DIMMs share has for a copy",
    ),
    traced(item(
        "section IV-C",
        "predictor's accuracy",
        "%",
        98.0,
        |s| Ok(100.0 * s.trace(TRACED)?.accuracy),
    )),
    item("section IV-C", "state table of LLaMA-7B", "KB", 232.0, |_| {
        Ok(LlmShape::preset("llama2-7b")?.neurons() as f64 / 2.0 / 1024.0)
    }),
    traced(item(
        "section IV-D",
        "most loaded DIMM over the mean in a remapped window, below",
        "x",
        1.05,
        |s| Ok(s.trace(TRACED)?.policy(Scheduling::Hermes).map_or(f64::NAN, |found| found.windows[1])),
    )),
    item("Fig. 9", "Hermes, OPT-66B, batch 1", "tokens/s", 20.37, |s| rate(s, Policy::Hermes, "opt-66b", 1)),
    item("Fig. 9", "Hermes over Accelerate, OPT", "x", 578.42, |s| {
        mean_over(s, Policy::Hermes, Policy::Accelerate, &OPT)
    }),
    item("Fig. 9", "Hermes over FlexGen, OPT", "x", 247.25, |s| {
        mean_over(s, Policy::Hermes, Policy::FlexGen, &OPT)
    }),
    item("Fig. 9", "Deja Vu over FlexGen, OPT", "x", 2.12, |s| {
        mean_over(s, Policy::DejaVu, Policy::FlexGen, &OPT)
    }),
    item("Fig. 9", "OPT-13B on the GPU", "% of the weights", 80.0, |s| {
        Ok(100.0 * run(s, Policy::FlexGen, "opt-13b", 1)?.resident)
    }),
    item("Fig. 9", "OPT-66B on the GPU", "% of the weights", 15.0, |s| {
        Ok(100.0 * run(s, Policy::FlexGen, "opt-66b", 1)?.resident)
    }),
    item("abstract", "Hermes, LLaMA2-70B, batch 1", "tokens/s", 13.75, |s| {
        rate(s, Policy::Hermes, "llama2-70b", 1)
    }),
    item("Fig. 10", "Hermes-base over Accelerate", "x", 53.89, |s| {
        mean_over(s, Policy::HermesBase, Policy::Accelerate, &ALL)
    }),
    item("Fig. 10", "Hermes over Hermes-base, LLaMA2-70B and Falcon-40B", "x", 5.17, |s| {
        mean_over(s, Policy::Hermes, Policy::HermesBase, &LARGE)
    }),
    item("Fig. 9, 10", "Hermes over Hermes-host, least", "x", 4.79, |s| over_host(s, 1.0)),
    item("Fig. 9, 10", "Hermes over Hermes-host, greatest", "x", 7.75, |s| over_host(s, -1.0)),
    item("Fig. 9, 10", "Hermes-host over Accelerate", "x", 62.0, |s| {
        mean_over(s, Policy::HermesHost, Policy::Accelerate, &ALL)
    }),
    item("Fig. 9", "Hermes-host over FlexGen, OPT", "x", 44.96, |s| {
        mean_over(s, Policy::HermesHost, Policy::FlexGen, &OPT)
    }),
    item("Fig. 11", "Hermes over FlexGen, batches 1 to 16", "x", 148.98, |s| {
        batched(s, Policy::Hermes, Policy::FlexGen, &OPT)
    }),
    item("Fig. 11", "Hermes over Deja Vu, batches 1 to 16", "x", 75.24, |s| {
        batched(s, Policy::Hermes, Policy::DejaVu, &OPT)
    }),
    item("Fig. 11", "Hermes over Hermes-host, batches 1 to 16", "x", 7.17, |s| {
        batched(s, Policy::Hermes, Policy::HermesHost, &ALL)
    }),
    item("Fig. 11", "batch of the smallest gain over Hermes-base", "sequences", 2.0, least_gain),
    item("Fig. 12a", "Deja Vu's time on the bus", "%", 89.0, |s| Ok(100.0 * deja_vu_bus(s)?)),
    item("Fig. 12a", "predictor in Deja Vu's computation", "%", 18.1, |s| {
        let share = mean(&OPT, |model| {
            let token = run(s, Policy::DejaVu, model, 1)?.token;
            Ok(token.ns_of("predictor") / token.busy_ns(Device::Gpu))
        });
        Ok(100.0 * share?)
    }),
    item("Fig. 12b", "LLaMA2-70B's weights on Hermes-base's DIMMs, at least", "%", 80.0, |s| {
        Ok(100.0 - 100.0 * run(s, Policy::HermesBase, "llama2-70b", 1)?.resident)
    }),
    item("Fig. 12b", "Hermes' time in the prefill, LLaMA2-70B", "%", 33.01, |s| {
        Ok(100.0 * run(s, Policy::Hermes, "llama2-70b", 1)?.prefill_share())
    }),
    item("Fig. 12b", "Hermes' time in generation, LLaMA2-70B", "%", 66.4, |s| {
        Ok(100.0 - 100.0 * run(s, Policy::Hermes, "llama2-70b", 1)?.prefill_share())
    }),
    known(
        item(
            "Fig. 12",
            "Hermes' predictor, LLaMA2-70B, below",
            "%",
            0.1,
            |s| Ok(100.0 * predictor_share(s)?),
        ),
        "measured with one core of a host; about fourteen cores would bring it to 0.1 %",
    ),
    traced(item("Fig. 13", "random to partition", "x", 1.63, |s| {
        step(s, Scheduling::Random, Scheduling::Partition)
    })),
    traced(item("Fig. 13", "partition to adjustment", "x", 1.33, |s| {
        step(s, Scheduling::Partition, Scheduling::Adjustment)
    })),
    traced(item("Fig. 13", "adjustment to Hermes", "x", 1.29, |s| {
        step(s, Scheduling::Adjustment, Scheduling::Hermes)
    })),
    traced(item("Fig. 13", "partition to adjustment by token", "x", 1.08, |s| {
        step(s, Scheduling::Partition, Scheduling::TokenAdjustment)
    })),
    traced(item("Fig. 13", "partition to adjustment by layer", "x", 1.11, |s| {
        step(s, Scheduling::Partition, Scheduling::LayerAdjustment)
    })),
    contradicted(
        item("Fig. 14", "LLaMA2-70B, 16 DIMMs over 8", "x", 1.0, |s| {
            Ok(with_dimms(s, "llama2-70b", 16)?.tokens_per_second()
                / with_dimms(s, "llama2-70b", 8)?.tokens_per_second())
        }),
        "equal rates need a GPU that is slower than 8 DIMMs, but then Hermes-host at 4.79x less has 18 GB/s of 89.6",
    ),
    item("Fig. 14", "fewest DIMMs for Falcon-40B", "DIMMs", 4.0, |s| {
        let fits = [1, 2, 4, 8, 16].into_iter().find(|&count| with_dimms(s, "falcon-40b", count).is_ok());
        Ok(fits.map_or(f64::NAN, f64::from))
    }),
    item("Fig. 15", "RTX 4090 over T4", "x", 2.02, |s| over_gpu(s, "hermes-t4")),
    item("Fig. 15", "RTX 4090 over RTX 3090", "x", 1.34, |s| over_gpu(s, "hermes-3090")),
    item("Fig. 16", "fewest multipliers that suffice at batch 1, OPT-13B", "multipliers", 64.0, knee),
    item("Fig. 16", "512 multipliers over 32 at batch 16, OPT-13B", "x", 3.86, |s| {
        Ok(with_units(s, "hermes-512", 16)? / with_units(s, "hermes-32", 16)?)
    }),
    item("Fig. 17", "Hermes over TensorRT-LLM, batch 1", "x", 0.791, |s| over_tensor_rt(s, 1)),
    item("Fig. 17", "Hermes over TensorRT-LLM, batch 16", "x", 0.244, |s| over_tensor_rt(s, 16)),
    item("section V-F", "price of Hermes", "USD", 2500.0, |_| usd("hermes")),
    item("section V-F", "price of five A100", "USD", 50_000.0, |_| usd("a100x5")),
];

/// A bar of `policy` with a model, on a system and a core.
fn bar(
    (figure, policy, model, batch): (&'static str, Policy, &'static str, u32),
    (name, system): (String, impl Fn() -> Result<SystemConfig, SystemsError> + 'static),
    design: &'static str,
) -> Bar {
    let work = move || Workload::new(&LlmShape::preset(model)?, 128, 128, batch);
    Bar {
        figure,
        system: format!("{} on {name}", policy.name()),
        model: model.to_owned(),
        prompt: 128,
        output: 128,
        batch,
        cost: Box::new(move |study| study.token_cost(&system()?, design, policy, &work()?)),
    }
}

/// The bars of Fig. 9 to 17.
pub fn bars() -> Vec<Bar> {
    use Policy::{Accelerate, DejaVu, FlexGen, Hermes, HermesBase, HermesHost, TensorRtLlm};
    let preset = |name: &'static str| (name.to_owned(), move || Ok(SystemConfig::preset(name)?));
    let of = |figure, policy, model, batch| bar((figure, policy, model, batch), preset("hermes"), "hermes");
    let mut all = Vec::new();
    for (batch, figures) in [(1, ["Fig. 9", "Fig. 10"]), (16, ["Fig. 11", "Fig. 11"])] {
        for model in ALL {
            let is_opt = OPT.contains(&model);
            let figure = figures[usize::from(!is_opt)];
            for policy in [Accelerate, FlexGen, DejaVu, HermesHost, HermesBase, Hermes] {
                // FlexGen and Deja Vu run OPT only; Accelerate has a batch of 1.
                let shown = match policy {
                    FlexGen | DejaVu => is_opt,
                    Accelerate => batch == 1,
                    _ => true,
                };
                if shown {
                    all.push(of(figure, policy, model, batch));
                }
            }
        }
    }
    for (model, dimms) in [("llama2-70b", 16), ("falcon-40b", 4)] {
        let system = (format!("hermes, {dimms} DIMMs"), move || of_dimms(dimms));
        all.push(bar(("Fig. 14", Hermes, model, 1), system, "hermes"));
    }
    for name in ["hermes-t4", "hermes-3090"] {
        let system = || (name.to_owned(), move || of_gpu(name));
        all.extend(SMALL.map(|model| bar(("Fig. 15", Hermes, model, 1), system(), "hermes")));
    }
    for batch in [1, 16] {
        for (multipliers, design) in UNITS.into_iter().filter(|(_, design)| *design != "hermes") {
            let system =
                (format!("hermes, {multipliers} multipliers"), || Ok(SystemConfig::preset("hermes")?));
            all.push(bar(("Fig. 16", Hermes, "opt-13b", batch), system, design));
        }
    }
    for batch in [1, 16] {
        all.push(bar(("Fig. 17", TensorRtLlm, "llama2-70b", batch), preset("a100x5"), "hermes"));
    }
    all
}
