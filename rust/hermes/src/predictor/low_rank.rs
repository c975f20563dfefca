//! Low-rank predictors of the MLP (PowerInfer, section 5.1; LLM in a flash, section 3.1): two small products.
//!
//! `t = A a`, `s = B t + bias` for the block's input `a`, every dot product rounded once (docs/numerics.md); `s > 0`
//! predicts the neuron active. `golden/predictor.py` trains the matrices into `predictor.safetensors` beside the
//! weights.

use ndp_config::BlockKind;
use ndp_files::{Context, Result, bail, ensure, refusal};
use ndp_numerics::{Decoded, add, f16, fp16};
use ndp_traces::NeuronShape;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;
use std::sync::Arc;

const MAX_BYTES: u64 = 1 << 32;

/// The predictors of a model's layers. Copies share the matrices.
///
/// ```
/// # use ndp_hermes::predictor::*;
/// # use ndp_numerics::f16;
/// let [one, minus, zero] = [0x3C00, 0xBC00, 0].map(f16::from_bits);
/// // Two inputs, rank 1, three neurons: t = a[0] + a[1]; s = t, -t, and t - 1.
/// let layer = LowRankLayer::new(2, 3, vec![one; 2], vec![one, minus, one], vec![zero, zero, minus])?;
/// let predictor = LowRank::new(&ndp_traces::NeuronShape::new(1, 2, 3), vec![layer])?;
/// assert_eq!(predictor.predict(0, &[one, one])?, [0b101]);
/// assert_eq!(predictor.predict(0, &[one, zero])?, [0b001]); // 1 - 1 is not above 0
/// assert!(predictor.predict(0, &[one]).is_err());
/// # Ok::<(), ndp_files::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LowRank {
    shape: NeuronShape,
    layers: Arc<[LowRankLayer]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LowRankLayer {
    width: usize,
    neurons: usize,
    rank: usize,
    /// `[rank x width]`.
    a: Vec<f16>,
    /// `[neurons x rank]`.
    b: Vec<f16>,
    /// `[neurons]`.
    bias: Vec<f16>,
}

ndp_config::getters!(LowRankLayer {
    /// Rows of `A`.
    rank: usize,
    bias: &[f16],
});

impl LowRankLayer {
    /// `A` is `[rank x width]`, `B` `[neurons x rank]`, the bias `[neurons]`, row-major; the rank is at least 1.
    pub fn new(width: usize, neurons: usize, a: Vec<f16>, b: Vec<f16>, bias: Vec<f16>) -> Result<Self> {
        let rank = (a.len() / width.max(1)).max(1);
        for (what, found, expected) in [
            ("A of a low-rank predictor", a.len(), rank.saturating_mul(width)),
            ("B of a low-rank predictor", b.len(), neurons.saturating_mul(rank)),
            ("bias of a low-rank predictor", bias.len(), neurons),
        ] {
            crate::predictor::same_length(what, found, expected)?;
        }
        Ok(Self { width, neurons, rank, a, b, bias })
    }

    pub fn input_row(&self, row: usize) -> &[f16] {
        &self.a[row * self.width..][..self.width]
    }

    /// Row of `B`.
    pub fn row(&self, neuron: usize) -> &[f16] {
        &self.b[neuron * self.rank..][..self.rank]
    }

    /// Bytes of `A`, and of rows of `B` and bias for `neurons` neurons.
    pub fn bytes_of(&self, neurons: usize) -> u64 {
        2 * (self.a.len() + neurons * (self.rank + 1)) as u64
    }

    pub fn bytes(&self) -> u64 {
        self.bytes_of(self.neurons)
    }

    /// One bit per neuron: predicted active.
    fn predict(&self, input: &[f16]) -> Vec<u64> {
        let input = Decoded::new(input);
        let t: Vec<f16> = self.a.chunks(self.width).map(|row| input.dot(row)).collect();
        let t = Decoded::new(&t);
        let mut bits = vec![0; self.neurons.div_ceil(64)];
        for (neuron, (row, &bias)) in self.b.chunks(self.rank).zip(&self.bias).enumerate() {
            bits[neuron / 64] |= u64::from(is_positive(add(t.dot(row), bias))) << (neuron % 64);
        }
        bits
    }
}

/// False for NaN.
fn is_positive(s: f16) -> bool {
    !fp16::is_nan(s) && !fp16::is_zero(s) && !fp16::is_sign_negative(s)
}

impl LowRank {
    /// One predictor per layer of a shape whose attention blocks are as wide as the MLP's input. Fails for another
    /// number of layers, inputs or neurons.
    pub fn new(shape: &NeuronShape, layers: Vec<LowRankLayer>) -> Result<Self> {
        crate::predictor::same_length("layers of low-rank predictors", layers.len(), layers_of(shape))?;
        for (index, layer) in layers.iter().enumerate() {
            let (width, neurons) = sizes(shape, index);
            crate::predictor::same_length("inputs of a low-rank predictor", layer.width, width)?;
            crate::predictor::same_length("neurons of a low-rank predictor", layer.neurons, neurons)?;
        }
        Ok(Self { shape: shape.clone(), layers: layers.into() })
    }

    /// Reads `layers.{i}.a`, `layers.{i}.b` and `layers.{i}.bias` of each layer from a safetensors file in FP16. Each
    /// layer has its own rank; other tensors are ignored.
    ///
    /// Fails for unreadable or damaged files, missing tensors, other element types or shapes, infinities and NaN.
    /// Errors name the file and, if known, the tensor.
    pub fn load(path: &Path, shape: &NeuronShape) -> Result<Self> {
        let bytes = ndp_files::read_bytes(path, MAX_BYTES).with_context(|| path.display().to_string())?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|reason| refusal!("{}: not a valid safetensors file: {reason}", path.display()))?;
        let file = File { path, tensors };
        let layers = (0..layers_of(shape)).map(|layer| {
            let (width, neurons) = sizes(shape, layer);
            let name = |part| format!("layers.{layer}.{part}");
            let (rank, a) = file.tensor(&name("a"), &[None, Some(width)])?;
            let (_, b) = file.tensor(&name("b"), &[Some(neurons), Some(rank)])?;
            let (_, bias) = file.tensor(&name("bias"), &[Some(neurons)])?;
            LowRankLayer::new(width, neurons, a, b, bias)
        });
        Self::new(shape, layers.collect::<Result<_, _>>()?)
    }

    /// One bit per neuron of a layer's MLP: predicted active. Fails for an input of another length.
    pub fn predict(&self, layer: usize, input: &[f16]) -> Result<Vec<u64>> {
        let layers = self.layers.len();
        let layer = self
            .layers
            .get(layer)
            .ok_or_else(|| refusal!("layer {layer} does not exist, there are predictors for {layers}"))?;
        crate::predictor::same_length("input of a low-rank predictor", input.len(), layer.width)?;
        Ok(layer.predict(input))
    }

    pub fn layers(&self) -> &[LowRankLayer] {
        &self.layers
    }

    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(LowRankLayer::bytes).sum()
    }

    /// Layer of an MLP block; `None` for attention.
    pub(crate) fn layer_of(&self, block: usize) -> Result<Option<usize>> {
        let blocks = self.shape.blocks();
        let found = blocks
            .get(block)
            .ok_or_else(|| refusal!("block {block} does not exist, the shape has {}", blocks.len()))?;
        Ok((found.kind == BlockKind::Mlp).then_some(found.layer as usize))
    }
}

fn layers_of(shape: &NeuronShape) -> usize {
    shape.blocks().last().map_or(0, |block| block.layer as usize + 1)
}

/// (inputs, neurons) of a layer's MLP.
fn sizes(shape: &NeuronShape, layer: usize) -> (usize, usize) {
    let of = |kind| {
        let mut blocks = shape.blocks().iter();
        blocks.find(|b| b.layer as usize == layer && b.kind == kind).map_or(0, |b| b.neurons as usize)
    };
    (of(BlockKind::Attention), of(BlockKind::Mlp))
}

struct File<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl File<'_> {
    /// First dimension and numbers of a tensor; `None` is any dimension of at least 1.
    fn tensor(&self, name: &str, shape: &[Option<usize>]) -> Result<(usize, Vec<f16>)> {
        let (path, tensor) = (self.path.to_owned(), name.to_owned());
        let sizes: Vec<String> =
            shape.iter().map(|n| n.map_or_else(|| "rank".to_owned(), |n| n.to_string())).collect();
        let expected = format!("[{}]", sizes.join(", "));
        let Ok(view) = self.tensors.tensor(name) else {
            bail!("{}: tensor {tensor} is missing, expected shape {expected}", path.display());
        };
        ensure!(
            view.dtype() == Dtype::F16,
            "{}: tensor {tensor} has dtype {:?}, expected F16",
            path.display(),
            view.dtype()
        );
        let found = view.shape();
        let fits = |(&found, expected): (&usize, &Option<usize>)| expected.map_or(found > 0, |n| n == found);
        if found.len() != shape.len() || !found.iter().zip(shape).all(fits) {
            bail!("{}: tensor {tensor} has shape {:?}, expected {expected}", path.display(), found.to_vec());
        }
        let pairs = view.data().as_chunks().0;
        let data: Vec<f16> = pairs.iter().map(|&pair| f16::from_bits(u16::from_le_bytes(pair))).collect();
        match data.iter().position(|&value| !fp16::is_finite(value)) {
            None => Ok((found[0], data)),
            Some(index) => Err(refusal!(
                "{}: tensor {tensor}, element {index} is {:#06x}, expected a finite number",
                path.display(),
                data[index].to_bits()
            )),
        }
    }
}
