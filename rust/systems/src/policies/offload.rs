//! Weights in the host's memory, computation on the GPU: Accelerate, FlexGen, Deja Vu (Hermes, section II-C and V-A2).

use super::{On, fits};
use crate::assumption::Key;
use crate::machine::{Machine, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_config::BlockKind;
use ndp_files::Result;

/// Bytes of weights on the GPU, and of all others.
pub fn resident(machine: &Machine<'_>, work: &Workload) -> [f64; 2] {
    let all = work.weight_bytes();
    let resident = machine.gpu_bytes().min(all);
    [resident, all - resident]
}

/// One pass over all weights, for a prompt or a token of each sequence.
fn pass(name: &'static str, (machine, work): On<'_>, share: Key, overlapped: bool, gpu_ns: f64) -> Steps {
    let [_, copied] = resident(machine, work);
    let mut steps = Steps::default();
    let stream = machine.bus_ns(copied, share);
    if overlapped {
        let step = Step::new(name).with(Device::Bus, stream, copied);
        steps.add(1.0, step.with(Device::Gpu, gpu_ns, work.weight_bytes()));
    } else {
        steps.alone(1.0, "copy", Device::Bus, stream, copied);
        steps.alone(1.0, name, Device::Gpu, gpu_ns, work.weight_bytes());
    }
    steps
}

/// The GPU's part of a token: weights, keys and values.
fn token_gpu_ns(machine: &Machine<'_>, work: &Workload) -> f64 {
    machine.gpu_product_ns(work, work.weight_bytes()) + machine.gpu_read_ns(work.kv_bytes_read())
}

fn streamed(policy: &str, (machine, work): On<'_>, share: Key, overlapped: bool) -> Result<Run> {
    let [resident, copied] = resident(machine, work);
    fits(policy, machine, "host memory", copied, machine.system.host().memory_gb * 1e9)?;
    let pass = |name, gpu_ns| pass(name, (machine, work), share, overlapped, gpu_ns);
    let prefill = pass("prefill", machine.gpu_flop_ns(work.prefill_flop()));
    Ok(work.run(prefill, pass("layers", token_gpu_ns(machine, work)), resident / work.weight_bytes()))
}

/// OPT models and others reach different shares of the bus in the paper's figures.
pub fn accelerate(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let share = if work.model.is_biased() { Key::BusAccelerateOpt } else { Key::BusAccelerate };
    streamed("accelerate", (machine, work), share, false)
}

pub fn flexgen(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    streamed("flexgen", (machine, work), Key::BusFlexGen, true)
}

/// Attention streams as FlexGen's; of the MLP those neurons are gathered that any sequence needs. The GPU reads all
/// predictors.
pub fn deja_vu(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let whole = streamed("deja-vu", (machine, work), Key::BusFlexGen, true)?;
    let missing = 1.0 - whole.resident;
    let mlp = work.block_bytes(BlockKind::Mlp);
    let union: f64 = machine
        .frequencies(&work.model, BlockKind::Mlp)
        .union_by(machine.assumed(Key::HotShare), work.batch)
        .iter()
        .sum();
    let dense = work.weight_bytes() - mlp;
    let mut token = Steps::default();
    let bus = machine.bus_ns(missing * dense, Key::BusFlexGen);
    token.alone(1.0, "copy attention", Device::Bus, bus, missing * dense);
    let gathered = missing * union * mlp;
    token.alone(1.0, "copy neurons", Device::Bus, machine.bus_ns(gathered, Key::BusGather), gathered);
    let bytes = dense + union * mlp;
    let gpu = machine.gpu_product_ns(work, bytes) + machine.gpu_read_ns(work.kv_bytes_read());
    token.alone(1.0, "layers", Device::Gpu, gpu, bytes);
    let predictors = machine.assumed(Key::DejaVuPredictor) * work.weight_bytes();
    token.alone(1.0, "predictor", Device::Gpu, machine.gpu_product_ns(work, predictors), predictors);
    Ok(Run { token, ..whole })
}
