//! Weights on flash, partly in the host's memory ("LLM in a flash", version 1, sections 3 and 4).
//!
//! A token takes the sum of reading, memory management and computing (section 3). Reading follows [`ndp_config::Ssd`].
//! Rows are copied into a layer's matrix (section 3.3), and to the GPU if it computes. Products read attention,
//! predictor, logits' matrix, and all MLP rows in memory. One sequence at a time (section 4).

use super::{On, fits};
use crate::assumption::Key;
use crate::machine::{GB, Machine, Workload};
use crate::run::{Device, Run, Step, Steps};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::{Result, bail, ensure};

/// Predictor's share of missed active neurons, and of inactive ones taken for active (section 4.1).
const MISPREDICTED: [f64; 2] = [0.05, 0.07];

pub struct Statement {
    /// Active share of MLP neurons (section 3.1).
    pub active: f64,
    /// Share that the window holds.
    pub window: f64,
    /// Share read for a token.
    pub new: f64,
    /// Rank of the predictor in the last four layers, and in the others.
    pub ranks: [u32; 2],
}

/// Sections 4.1 and 4.2: OPT-6.7B for models with biases, Falcon-7B with ReLU for those without. A dense model has all
/// neurons in its window.
pub fn statement(model: &LlmShape) -> Statement {
    if model.is_dense() {
        Statement { active: 1.0, window: 1.0, new: 0.0, ranks: [1152, 256] }
    } else if model.is_biased() {
        Statement { active: 0.03, window: 0.24, new: 0.024, ranks: [1024, 128] }
    } else {
        Statement { active: 0.05, window: 0.33, new: 0.031, ranks: [1152, 256] }
    }
}

impl Statement {
    /// Share of neurons predicted to be active; all of a dense model.
    pub fn predicted(&self) -> f64 {
        let [missed, wrong] = if self.active < 1.0 { MISPREDICTED } else { [0.0; 2] };
        self.active * (1.0 - missed) + (1.0 - self.active) * wrong
    }
}

/// Embeddings, attention and predictor, always in memory; `width` is 2 for weights of 32 bits, 1 for 16.
pub fn fixed_bytes(work: &Workload, width: f64) -> [f64; 3] {
    let model = &work.model;
    let attention = work.block_bytes(BlockKind::Attention) + work.projection_bytes();
    let [last, first] = statement(model).ranks.map(f64::from);
    let layers = f64::from(model.layers());
    let ranks = last.mul_add(4.0_f64.min(layers), first * (layers - 4.0).max(0.0));
    let predictor = f64::from(model.hidden() + model.ffn()) * ranks * 2.0;
    [model.embedding_bytes() as f64, attention, predictor].map(|bytes| bytes * width)
}

/// Chunks read for a token, and bytes of each.
pub fn chunks(work: &Workload, technique: Technique, width: f64) -> [f64; 2] {
    let model = &work.model;
    let all = work.weight_bytes() * width;
    let matrices = model.neuron_bytes(BlockKind::Mlp) as f64 * width;
    let of_neuron = matrices / (f64::from(model.hidden()) * work.element_bytes() * width);
    let neurons = f64::from(model.layers()) * f64::from(model.ffn());
    let Statement { new, .. } = statement(model);
    match technique {
        Technique::Naive => [1.0, all],
        Technique::Half => [1.0, all / 2.0],
        Technique::Predictor => [statement(model).predicted() * neurons * of_neuron, matrices / of_neuron],
        Technique::Window => [new * neurons * of_neuron, matrices / of_neuron],
        Technique::Bundles => [new * neurons, matrices],
    }
}

/// Bytes that stay in memory.
pub fn memory_bytes(work: &Workload, technique: Technique, width: f64) -> f64 {
    let fixed: f64 = fixed_bytes(work, width).iter().sum();
    let mlp = work.block_bytes(BlockKind::Mlp) * width;
    match technique {
        Technique::Naive => 0.0,
        Technique::Half => work.weight_bytes() * width / 2.0,
        Technique::Predictor => fixed,
        Technique::Window | Technique::Bundles => statement(&work.model).window.mul_add(mlp, fixed),
    }
}

/// Weights have 16 bits (`width` 1) or 32 (2). The GPU computes if it has memory, else the host.
pub fn run_with(policy: &str, (machine, work): On<'_>, technique: Technique, width: f64) -> Result<Run> {
    let Some(ssd) = machine.system.ssd() else {
        let system = machine.system.name().to_owned();
        bail!("{policy} needs an SSD, which the system '{system}' does not have");
    };
    ensure!(work.batch <= 1, "batch = {} must be in 1..=1", work.batch);
    let in_memory = memory_bytes(work, technique, width);
    let memory = machine.system.host().memory_gb * GB + machine.gpu_bytes();
    fits(policy, machine, "memory", in_memory + work.kv_bytes(), memory)?;
    let read = |[count, bytes]: [f64; 2]| {
        let chunks = ssd.read_ns(count.round() as u64, bytes.round() as u64) as f64;
        let stream = count * bytes / ssd.bandwidth_gbps();
        let ns = stream.max(chunks * machine.assumed(Key::SsdChunks));
        Step::new("read").with(Device::Ssd, ns, count * bytes)
    };
    let on_gpu = machine.gpu_bytes() > 0.0;
    let mut token = Steps::default();
    let [count, bytes] = chunks(work, technique, width);
    token.add(1.0, read([count, bytes]));
    let sparse = technique >= Technique::Predictor;
    let all = work.weight_bytes() * width;
    if sparse {
        let new = count * bytes;
        token.alone(1.0, "manage memory", Device::Host, new / machine.assumed(Key::NeuronCopy), new);
        if on_gpu {
            let bus = machine.bus_ns(new, Key::BusStream);
            token.alone(1.0, "copy to the GPU", Device::Bus, bus, new);
        }
    }
    let rows = match technique {
        Technique::Naive | Technique::Half => 1.0,
        Technique::Predictor => statement(&work.model).predicted(),
        Technique::Window | Technique::Bundles => statement(&work.model).window,
    };
    let [_, attention, predictor] = fixed_bytes(work, width);
    let products = if sparse { attention + predictor } else { attention }
        + work.head_bytes() * width
        + rows * work.block_bytes(BlockKind::Mlp) * width;
    let compute = |bytes: f64, flop: f64| {
        if on_gpu {
            (Device::Gpu, machine.gpu_read_ns(bytes).max(machine.gpu_flop_ns(flop)))
        } else {
            (Device::Host, machine.host_dense_read_ns(bytes).max(machine.host_flop_ns(flop)))
        }
    };
    let flop = 2.0 * products / (work.element_bytes() * width) * f64::from(work.batch);
    let (device, ns) = compute(products + work.kv_bytes_read(), flop);
    token.alone(1.0, "compute", device, ns, products);
    // A prompt needs nearly all neurons: those not in memory are read once.
    let mut prefill = Steps::default();
    prefill.add(1.0, read([1.0, all - in_memory]));
    let (device, ns) = compute(all, work.prefill_flop());
    prefill.alone(1.0, "compute", device, ns, all);
    Ok(work.run(prefill, token, in_memory / all))
}

/// Techniques, and their policies with weights of 16 bits.
macro_rules! techniques {
    ($($(#[doc = $doc:literal])+ $technique:ident $name:literal $function:ident $policy:literal;)+) => {
        ndp_config::named! {
            /// Techniques that the paper adds, step by step (Table 2).
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Technique {
                $($(#[doc = $doc])+ $technique = $name,)+
            }
        }

        $(
            #[doc = concat!("`", $policy, "`.")]
            pub fn $function(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
                run_with($policy, (machine, work), Technique::$technique, 1.0)
            }
        )+
    };
}

techniques! {
    /// All weights are read for each token.
    Naive "all read" naive "flash-naive";
    /// Half of them are in memory ("hybrid").
    Half "half in memory" half "flash-half";
    /// Attention is in memory, of the MLP the rows are read that a predictor takes to be active.
    Predictor "predictor" predictor "flash-predictor";
    /// Rows stay in memory for some tokens.
    Window "window" window "flash-window";
    /// A row of the up projection and the column of the down projection that belongs to it are one chunk.
    Bundles "bundles" bundles "flash-bundles";
}
