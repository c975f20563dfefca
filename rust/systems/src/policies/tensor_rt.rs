//! All weights in the memory of GPUs: TensorRT-LLM on several with tensor parallelism (Hermes, section V-F), vLLM on one (PowerInfer, section 8.3.5).

use super::fits;
use crate::assumption::Key;
use crate::machine::{Machine, Workload};
use crate::run::{Device, Run, Steps};
use ndp_files::Result;

/// All weights on the GPUs; products reach `share` of their bandwidth.
fn on_gpus(policy: &'static str, machine: &Machine<'_>, work: &Workload, share: f64) -> Result<Run> {
    let bytes = work.weight_bytes();
    fits(policy, machine, "GPU memory", bytes + work.kv_bytes(), machine.gpu_bytes())?;
    let mut prefill = Steps::default();
    let flop = machine.gpu_flop_ns(work.prefill_flop());
    prefill.alone(1.0, "prefill", Device::Gpu, flop.max(machine.gpu_read_ns(bytes)), bytes);
    let mut token = Steps::default();
    let read = bytes + work.kv_bytes_read();
    token.alone(1.0, "layers", Device::Gpu, machine.gpu_product_ns(work, read) / share, read);
    Ok(work.run(prefill, token, 1.0))
}

pub fn tensor_rt(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    on_gpus("tensorrt-llm", machine, work, machine.assumed(Key::TensorParallel))
}

pub fn vllm(machine: &Machine<'_>, work: &Workload) -> Result<Run> {
    on_gpus("vllm", machine, work, 1.0)
}
