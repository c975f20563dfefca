"""The decoders of docs/numerics.md (OPT; LLaMA and Mistral; Falcon) with their KV cache, and text generation.

Arrays are numpy uint16 FP16 bit patterns. `config.py` says what an architecture has; here is what that means.
"""

import numpy as np

from . import alibi, fp16, layernorm, rmsnorm, sampler, vector
from .config import describe, fused_rows, window_of
from .softmax import softmax

POSITION_OFFSET = 2
ACTIVATIONS = {"relu": vector.relu, "silu": vector.silu, "gelu": vector.gelu, "gelu_tanh": vector.gelu_tanh}
ONE = np.uint16(0x3C00)


def _ignore(stage, bits):
    """The observer that observes nothing."""


def checked(observe):
    """An observer that refuses what is not finite."""

    def look(stage, bits):
        bad = np.flatnonzero(bits & fp16.INFINITY == fp16.INFINITY)
        # what a shut gate leaves out does not count
        if len(bad) and stage != "logits" and not stage.endswith(".up"):
            raise ValueError(f"{stage}: element {bad[0]} is {bits[bad[0]]:04x}, beyond FP16's range")
        observe(stage, bits)

    return look


class Linear:
    """`add(dot(W[r, :], x), b[r])` for every row r; without a bias the dot products alone."""

    def __init__(self, weight, bias=None):
        self.weight = vector.Matrix(weight)
        self.bias = bias

    def __call__(self, x):
        product = self.weight.times(x)
        return product if self.bias is None else vector.add(product, self.bias)


class Norm:
    """LayerNorm with the gain and bias of a checkpoint, or RMSNorm with its gain."""

    def __init__(self, eps, gain, bias=None):
        self.eps, self.gain, self.bias = eps, gain, bias

    def __call__(self, x):
        if not all(vector.is_finite(bits) for bits in (x, self.gain, self.bias) if bits is not None):
            return np.full_like(x, fp16.NAN)
        if self.bias is None:
            return vector.mul(np.array(rmsnorm.normalize(x.tolist(), self.eps), np.uint16), self.gain)
        z = np.array(layernorm.normalize(x.tolist(), self.eps), np.uint16)
        return vector.add(vector.mul(z, self.gain), self.bias)


def scaled(x, factor):
    """x times an FP16 factor; x if there is none."""
    return x if factor is None else vector.mul(x, np.uint16(factor))


def normed(norm, x):
    """The parts of x that are as long as the norm's gain, each normed."""
    return np.concatenate([norm(part) for part in x.reshape(-1, len(norm.gain))])


class Tensors:
    """A checkpoint's tensors by name, each of the shape that the description asks for."""

    def __init__(self, description, tensors):
        self.description, self.tensors = description, tensors

    def take(self, name, *shape):
        if name not in self.tensors:
            raise ValueError(f"tensor {name} is missing")
        tensor = np.ascontiguousarray(self.tensors[name])
        if tensor.shape != shape:
            raise ValueError(f"tensor {name} has shape {list(tensor.shape)}, expected {list(shape)}")
        return tensor.view(np.uint16)

    def linear(self, name, rows, columns, bias):
        return Linear(self.take(name + ".weight", rows, columns), self.take(name + ".bias", rows) if bias else None)

    def norm(self, name, width=None):
        width = width or self.description.width
        bias = None if self.description.rms else self.take(name + ".bias", width)
        gain = self.take(name + ".weight", width)
        gain = vector.add(np.full_like(gain, ONE), gain) if self.description.unit_gains else gain
        return Norm(self.description.eps, gain, bias)


def above(activations, threshold):
    """The activations whose magnitude, which is no NaN, exceeds the threshold; +0 for the others."""
    if threshold is None:
        return activations
    magnitudes = activations & 0x7FFF
    return np.where((magnitudes > threshold) & (magnitudes <= 0x7C00), activations, np.uint16(0))


class Expert:
    """The FFN of one expert."""

    threshold = None

    def __init__(self, description, tensors, prefix):
        names, width, ffn_width = description.names, description.width, description.ffn_width
        self.gate = tensors.linear(prefix + names.gate, ffn_width, width, False)
        self.up = tensors.linear(prefix + names.up, ffn_width, width, False)
        self.down = tensors.linear(prefix + names.down, width, ffn_width, False)


class Layer:
    """The tensors of one decoder layer."""

    # Bits of the magnitude that the FFN's activations exceed, or count as +0.
    threshold = None

    def __init__(self, description, tensors, index):
        names, width, ffn_width = description.names, description.width, description.ffn_width
        prefix = f"{names.layers}.{index}."
        norms = (names.attention_norm, names.after_attention, names.ffn_norm, names.after_ffn)
        norms = [name and tensors.norm(prefix + name) for name in norms]
        self.attention_norm, self.after_attention, self.ffn_norm, self.after_ffn = norms
        projections = separate if len(names.projections) == 3 else fused
        self.q_proj, self.k_proj, self.v_proj = projections(description, tensors, prefix)
        heads_width = description.heads * description.head_width
        out_bias = description.attention_bias if description.out_bias is None else description.out_bias
        self.out_proj = tensors.linear(prefix + names.out, width, heads_width, out_bias)
        widths = {"heads": (description.head_width,) * 2, "whole": (heads_width, description.groups * description.head_width)}
        parts = zip(("q", "k"), widths.get(description.qk_norm, ()))
        self.qk_norms = [tensors.norm(f"{prefix}self_attn.{part}_norm", width) for part, width in parts]
        self.router, self.experts = None, ()
        if names.experts:
            self.router = Linear(tensors.take(f"{prefix}{names.router}.weight", description.experts, width))
            self.experts = [Expert(description, tensors, f"{prefix}{names.experts}.{e}.") for e in range(description.experts)]
            return
        if names.gate_up:
            weight = tensors.take(f"{prefix}{names.gate_up}.weight", 2 * ffn_width, width)
            self.gate, self.up = Linear(weight[:ffn_width]), Linear(weight[ffn_width:])
        else:
            self.gate = names.gate and tensors.linear(prefix + names.gate, ffn_width, width, description.mlp_bias)
            self.up = tensors.linear(prefix + names.up, ffn_width, width, description.mlp_bias)
        self.down = tensors.linear(prefix + names.down, width, ffn_width, description.mlp_bias)


def separate(description, tensors, prefix):
    """The projections of q, k and v from a tensor each."""
    rows = (description.heads, description.groups, description.groups)
    return [
        tensors.linear(prefix + name, count * description.head_width, description.width, description.attention_bias)
        for name, count in zip(description.names.projections, rows)
    ]


def fused(description, tensors, prefix):
    """The same from one tensor."""
    (name,) = description.names.projections
    parts = fused_rows(description)
    weight = tensors.take(f"{prefix}{name}.weight", sum(map(len, parts)), description.width)
    bias = tensors.take(f"{prefix}{name}.bias", len(weight)) if description.attention_bias else None
    return [Linear(weight[rows], None if bias is None else bias[rows]) for rows in parts]


class Decoder:
    """A model without state: what `Session` runs."""

    def __init__(self, config, tensors):
        self.description = describe(config)
        tensors = Tensors(self.description, tensors)
        names, width = self.description.names, self.description.width
        self.context = self.description.context
        embedding_width = self.description.embedding_width or width
        self.embedding = tensors.take(names.embedding + ".weight", self.description.vocabulary, embedding_width)
        self.project_in = names.project_in and tensors.linear(names.project_in, width, embedding_width, False)
        self.project_out = names.project_out and tensors.linear(names.project_out, embedding_width, width, False)
        self.positions = None
        if names.positions:
            self.positions = tensors.take(names.positions + ".weight", self.context + POSITION_OFFSET, width)
        self.layers = [Layer(self.description, tensors, index) for index in range(self.description.layers)]
        self.final_norm = names.final_norm and tensors.norm(names.final_norm)
        head = tensors.take(names.head + ".weight", self.description.vocabulary, width) if names.head else self.embedding
        self.head = vector.Matrix(head)
        self.act = ACTIVATIONS[self.description.act]
        scale = self.description.query_scale
        scale = fp16.reciprocal_sqrt_of_integer(self.description.head_width) if scale is None else scale
        self.query_scale = np.uint16(scale)
        described = self.description
        self.slopes = alibi.factors(described.heads, described.head_width) if described.alibi else None

    def embed(self, token, position):
        """The first residual stream."""
        row = scaled(self.embedding[token], self.description.embedding_scale)
        row = self.project_in(row) if self.project_in else row
        return row if self.positions is None else vector.add(row, self.positions[position + POSITION_OFFSET])

    def rotate(self, x, layer, position):
        """The heads of q or k turned by the position, if the architecture does so."""
        described = self.description
        theta, scaling = described.theta, described.scaling
        if described.window_angles and window_of(described, layer) is not None:
            theta, scaling = described.window_angles
        return x if theta is None else vector.rotate(x, described.head_width, theta, position, scaling, described.rotated)

    def joined(self, h, y, norm):
        """The residual stream h after a block whose last matrix gave y."""
        if self.description.norms_sums:
            return norm(vector.add(h, y))
        y = norm(y) if norm else y
        return vector.add(h, scaled(y, self.description.residual_scale))

    def logits(self, y):
        """The head of a normed residual stream."""
        y = self.project_out(y) if self.project_out else y
        logits, divisor = self.head.times(y), self.description.logit_divisor
        if divisor is not None:
            logits = np.array([fp16.div(a, divisor) for a in logits.tolist()], np.uint16)
        return vector.soft_cap(logits, self.description.logit_cap)

    def mixed(self, layer, b, stage):
        """The sum of the chosen experts' outputs by their weights: one exact sum for each element."""
        described = self.description
        scores = layer.router(b)
        values = vector.to_float64(scores)
        order = sorted(range(described.experts), key=lambda e: -values[e])[: described.experts_used]  # equals: the lower number
        weights = np.array(softmax(scores.tolist()), np.uint16)[order]
        if described.experts_normalised and vector.is_finite(weights):
            total = sum(map(fp16.integer, weights.tolist()))
            weights = np.array([fp16.rne16(fp16.integer(weight), total) for weight in weights.tolist()], np.uint16)
        outputs = []
        for e in order:
            inner = lambda name, bits: stage(f"experts.{e}.{name}", bits)
            outputs.append(layer.experts[e].down(self.neurons(layer.experts[e], b, inner)))
            inner("down", outputs[-1])
        stage("weights", weights)
        return vector.Matrix(np.ascontiguousarray(np.stack(outputs, axis=1))).times(weights)

    def set_thresholds(self, thresholds):
        """Sets a threshold for the FFN of each layer, FP16 bits."""
        for layer, threshold in zip(self.layers, thresholds, strict=True):
            for part in (layer, *layer.experts):
                part.threshold = threshold

    def neurons(self, layer, b, stage):
        """What the FFN's last matrix multiplies: `act(up)`, or `act(gate) * up`; activations below the threshold are +0."""
        if layer.gate is None:
            m = above(self.act(layer.up(b)), layer.threshold)
        else:
            gate, up = above(self.act(layer.gate(b)), layer.threshold), layer.up(b)
            stage("gate", gate)
            stage("up", up)
            m = vector.mul(gate, up)
            if self.description.act == "relu" or layer.threshold is not None:
                m = np.where(gate & 0x7FFF == 0, np.uint16(0), m)
        stage("ffn", m)
        return m


class Session:
    """One sequence: the decoder, its KV cache and the position of the next token."""

    def __init__(self, decoder):
        self.decoder = decoder
        described = decoder.description
        shape = (described.layers, decoder.context, described.groups * described.head_width)
        self.keys = np.zeros(shape, np.uint16)
        self.values = np.zeros(shape, np.uint16)
        self.position = 0

    def step(self, token, observe=_ignore):
        """Logits after `token`; `observe(stage, bits)` is called with every intermediate vector."""
        decoder = self.decoder
        if self.position >= decoder.context:
            raise ValueError(f"position {self.position} is outside the context of {decoder.context}")
        if not 0 <= token < decoder.description.vocabulary:
            raise ValueError(f"token {token} is outside the vocabulary of {decoder.description.vocabulary}")
        if decoder.description.finite:
            observe = checked(observe)
        h = decoder.embed(token, self.position)
        observe("embedding", h)
        for index, layer in enumerate(decoder.layers):
            stage = lambda name, bits: observe(f"layers.{index}.{name}", bits)
            before, a = h, layer.attention_norm(h) if layer.attention_norm else h
            h = decoder.joined(h, layer.out_proj(self._attention(index, layer, a, stage)), layer.after_attention)
            stage("after_attention", h)
            b = (before if layer.ffn_norm else a) if decoder.description.parallel else h
            b = layer.ffn_norm(b) if layer.ffn_norm else b
            y = decoder.mixed(layer, b, stage) if layer.experts else layer.down(decoder.neurons(layer, b, stage))
            h = decoder.joined(h, y, layer.after_ffn)
            stage("after_ffn", h)
        y = decoder.final_norm(h) if decoder.final_norm else h
        observe("final_layer_norm", y)
        logits = decoder.logits(y)
        observe("logits", logits)
        self.position += 1
        return logits

    def _attention(self, index, layer, a, stage):
        """The heads' outputs side by side; appends this position's keys and values to the cache."""
        decoder, described = self.decoder, self.decoder.description
        if described.relu_before_qkv:
            a = vector.relu(a)
        stage("qkv_input", a)
        q, k = layer.q_proj(a), layer.k_proj(a)
        if layer.qk_norms:
            q, k = (normed(norm, x) for norm, x in zip(layer.qk_norms, (q, k)))
        q = decoder.rotate(vector.mul(q, decoder.query_scale), index, self.position)
        self.keys[index, self.position] = decoder.rotate(k, index, self.position)
        self.values[index, self.position] = layer.v_proj(a)
        stage("q", q)
        stage("k", self.keys[index, self.position])
        stage("v", self.values[index, self.position])
        window = window_of(described, index)
        first = 0 if window is None else max(self.position + 1 - window, 0)
        keys, values = (cache[index, first : self.position + 1] for cache in (self.keys, self.values))
        part = lambda head: slice(head * described.head_width, (head + 1) * described.head_width)
        outputs = []
        for head in range(described.heads):
            group = part(head // (described.heads // described.groups))
            scores = vector.Matrix(keys[:, group]).times(q[part(head)])
            if decoder.slopes:
                distances = range(len(scores) - 1, -1, -1)
                scores = [alibi.biased(s, decoder.slopes[head], d) for s, d in zip(scores.tolist(), distances)]
                scores = np.array(scores, np.uint16)
            weights = np.array(softmax(vector.soft_cap(scores, described.score_cap).tolist()), np.uint16)
            outputs.append(vector.Matrix(np.ascontiguousarray(values[:, group].T)).times(weights))
        o = np.concatenate(outputs)
        stage("attention", o)
        return o


def generate(decoder, prompt, count, temperature_percent, seed, on_logits):
    """`count` tokens after a non-empty prompt; `on_logits(position, logits)` is called at every position that is run.

    The last token is returned without being run, so positions 0 .. len(prompt) + count - 2 are.
    """
    session, state, tokens = Session(decoder), seed, list(prompt)
    while True:
        position = session.position
        logits = session.step(tokens[position])
        on_logits(position, logits)
        if session.position < len(tokens):
            continue
        token, state = sampler.sample(logits.tolist(), temperature_percent, state)
        tokens.append(token)
        if len(tokens) == len(prompt) + count:
            return tokens[len(prompt) :]
