"""The OPT decoder of docs/numerics.md with its KV cache, and text generation. Arrays are numpy uint16 FP16 bit patterns."""

import numpy as np

from . import fp16, sampler, vector
from .layernorm import normalize
from .softmax import softmax

POSITION_OFFSET = 2
DECODER = "model.decoder."


def _ignore(stage, bits):
    """The observer that observes nothing."""


class Linear:
    """`add(dot(W[r, :], x), b[r])` for every row r."""

    def __init__(self, weight, bias):
        self.weight = vector.Matrix(weight)
        self.bias = bias

    def __call__(self, x):
        return vector.add(self.weight.times(x), self.bias)


class Norm:
    """LayerNorm with the gain and bias of a checkpoint."""

    def __init__(self, gain, bias):
        self.gain, self.bias = gain, bias

    def __call__(self, x):
        if not all(vector.is_finite(bits) for bits in (x, self.gain, self.bias)):
            return np.full_like(x, fp16.NAN)
        z = np.array(normalize(x.tolist()), np.uint16)
        return vector.add(vector.mul(z, self.gain), self.bias)


class Layer:
    """The tensors of one decoder layer."""

    def __init__(self, tensors, prefix):
        pair = lambda name: (tensors[f"{prefix}{name}.weight"], tensors[f"{prefix}{name}.bias"])
        self.attention_norm = Norm(*pair("self_attn_layer_norm"))
        self.q_proj = Linear(*pair("self_attn.q_proj"))
        self.k_proj = Linear(*pair("self_attn.k_proj"))
        self.v_proj = Linear(*pair("self_attn.v_proj"))
        self.out_proj = Linear(*pair("self_attn.out_proj"))
        self.ffn_norm = Norm(*pair("final_layer_norm"))
        self.fc1 = Linear(*pair("fc1"))
        self.fc2 = Linear(*pair("fc2"))


class Decoder:
    """A model without state: what `Session` runs."""

    def __init__(self, config, tensors):
        check_config(config)
        tensors = {name: np.ascontiguousarray(value).view(np.uint16) for name, value in tensors.items()}
        self.context = config["max_position_embeddings"]
        self.width = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.head_width = self.width // self.heads
        self.relu_before_qkv = config.get("relu_before_qkv", False)
        self.embed_tokens = tensors[DECODER + "embed_tokens.weight"]
        self.embed_positions = tensors[DECODER + "embed_positions.weight"]
        self.head = vector.Matrix(self.embed_tokens)
        self.final_norm = Norm(tensors[DECODER + "final_layer_norm.weight"], tensors[DECODER + "final_layer_norm.bias"])
        self.layers = [Layer(tensors, f"{DECODER}layers.{i}.") for i in range(config["num_hidden_layers"])]
        self.query_scale = np.uint16(fp16.reciprocal_sqrt_of_integer(self.head_width))


def check_config(config):
    """Refuses a checkpoint whose architecture is not the one of docs/numerics.md."""
    expected = {
        "model_type": "opt",
        "do_layer_norm_before": True,
        "activation_function": "relu",
        "word_embed_proj_dim": config["hidden_size"],
    }
    for key, value in expected.items():
        if config[key] != value:
            raise ValueError(f"config.json: {key} is {config[key]!r}, must be {value!r}")
    if config["hidden_size"] % config["num_attention_heads"]:
        raise ValueError(
            f"hidden_size = {config['hidden_size']} must be a multiple of "
            f"num_attention_heads = {config['num_attention_heads']}"
        )


class Session:
    """One sequence: the decoder, its KV cache and the position of the next token."""

    def __init__(self, decoder):
        self.decoder = decoder
        shape = (len(decoder.layers), decoder.context, decoder.width)
        self.keys = np.zeros(shape, np.uint16)
        self.values = np.zeros(shape, np.uint16)
        self.position = 0

    def step(self, token, observe=_ignore):
        """Logits after `token`; `observe(stage, bits)` is called with every intermediate vector."""
        decoder = self.decoder
        if self.position >= decoder.context:
            raise ValueError(f"position {self.position} is outside the context of {decoder.context}")
        h = vector.add(decoder.embed_tokens[token], decoder.embed_positions[self.position + POSITION_OFFSET])
        observe("embedding", h)
        for index, layer in enumerate(decoder.layers):
            stage = lambda name, bits: observe(f"layers.{index}.{name}", bits)
            h = vector.add(h, layer.out_proj(self._attention(index, layer, h, stage)))
            stage("after_attention", h)
            a = vector.relu(layer.fc1(layer.ffn_norm(h)))
            stage("ffn", a)
            h = vector.add(h, layer.fc2(a))
            stage("after_ffn", h)
        y = decoder.final_norm(h)
        observe("final_layer_norm", y)
        logits = decoder.head.times(y)
        observe("logits", logits)
        self.position += 1
        return logits

    def _attention(self, index, layer, h, stage):
        """The heads' outputs side by side; appends this position's keys and values to the cache."""
        decoder = self.decoder
        a = layer.attention_norm(h)
        if decoder.relu_before_qkv:
            a = vector.relu(a)
        stage("qkv_input", a)
        q = vector.mul(layer.q_proj(a), decoder.query_scale)
        self.keys[index, self.position] = layer.k_proj(a)
        self.values[index, self.position] = layer.v_proj(a)
        stage("q", q)
        stage("k", self.keys[index, self.position])
        stage("v", self.values[index, self.position])
        keys, values = (cache[index, : self.position + 1] for cache in (self.keys, self.values))
        outputs = []
        for head in range(decoder.heads):
            part = slice(head * decoder.head_width, (head + 1) * decoder.head_width)
            scores = vector.Matrix(keys[:, part]).times(q[part])
            weights = np.array(softmax(scores.tolist()), np.uint16)
            outputs.append(vector.Matrix(np.ascontiguousarray(values[:, part].T)).times(weights))
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
