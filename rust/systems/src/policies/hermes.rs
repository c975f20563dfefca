//! Hermes and its two reduced systems (Hermes, sections IV-A2 and V-A2).

use super::llama_cpp::host_fits;
use super::offload::resident;
use super::{On, fits};
use crate::assumption::Key;
use crate::machine::{GB, Machine, US, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_config::{BlockKind, WeightFormat};
use ndp_files::{Result, bail};

/// Share of the neurons on the GPU: the hot ones, or those that fit after projections and embeddings. In a dense model
/// all neurons are hot.
pub fn hot_share(machine: &Machine<'_>, work: &Workload) -> f64 {
    let hot = if work.model.is_dense() { 1.0 } else { machine.assumed(Key::HotShare) };
    let room = machine.gpu_bytes() - work.model.resident_bytes() as f64;
    (room / work.model.neurons_bytes() as f64).clamp(0.0, hot)
}

/// Product on the GPU. The paper's RTX 3090 is slower than its bandwidth says.
fn gpu_ns(machine: &Machine<'_>, work: &Workload, bytes: f64) -> f64 {
    let slower = if machine.system.name() == "hermes-3090" { machine.assumed(Key::Gpu3090) } else { 1.0 };
    machine.gpu_product_ns(work, bytes) / slower
}

/// Prompt on the GPU: missing weights come over the bus, then missing hot neurons are loaded.
pub fn prefill(machine: &Machine<'_>, work: &Workload, hot_bytes: f64) -> Steps {
    let [resident, copied] = resident(machine, work);
    let mut steps = Steps::default();
    let stream = Step::new("prefill").with(Device::Bus, machine.bus_ns(copied, Key::BusStream), copied);
    let compute = machine.gpu_flop_ns(work.prefill_flop()).max(machine.gpu_read_ns(work.weight_bytes()));
    steps.add(1.0, stream.with(Device::Gpu, compute, work.weight_bytes()));
    let loaded = hot_bytes * (1.0 - resident / work.weight_bytes());
    steps.alone(1.0, "load hot neurons", Device::Bus, machine.bus_ns(loaded, Key::BusStream), loaded);
    let kv = f64::from(work.prompt) * f64::from(work.batch) * work.model.kv_bytes_per_token() as f64;
    steps.alone(1.0, "store keys and values", Device::Bus, machine.bus_ns(kv, Key::BusStream), kv);
    steps
}

/// A block: hot neurons on the GPU; `cold` gets the share of neurons that any sequence needs, and the mean share per
/// sequence.
fn block(
    (machine, work): On<'_>,
    (kind, name): (BlockKind, &'static str),
    cold: impl Fn(f64, f64) -> Result<(Device, f64)>,
) -> Result<Step> {
    let frequencies = machine.frequencies(&work.model, kind);
    let share = hot_share(machine, work);
    let [hot, cold_union] = frequencies.union_by(share, work.batch);
    let [_, cold_pairs] = frequencies.active_by(share);
    let of_layer = f64::from(work.model.block_neurons(kind)) * work.model.neuron_bytes(kind) as f64;
    let sync = 2.0 * machine.assumed(Key::Sync) * US;
    let gpu = gpu_ns(machine, work, hot * of_layer) + sync;
    let (device, ns) = cold(cold_union, cold_pairs)?;
    Ok(Step::new(name).with(Device::Gpu, gpu, hot * of_layer).with(device, ns, cold_union * of_layer))
}

/// Attention next to keys and values, projection on the GPU, and logits.
fn rest((machine, work): On<'_>, token: &mut Steps, (device, ns): (Device, f64), software_us: f64) {
    let layers = f64::from(work.model.layers());
    token.alone(1.0, "attention", device, ns, work.kv_bytes_read());
    let projection = work.projection_bytes() / layers;
    token.alone(layers, "projection", Device::Gpu, gpu_ns(machine, work, projection), projection);
    token.alone(layers, "software", Device::Software, software_us * US, 0.0);
    let head = work.head_bytes();
    token.alone(1.0, "logits", Device::Gpu, gpu_ns(machine, work, head), head);
}

/// Fails for missing or too small DIMMs.
fn with_dimms(policy: &'static str, machine: &Machine<'_>, work: &Workload) -> Result<()> {
    let dimms = machine.system.dimms();
    if dimms.count == 0 {
        let system = machine.system.name().to_owned();
        bail!("{policy} needs NDP-DIMMs, which the system '{system}' does not have");
    }
    let needed = work.model.neurons_bytes() as f64 + work.kv_bytes();
    fits(policy, machine, "DIMMs", needed, f64::from(dimms.count) * dimms.capacity_gb * GB)
}

/// DIMMs read keys and values, which are FP16 in any case, as fast as they stream FP16 weights.
fn attention_on_dimms(machine: &Machine<'_>, work: &Workload) -> Result<(Device, f64)> {
    let count = machine.system.dimms().count;
    let fp16 = work.model.clone().with_weights(WeightFormat::Fp16);
    let rate = f64::from(count) * machine.dimms.dense_rate(&fp16, count, 1)?;
    Ok((Device::Dimms, work.kv_bytes_read() / rate))
}

pub fn hermes(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    with_dimms("hermes", machine, work)?;
    let layers = f64::from(work.model.layers());
    let mut token = Steps::default();
    for (kind, name) in [(BlockKind::Attention, "Q, K, V"), (BlockKind::Mlp, "MLP")] {
        let step = block((machine, work), (kind, name), |union, pairs| {
            Ok((Device::Dimms, machine.dimm_neurons_ns(work, kind, union, pairs)?))
        })?;
        token.add(layers, step);
    }
    let attention = attention_on_dimms(machine, work)?;
    rest((machine, work), &mut token, attention, machine.assumed(Key::HermesLayer));
    Ok(finish(machine, work, token))
}

/// Hermes-host: cold neurons and attention on the host's processor, which reads each neuron once per batch.
pub fn host(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    host_fits("hermes-host", machine, work, work.weight_bytes())?;
    let layers = f64::from(work.model.layers());
    let mut token = Steps::default();
    for (kind, name) in [(BlockKind::Attention, "Q, K, V"), (BlockKind::Mlp, "MLP")] {
        let of_layer = f64::from(work.model.block_neurons(kind)) * work.model.neuron_bytes(kind) as f64;
        let step = block((machine, work), (kind, name), |union, pairs| {
            let flop = pairs * of_layer * f64::from(work.batch);
            Ok((Device::Host, machine.host_read_ns(union * of_layer).max(machine.host_flop_ns(flop))))
        })?;
        token.add(layers, step);
    }
    let attention = (Device::Host, machine.host_read_ns(work.kv_bytes_read()));
    rest((machine, work), &mut token, attention, machine.assumed(Key::HostLayer));
    Ok(finish(machine, work, token))
}

fn finish(machine: &Machine<'_>, work: &Workload, token: Steps) -> Run {
    let hot = hot_share(machine, work) * work.model.neurons_bytes() as f64;
    let resident = (hot + work.model.resident_bytes() as f64) / work.weight_bytes();
    work.run(prefill(machine, work, hot), token, resident)
}

/// Hermes-base: whole layers on the GPU while they fit, the others and all attention on the DIMMs.
pub fn base(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    with_dimms("hermes-base", machine, work)?;
    let [resident, _] = resident(machine, work);
    let count = machine.system.dimms().count;
    let head = work.head_bytes();
    let fc = work.weight_bytes() - head;
    let on_gpu = ((resident - head) / fc).clamp(0.0, 1.0);
    let mut token = Steps::default();
    token.alone(1.0, "layers of the GPU", Device::Gpu, gpu_ns(machine, work, on_gpu * fc), on_gpu * fc);
    let rate = f64::from(count)
        * machine.dimms.dense_rate(&work.model, count, work.batch)?
        * machine.assumed(Key::BaseDimm);
    let cold = (1.0 - on_gpu) * fc;
    token.alone(1.0, "layers of the DIMMs", Device::Dimms, cold / rate, cold);
    let (device, ns) = attention_on_dimms(machine, work)?;
    token.alone(1.0, "attention", device, ns, work.kv_bytes_read());
    let syncs = f64::from(work.model.layers());
    token.alone(syncs, "software", Device::Software, 2.0 * machine.assumed(Key::Sync) * US, 0.0);
    token.alone(1.0, "logits", Device::Gpu, gpu_ns(machine, work, head), head);
    Ok(work.run(prefill(machine, work, 0.0), token, resident / work.weight_bytes()))
}
