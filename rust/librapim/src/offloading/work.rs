//! Work of a decode step: matrices and attention of one decoder layer, from a model's sizes.

use crate::offloading::timeline::Work;
use ndp_config::LlmShape;
use ndp_files::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `outputs x inputs` FP16 weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub inputs: u32,
    pub outputs: u32,
}

impl Matrix {
    /// Weights, and MACs for one vector.
    pub fn weights(self) -> u64 {
        u64::from(self.inputs) * u64::from(self.outputs)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub name: String,
    pub layers: u32,
    /// Width of the hidden state.
    pub hidden: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_width: u32,
    /// Width of the FFN.
    pub ffn: u32,
    /// 3 with a gate, 2 without.
    pub ffn_matrices: u32,
    pub vocabulary: u32,
    /// Number of last positions that each layer sees, or `None` for all; empty if all layers see all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Option<u32>>,
}

impl Model {
    pub fn of(shape: &LlmShape) -> Self {
        Self {
            name: shape.name().to_owned(),
            layers: shape.layers(),
            hidden: shape.hidden(),
            heads: shape.heads(),
            kv_heads: shape.kv_heads(),
            head_width: shape.head_width(),
            ffn: shape.ffn(),
            ffn_matrices: shape.mlp_matrices(),
            vocabulary: shape.vocabulary(),
            windows: windows((0..shape.layers()).map(|layer| shape.window(layer))),
        }
    }

    /// Positions of `context` that a layer's attention reads.
    pub fn seen(&self, layer: u32, context: u32) -> u32 {
        let window = self.windows.get(layer as usize).copied().flatten();
        window.map_or(context, |window| context.min(window))
    }

    /// Different results of [`Self::seen`], with the number of layers of each.
    pub fn contexts(&self, context: u32) -> BTreeMap<u32, u64> {
        let mut layers = BTreeMap::new();
        (0..self.layers).for_each(|layer| *layers.entry(self.seen(layer, context)).or_default() += 1);
        layers
    }

    /// [`Self::seen`] as the mean of all layers, rounded up.
    pub fn mean_context(&self, context: u32) -> u32 {
        let sum: u64 = self.contexts(context).iter().map(|(seen, layers)| u64::from(*seen) * layers).sum();
        sum.div_ceil(u64::from(self.layers.max(1))) as u32
    }

    /// Without grouped-query attention: K and V for every head, as algorithm 1 counts (`K_MHA d_model B L`).
    #[must_use]
    pub fn with_all_kv_heads(mut self) -> Self {
        self.kv_heads = self.heads;
        self
    }

    /// Changes the number of layers; an error unless in 1..=2^12.
    pub fn with_layers(mut self, layers: u32) -> Result<Self> {
        ndp_files::in_range("layers", layers, 1, 1 << 12)?;
        self.layers = layers;
        Ok(self)
    }

    pub fn group(&self) -> u32 {
        self.heads / self.kv_heads
    }

    pub fn qkv(&self) -> Matrix {
        Matrix { inputs: self.hidden, outputs: (self.heads + 2 * self.kv_heads) * self.head_width }
    }

    pub fn projection(&self) -> Matrix {
        Matrix { inputs: self.heads * self.head_width, outputs: self.hidden }
    }

    /// Up (and gate), then down.
    pub fn ffn_parts(&self) -> impl Iterator<Item = Matrix> {
        let up = Matrix { inputs: self.hidden, outputs: self.ffn };
        let down = Matrix { inputs: self.ffn, outputs: self.hidden };
        std::iter::repeat_n(up, self.ffn_matrices as usize - 1).chain([down])
    }

    /// Hidden state to logits.
    pub fn head(&self) -> Matrix {
        Matrix { inputs: self.hidden, outputs: self.vocabulary }
    }

    /// Matrices of a piece of work; none for attention.
    pub fn matrices(&self, work: Work) -> impl Iterator<Item = Matrix> {
        let ffn = self.ffn_parts().filter(move |_| work == Work::Ffn);
        let other = match work {
            Work::Qkv => Some(self.qkv()),
            Work::Projection => Some(self.projection()),
            Work::Head => Some(self.head()),
            Work::Ffn | Work::Mha => None,
        };
        ffn.chain(other)
    }

    /// Weights of these matrices, and MACs for one vector.
    pub fn weights(&self, work: Work) -> u64 {
        self.matrices(work).map(Matrix::weights).sum()
    }

    pub fn ffn_weights(&self) -> u64 {
        self.weights(Work::Ffn)
    }

    /// MACs of one request in one layer: scores and weighted values.
    pub fn attention_macs(&self, context: u32) -> u64 {
        2 * u64::from(self.heads) * u64::from(self.head_width) * u64::from(context)
    }

    /// Bytes of one request in one layer.
    pub fn kv_bytes(&self, context: u32) -> u64 {
        4 * u64::from(self.kv_heads) * u64::from(self.head_width) * u64::from(context)
    }

    /// Bytes of all layers and the head.
    pub fn all_weight_bytes(&self) -> u64 {
        self.weight_bytes() + 2 * self.head().weights()
    }

    /// Bytes of all layers, without head.
    pub fn weight_bytes(&self) -> u64 {
        let layer = [Work::Qkv, Work::Projection, Work::Ffn].map(|work| self.weights(work));
        2 * u64::from(self.layers) * layer.iter().sum::<u64>()
    }
}

/// Windows of all layers; none if each layer sees all positions.
pub(crate) fn windows(of_layers: impl Iterator<Item = Option<u32>>) -> Vec<Option<u32>> {
    let windows: Vec<_> = of_layers.collect();
    if windows.iter().all(Option::is_none) { Vec::new() } else { windows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layers_matrices_add_up_to_the_models_parameters() {
        let shapes = LlmShape::preset_names().map(|name| (name, LlmShape::preset(name).unwrap()));
        for (name, shape) in shapes.filter(|(_, shape)| !shape.is_mixture()) {
            let layers = shape.neurons_bytes() + u64::from(shape.layers()) * shape.projection_bytes();
            assert_eq!(Model::of(&shape).weight_bytes(), layers, "{name}");
            let kv = shape.kv_bytes_per_token() / u64::from(shape.layers());
            assert_eq!(Model::of(&shape).kv_bytes(1), kv, "{name}");
        }
    }

    #[test]
    fn all_kv_heads_change_attention_only() {
        let llama = Model::of(&LlmShape::preset("llama3-70b").unwrap());
        let full = llama.clone().with_all_kv_heads();
        assert_eq!((llama.group(), full.group()), (8, 1));
        assert_eq!(full.kv_bytes(7), 8 * llama.kv_bytes(7));
        assert_eq!(full.attention_macs(7), llama.attention_macs(7));
        assert_eq!(full.ffn_weights(), llama.ffn_weights());
    }
}
