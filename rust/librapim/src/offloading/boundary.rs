//! Room for weights, keys and values; and where sliced banks are cut: `n` subarrays for weights, `m` for keys and values (LibraPIM, section 5.3, "customized ratios").
//!
//! A boundary changes no command's time, since each partition has its own path, but the room: keys and values of all
//! requests are in the multipliers' `m` subarrays, and attention moves to the NPU only for requests whose copy fits
//! after the weights, in the `n`. It limits the batch from one side and MHA offload from the other.

use crate::offloading::work::Model;
use ndp_config::HbmConfig;
use ndp_files::{Result, ensure};
use serde::Serialize;

/// Bytes that a model with its requests needs, and bytes of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// Bytes of all layers and the head.
    pub weights: u64,
    /// Bytes of keys and values of all requests.
    pub kv: u64,
    pub memory: u64,
}

impl Capacity {
    /// Of requests with this number of tokens in K and V together.
    pub fn of(model: &Model, memory: &HbmConfig, tokens: u64) -> Self {
        let kv = (u64::from(model.layers) * model.kv_bytes(1)).saturating_mul(tokens);
        Self { weights: model.all_weight_bytes(), kv, memory: memory.bytes() }
    }

    pub fn fits(&self) -> bool {
        self.weights.checked_add(self.kv).is_some_and(|needed| needed <= self.memory)
    }

    /// Fails unless all fits, with the bytes; `what` names the model and the requests.
    pub fn check(&self, what: &str) -> Result<()> {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let Self { weights, kv, memory } = *self;
        ensure!(
            self.fits(),
            "{what}: {:.1} GB of weights and {:.1} GB of keys and values need {:.1} GB, but the memory has {:.1} GB",
            gb(weights),
            gb(kv),
            gb(weights) + gb(kv),
            gb(memory)
        );
        Ok(())
    }
}

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
        let left = of(weights).checked_sub(model.all_weight_bytes())?;
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
    fn weights_and_caches_fit_up_to_the_last_byte() {
        let model = Model::of(&LlmShape::preset("llama2-7b").unwrap());
        let memory = HbmConfig::default();
        let of = |tokens| Capacity::of(&model, &memory, tokens);
        let most = (memory.bytes() - model.all_weight_bytes()) / of(1).kv;
        assert!(of(most).fits() && !of(most + 1).fits() && !of(u64::MAX / of(1).kv).fits());
        of(most).check("llama2-7b").unwrap();
        assert_eq!(
            of(1 << 20).check("llama2-7b").unwrap_err().to_string(),
            "llama2-7b: 13.2 GB of weights and 549.8 GB of keys and values need 563.0 GB, but the memory has 17.2 GB"
        );
    }

    #[test]
    fn what_one_partition_loses_the_other_one_gains() {
        let model = Model::of(&LlmShape::preset("llama2-7b").unwrap());
        let memory = HbmConfig::default();
        let subarray = memory.bytes() / 32;
        let request = u64::from(model.layers) * model.kv_bytes(512);
        let needed = model.all_weight_bytes();
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
