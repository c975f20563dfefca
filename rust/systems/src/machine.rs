//! A system with assumptions: times of its devices for work in bytes.

use crate::activity::Frequencies;
use crate::assumption::{Assumptions, Key};
use crate::dimms::DimmModel;
use crate::run::{Run, Steps};
use ndp_config::{BlockKind, LlmShape, SystemConfig, WeightFormat};
use ndp_files::{Result, ensure};

pub(crate) const GB: f64 = 1e9;

pub(crate) const US: f64 = 1e3;

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub model: LlmShape,
    pub prompt: u32,
    pub output: u32,
    /// Sequences at the same time.
    pub batch: u32,
}

impl Workload {
    /// Most tokens of a prompt or an output.
    pub const MAX_TOKENS: u32 = 1 << 20;
    pub const MAX_BATCH: u32 = 1024;

    /// Fails for numbers that are 0 or too large, and for a mixture of experts.
    pub fn new(model: &LlmShape, prompt: u32, output: u32, batch: u32) -> Result<Self> {
        model.check_experts("compared policies")?;
        for (key, value, max) in [
            ("prompt", prompt, Self::MAX_TOKENS),
            ("output", output, Self::MAX_TOKENS),
            ("batch", batch, Self::MAX_BATCH),
        ] {
            ensure!((1..=max).contains(&value), "{key} = {value} must be in 1..={max}");
        }
        Ok(Self { model: model.clone(), prompt, output, batch })
    }

    /// `resident` is the share of the weights in GPU memory, 0 to 1.
    pub(crate) fn run(&self, prefill: Steps, token: Steps, resident: f64) -> Run {
        Run { batch: self.batch, output: self.output, prefill, token, resident }
    }

    /// Bytes of all weights, embeddings included.
    pub fn weight_bytes(&self) -> f64 {
        (self.model.neurons_bytes() + self.model.resident_bytes()) as f64
    }

    /// Bytes per weight of the layers, its part of a scale included.
    pub fn element_bytes(&self) -> f64 {
        self.model.weight_bytes(1 << 20) as f64 / f64::from(1 << 20)
    }

    /// Bytes of all layers, without embeddings.
    pub fn layer_bytes(&self) -> f64 {
        self.block_bytes(BlockKind::Attention) + self.block_bytes(BlockKind::Mlp) + self.projection_bytes()
    }

    /// Neurons of a kind, in all layers.
    pub fn block_bytes(&self, kind: BlockKind) -> f64 {
        let of_layer = u64::from(self.model.block_neurons(kind)) * self.model.neuron_bytes(kind);
        (u64::from(self.model.layers()) * of_layer) as f64
    }

    /// Projections after attention, in all layers.
    pub fn projection_bytes(&self) -> f64 {
        (u64::from(self.model.layers()) * self.model.projection_bytes()) as f64
    }

    /// Matrix of the logits.
    pub fn head_bytes(&self) -> f64 {
        f64::from(self.model.vocabulary()) * f64::from(self.model.hidden()) * 2.0
    }

    /// Keys and values of all sequences at a token in the middle of the output.
    pub fn kv_bytes(&self) -> f64 {
        f64::from(self.batch) * self.positions() * self.model.kv_bytes_per_token() as f64
    }

    /// Those of [`Self::kv_bytes`] that the token reads: the last ones in layers with a window.
    pub fn kv_bytes_read(&self) -> f64 {
        let seen = self.model.mean_context(self.positions());
        f64::from(self.batch) * seen * self.model.kv_bytes_per_token() as f64
    }

    fn positions(&self) -> f64 {
        f64::from(self.prompt) + f64::from(self.output) / 2.0
    }

    /// Two operations per weight and token of the prompts; logits only of the last token.
    pub fn prefill_flop(&self) -> f64 {
        let elements = self.layer_bytes() / self.element_bytes();
        2.0 * elements * f64::from(self.prompt) * f64::from(self.batch)
    }
}

#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub system: &'a SystemConfig,
    pub assumptions: &'a Assumptions,
    pub dimms: &'a DimmModel,
}

impl Machine<'_> {
    pub fn assumed(&self, key: Key) -> f64 {
        self.assumptions.get(key)
    }

    /// GPU memory for weights.
    pub fn gpu_bytes(&self) -> f64 {
        let gpu = self.system.gpu();
        (self.system.gpu_weight_bytes() as f64 - f64::from(gpu.count) * self.assumed(Key::GpuReserve) * GB)
            .max(0.0)
    }

    /// GPU reads, for products with few vectors.
    pub fn gpu_read_ns(&self, bytes: f64) -> f64 {
        let gpu = self.system.gpu();
        let rate = f64::from(gpu.count) * gpu.bandwidth_gbps * gpu.bandwidth_efficiency;
        bytes / (rate * self.assumed(Key::GpuBandwidth))
    }

    /// GPU operations, in products with many vectors.
    pub fn gpu_flop_ns(&self, flop: f64) -> f64 {
        let gpu = self.system.gpu();
        let rate = f64::from(gpu.count) * gpu.tflops * gpu.compute_efficiency * 1e3;
        flop / (rate * self.assumed(Key::GpuCompute))
    }

    /// Product of weights and a batch on the GPU.
    pub fn gpu_product_ns(&self, work: &Workload, bytes: f64) -> f64 {
        let flop = 2.0 * bytes / work.element_bytes() * f64::from(work.batch);
        self.gpu_read_ns(bytes).max(self.gpu_flop_ns(flop))
    }

    /// Transfer over the bus at a share of its bandwidth.
    pub fn bus_ns(&self, bytes: f64, share: Key) -> f64 {
        bytes / (self.system.bus().bandwidth_gbps * self.assumed(share))
    }

    /// Reads by the host's processor, for products with few vectors.
    pub fn host_read_ns(&self, bytes: f64) -> f64 {
        bytes / (self.system.host().bandwidth_gbps * self.assumed(Key::HostBandwidth))
    }

    pub fn host_flop_ns(&self, flop: f64) -> f64 {
        flop / (self.system.host().tflops * 1e3 * self.assumed(Key::HostCompute))
    }

    /// Reads of whole matrices by the host's processor.
    pub fn host_dense_read_ns(&self, bytes: f64) -> f64 {
        bytes / (self.system.host().bandwidth_gbps * self.assumed(Key::HostDense))
    }

    /// Product of whole matrices and a batch on the host.
    pub fn host_dense_ns(&self, work: &Workload, bytes: f64) -> f64 {
        let flop = 2.0 * bytes / work.element_bytes() * f64::from(work.batch);
        self.host_dense_read_ns(bytes).max(self.host_flop_ns(flop))
    }

    /// Listed neurons on the host: any sequence of the batch needs `bytes`, each `pairs` bytes on average.
    pub fn host_neurons_ns(&self, work: &Workload, bytes: f64, pairs: f64) -> f64 {
        let read = if work.model.weights() == WeightFormat::Fp16 {
            self.host_read_ns(bytes)
        } else {
            bytes / (self.system.host().bandwidth_gbps * self.assumed(Key::HostQuantised))
        };
        read.max(self.host_flop_ns(2.0 * pairs / work.element_bytes() * f64::from(work.batch)))
    }

    /// Frequencies of a kind of neurons; all are active in a model without ReLU.
    pub fn frequencies(&self, model: &LlmShape, kind: BlockKind) -> Frequencies {
        if model.is_dense() {
            return Frequencies::dense();
        }
        let opt = model.is_biased();
        let key = match (kind, opt) {
            (BlockKind::Attention, true) => Key::QkvActiveOpt,
            (BlockKind::Attention, false) => Key::QkvActive,
            (BlockKind::Mlp, true) => Key::MlpActiveOpt,
            (BlockKind::Mlp, false) => Key::MlpActive,
        };
        Frequencies::power_law(self.assumed(key), self.assumed(Key::HotShare), self.assumed(Key::HotWork))
    }

    /// Nanoseconds of the DIMMs for `share` of a block's neurons in one layer, if each sequence needs `pairs` of its
    /// neurons on average. The most loaded DIMM has more than the mean. Fails if the core cannot compute the model.
    pub fn dimm_neurons_ns(&self, work: &Workload, kind: BlockKind, share: f64, pairs: f64) -> Result<f64> {
        let dimms = self.system.dimms().count;
        let most =
            self.assumed(Key::Imbalance) * f64::from(work.model.block_neurons(kind)) / f64::from(dimms);
        let count = |share: f64| (share * most).ceil() as u32;
        let ns = |share, batch| self.dimms.neurons_ns(&work.model, dimms, kind, count(share), batch);
        if work.batch == 1 || self.assumed(Key::SkipPairs) < 0.5 {
            return ns(share, work.batch);
        }
        // One read per row; one multiplication per row and vector that needs it.
        Ok(ns(share, 1)?.max(ns(pairs, work.batch)?))
    }
}
