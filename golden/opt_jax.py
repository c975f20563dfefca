"""The decoder of docs/numerics.md as a differentiable float32 function in jax: used to train the model and to measure it.

Parameters are a flat dictionary under Hugging Face's OPT tensor names. The numbers here are ordinary float32; the exact
FP16 numerics are in `reference/`, which shares nothing with this file but the names.
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


def tensor_shapes(config):
    """Name -> shape of every tensor of the checkpoint; linear weights are [out x in]."""
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


def initial_parameters(config, seed):
    """Normal(0, init_std) matrices, the two projections into the residual stream scaled by 1/sqrt(2 layers); gains 1, biases 0.

    Positions start as sinusoids of the embeddings' size, so that attention to a neighbour is the same function everywhere.
    """
    rng = np.random.default_rng(seed)
    residual_scale = (2 * config["num_hidden_layers"]) ** -0.5
    parameters = {}
    for name, shape in tensor_shapes(config).items():
        if name.endswith("bias"):
            value = np.zeros(shape)
        elif name.endswith("norm.weight"):
            value = np.ones(shape)
        elif name.endswith("embed_positions.weight"):
            value = sinusoids(*shape) * config["init_std"] * 2**0.5
        else:
            value = rng.normal(0.0, config["init_std"], shape)
            if name.endswith(("out_proj.weight", "fc2.weight")):
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


def forward(parameters, tokens, config, first=0, observe=None):
    """Logits [batch x positions x vocab] of token windows [batch x positions] whose first token is at position `first`.

    `observe(kind, layer, values)` is called with the inputs of QKV ("qkv_input"), the attention scores ("scores", masked ones
    as 0), the FFN activations ("ffn") and the residual stream ("residual"); leave it out under jit.
    """
    observe = observe or (lambda kind, layer, values: None)
    batch, length = tokens.shape
    d, heads = config["hidden_size"], config["num_attention_heads"]
    width = d // heads

    def linear(name, x):
        return x @ parameters[name + ".weight"].T + parameters[name + ".bias"]

    def norm(name, x):
        return layer_norm(x, parameters[name + ".weight"], parameters[name + ".bias"])

    def split_heads(x):
        return x.reshape(batch, length, heads, width).transpose(0, 2, 1, 3)

    visible = jnp.tril(jnp.ones((length, length), bool))
    embed = parameters["model.decoder.embed_tokens.weight"]
    positions = jax.lax.dynamic_slice_in_dim(
        parameters["model.decoder.embed_positions.weight"], POSITION_OFFSET + first, length
    )
    h = (embed[tokens] + positions).reshape(batch * length, d)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.decoder.layers.{layer}."
        a = norm(prefix + "self_attn_layer_norm", h)
        if config["relu_before_qkv"]:
            a = jax.nn.relu(a)
        observe("qkv_input", layer, a)
        q = split_heads(linear(prefix + "self_attn.q_proj", a) * width**-0.5)
        k = split_heads(linear(prefix + "self_attn.k_proj", a))
        v = split_heads(linear(prefix + "self_attn.v_proj", a))
        scores = jnp.where(visible, q @ k.transpose(0, 1, 3, 2), 0)
        observe("scores", layer, scores)
        o = (jax.nn.softmax(jnp.where(visible, scores, -1e9)) @ v).transpose(0, 2, 1, 3).reshape(batch * length, d)
        h = h + linear(prefix + "self_attn.out_proj", o)
        a = jax.nn.relu(linear(prefix + "fc1", norm(prefix + "final_layer_norm", h)))
        observe("ffn", layer, a)
        h = h + linear(prefix + "fc2", a)
        observe("residual", layer, h)
    y = norm("model.decoder.final_layer_norm", h)
    return (y @ embed.T).reshape(batch, length, -1)


def loss_nats(parameters, tokens, targets, config, first=0):
    """Mean cross entropy in nats per byte."""
    log_p = jax.nn.log_softmax(forward(parameters, tokens, config, first))
    return -jnp.take_along_axis(log_p, targets[..., None], -1).mean()
