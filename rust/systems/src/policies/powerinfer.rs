//! PowerInfer and its steps: neurons on GPU or host. Each device computes its own predicted neurons (PowerInfer,
//! sections 5 and 6).
//!
//! Neurons are attention heads, all equally often active, and MLP neurons with a power law of frequencies. The solver
//! of section 6.3 maximises the sum of frequencies on the GPU; as work is bytes, it takes the most frequent first.
//! Layers are alike, so all get the same part of a kind; if that is below a block's least number (inequalities 4, 7 and
//! 8), as many layers as can have the least number get equal parts, the others nothing. `+Engine` ignores the
//! inequality. Predictors are on the GPU (section 8.3.4) in the weights' format, keys and values in the host's memory
//! (section 7). A block takes `max(GPU, host)`, attention before MLP, plus the host's software per layer.

use super::On;
use super::llama_cpp::{gpu_fits, host_fits, keys_and_values, prompt, whole_layers};
use crate::activity::Frequencies;
use crate::assumption::Key;
use crate::machine::{Machine, US, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::Result;

struct Statement {
    /// Active share of MLP neurons: Table 3.
    active: f64,
    /// Share of a block's neurons with 80 % of the activations: Fig. 4a.
    hot: f64,
    /// Predictors' parameters over the model's, if in Table 6.
    predictor: Option<f64>,
}

/// Table 3 reports 96 to 98 % inactive neurons for OPT. Fig. 4 covers OPT, ReGLU and SwiGLU; Falcon has ReLU like OPT,
/// Bamboo a gate like ReGLU. For Bamboo, Table 3 reports 10 % active neurons, section 8.3.2 (the runs themselves) 14 to
/// 20 %. Other models with ReLU count as OPT with biases, else as LLaMA2(ReGLU). The paper also states a share for
/// three models with SiLU; in other models without ReLU all neurons and heads are active.
fn statement(model: &LlmShape) -> Statement {
    let (active, hot, predictor) = match model.name() {
        "opt-13b" => (0.03, 0.26, Some(0.0671)),
        "opt-66b" => (0.03, 0.26, Some(0.0488)),
        "relu-falcon-40b" => (0.05, 0.26, Some(0.0868)),
        "bamboo-7b" => (0.17, 0.43, None),
        "relu-llama2-7b" => (0.30, 0.43, None),
        "relu-llama2-13b" => (0.22, 0.43, None),
        "relu-llama2-70b" => (0.18, 0.43, Some(0.0808)),
        "llama2-13b-swiglu" => (0.57, 0.69, None),
        "yi-34b" => (0.47, 0.69, None),
        "qwen1.5-4b" => (0.60, 0.69, None),
        _ if model.is_dense() => (1.0, 0.8, None),
        _ if model.is_biased() => (0.03, 0.26, None),
        _ => (0.18, 0.43, None),
    };
    Statement { active, hot, predictor }
}

/// Whether the paper states a share of active neurons for a model with another function than ReLU.
pub fn is_stated(model: &LlmShape) -> bool {
    model.is_dense() && statement(model).active < 1.0
}

/// Frequencies of predicted MLP neurons.
fn frequencies(machine: &Machine<'_>, model: &LlmShape) -> Frequencies {
    let Statement { active, hot, .. } = statement(model);
    let predicted = active + (1.0 - active) * machine.assumed(Key::FalsePositives);
    Frequencies::power_law(predicted, hot, 0.8)
}

/// The GPU's part of a kind of blocks, equal in all layers that have one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    /// Share of the layers with a part.
    layers: f64,
    /// Share of such a layer's block on the GPU.
    share: f64,
}

impl Part {
    /// `bytes` of the block's `all`, evenly over the layers, or over fewer so that each has at least `least` bytes.
    fn of(bytes: f64, all: f64, layers: f64, least: f64) -> Self {
        if bytes <= 0.0 || least > all / layers {
            return Self::default();
        }
        let filled = if least * layers <= bytes { layers } else { (bytes / least).floor() };
        if filled == 0.0 {
            return Self::default();
        }
        Self { layers: filled / layers, share: (bytes / (all * filled / layers)).min(1.0) }
    }

    fn all(self) -> f64 {
        self.layers * self.share
    }
}

#[derive(Clone, Copy)]
struct Layout {
    /// Attention on the GPU, projection included.
    heads: Part,
    neurons: Part,
    /// Share chosen at random; the others are the most frequent.
    random: f64,
}

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

    /// GPU memory without predictors and the matrix of the logits.
    fn room(&self, machine: &Machine<'_>) -> f64 {
        (machine.gpu_bytes() - self.predictor - self.head).max(0.0)
    }
}

/// Bytes of a block's least number of neurons: `C T_GPU + T_sync <= C T_CPU` (inequality 4), with bytes over bandwidth
/// (equation 5) and two synchronisations per layer.
fn least(machine: &Machine<'_>, work: &Workload, neuron: f64) -> f64 {
    let one = Workload { batch: 1, ..work.clone() };
    let saved = machine.host_neurons_ns(&one, neuron, 0.0) - machine.gpu_read_ns(neuron);
    let sync = machine.assumed(Key::HostLayer) * US / 2.0;
    match (sync > 0.0, saved > 0.0) {
        (false, _) => 0.0,
        (true, true) => (sync / saved).ceil() * neuron,
        (true, false) => f64::INFINITY,
    }
}

impl Layout {
    fn by_frequency(machine: &Machine<'_>, work: &Workload, bytes: &Bytes) -> Self {
        let layers = f64::from(work.model.layers());
        let room = bytes.room(machine);
        let least_of = |all, count| least(machine, work, all / layers / f64::from(count));
        let (of_heads, of_mlp) =
            (least_of(bytes.attention, work.model.heads()), least_of(bytes.mlp, work.model.ffn()));
        // The least number comes as a whole, so its mean competes with heads.
        let (frequencies, head) = (frequencies(machine, &work.model), active_heads(machine, &work.model));
        let bundle = (of_mlp * layers / bytes.mlp).min(1.0);
        let hot = match frequencies.active_by(bundle)[0] > head * bundle || bundle == 0.0 {
            true => frequencies.share_above(head).max(bundle),
            false => 0.0,
        };
        let first = Part::of((hot * bytes.mlp).min(room), bytes.mlp, layers, of_mlp);
        let free = room - first.all() * bytes.mlp;
        let heads = Part::of(free.min(bytes.attention), bytes.attention, layers, of_heads);
        let free = room - heads.all() * bytes.attention;
        Self {
            heads,
            neurons: Part::of(free.min(bytes.mlp), bytes.mlp, layers, of_mlp),
            random: machine.assumed(Key::ProfileShift),
        }
    }

    fn at_random(machine: &Machine<'_>, work: &Workload, bytes: &Bytes) -> Self {
        let layers = f64::from(work.model.layers());
        let room = bytes.room(machine);
        let attention = bytes.attention.min(room);
        Self {
            heads: Part::of(attention, bytes.attention, layers, 0.0),
            neurons: Part::of((room - attention).min(bytes.mlp), bytes.mlp, layers, 0.0),
            random: 1.0,
        }
    }

    /// Share of the layers with neurons on both GPU and host, which wait for each other.
    fn split(&self) -> f64 {
        let whole = |part: Part| if part.share >= 1.0 { part.layers } else { 0.0 };
        self.heads.layers.max(self.neurons.layers) - whole(self.heads).min(whole(self.neurons))
    }

    /// Neurons on GPU and host that any sequence needs, in a layer with some on the GPU; `split` is for the most
    /// frequent ones on the GPU.
    fn needed(&self, split: [f64; 2]) -> [f64; 2] {
        let all = split[0] + split[1];
        let gpu = (1.0 - self.random) * split[0] + self.random * self.neurons.share * all;
        [gpu, all - gpu]
    }

    fn on_host(&self, bytes: &Bytes) -> f64 {
        (1.0 - self.heads.all()) * bytes.attention + (1.0 - self.neurons.all()) * bytes.mlp
    }
}

/// Active share of a model's heads.
fn active_heads(machine: &Machine<'_>, model: &LlmShape) -> f64 {
    if statement(model).active < 1.0 { machine.assumed(Key::HeadsActive) } else { 1.0 }
}

/// Share of the heads that any of `batch` sequences needs.
fn heads(machine: &Machine<'_>, work: &Workload, batch: u32) -> f64 {
    1.0 - (1.0 - active_heads(machine, &work.model)).powi(batch as i32)
}

/// Blocks of a kind. If the GPU has a part, any sequence needs `bytes` on `[GPU, host]`, and each `pairs` bytes on the
/// host on average; in other layers the host has all.
fn blocks(
    (machine, work): On<'_>,
    (name, part): (&'static str, Part),
    [bytes, [gpu_pairs, host_pairs]]: [[f64; 2]; 2],
    steps: &mut Steps,
) {
    let layers = f64::from(work.model.layers());
    let mut add = |share: f64, [gpu, host]: [f64; 2], pairs: f64| {
        if share > 0.0 {
            let on_gpu = Step::new(name).with(Device::Gpu, machine.gpu_product_ns(work, gpu), gpu);
            steps.add(
                share * layers,
                on_gpu.with(Device::Host, machine.host_neurons_ns(work, host, pairs), host),
            );
        }
    };
    add(part.layers, bytes, host_pairs);
    add(1.0 - part.layers, [0.0, bytes[0] + bytes[1]], gpu_pairs + host_pairs);
}

/// Predictors, and software per layer. GPU and host wait for each other in `split` of the layers.
fn predict(machine: &Machine<'_>, work: &Workload, bytes: &Bytes, split: f64, steps: &mut Steps) {
    let layers = f64::from(work.model.layers());
    let ns = machine.gpu_product_ns(work, bytes.predictor);
    steps.alone(1.0, "predictor", Device::Gpu, ns, bytes.predictor);
    let software = (machine.assumed(Key::GpuLayer) + split * machine.assumed(Key::HostLayer)) * US;
    steps.alone(layers, "software", Device::Software, software, 0.0);
}

fn token(machine: &Machine<'_>, work: &Workload, bytes: &Bytes, layout: Layout) -> Steps {
    let layers = f64::from(work.model.layers());
    let mut steps = Steps::default();
    predict(machine, work, bytes, layout.split(), &mut steps);
    let on_gpu = layout.heads.share;
    let attention = [work.batch, 1].map(|batch| {
        let needed = heads(machine, work, batch) * bytes.attention / layers;
        [on_gpu * needed, (1.0 - on_gpu) * needed]
    });
    blocks((machine, work), ("attention", layout.heads), attention, &mut steps);
    keys_and_values(machine, work, &mut steps);
    let frequencies = frequencies(machine, &work.model);
    let on_gpu = layout.neurons.share;
    let mlp = [frequencies.union_by(on_gpu, work.batch), frequencies.active_by(on_gpu)]
        .map(|needed| layout.needed(needed).map(|share| share * bytes.mlp / layers));
    blocks((machine, work), ("MLP", layout.neurons), mlp, &mut steps);
    steps.alone(1.0, "logits", Device::Gpu, machine.gpu_product_ns(work, bytes.head), bytes.head);
    steps
}

fn hybrid(policy: &str, (machine, work): On<'_>, bytes: &Bytes, layout: Layout) -> Result<Run> {
    let host = layout.on_host(bytes);
    gpu_fits(policy, machine, bytes.predictor + bytes.head)?;
    host_fits(policy, machine, work, host)?;
    let prefill = prompt((machine, work), host, |work| token(machine, work, bytes, layout));
    Ok(work.run(prefill, token(machine, work, bytes, layout), 1.0 - host / work.weight_bytes()))
}

pub fn powerinfer(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let bytes = Bytes::of(machine, work);
    hybrid("powerinfer", (machine, work), &bytes, Layout::by_frequency(machine, work, &bytes))
}

/// "+Engine": all attention, then random MLP neurons, on the GPU.
pub fn engine(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let bytes = Bytes::of(machine, work);
    hybrid("powerinfer-engine", (machine, work), &bytes, Layout::at_random(machine, work, &bytes))
}

/// "+PO": predictors and sparse operators, but each layer is wholly on GPU or host.
pub fn operators(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    let bytes = Bytes::of(machine, work);
    let layers = bytes.attention + bytes.mlp;
    let on_gpu = whole_layers(work, bytes.room(machine), layers);
    gpu_fits("powerinfer-operators", machine, bytes.predictor + bytes.head)?;
    host_fits("powerinfer-operators", machine, work, (1.0 - on_gpu) * layers)?;
    let token = |work: &Workload| {
        let frequencies = frequencies(machine, &work.model);
        let union: f64 = frequencies.union_by(1.0, work.batch).iter().sum();
        let needed = heads(machine, work, work.batch) * bytes.attention + union * bytes.mlp;
        let pairs = heads(machine, work, 1) * bytes.attention + frequencies.active() * bytes.mlp;
        let mut steps = Steps::default();
        predict(machine, work, &bytes, 0.0, &mut steps);
        let [gpu, host] = [on_gpu * needed, (1.0 - on_gpu) * needed];
        let ns = machine.host_neurons_ns(work, host, (1.0 - on_gpu) * pairs);
        steps.alone(1.0, "layers of the host", Device::Host, ns, host);
        steps.alone(1.0, "layers of the GPU", Device::Gpu, machine.gpu_product_ns(work, gpu), gpu);
        keys_and_values(machine, work, &mut steps);
        steps.alone(1.0, "logits", Device::Gpu, machine.gpu_product_ns(work, bytes.head), bytes.head);
        steps
    };
    let prefill = prompt((machine, work), (1.0 - on_gpu) * layers, token);
    Ok(work.run(prefill, token(work), (on_gpu * layers + bytes.head) / work.weight_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::assumption::Assumptions;
    use crate::dimms::DimmModel;
    use ndp_config::{DesignConfig, SystemConfig};

    /// OPT-30B on PC-Low with this GPU memory and synchronisation time per layer, in us.
    fn layout(gpu_gb: f64, host_layer: f64) -> (Layout, Bytes, [f64; 2]) {
        let system = include_str!("../../../config/presets/systems/pc-low.toml")
            .replace("memory_gb = 11.81", &format!("memory_gb = {gpu_gb:?}"));
        let system = SystemConfig::from_toml(&system).unwrap();
        let set = format!("name = 'own'\n[host_layer]\nvalue = {host_layer:?}\nreason = 'test'");
        let assumptions = Assumptions::from_toml(&set).unwrap();
        let dimms = DimmModel::new(&DesignConfig::preset("hermes").unwrap());
        let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
        let work = Workload::new(&LlmShape::preset("opt-30b").unwrap(), 64, 128, 1).unwrap();
        let bytes = Bytes::of(&machine, &work);
        let rates =
            [system.gpu().bandwidth_gbps * system.gpu().bandwidth_efficiency, system.host().bandwidth_gbps];
        (Layout::by_frequency(&machine, &work, &bytes), bytes, rates)
    }

    #[test]
    fn a_block_has_the_least_number_of_neurons_on_the_gpu_or_none() {
        let (layers, heads, ffn) = (48.0, 56.0, 28_672.0);
        let mut fewer = 0;
        for gpu_gb in [4.75, 4.8, 5.0, 6.0, 9.0, 11.81] {
            for host_layer in [0.0, 30.0, 240.0, 1000.0, 5000.0] {
                let (layout, bytes, [gpu, host]) = layout(gpu_gb, host_layer);
                for (part, all, count) in
                    [(layout.heads, bytes.attention, heads), (layout.neurons, bytes.mlp, ffn)]
                {
                    let filled = part.layers * layers;
                    assert!((filled - filled.round()).abs() < 1e-9 && filled <= layers, "{part:?}");
                    assert!((0.0..=1.0).contains(&part.share), "{part:?}");
                    fewer += u32::from(filled > 0.0 && filled < layers);
                    if filled > 0.0 {
                        let (here, bytes) = (part.share * count, all / layers / count);
                        let (on_gpu, on_host) = (here * bytes / gpu, here * bytes / host);
                        assert!(
                            on_gpu + host_layer * 500.0 <= on_host + 1e-3,
                            "{gpu_gb} {host_layer} {part:?}"
                        );
                    }
                }
            }
        }
        assert!(fewer > 10, "{fewer}");
    }

    #[test]
    fn layers_that_are_left_out_are_the_host_s_and_wait_for_nobody() {
        let (few, bytes, [gpu, host]) = layout(4.8, 1000.0);
        let (all, _, _) = layout(4.8, 0.0);
        assert!(few.neurons.layers < 1.0 && all.neurons.layers == 1.0, "{:?} {:?}", few.neurons, all.neurons);
        assert_eq!((few.split(), all.split()), (few.neurons.layers.max(few.heads.layers), 1.0));
        // The GPU is full, up to less than a block of either kind needs. A head has 7.3 MB.
        let left = few.on_host(&bytes) - all.on_host(&bytes);
        let least = 500e3 / (1.0 / host - 1.0 / gpu);
        assert!((0.0..2.0 * least + 8e6).contains(&left), "{left} {least}");
    }
}
