//! Where sliced banks are cut: `n` subarrays for weights, `m` for keys and values (LibraPIM, section 5.3, "customized ratios").
//!
//! A boundary changes no command's time, since each partition has its own path, but the room: keys and values of all
//! requests are in the multipliers' `m` subarrays, and attention moves to the NPU only for requests whose copy fits
//! after the weights, in the `n`. It limits the batch from one side and MHA offload from the other.

use crate::offloading::work::Model;
use ndp_config::HbmConfig;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    pub weights: u32,
    /// Subarrays of keys and values.
    pub kv: u32,
    /// Requests whose keys and values fit.
    pub requests: u32,
    /// Requests whose copy for the NPU fits.
    pub copies: u32,
}

impl Room {
    /// Room with `weights` subarrays of a bank for weights, and requests of `context` tokens. `None` if the weights of
    /// all layers and the head do not fit, or nothing is left for keys and values.
    pub fn of(model: &Model, memory: &HbmConfig, weights: u32, context: u32) -> Option<Self> {
        let kv = memory.subarrays().checked_sub(weights).filter(|&kv| kv > 0)?;
        let of = |subarrays: u32| memory.bytes() / u64::from(memory.subarrays()) * u64::from(subarrays);
        let left = of(weights).checked_sub(model.weight_bytes() + 2 * model.head().weights())?;
        let request = u64::from(model.layers) * model.kv_bytes(context);
        let count = |bytes: u64| u32::try_from(bytes / request.max(1)).unwrap_or(u32::MAX);
        Some(Self { weights, kv, requests: count(of(kv)), copies: count(left) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::LlmShape;

    #[test]
    fn what_one_partition_loses_the_other_one_gains() {
        let model = Model::of(&LlmShape::preset("llama2-7b").unwrap());
        let memory = HbmConfig::default();
        let subarray = memory.bytes() / 32;
        let request = u64::from(model.layers) * model.kv_bytes(512);
        let needed = model.weight_bytes() + 2 * model.head().weights();
        let least = needed.div_ceil(subarray) as u32;
        assert_eq!(Room::of(&model, &memory, least - 1, 512), None);
        assert_eq!(Room::of(&model, &memory, 32, 512), None);
        for weights in least..32 {
            let room = Room::of(&model, &memory, weights, 512).unwrap();
            assert_eq!(room.kv, 32 - weights);
            assert_eq!(u64::from(room.requests), subarray * u64::from(room.kv) / request);
            assert_eq!(u64::from(room.copies), (subarray * u64::from(weights) - needed) / request);
        }
    }
}
