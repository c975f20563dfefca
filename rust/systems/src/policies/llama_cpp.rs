//! Whole layers on GPU or host (llama.cpp), and speculation with a draft model (SpecInfer), after PowerInfer's sections
//! 2.2 and 8.1.

use super::offload::resident;
use super::{On, fits};
use crate::assumption::Key;
use crate::machine::{GB, Machine, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_files::Result;

/// Prompts of this length are computed on the GPU, with copies of missing weights; shorter ones where the weights are.
const OFFLOADED_FROM: u32 = 32;

/// SpecInfer's draft is OPT-125M, the smaller one of its own paper.
const DRAFT_BYTES: f64 = 0.25 * GB;

/// Share of the layers, all equally large, that fit `room` bytes of the GPU.
pub fn whole_layers(work: &Workload, room: f64, bytes: f64) -> f64 {
    let layers = f64::from(work.model.layers());
    (room.max(0.0) / (bytes / layers)).floor().min(layers) / layers
}

/// A prompt; `copied` bytes of weights are not on the GPU. Short ones take as long as a `token` of as many sequences.
pub fn prompt((machine, work): On<'_>, copied: f64, token: impl Fn(&Workload) -> Steps) -> Steps {
    if work.prompt < OFFLOADED_FROM {
        let batch = work.batch * work.prompt;
        return token(&Workload { batch, prompt: 1, output: 1, model: work.model.clone() });
    }
    copied_prompt(machine, work, copied)
}

/// A prompt on the GPU, after copies of missing weights.
fn copied_prompt(machine: &Machine<'_>, work: &Workload, copied: f64) -> Steps {
    let mut steps = Steps::default();
    let bus = machine.bus_ns(copied, Key::BusStream);
    steps.alone(1.0, "copy for the prompt", Device::Bus, bus, copied);
    let compute = machine.gpu_flop_ns(work.prefill_flop()).max(machine.gpu_read_ns(work.weight_bytes()));
    steps.alone(1.0, "prompt", Device::Gpu, compute, work.weight_bytes());
    steps
}

/// Fails if the host cannot hold `bytes` of weights with keys and values.
pub fn host_fits(policy: &str, machine: &Machine<'_>, work: &Workload, bytes: f64) -> Result<()> {
    let memory = machine.system.host().memory_gb * GB;
    fits(policy, machine, "host memory", bytes + work.kv_bytes(), memory)
}

/// Fails if the GPU cannot hold `bytes`.
pub fn gpu_fits(policy: &str, machine: &Machine<'_>, bytes: f64) -> Result<()> {
    fits(policy, machine, "GPU memory", bytes, machine.gpu_bytes())
}

/// A token of each sequence with `on_gpu` of the layers on the GPU: first the host, then the GPU.
fn token(machine: &Machine<'_>, work: &Workload, on_gpu: f64) -> Steps {
    let head = work.head_bytes();
    let layers = work.layer_bytes();
    let mut steps = Steps::default();
    let [gpu, host] = [on_gpu * layers, (1.0 - on_gpu) * layers];
    steps.alone(1.0, "layers of the host", Device::Host, machine.host_dense_ns(work, host), host);
    steps.alone(1.0, "layers of the GPU", Device::Gpu, machine.gpu_product_ns(work, gpu), gpu);
    keys_and_values(machine, work, &mut steps);
    steps.alone(1.0, "logits", Device::Gpu, machine.gpu_product_ns(work, head), head);
    steps
}

/// Keys and values stay in the host's memory (section 7).
pub fn keys_and_values(machine: &Machine<'_>, work: &Workload, steps: &mut Steps) {
    let bytes = work.kv_bytes_read();
    steps.alone(1.0, "keys and values", Device::Host, machine.host_dense_read_ns(bytes), bytes);
}

pub fn llama_cpp(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let (head, layers) = (work.head_bytes(), work.layer_bytes());
    let on_gpu = whole_layers(work, machine.gpu_bytes() - head, layers);
    let copied = (1.0 - on_gpu) * layers;
    gpu_fits("llama-cpp", machine, head)?;
    host_fits("llama-cpp", machine, work, copied)?;
    let prefill = prompt((machine, work), copied, |work| token(machine, work, on_gpu));
    Ok(work.run(prefill, token(machine, work, on_gpu), (on_gpu * layers + head) / work.weight_bytes()))
}

/// A draft on the GPU proposes tokens; the model verifies them in one pass, with copies of missing weights.
pub fn spec_infer(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let [resident, copied] = resident(machine, work);
    gpu_fits("specinfer", machine, DRAFT_BYTES)?;
    host_fits("specinfer", machine, work, copied)?;
    let verified = machine.assumed(Key::VerifiedTokens);
    let mut token = Steps::default();
    let stream = Step::new("verify").with(Device::Bus, machine.bus_ns(copied, Key::BusStream), copied);
    let all = work.weight_bytes();
    let tree = Workload { batch: (f64::from(work.batch) * verified).ceil() as u32, ..work.clone() };
    token.add(1.0 / verified, stream.with(Device::Gpu, machine.gpu_product_ns(&tree, all), all));
    token.alone(1.0, "draft", Device::Gpu, machine.gpu_product_ns(work, DRAFT_BYTES), DRAFT_BYTES);
    keys_and_values(machine, work, &mut token);
    Ok(work.run(copied_prompt(machine, work, copied), token, resident / all))
}
