//! Division of the work among the devices: each policy from its own paper's description.

pub(crate) mod flash;
mod hermes;
mod llama_cpp;
mod offload;
mod powerinfer;
mod tensor_rt;

pub use hermes::{hot_share, prefill};

use crate::machine::{Machine, Workload};
use crate::run::Run;
use ndp_config::LlmShape;
use ndp_files::{Result, ensure};
use serde::Serialize;

/// Variant, name, description, function.
macro_rules! policies {
    ($($(#[doc = $doc:literal])+ $policy:ident $name:literal $run:path;)+) => {
        ndp_config::named! {
            /// A way to run a model that is larger than the GPU's memory.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
            #[derive(clap::ValueEnum)]
            #[serde(rename_all = "kebab-case")]
            pub enum Policy {
                $($(#[doc = $doc])+ #[value(name = $name)] #[serde(rename = $name)] $policy = $name,)+
            }
        }

        impl Policy {
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$policy => concat!($($doc),+),)+ }
            }

            /// Fails if a device or memory is missing, or the DIMMs cannot compute the model.
            pub fn run(self, machine: &Machine<'_>, work: &Workload) -> Result<Run> {
                match self { $(Self::$policy => $run(machine, work),)+ }
            }
        }
    };
}

policies! {
    /// Weights that exceed the GPU's memory are copied to it for each token, layer by layer, without overlap (Hugging Face Accelerate).
    Accelerate "accelerate" offload::accelerate;
    /// Like accelerate, but a layer is copied while the one before computes (FlexGen, zig-zag schedule).
    FlexGen "flexgen" offload::flexgen;
    /// Like flexgen, but only the MLP neurons that a predictor takes to be active are gathered and copied (Deja Vu).
    DejaVu "deja-vu" offload::deja_vu;
    /// Hot neurons on the GPU, cold ones on the host's processor, without copies (Hermes-host).
    HermesHost "hermes-host" hermes::host;
    /// The DIMMs compute all neurons of the layers that exceed the GPU's memory (Hermes-base).
    HermesBase "hermes-base" hermes::base;
    /// Hot neurons on the GPU, cold ones on the DIMMs (Hermes).
    Hermes "hermes" hermes::hermes;
    /// All weights in the memory of several GPUs, each product shared by all of them (TensorRT-LLM).
    TensorRtLlm "tensorrt-llm" tensor_rt::tensor_rt;
    /// All weights in the memory of one GPU (vLLM).
    VLlm "vllm" tensor_rt::vllm;
    /// Whole layers on the GPU, the others on the host's processor, one after the other (llama.cpp).
    LlamaCpp "llama-cpp" llama_cpp::llama_cpp;
    /// A small model proposes tokens, the large one verifies several at once and streams over the bus for it (SpecInfer).
    SpecInfer "specinfer" llama_cpp::spec_infer;
    /// Like llama-cpp, but only predicted heads and neurons are computed (PowerInfer, "+PO").
    PowerInferOperators "powerinfer-operators" powerinfer::operators;
    /// Attention and neurons at random on the GPU, the others on the host's processor, both at the same time (PowerInfer, "+Engine").
    PowerInferEngine "powerinfer-engine" powerinfer::engine;
    /// The most frequent heads and neurons on the GPU, the others on the host's processor, both at the same time (PowerInfer).
    PowerInfer "powerinfer" powerinfer::powerinfer;
    /// All weights are read from flash for each token (LLM in a flash, "naive").
    FlashNaive "flash-naive" flash::naive;
    /// Half of the weights are in memory, the others are read from flash for each token.
    FlashHalf "flash-half" flash::half;
    /// Attention is in memory, rows of the MLP are read from flash if they are predicted to be active.
    FlashPredictor "flash-predictor" flash::predictor;
    /// As flash-predictor, but rows stay in memory for some tokens.
    FlashWindow "flash-window" flash::window;
    /// As flash-window, with the weights of a neuron in one chunk (LLM in a flash).
    FlashBundles "flash-bundles" flash::bundles;
}

/// Text that says which neurons of a dense model these policies compute; `None` for a ReLU model.
pub fn dense_note(model: &LlmShape, policies: &[Policy]) -> Option<String> {
    let note = model.dense_note()?;
    let stated = |policy: &Policy| policy.name().starts_with("powerinfer") && powerinfer::is_stated(model);
    Some(match policies.iter().any(stated) {
        true => format!("{note}, except that PowerInfer's policies take the share in its table 3"),
        false => note,
    })
}

type On<'a> = (&'a Machine<'a>, &'a Workload);

/// Fails for a machine with less memory than needed, both in bytes.
fn fits(policy: &str, machine: &Machine<'_>, what: &str, needed: f64, has: f64) -> Result<()> {
    let [needed_gb, has_gb] = [needed, has].map(|bytes| bytes / 1e9);
    let system = machine.system.name();
    ensure!(
        needed <= has,
        "{policy} needs {needed_gb:.1} GB of {what}, and the system '{system}' has {has_gb:.1} GB"
    );
    Ok(())
}
