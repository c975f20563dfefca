//! The model's parameters: tensors, their shapes, and how they fit together.
//!
//! Tensors come from a function: [`crate::loader`] (safetensors), or random numbers in tests. Names are Hugging Face's.

use crate::matrix::same_length;
use ndp_files::Result;
use ndp_numerics::{Epsilon, add, f16, layer_norm, rms_norm};

use crate::config::{Architecture, NormPlaces, POSITION_OFFSET, QkNorm};
use crate::{DecoderConfig, GemvClass, Matrix, Vocabulary};

/// LayerNorm, or RMSNorm without bias.
#[derive(Debug, Clone, PartialEq)]
pub struct Norm {
    /// Gain (`weight` in the checkpoint), `[d]`.
    pub gain: Vec<f16>,
    /// Bias, `[d]`.
    pub bias: Option<Vec<f16>>,
    /// Addend of the variance.
    pub eps: Epsilon,
}

impl Norm {
    /// Normalises a vector `[d]`. Fails as [`layer_norm`] and [`rms_norm`].
    pub fn of(&self, x: &[f16]) -> Result<Vec<f16>> {
        match &self.bias {
            Some(bias) => layer_norm(x, &self.gain, bias, self.eps),
            None => rms_norm(x, &self.gain, self.eps),
        }
    }

    fn parameters(&self) -> usize {
        self.gain.len() + self.bias.as_ref().map_or(0, Vec::len)
    }
}

/// A linear layer: `y[r] = add(dot(weight[r, :], x), bias[r])`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[out x in]`.
    pub weight: Matrix,
    /// `[out]`, if there is one.
    pub bias: Option<Vec<f16>>,
}

impl Linear {
    fn parameters(&self) -> usize {
        self.weight.data().len() + self.bias.as_ref().map_or(0, Vec::len)
    }
}

/// A feed-forward block.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedForward {
    /// First layer, `[f x d]`; of a block with a gate it is the gate.
    pub fc1: Linear,
    /// Factor of the gate, `[f x d]`.
    pub up: Option<Linear>,
    /// Last layer, `[d x f]`.
    pub fc2: Linear,
}

/// Parameters of one decoder layer; `q` is the width of all heads of queries, `k` of all heads of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Normalisation before the attention; `None` if its input is the hidden state.
    pub attention_norm: Option<Norm>,
    /// Query projection, `[q x d]`.
    pub q_proj: Linear,
    /// Key projection, `[k x d]`.
    pub k_proj: Linear,
    /// Value projection, `[k x d]`.
    pub v_proj: Linear,
    /// Norms of Q and of K before rotation, of each head or of all together.
    pub qk_norms: Option<[Norm; 2]>,
    /// Output projection of the attention, `[d x q]`.
    pub out_proj: Linear,
    /// Normalisation of the attention's output ([`NormPlaces`](crate::config::NormPlaces)).
    pub after_attention: Option<Norm>,
    /// Before the feed-forward block; `None` if it shares the attention's input, or takes the hidden state.
    pub ffn_norm: Option<Norm>,
    /// The feed-forward block, or one for each expert.
    pub experts: Vec<FeedForward>,
    /// Scores of the experts of a mixture, `[experts x d]`; the host multiplies by it.
    pub router: Option<Matrix>,
    /// Normalisation of the feed-forward block's output.
    pub after_ffn: Option<Norm>,
    /// Activations between `fc1` and `fc2` count as +0 unless their magnitude is greater.
    pub threshold: Option<f16>,
}

impl Layer {
    /// Linear layers in order of computation.
    pub fn linears(&self) -> impl Iterator<Item = &Linear> {
        let attention = [&self.q_proj, &self.k_proj, &self.v_proj, &self.out_proj];
        let experts = self.experts.iter().flat_map(|of| [Some(&of.fc1), of.up.as_ref(), Some(&of.fc2)]);
        attention.into_iter().chain(experts.flatten())
    }

    /// Mutable linear layers with their classes.
    pub(crate) fn linears_mut(&mut self) -> impl Iterator<Item = (GemvClass, &mut Linear)> {
        let qkv = [&mut self.q_proj, &mut self.k_proj, &mut self.v_proj].map(|part| (GemvClass::Qkv, part));
        let experts = self.experts.iter_mut().flat_map(|of| {
            let up = of.up.as_mut().map(|up| (GemvClass::Up, up));
            [Some((GemvClass::Fc1, &mut of.fc1)), up, Some((GemvClass::Fc2, &mut of.fc2))]
        });
        qkv.into_iter().chain([(GemvClass::Proj, &mut self.out_proj)]).chain(experts.flatten())
    }
}

/// A whole decoder: configuration and parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The dimensions.
    pub config: DecoderConfig,
    /// Token embedding, `[V x e]`; `e` is `d` in most models.
    pub embed_tokens: Matrix,
    /// Position embedding of OPT, `[max_position_embeddings + 2 x d]`.
    pub embed_positions: Option<Matrix>,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// Projections of a narrower embedding: to the hidden state, `[d x e]`, and back before the head, `[e x d]`. The host
    /// multiplies by them.
    pub projections: Option<[Matrix; 2]>,
    /// Normalisation before the head.
    pub final_norm: Option<Norm>,
    /// Output head, `[V x e]`, unless the token embedding is.
    pub lm_head: Option<Matrix>,
    /// Meaning of tokens.
    pub vocabulary: Vocabulary,
}

impl Model {
    /// Builds a model from `tensor(name, shape)`, called once per tensor in a fixed order. Names are as in the
    /// checkpoint, without the common prefix (`decoder.layers.0.fc1.weight` of OPT's `model.decoder...`); shapes have
    /// one dimension, or two (row-major). Fails as `tensor`, and for a wrong number of elements.
    pub fn from_tensors<F>(config: DecoderConfig, tensor: F) -> Result<Self>
    where
        F: FnMut(&str, &[usize]) -> Result<Vec<f16>>,
    {
        let (d, e, vocabulary) = (config.hidden_size(), config.embedding_width(), config.vocab_size());
        let (embedding, layers, last) = match config.architecture() {
            Architecture::Opt => ("decoder.embed_tokens", "decoder.layers", "decoder.final_layer_norm"),
            Architecture::Llama => ("embed_tokens", "layers", "norm"),
            Architecture::Falcon => ("word_embeddings", "h", "ln_f"),
        };
        let mut source = Source { tensor, config: &config };
        let embed_tokens = source.matrix(&format!("{embedding}.weight"), vocabulary, e)?;
        let positions = config.max_position_embeddings() + POSITION_OFFSET;
        let embed_positions = match config.architecture() {
            Architecture::Opt => Some(source.matrix("decoder.embed_positions.weight", positions, d)?),
            _ => None,
        };
        let projections = match config.extras().embedding_width {
            None => None,
            Some(_) => Some([
                source.matrix("decoder.project_in.weight", d, e)?,
                source.matrix("decoder.project_out.weight", e, d)?,
            ]),
        };
        let layers = (0..config.num_hidden_layers()).map(|i| source.layer(&format!("{layers}.{i}")));
        let layers = layers.collect::<Result<_, _>>()?;
        let final_norm = match config.extras().no_final_norm {
            true => None,
            false => Some(source.norm(last)?),
        };
        let lm_head = match config.has_tied_head() {
            true => None,
            false => Some(source.matrix("lm_head.weight", vocabulary, e)?),
        };
        let vocabulary = Vocabulary::of_size(vocabulary);
        Ok(Self {
            embed_tokens,
            embed_positions,
            layers,
            projections,
            final_norm,
            lm_head,
            vocabulary,
            config,
        })
    }

    /// The output head, `[V x e]`.
    pub fn head(&self) -> &Matrix {
        self.lm_head.as_ref().unwrap_or(&self.embed_tokens)
    }

    /// Parameters; a tied head counts once.
    pub fn parameters(&self) -> usize {
        let layer = |l: &Layer| {
            let norms = [&l.attention_norm, &l.after_attention, &l.ffn_norm, &l.after_ffn];
            let norms = norms.into_iter().flatten().chain(l.qk_norms.iter().flatten()).map(Norm::parameters);
            let router = l.router.as_ref().map_or(0, |router| router.data().len());
            l.linears().map(Linear::parameters).chain(norms).sum::<usize>() + router
        };
        let matrices = std::iter::once(&self.embed_tokens).chain(&self.embed_positions).chain(&self.lm_head);
        let matrices = matrices.chain(self.projections.iter().flatten());
        matrices.map(|matrix| matrix.data().len()).sum::<usize>()
            + self.layers.iter().map(layer).sum::<usize>()
            + self.final_norm.as_ref().map_or(0, Norm::parameters)
    }
}

struct Source<'a, F> {
    tensor: F,
    config: &'a DecoderConfig,
}

impl<F> Source<'_, F>
where
    F: FnMut(&str, &[usize]) -> Result<Vec<f16>>,
{
    fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f16>> {
        let data = (self.tensor)(name, &[len])?;
        same_length(|| name.to_owned(), data.len(), len)?;
        Ok(data)
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        let data = (self.tensor)(name, &[rows, cols])?;
        Matrix::new(name, rows, cols, data)
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.config.hidden_size())
    }

    fn norm_of(&mut self, name: &str, len: usize) -> Result<Norm> {
        let has_bias = !self.config.has_rms_norm();
        let stored = self.vector(&format!("{name}.weight"), len)?;
        let is_whole = !self.config.extras().unit_gains;
        let gain = |stored: f16| if is_whole { stored } else { add(f16::ONE, stored) };
        Ok(Norm {
            gain: stored.into_iter().map(gain).collect(),
            bias: has_bias.then(|| self.vector(&format!("{name}.bias"), len)).transpose()?,
            eps: self.config.norm_eps(),
        })
    }

    fn linear(&mut self, name: &str, (out, width): (usize, usize), biased: bool) -> Result<Linear> {
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), out, width)?,
            bias: biased.then(|| self.vector(&format!("{name}.bias"), out)).transpose()?,
        })
    }

    fn layer(&mut self, name: &str) -> Result<Layer> {
        let config = self.config;
        let (attention, proj) = ("self_attn", ["mlp.gate_proj", "mlp.down_proj"]);
        let (norms, out_proj, [fc1, fc2], up) = match config.architecture() {
            Architecture::Opt => {
                let norms = match config.extras().norm_places {
                    NormPlaces::AfterResidual => ["", "self_attn_layer_norm", "", "final_layer_norm"],
                    _ => ["self_attn_layer_norm", "", "final_layer_norm", ""],
                };
                (norms, "self_attn.out_proj", ["fc1", "fc2"], None)
            }
            Architecture::Llama => {
                let after = ["post_attention_layernorm", "post_feedforward_layernorm"];
                let norms = match config.extras().norm_places {
                    NormPlaces::Both => ["input_layernorm", after[0], "pre_feedforward_layernorm", after[1]],
                    NormPlaces::After | NormPlaces::AfterResidual => ["", after[0], "", after[1]],
                    NormPlaces::Before => ["input_layernorm", "", "post_attention_layernorm", ""],
                };
                (norms, "self_attn.o_proj", proj, Some("mlp.up_proj"))
            }
            Architecture::Falcon => {
                let [before, ffn] = match (config.is_parallel(), config.norms_per_layer()) {
                    (false, _) => ["input_layernorm", "post_attention_layernorm"],
                    (true, 2) => ["ln_attn", "ln_mlp"],
                    (true, _) => ["input_layernorm", ""],
                };
                let linears = ["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"];
                ([before, "", ffn, ""], "self_attention.dense", linears, None)
            }
        };
        let (d, f, q, k) = (config.hidden_size(), config.ffn_dim(), config.query_width(), config.key_width());
        let (attention_bias, ffn_bias) = (config.has_attention_bias(), config.has_ffn_bias());
        let of = |part: &str| format!("{name}.{part}");
        let attention_norm = self.optional_norm(name, norms[0])?;
        let [q_proj, k_proj, v_proj] = match config.architecture() {
            Architecture::Falcon => self.fused_qkv(&of("self_attention.query_key_value"))?,
            _ if config.extras().fused => {
                let parts = [("Q", q), ("K", k), ("V", k)];
                self.stacked(&of("self_attn.qkv_proj"), parts, attention_bias)?
            }
            _ => {
                let mut linear =
                    |part, out| self.linear(&of(&format!("{attention}.{part}")), (out, d), attention_bias);
                [linear("q_proj", q)?, linear("k_proj", k)?, linear("v_proj", k)?]
            }
        };
        let qk_norms = match config.extras().qk_norm {
            None => None,
            Some(kind) => {
                let len = |width| if kind == QkNorm::Heads { config.head_width() } else { width };
                let mut norm = |part, width| self.norm_of(&of(&format!("{attention}.{part}")), len(width));
                Some([norm("q_norm", q)?, norm("k_norm", k)?])
            }
        };
        let out_bias = attention_bias && !config.extras().only_qkv_bias;
        let out_proj = self.linear(&of(out_proj), (d, q), out_bias)?;
        let after_attention = self.optional_norm(name, norms[1])?;
        let ffn_norm = self.optional_norm(name, norms[2])?;
        let mut router = None;
        let experts = if let Some(mixture) = config.extras().mixture {
            let (block, parts) = match mixture.mixtral {
                true => ("block_sparse_moe", ["w1", "w3", "w2"]),
                false => ("mlp", ["gate_proj", "up_proj", "down_proj"]),
            };
            router = Some(self.matrix(&of(&format!("{block}.gate.weight")), mixture.experts, d)?);
            let expert = |number: usize| {
                let [gate, up, down] = parts.map(|part| of(&format!("{block}.experts.{number}.{part}")));
                self.block([&gate, &down], Some(&up), ffn_bias)
            };
            (0..mixture.experts).map(expert).collect::<Result<_>>()?
        } else if config.extras().fused {
            let parts = [("gate", f), ("up", f)];
            let [gate, up] = self.stacked(&of("mlp.gate_up_proj"), parts, ffn_bias)?;
            let fc2 = self.linear(&of(fc2), (d, f), ffn_bias)?;
            vec![FeedForward { fc1: gate, up: Some(up), fc2 }]
        } else {
            let up = up.map(of);
            vec![self.block([&of(fc1), &of(fc2)], up.as_deref(), ffn_bias)?]
        };
        let after_ffn = self.optional_norm(name, norms[3])?;
        Ok(Layer {
            attention_norm,
            q_proj,
            k_proj,
            v_proj,
            qk_norms,
            out_proj,
            after_attention,
            ffn_norm,
            experts,
            router,
            after_ffn,
            threshold: None,
        })
    }

    /// A feed-forward block.
    fn block(&mut self, [fc1, fc2]: [&str; 2], up: Option<&str>, biased: bool) -> Result<FeedForward> {
        let (d, f) = (self.config.hidden_size(), self.config.ffn_dim());
        let fc1 = self.linear(fc1, (f, d), biased)?;
        let up = up.map(|up| self.linear(up, (f, d), biased)).transpose()?;
        Ok(FeedForward { fc1, up, fc2: self.linear(fc2, (d, f), biased)? })
    }

    /// A norm of a layer; an empty name is no norm.
    fn optional_norm(&mut self, layer: &str, part: &str) -> Result<Option<Norm>> {
        if part.is_empty() { Ok(None) } else { self.norm(&format!("{layer}.{part}")).map(Some) }
    }

    /// Linear layers whose rows follow one another in one matrix.
    fn stacked<const N: usize>(
        &mut self,
        name: &str,
        parts: [(&str, usize); N],
        biased: bool,
    ) -> Result<[Linear; N]> {
        let d = self.config.hidden_size();
        let fused = self.linear(name, (parts.iter().map(|(_, rows)| rows).sum(), d), biased)?;
        let mut first = 0;
        let mut linears = Vec::with_capacity(N);
        for (part, rows) in parts {
            let own = first..first + rows;
            let weight = fused.weight.data()[own.start * d..own.end * d].to_vec();
            let bias = fused.bias.as_ref().map(|bias| bias[own.clone()].to_vec());
            linears.push(Linear { weight: Matrix::new(&format!("{name}, {part}"), rows, d, weight)?, bias });
            first = own.end;
        }
        linears.try_into().map_err(|_| ndp_files::failure!("{name}: another number of parts"))
    }

    /// Splits Q, K and V of one matrix: for each head of K and V the rows of its heads of Q, then K's, then V's.
    fn fused_qkv(&mut self, name: &str) -> Result<[Linear; 3]> {
        let config = self.config;
        let (groups, width, d) = (config.num_key_value_heads(), config.head_width(), config.hidden_size());
        let group = (config.num_attention_heads() / groups + 2) * width;
        let fused = self.linear(name, (groups * group, d), config.has_attention_bias())?;
        let parts = [0..group - 2 * width, group - 2 * width..group - width, group - width..group];
        let linear = |(part, rows): (&str, std::ops::Range<usize>)| -> Result<Linear> {
            let rows = (0..groups).flat_map(|g| rows.clone().map(move |row| g * group + row));
            let weight = rows.clone().flat_map(|row| fused.weight.row(row)).copied().collect();
            let bias = fused.bias.as_ref().map(|bias| rows.clone().map(|row| bias[row]).collect());
            Ok(Linear { weight: Matrix::new(&format!("{name}, {part}"), rows.count(), d, weight)?, bias })
        };
        let [q, k, v] = parts;
        Ok([linear(("Q", q))?, linear(("K", k))?, linear(("V", v))?])
    }
}
