"""The decoders of docs/numerics.md as differentiable float32 functions in jax: used to train the models and to measure them.

Parameters are a flat dictionary under Hugging Face's tensor names for OPT or LLaMA. The numbers here are ordinary float32;
the exact FP16 numerics are in `reference/`, which shares nothing with this file but the names.
"""

import os

# One thread: the order of float32 sums, hence the trained weights, must not depend on how many cores are free.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

LAYER_NORM_EPS = 1e-5
POSITION_OFFSET = 2


def opt_shapes(config):
    """Name -> shape of every tensor of an OPT checkpoint; linear weights are [out x in]."""
    d, f = config["hidden_size"], config["ffn_dim"]
    shapes = {
        "model.decoder.embed_tokens.weight": (config["vocab_size"], d),
        "model.decoder.embed_positions.weight": (config["max_position_embeddings"] + POSITION_OFFSET, d),
        "model.decoder.final_layer_norm.weight": (d,),
        "model.decoder.final_layer_norm.bias": (d,),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.decoder.layers.{layer}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{prefix}self_attn.{name}.weight"] = (d, d)
            shapes[f"{prefix}self_attn.{name}.bias"] = (d,)
        shapes[f"{prefix}fc1.weight"] = (f, d)
        shapes[f"{prefix}fc1.bias"] = (f,)
        shapes[f"{prefix}fc2.weight"] = (d, f)
        shapes[f"{prefix}fc2.bias"] = (d,)
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            shapes[f"{prefix}{name}.weight"] = (d,)
            shapes[f"{prefix}{name}.bias"] = (d,)
    return shapes


def llama_shapes(config):
    """Name -> shape of every tensor of a LLaMA checkpoint without biases and with a tied head."""
    d, f, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes[f"{prefix}self_attn.q_proj.weight"] = (heads * width, d)
        shapes[f"{prefix}self_attn.k_proj.weight"] = (groups * width, d)
        shapes[f"{prefix}self_attn.v_proj.weight"] = (groups * width, d)
        shapes[f"{prefix}self_attn.o_proj.weight"] = (d, heads * width)
        shapes[f"{prefix}mlp.gate_proj.weight"] = (f, d)
        shapes[f"{prefix}mlp.up_proj.weight"] = (f, d)
        shapes[f"{prefix}mlp.down_proj.weight"] = (d, f)
        shapes[f"{prefix}input_layernorm.weight"] = (d,)
        shapes[f"{prefix}post_attention_layernorm.weight"] = (d,)
    return shapes


def initial_parameters(config, seed):
    """Normal(0, deviation) matrices, the two projections into the residual stream scaled by 1/sqrt(2 layers); gains 1, biases 0.

    Learned positions start as sinusoids of the embeddings' size: attention to a neighbour is the same function everywhere.
    """
    rng = np.random.default_rng(seed)
    residual_scale = (2 * config["num_hidden_layers"]) ** -0.5
    deviation = config["init_std"] if config["model_type"] == "opt" else config["initializer_range"]
    parameters = {}
    for name, shape in (opt_shapes if config["model_type"] == "opt" else llama_shapes)(config).items():
        if name.endswith("bias"):
            value = np.zeros(shape)
        elif name.endswith("norm.weight"):
            value = np.ones(shape)
        elif name.endswith("embed_positions.weight"):
            value = sinusoids(*shape) * deviation * 2**0.5
        else:
            value = rng.normal(0.0, deviation, shape)
            if name.endswith(("out_proj.weight", "fc2.weight", "o_proj.weight", "down_proj.weight")):
                value *= residual_scale
        parameters[name] = jnp.asarray(value, jnp.float32)
    return parameters


def sinusoids(positions, width):
    """[positions x width] sines, then cosines, of geometrically spaced frequencies."""
    angles = np.arange(positions)[:, None] * np.geomspace(1.5, 0.01, width // 2)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def layer_norm(x, gain, bias):
    """LayerNorm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + LAYER_NORM_EPS) * gain + bias


class Opt:
    """The parts of OPT's decoder that LLaMA has in another form."""

    ATTENTION_NORM, ATTENTION_OUT, DOWN = "self_attn_layer_norm", "self_attn.out_proj", "fc2"

    def __init__(self, parameters, config):
        self.parameters = parameters
        self.prefix = "model.decoder."
        self.groups, self.final_norm = config["num_attention_heads"], "final_layer_norm"
        self.width = config["hidden_size"] // config["num_attention_heads"]

    def linear(self, name, x):
        return x @ self.parameters[name + ".weight"].T + self.parameters[name + ".bias"]

    def norm(self, name, x):
        return layer_norm(x, self.parameters[name + ".weight"], self.parameters[name + ".bias"])

    def embed(self, tokens, first):
        table = self.parameters["model.decoder.embed_positions.weight"]
        positions = jax.lax.dynamic_slice_in_dim(table, POSITION_OFFSET + first, tokens.shape[1])
        return self.parameters["model.decoder.embed_tokens.weight"][tokens] + positions

    def rotate(self, x, first):
        """Nothing: the positions are in the embedding."""
        return x

    def neurons(self, prefix, h):
        """(what decides which neurons are active, the input of the last matrix), here the same."""
        a = jax.nn.relu(self.linear(prefix + "fc1", self.norm(prefix + "final_layer_norm", h)))
        return a, a


class Llama:
    """LLaMA's decoder with ReGLU: RMSNorm, rotary positions, groups of heads, no biases."""

    ATTENTION_NORM, ATTENTION_OUT, DOWN = "input_layernorm", "self_attn.o_proj", "mlp.down_proj"

    def __init__(self, parameters, config):
        self.parameters = parameters
        self.prefix = "model."
        self.groups, self.final_norm = config["num_key_value_heads"], "norm"
        self.width, self.theta, self.eps = config["head_dim"], config["rope_theta"], config["rms_norm_eps"]

    def linear(self, name, x):
        return x @ self.parameters[name + ".weight"].T

    def norm(self, name, x):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.parameters[name + ".weight"]

    def embed(self, tokens, first):
        return self.parameters["model.embed_tokens.weight"][tokens]

    def rotate(self, x, first):
        """Turns the pairs (i, i + width / 2) of the last axis by the angles of the position, the axis before it."""
        half = self.width // 2
        angles = (first + jnp.arange(x.shape[-2]))[:, None] * self.theta ** (-jnp.arange(half) / half)
        low, high, cosine, sine = x[..., :half], x[..., half:], jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)

    def neurons(self, prefix, h):
        """(what decides which neurons are active, the input of the last matrix): the gate and its product with `up`."""
        a = self.norm(prefix + "post_attention_layernorm", h)
        gate = jax.nn.relu(self.linear(prefix + "mlp.gate_proj", a))
        return gate, gate * self.linear(prefix + "mlp.up_proj", a)


def forward(parameters, tokens, config, first=0, observe=None, drop=None):
    """Logits [batch x positions x vocab] of token windows [batch x positions] whose first token is at position `first`.

    `observe(kind, layer, values)` is called with the inputs of QKV ("qkv_input"), the attention scores ("scores", masked ones
    as 0), the activations of the FFN or of its gate ("ffn"), the gate's product with `up` ("product") and the residual stream
    ("residual"). `drop(values)` is applied to the embedding and to every addition to the residual stream.
    """
    observe = observe or (lambda kind, layer, values: None)
    drop = drop or (lambda values: values)
    batch, length = tokens.shape
    d, heads = config["hidden_size"], config["num_attention_heads"]
    net = (Opt if config["model_type"] == "opt" else Llama)(parameters, config)

    def split_heads(x, count):
        return x.reshape(batch, length, count, net.width).transpose(0, 2, 1, 3)

    def shared(x):
        return x if net.groups == heads else jnp.repeat(x, heads // net.groups, axis=1)

    visible = jnp.tril(jnp.ones((length, length), bool))
    h = drop(net.embed(tokens, first)).reshape(batch * length, d)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"{net.prefix}layers.{layer}."
        a = net.norm(prefix + net.ATTENTION_NORM, h)
        if config["relu_before_qkv"]:
            a = jax.nn.relu(a)
        observe("qkv_input", layer, a)
        q = net.rotate(split_heads(net.linear(prefix + "self_attn.q_proj", a) * net.width**-0.5, heads), first)
        k = shared(net.rotate(split_heads(net.linear(prefix + "self_attn.k_proj", a), net.groups), first))
        v = shared(split_heads(net.linear(prefix + "self_attn.v_proj", a), net.groups))
        scores = jnp.where(visible, q @ k.transpose(0, 1, 3, 2), 0)
        observe("scores", layer, scores)
        o = (jax.nn.softmax(jnp.where(visible, scores, -1e9)) @ v).transpose(0, 2, 1, 3).reshape(batch * length, -1)
        h = h + drop(net.linear(prefix + net.ATTENTION_OUT, o))
        active, product = net.neurons(prefix, h)
        observe("ffn", layer, active)
        if product is not active:
            observe("product", layer, product)
        h = h + drop(net.linear(prefix + net.DOWN, product))
        observe("residual", layer, h)
    y = net.norm(net.prefix + net.final_norm, h)
    return (y @ parameters[net.prefix + "embed_tokens.weight"].T).reshape(batch, length, -1)


def loss_nats(parameters, tokens, targets, config, first=0, observe=None, drop=None):
    """Mean cross entropy in nats per token."""
    log_p = jax.nn.log_softmax(forward(parameters, tokens, config, first, observe, drop))
    return -jnp.take_along_axis(log_p, targets[..., None], -1).mean()
