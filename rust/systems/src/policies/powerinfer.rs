//! PowerInfer and its steps: neurons on the GPU or on the host's processor, each computes those of its own that are predicted to be active
//! (PowerInfer, sections 5 and 6).
//!
//! There are two kinds of neurons: attention heads, all equally often active, and those of the MLP, whose frequencies are a power law. The
//! solver of section 6.3 maximises the sum of frequencies on the GPU; as a neuron's work is its bytes, it takes the most frequent neurons first.
//! Layers are alike here; the least number of neurons of a layer (inequality 4) is not applied: where fewer fit, the solver fills fewer layers.
//! Predictors are on the GPU (section 8.3.4), in the format of the weights; keys and values are in the host's memory (section 7).
//! A block takes `max(GPU, host)`, attention before MLP, and each layer the host's software on top.

use super::llama_cpp::{gpu_fits, host_fits, keys_and_values, prompt, whole_layers};
use crate::activity::Frequencies;
use crate::assumption::Key;
use crate::error::SystemsError;
use crate::machine::{Machine, US, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_config::{BlockKind, LlmShape};

/// What the paper states of a model's neurons.
struct Statement {
    /// Active share of the MLP's neurons: Table 3.
    active: f64,
    /// Share of the neurons of a block that has 80 % of the activations: Fig. 4a.
    hot: f64,
    /// Parameters of the predictors over those of the model, if Table 6 has it.
    predictor: Option<f64>,
}

/// Of OPT models Table 3 has 96 to 98 % of inactive neurons. Fig. 4 has OPT, ReGLU and SwiGLU; Falcon has ReLU like OPT, Bamboo a gate like
/// ReGLU. For Bamboo, Table 3 has 10 % of active neurons and section 8.3.2, of the runs themselves, 14 to 20 %. A model that the paper does not have
/// is taken for OPT if its layers have biases, else for LLaMA2(ReGLU).
fn statement(model: &LlmShape) -> Statement {
    let (active, hot, predictor) = match model.name() {
        "opt-13b" => (0.03, 0.26, Some(0.0671)),
        "opt-66b" => (0.03, 0.26, Some(0.0488)),
        "falcon-40b" => (0.05, 0.26, Some(0.0868)),
        "bamboo-7b" => (0.17, 0.43, None),
        "llama2-7b" => (0.30, 0.43, None),
        "llama2-13b" => (0.22, 0.43, None),
        "llama2-70b" => (0.18, 0.43, Some(0.0808)),
        "llama2-13b-swiglu" => (0.57, 0.69, None),
        "yi-34b" => (0.47, 0.69, None),
        "qwen1.5-4b" => (0.60, 0.69, None),
        _ if model.is_biased() => (0.03, 0.26, None),
        _ => (0.18, 0.43, None),
    };
    Statement { active, hot, predictor }
}

/// How often the neurons of the MLP are predicted to be active.
fn frequencies(machine: &Machine<'_>, model: &LlmShape) -> Frequencies {
    let Statement { active, hot, .. } = statement(model);
    let predicted = active + (1.0 - active) * machine.assumed(Key::FalsePositives);
    Frequencies::power_law(predicted, hot, 0.8)
}

/// Where weights are, as shares of their kind.
#[derive(Clone, Copy)]
struct Layout {
    /// Attention on the GPU, projection included.
    heads: f64,
    /// Neurons of the MLP on the GPU.
    neurons: f64,
    /// Of these, how many are chosen at random; the others are the most frequent ones.
    random: f64,
}

/// Bytes of a model.
struct Bytes {
    attention: f64,
    mlp: f64,
    predictor: f64,
    head: f64,
}

impl Bytes {
    fn of(machine: &Machine<'_>, work: &Workload) -> Self {
        let predictor = statement(&work.model).predictor.unwrap_or_else(|| machine.assumed(Key::Predictor));
        Self {
            attention: work.block_bytes(BlockKind::Attention) + work.projection_bytes(),
            mlp: work.block_bytes(BlockKind::Mlp),
            predictor: predictor * work.weight_bytes(),
            head: work.head_bytes(),
        }
    }

    /// Of the GPU's memory, what predictors and the matrix of the logits leave.
    fn room(&self, machine: &Machine<'_>) -> f64 {
        (machine.gpu_bytes() - self.predictor - self.head).max(0.0)
    }
}

impl Layout {
    /// The most frequent neurons first.
    fn by_frequency(machine: &Machine<'_>, work: &Workload, bytes: &Bytes) -> Self {
        let room = bytes.room(machine);
        let above = frequencies(machine, &work.model).share_above(machine.assumed(Key::HeadsActive));
        let first = (above * bytes.mlp).min(room);
        let attention = bytes.attention.min(room - first);
        let mlp = (room - attention).min(bytes.mlp);
        Self {
            heads: attention / bytes.attention,
            neurons: mlp / bytes.mlp,
            random: machine.assumed(Key::ProfileShift),
        }
    }

    /// Attention first, then any neurons.
    fn at_random(machine: &Machine<'_>, bytes: &Bytes) -> Self {
        let room = bytes.room(machine);
        let attention = bytes.attention.min(room);
        let mlp = (room - attention).min(bytes.mlp);
        Self { heads: attention / bytes.attention, neurons: mlp / bytes.mlp, random: 1.0 }
    }

    /// Of all neurons, those on the GPU and on the host that one of the sequences needs; `split` is for the most frequent ones on the GPU.
    fn needed(&self, split: [f64; 2]) -> [f64; 2] {
        let all = split[0] + split[1];
        let gpu = (1.0 - self.random) * split[0] + self.random * self.neurons * all;
        [gpu, all - gpu]
    }

    /// Bytes on the host.
    fn on_host(&self, bytes: &Bytes) -> f64 {
        (1.0 - self.heads) * bytes.attention + (1.0 - self.neurons) * bytes.mlp
    }
}

/// Heads that one of the sequences needs.
fn heads(machine: &Machine<'_>, batch: u32) -> f64 {
    1.0 - (1.0 - machine.assumed(Key::HeadsActive)).powi(batch as i32)
}

/// A block of a layer, `[GPU, host]`: bytes that are needed by any sequence and, on the host, bytes that each needs on average.
fn block(machine: &Machine<'_>, work: &Workload, name: &'static str, bytes: [f64; 2], pairs: f64) -> Step {
    let layers = f64::from(work.model.layers());
    let [gpu, host] = bytes.map(|all| all / layers);
    Step::new(name).with(Device::Gpu, machine.gpu_product_ns(work, gpu), gpu).with(
        Device::Host,
        machine.host_neurons_ns(work, host, pairs / layers),
        host,
    )
}

/// Predictors, and the software of a layer. `split` says whether GPU and host wait for each other in a layer.
fn predict(machine: &Machine<'_>, work: &Workload, bytes: &Bytes, split: bool, steps: &mut Steps) {
    let layers = f64::from(work.model.layers());
    let ns = machine.gpu_product_ns(work, bytes.predictor);
    steps.add(1.0, Step::new("predictor").with(Device::Gpu, ns, bytes.predictor));
    let host = if split { machine.assumed(Key::HostLayer) } else { 0.0 };
    let software = (machine.assumed(Key::GpuLayer) + host) * US;
    steps.add(layers, Step::new("software").with(Device::Software, software, 0.0));
}

/// A token of each sequence.
fn token(machine: &Machine<'_>, work: &Workload, bytes: &Bytes, layout: Layout) -> Steps {
    let layers = f64::from(work.model.layers());
    let mut steps = Steps::default();
    predict(machine, work, bytes, layout.on_host(bytes) > 0.0, &mut steps);
    let needed = heads(machine, work.batch) * bytes.attention;
    let split = [layout.heads * needed, (1.0 - layout.heads) * needed];
    let pairs = heads(machine, 1) * (1.0 - layout.heads) * bytes.attention;
    steps.add(layers, block(machine, work, "attention", split, pairs));
    keys_and_values(machine, work, &mut steps);
    let frequencies = frequencies(machine, &work.model);
    let union = layout.needed(frequencies.union_by(layout.neurons, work.batch));
    let [_, pairs] = layout.needed(frequencies.active_by(layout.neurons));
    let split = union.map(|share| share * bytes.mlp);
    steps.add(layers, block(machine, work, "MLP", split, pairs * bytes.mlp));
    let ns = machine.gpu_product_ns(work, bytes.head);
    steps.add(1.0, Step::new("logits").with(Device::Gpu, ns, bytes.head));
    steps
}

fn hybrid(
    policy: &'static str,
    machine: &Machine<'_>,
    work: &Workload,
    bytes: &Bytes,
    layout: Layout,
) -> Result<Run, SystemsError> {
    let host = layout.on_host(bytes);
    gpu_fits(policy, machine, bytes.predictor + bytes.head)?;
    host_fits(policy, machine, work, host)?;
    Ok(Run {
        batch: work.batch,
        output: work.output,
        prefill: prompt(machine, work, host, |work| token(machine, work, bytes, layout)),
        token: token(machine, work, bytes, layout),
        resident: 1.0 - host / work.weight_bytes(),
    })
}

/// PowerInfer ("+Policy").
pub fn powerinfer(machine: &Machine<'_>, work: &Workload) -> Result<Run, SystemsError> {
    let bytes = Bytes::of(machine, work);
    hybrid("powerinfer", machine, work, &bytes, Layout::by_frequency(machine, work, &bytes))
}

/// "+Engine": neurons of the MLP are on the GPU at random, behind all attention.
pub fn engine(machine: &Machine<'_>, work: &Workload) -> Result<Run, SystemsError> {
    let bytes = Bytes::of(machine, work);
    hybrid("powerinfer-engine", machine, work, &bytes, Layout::at_random(machine, &bytes))
}

/// "+PO": predictors and sparse operators, but each layer is the GPU's or the host's.
pub fn operators(machine: &Machine<'_>, work: &Workload) -> Result<Run, SystemsError> {
    let bytes = Bytes::of(machine, work);
    let layers = bytes.attention + bytes.mlp;
    let on_gpu = whole_layers(work, bytes.room(machine), layers);
    gpu_fits("powerinfer-operators", machine, bytes.predictor + bytes.head)?;
    host_fits("powerinfer-operators", machine, work, (1.0 - on_gpu) * layers)?;
    let token = |work: &Workload| {
        let frequencies = frequencies(machine, &work.model);
        let union: f64 = frequencies.union_by(1.0, work.batch).iter().sum();
        let needed = heads(machine, work.batch) * bytes.attention + union * bytes.mlp;
        let pairs = heads(machine, 1) * bytes.attention + frequencies.active() * bytes.mlp;
        let mut steps = Steps::default();
        predict(machine, work, &bytes, false, &mut steps);
        let [gpu, host] = [on_gpu * needed, (1.0 - on_gpu) * needed];
        let ns = machine.host_neurons_ns(work, host, (1.0 - on_gpu) * pairs);
        steps.add(1.0, Step::new("layers of the host").with(Device::Host, ns, host));
        let ns = machine.gpu_product_ns(work, gpu);
        steps.add(1.0, Step::new("layers of the GPU").with(Device::Gpu, ns, gpu));
        keys_and_values(machine, work, &mut steps);
        let ns = machine.gpu_product_ns(work, bytes.head);
        steps.add(1.0, Step::new("logits").with(Device::Gpu, ns, bytes.head));
        steps
    };
    Ok(Run {
        batch: work.batch,
        output: work.output,
        prefill: prompt(machine, work, (1.0 - on_gpu) * layers, token),
        token: token(work),
        resident: (on_gpu * layers + bytes.head) / work.weight_bytes(),
    })
}
