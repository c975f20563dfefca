"""What docs/numerics.md takes from a `config.json` of Hugging Face, per architecture; what it does not define is refused."""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Optional

import numpy as np

from . import fp16, layernorm, rotary


@dataclass(frozen=True)
class Names:
    """Where a checkpoint keeps its tensors; the layer's names follow `layers` and the layer's number."""

    embedding: str
    layers: str
    final_norm: Optional[str]  # None: the head takes the residual stream
    attention_norm: Optional[str]  # None: attention takes the residual stream
    ffn_norm: Optional[str]  # None: the FFN shares the norm of attention, or takes the residual stream
    projections: tuple  # q, k, v, or the one tensor that has all of them
    out: str
    up: str
    down: str
    gate: Optional[str] = None
    after_attention: Optional[str] = None  # norms of the blocks' outputs
    after_ffn: Optional[str] = None
    router: Optional[str] = None  # of experts, whose names follow `experts` and the expert's number
    experts: Optional[str] = None
    gate_up: Optional[str] = None  # the one tensor that has gate and up
    positions: Optional[str] = None
    head: Optional[str] = None  # None: the embedding
    project_in: Optional[str] = None  # from the embedding's width to the residual stream's
    project_out: Optional[str] = None  # and back in front of the head


OPT = Names(
    embedding="model.decoder.embed_tokens",
    positions="model.decoder.embed_positions",
    layers="model.decoder.layers",
    final_norm="model.decoder.final_layer_norm",
    attention_norm="self_attn_layer_norm",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.out_proj",
    ffn_norm="final_layer_norm",
    up="fc1",
    down="fc2",
)

OPT_AFTER = replace(
    OPT,
    attention_norm=None,
    ffn_norm=None,
    final_norm=None,
    after_attention="self_attn_layer_norm",
    after_ffn="final_layer_norm",
)

LLAMA = Names(
    embedding="model.embed_tokens",
    layers="model.layers",
    final_norm="model.norm",
    attention_norm="input_layernorm",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.o_proj",
    ffn_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    head="lm_head",
)

PHI3 = replace(LLAMA, projections=("self_attn.qkv_proj",), gate_up="mlp.gate_up_proj")
MIXTRAL = replace(
    LLAMA, router="block_sparse_moe.gate", experts="block_sparse_moe.experts", gate="w1", up="w3", down="w2"
)
QWEN3_MOE = replace(LLAMA, router="mlp.gate", experts="mlp.experts", gate="gate_proj", up="up_proj", down="down_proj")
GEMMA = replace(
    LLAMA,
    after_attention="post_attention_layernorm",
    ffn_norm="pre_feedforward_layernorm",
    after_ffn="post_feedforward_layernorm",
)
OLMO2 = replace(
    LLAMA,
    attention_norm=None,
    ffn_norm=None,
    after_attention="post_attention_layernorm",
    after_ffn="post_feedforward_layernorm",
)

FALCON = Names(
    embedding="transformer.word_embeddings",
    layers="transformer.h",
    final_norm="transformer.ln_f",
    attention_norm="input_layernorm",
    projections=("self_attention.query_key_value",),
    out="self_attention.dense",
    ffn_norm=None,
    up="mlp.dense_h_to_4h",
    down="mlp.dense_4h_to_h",
)
FALCON_SEQUENTIAL = replace(FALCON, ffn_norm="post_attention_layernorm")


@dataclass(frozen=True)
class Description:
    """A model's shape and the choices among what the contract defines."""

    names: Names
    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int
    groups: int  # heads of k and v
    head_width: int
    ffn_width: int
    act: str
    eps: int  # in units of 10^-12
    relu_before_qkv: bool
    attention_bias: bool  # of q, k and v
    mlp_bias: bool
    out_bias: Optional[bool] = None  # after attention; None: as attention_bias
    qk_norm: Optional[str] = None  # RMSNorm of q and k before rotation: of each of the "heads", or of the "whole" vector
    rms: bool = False  # RMSNorm instead of LayerNorm
    parallel: bool = False  # the FFN reads the same residual stream as attention
    theta: Optional[int] = None  # of the rotary embedding, if there is one
    scaling: Optional[rotary.Scaling] = None
    rotated: Optional[int] = None  # elements of a head that are rotated; None: all
    window: Optional[int] = None  # positions that a position sees, its own the last of them; None: all before it
    full_layers: tuple = ()  # whether a layer has no window, by its number; all have one if it is empty
    window_angles: Optional[tuple] = None  # (theta, scaling) of layers with a window; None: those of all
    unit_gains: bool = False  # gains are 1 more than what is stored
    score_cap: Optional[Fraction] = None
    logit_cap: Optional[Fraction] = None
    experts: int = 0  # in place of the FFN; 0: none
    experts_used: int = 0  # by a token
    experts_normalised: bool = False  # their weights are divided by their sum
    finite: bool = False  # an infinity or NaN among the activations is an error
    query_scale: Optional[int] = None  # FP16 factors; None: 1 / sqrt(head_width), and no operation for the others
    embedding_scale: Optional[int] = None
    residual_scale: Optional[int] = None
    logit_divisor: Optional[int] = None
    embedding_width: Optional[int] = None  # None: width
    norms_sums: bool = False  # norms after a block follow its residual
    alibi: bool = False


def window_of(description, layer):
    """The window of a layer, or None."""
    full = bool(description.full_layers) and description.full_layers[layer]
    return None if full else description.window


def describe(config):
    """The Description of a `config.json`."""
    read = Reader(config)
    for key in ("dtype", "torch_dtype"):  # what the tensors are in is read from their file
        read.one_of(key, ["float16", "bfloat16", "float32"], "float16")
    read.one_of("quantization_config", [None])
    architectures = {"opt": _opt, "llama": _llama, "mistral": _llama, "falcon": _falcon, "granite": _granite, "olmo2": _olmo2}
    architectures |= {"phi3": _phi3, "qwen2": _qwen2, "qwen3": _qwen3}
    architectures |= {"mixtral": _mixtral, "qwen3_moe": _qwen3_moe}
    architectures |= {"gemma": _gemma, "gemma2": _gemma2, "gemma3_text": _gemma3}
    described = architectures[read.one_of("model_type", list(architectures))](read)
    return replace(described, finite=config["model_type"] not in ("opt", "llama", "mistral", "falcon"))


def fused_rows(description):
    """The rows of q, of k and of v in one tensor.

    Falcon has for each head of k and v the rows of its heads of q, then its own; Phi-3 has all of q, then all of k, then all of v.
    """
    if description.names.gate_up:
        rows = np.arange((description.heads + 2 * description.groups) * description.head_width)
        return np.split(rows, [part * description.head_width for part in (description.heads, description.heads + description.groups)])
    shared, width = description.heads // description.groups, description.head_width
    rows = np.arange(description.groups * (shared + 2) * width).reshape(description.groups, shared + 2, width)
    return [rows[:, chosen].ravel() for chosen in (slice(0, shared), shared, shared + 1)]


class Reader:
    """Values of a `config.json`, each refused with its key and what was expected."""

    def __init__(self, config):
        self.config = config

    def get(self, key, default):
        """The value; the default also where it is null."""
        value = self.config.get(key)
        return default if value is None else value

    def default(self, **values):
        """Values of keys that are missing; null stays."""
        self.config = {**values, **self.config}

    def refuse(self, key, value, expected):
        """The error of a value that the contract does not define."""
        raise ValueError(f"config.json: {key} is {value!r}, expected {expected}")

    def one_of(self, key, choices, default=None):
        """The value, one of the choices."""
        value = self.get(key, default)
        if value not in choices:
            self.refuse(key, value, " or ".join("null" if choice is None else repr(choice) for choice in choices))
        return value

    def flag(self, key, default):
        """A truth value."""
        return self.one_of(key, [False, True], default)

    def count(self, key, default=None, divides=None):
        """A whole number from 1; `divides` names a multiple of it as (key, value)."""
        value = self.get(key, default)
        if type(value) is not int or value < 1:
            self.refuse(key, value, "a whole number from 1")
        if divides and divides[1] % value:
            self.refuse(key, value, f"a divisor of {divides[0]}, {divides[1]}")
        return value

    def eps(self, key, default):
        """In units of 10^-12."""
        value = self.get(key, default)
        eps = Decimal(repr(value)) * layernorm.EPS_UNIT if type(value) in (int, float) else Decimal("nan")
        if not layernorm.SMALLEST_EPS <= eps <= layernorm.LARGEST_EPS if eps.is_finite() else True:
            self.refuse(key, value, "a number from 1e-6 to 1e-2")
        if eps != int(eps):
            self.refuse(key, value, "a multiple of 1e-12")
        return int(eps)

    def decimal(self, key, given, default=None):
        """A number as JSON prints it, exactly: 0, or from 10^-6 to 10^6; `given` has the keys after the last point of `key`."""
        value = given.get(key.rpartition(".")[2])
        value = default if value is None else value
        if type(value) not in (int, float) or not (value == 0 or 1e-6 <= value <= 1e6):
            self.refuse(key, value, "0 or a number from 1e-6 to 1e6")
        return Fraction(Decimal(repr(value)))

    def rotation(self, context, any_part=False):
        """(theta, scaling, rotated share) in either spelling: `rope_theta` and `rope_scaling`, or `rope_parameters`."""
        scaling = None
        for key in ("rope_parameters", "rope_scaling"):
            scaling = scaling or self.scaling(key, self.get(key, {}), context)
        parameters = self.get("rope_parameters", {})
        share = parameters.get("partial_rotary_factor", self.get("partial_rotary_factor", 1))
        if share != 1 and not (any_part and type(share) is float and 0 < share < 1):
            expected = "a number above 0, at most 1" if any_part else "1"
            self.refuse("partial_rotary_factor", self.get("partial_rotary_factor", parameters), expected)
        key = "rope_parameters.rope_theta" if "rope_theta" in parameters else "rope_theta"
        return self.base(key, parameters.get("rope_theta", self.get("rope_theta", 10000))), scaling, share

    def base(self, key, value):
        """The base of a rotary embedding."""
        smallest, largest = rotary.SMALLEST_THETA, rotary.LARGEST_THETA
        if type(value) not in (int, float) or not smallest <= value <= largest or value != int(value):
            self.refuse(key, value, f"a whole number from {smallest} to {largest}")
        return int(value)

    def scaling(self, name, given, context):
        """The scaling that a field of the configuration describes; None for none."""
        kind = given.get("rope_type", given.get("type")) or "default"
        allowed = {"default": set(), "dynamic": {"factor"}, "linear": {"factor"}}
        allowed["llama3"] = {"factor", "low_freq_factor", "high_freq_factor"}
        allowed["yarn"] = {"factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}
        if kind not in allowed:
            self.refuse(name, given, f"null or of rope_type {' or '.join(map(repr, allowed))}")
        common = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings"}
        others = {key for key, value in given.items() if value is not None} - common - allowed[kind]
        if others - ({"factor"} if given.get("factor") == 1 else set()):
            self.refuse(name, given, f"nothing but {', '.join(sorted(common | allowed[kind]))}")
        if kind in ("default", "dynamic"):  # within the context a dynamic scaling does nothing
            return None
        read = lambda key, default=None: self.decimal(f"{name}.{key}", given, default)
        factor = read("factor")
        if factor < 1:
            self.refuse(f"{name}.factor", given["factor"], "a number from 1")
        if kind == "linear":
            return rotary.Scaling(kind, factor)
        positions = self.get("original_max_position_embeddings", given.get("original_max_position_embeddings", context))
        if type(positions) is not int or positions < 1:
            self.refuse(f"{name}.original_max_position_embeddings", positions, "a whole number from 1")
        keys = ("low_freq_factor", "high_freq_factor") if kind == "llama3" else ("beta_slow", "beta_fast")
        low, high = (read(key, default) for key, default in zip(keys, (None, None) if kind == "llama3" else (1, 32)))
        if low >= high or (kind == "yarn" and low == 0):
            self.refuse(f"{name}.{keys[0]}", given.get(keys[0]), f"less than {keys[1]}, and not 0 in yarn")
        if kind == "llama3":
            return rotary.Scaling(kind, factor, low, high, positions)
        if given.get("truncate") not in (None, True):
            self.refuse(f"{name}.truncate", given["truncate"], "True")
        attention = None
        if given.get("attention_factor") is not None:
            attention = read("attention_factor")
            if not 0 < attention <= 16:
                self.refuse(f"{name}.attention_factor", given["attention_factor"], "a number above 0, at most 16")
        mscales = read("mscale", 0), read("mscale_all_dim", 0)
        mscales = mscales if all(mscales) else (Fraction(1), Fraction(0))
        return rotary.Scaling(kind, factor, low, high, positions, attention, mscales)

    def cap(self, key):
        """A soft cap, or None."""
        if self.get(key, None) is None:
            return None
        cap = self.decimal(key, self.config)
        if not 1 <= cap <= 10000:
            self.refuse(key, self.config[key], "null or a number from 1 to 1e4")
        return cap

    def window(self):
        """`sliding_window`; None also where it is not shorter than the context."""
        value = self.get("sliding_window", None)
        if value is not None and not (type(value) is int and value >= 1):
            self.refuse("sliding_window", value, "null or a whole number from 1")
        return None if value is None or value >= self.count("max_position_embeddings") else value

    def full_layers(self, default):
        """Whether each layer sees all positions, from `layer_types`, or `default` of its number."""
        layers, types = self.count("num_hidden_layers"), self.get("layer_types", None)
        if types is None:
            return tuple(default(layer) for layer in range(layers))
        if len(types) != layers or not set(types) <= {"full_attention", "sliding_attention"}:
            self.refuse("layer_types", types, f"full_attention or sliding_attention for each of {layers} layers")
        return tuple(kind == "full_attention" for kind in types)

    def shape(self):
        """What all architectures call alike."""
        return {
            "vocabulary": self.count("vocab_size"),
            "layers": self.count("num_hidden_layers"),
            "width": self.count("hidden_size"),
            "heads": self.count("num_attention_heads"),
            "relu_before_qkv": self.flag("relu_before_qkv", False),
        }

    def width_of_heads(self):
        """hidden_size / num_attention_heads."""
        width = self.count("hidden_size")
        return width // self.count("num_attention_heads", divides=("hidden_size", width))


def _opt(read):
    before = read.flag("do_layer_norm_before", True)
    read.one_of("activation_function", ["relu"], "relu")
    for key in ("enable_bias", "layer_norm_elementwise_affine", "tie_word_embeddings"):
        read.one_of(key, [True], True)
    names = OPT if before else OPT_AFTER
    if read.flag("_remove_final_layer_norm", False):
        names = replace(names, final_norm=None)
    width = read.count("hidden_size")
    embedding_width = read.count("word_embed_proj_dim", width)
    if embedding_width != width:
        names = replace(names, project_in="model.decoder.project_in", project_out="model.decoder.project_out")
    return Description(
        **read.shape(),
        names=names,
        context=read.count("max_position_embeddings"),
        groups=read.count("num_attention_heads"),
        head_width=read.width_of_heads(),
        ffn_width=read.count("ffn_dim"),
        act="relu",
        eps=layernorm.DEFAULT_EPS,
        attention_bias=True,
        mlp_bias=True,
        embedding_width=embedding_width,
        norms_sums=not before,
    )


def _llama(read):
    """LLaMA and Mistral."""
    heads, context = read.count("num_attention_heads"), read.count("max_position_embeddings")
    mistral = read.config["model_type"] == "mistral"
    if mistral:
        read.default(sliding_window=4096)
    window = read.window()
    if window is not None and not mistral:
        read.refuse("sliding_window", window, f"null or at least max_position_embeddings, {context}")
    head_width = read.count("head_dim", None if read.get("head_dim", None) else read.width_of_heads())
    if head_width % 2:
        read.refuse("head_dim", head_width, "an even number")
    theta, scaling, _ = read.rotation(context)
    return Description(
        **read.shape(),
        names=replace(LLAMA, head=None) if read.flag("tie_word_embeddings", False) else LLAMA,
        context=context,
        groups=read.count("num_key_value_heads", heads, divides=("num_attention_heads", heads)),
        head_width=head_width,
        ffn_width=read.count("intermediate_size"),
        act=read.one_of("hidden_act", ["silu", "relu"], "silu"),
        eps=read.eps("rms_norm_eps", 1e-6),
        attention_bias=read.flag("attention_bias", False),
        mlp_bias=read.flag("mlp_bias", False),
        rms=True,
        theta=theta,
        scaling=scaling,
        window=window,
    )


def _like_llama(read, **own):
    """LLaMA's tensors without the keys that not all such architectures have; `own` replaces what it says."""
    heads, context = read.count("num_attention_heads"), own.pop("context", None) or read.count("max_position_embeddings")
    head_width = read.count("head_dim", None if read.get("head_dim", None) else read.width_of_heads())
    if head_width % 2:
        read.refuse("head_dim", head_width, "an even number")
    part = own.pop("part", False)
    theta, scaling, share = read.rotation(context, part)
    rotated = None if share == 1 else int(head_width * share)
    if rotated is not None and (rotated == 0 or rotated % 2):
        read.refuse("head_dim * partial_rotary_factor", rotated, "an even number from 2")
    names = own.pop("names", LLAMA)
    described = {
        "names": replace(names, head=None) if read.flag("tie_word_embeddings", False) else names,
        "context": context,
        "groups": read.count("num_key_value_heads", heads, divides=("num_attention_heads", heads)),
        "head_width": head_width,
        "ffn_width": own.get("ffn_width") or read.count("intermediate_size"),
        "eps": read.eps("rms_norm_eps", 1e-6),
        "attention_bias": False,
        "mlp_bias": False,
        "rms": True,
        "theta": theta,
        "scaling": scaling,
        "rotated": rotated,
        **own,
    }
    if "act" not in own:
        described["act"] = read.one_of("hidden_act", ["silu", "relu"], "silu")
    return Description(**read.shape(), **described)


def _phi3(read):
    """Phi-3 and Phi-4-mini."""
    read.default(max_position_embeddings=4096)
    read.one_of("attention_bias", [False], False)
    described = _like_llama(read, names=PHI3, part=True, window=read.window(), eps=read.eps("rms_norm_eps", 1e-5))
    if described.scaling:
        read.refuse("rope_type", described.scaling.kind, "'default'")
    return described


def _olmo2(read):
    read.default(max_position_embeddings=2048)
    bias = read.flag("attention_bias", False)
    return _like_llama(read, names=OLMO2, qk_norm="whole", attention_bias=bias, eps=read.eps("rms_norm_eps", 1e-5))


def _granite(read):
    read.default(max_position_embeddings=2048)
    factors = {}
    for key, name in (
        ("attention_multiplier", "query_scale"),
        ("embedding_multiplier", "embedding_scale"),
        ("residual_multiplier", "residual_scale"),
        ("logits_scaling", "logit_divisor"),
    ):
        value = read.decimal(key, read.config, 1)
        if value == 0:
            read.refuse(key, read.config[key], "a number from 1e-6")
        if value != 1 or name == "query_scale":
            factors[name] = fp16.rne16(value.numerator, value.denominator)
    bias = {"attention_bias": read.flag("attention_bias", False), "mlp_bias": read.flag("mlp_bias", False)}
    return _like_llama(read, **factors, **bias)


def _gemma_parts(read, heads, **own):
    """What all Gemmas have; `heads` is the default of num_key_value_heads."""
    read.default(head_dim=256, num_key_value_heads=heads, tie_word_embeddings=True)
    read.one_of("hidden_act", [None, "gelu", "gelu_pytorch_tanh"])  # the first has always meant the second
    read.one_of("hidden_activation", [None, "gelu_pytorch_tanh"])
    bias = read.flag("attention_bias", False)
    scale = fp16.sqrt_of_integer(read.count("hidden_size"))
    return _like_llama(read, act="gelu_tanh", attention_bias=bias, unit_gains=True, embedding_scale=scale, **own)


def _gemma(read):
    """The first one."""
    read.default(max_position_embeddings=8192)
    for key in ("sliding_window", "sliding_window_pattern", "rope_local_base_freq", "attn_logit_softcapping"):
        read.one_of(key, [None])
    read.one_of("final_logit_softcapping", [None])
    read.one_of("query_pre_attn_scalar", [None, read.get("head_dim", 256)])
    if not all(read.full_layers(lambda layer: True)):
        read.refuse("layer_types", read.config["layer_types"], "full_attention")
    return _gemma_parts(read, 16)


def _gemma_windows(read, pattern):
    """The windows of all layers but each `pattern`-th."""
    full_layers = read.full_layers(lambda layer: (layer + 1) % pattern == 0)
    window = read.get("sliding_window", None)
    if not all(full_layers) and not (type(window) is int and window >= 1):
        read.refuse("sliding_window", window, "a whole number from 1")
    return {"window": window, "full_layers": full_layers}


def _gemma2(read):
    read.default(max_position_embeddings=8192, sliding_window=4096, attn_logit_softcapping=50.0, final_logit_softcapping=30.0)
    read.one_of("sliding_window_pattern", [None, 2])
    read.one_of("rope_local_base_freq", [None])
    caps = {"score_cap": read.cap("attn_logit_softcapping"), "logit_cap": read.cap("final_logit_softcapping")}
    scale = fp16.reciprocal_sqrt_of_integer(read.count("query_pre_attn_scalar", 256))
    return _gemma_parts(read, 4, names=GEMMA, query_scale=scale, **caps, **_gemma_windows(read, 2))


def _gemma3(read):
    """The text models."""
    read.default(max_position_embeddings=131072, sliding_window=4096)
    read.one_of("attn_logit_softcapping", [None])
    read.one_of("partial_rotary_factor", [None, 1.0])
    context = read.count("max_position_embeddings")
    kinds = dict(read.get("rope_parameters", {}))
    local, full = (dict(kinds.pop(kind, None) or {}) for kind in ("sliding_attention", "full_attention"))
    if kinds:
        read.refuse("rope_parameters", kinds, "only sliding_attention and full_attention")
    angles = []
    for given, base, scaling in (
        (local, read.get("rope_local_base_freq", 10000), {}),
        (full, read.get("rope_theta", 1000000), read.get("rope_scaling", {})),
    ):
        one = {"max_position_embeddings": context, "rope_theta": base, "rope_parameters": given, "rope_scaling": scaling}
        angles.append(Reader(one).rotation(context)[:2])
    read.config = {**read.config, "rope_parameters": None, "rope_scaling": None}
    scale = fp16.reciprocal_sqrt_of_integer(read.count("query_pre_attn_scalar", 256))
    own = {"logit_cap": read.cap("final_logit_softcapping"), "qk_norm": "heads", "query_scale": scale, "window_angles": angles[0]}
    own |= {"theta": angles[1][0], "scaling": angles[1][1]}
    return _gemma_parts(read, 4, names=GEMMA, **own, **_gemma_windows(read, read.count("sliding_window_pattern", 6)))


def _qwen2(read):
    """Qwen 2 and 2.5."""
    read.default(num_key_value_heads=32, max_position_embeddings=32768)
    read.one_of("attention_bias", [True], True)
    return _like_llama(read, attention_bias=True, out_bias=False, **_qwen_windows(read))


def _qwen3(read):
    read.default(num_key_value_heads=32, max_position_embeddings=32768, head_dim=128)
    return _like_llama(read, attention_bias=read.flag("attention_bias", False), qk_norm="heads", **_qwen_windows(read))


def _qwen_windows(read):
    """The windows of all layers but the first `max_window_layers`, if they are used."""
    first = read.get("max_window_layers", 28)
    full_layers = read.full_layers(lambda layer: layer < first)
    if read.flag("use_sliding_window", False):
        return {"window": read.window(), "full_layers": full_layers}
    if read.get("layer_types", None) and not all(full_layers):
        read.refuse("layer_types", read.config["layer_types"], "full_attention without use_sliding_window")
    return {}


def _experts(read, key):
    """The sizes of a mixture; `key` has the number of experts."""
    experts, used = read.count(key), read.count("num_experts_per_tok")
    if used > experts:
        read.refuse("num_experts_per_tok", used, f"at most {key}, {experts}")
    read.one_of("decoder_sparse_step", [1], 1)
    read.one_of("mlp_only_layers", [None, []])
    read.one_of("shared_expert_intermediate_size", [None, 0])
    return {"experts": experts, "experts_used": used}


def _mixtral(read):
    read.default(num_key_value_heads=8, max_position_embeddings=131072, num_local_experts=8, num_experts_per_tok=2)
    read.default(intermediate_size=14336, rope_theta=1000000)
    read.one_of("attention_bias", [False], False)
    read.one_of("norm_topk_prob", [True], True)
    own = {**_experts(read, "num_local_experts"), "experts_normalised": True, "window": read.window()}
    return _like_llama(read, names=MIXTRAL, eps=read.eps("rms_norm_eps", 1e-5), **own)


def _qwen3_moe(read):
    read.default(num_key_value_heads=4, max_position_embeddings=32768, num_experts_per_tok=8)
    # Newer files have the second spelling.
    experts = read.get("num_experts", read.get("num_local_experts", 128))
    read.one_of("num_local_experts", [None, experts])
    read.default(moe_intermediate_size=768, num_experts=experts)
    read.one_of("use_sliding_window", [False], False)
    own = {**_experts(read, "num_experts"), "experts_normalised": read.flag("norm_topk_prob", False), "qk_norm": "heads"}
    bias, ffn_width = read.flag("attention_bias", False), read.count("moe_intermediate_size")
    return _like_llama(read, names=QWEN3_MOE, attention_bias=bias, ffn_width=ffn_width, **own)


def _falcon(read):
    heads, head_width = read.count("num_attention_heads"), read.width_of_heads()
    new = read.flag("new_decoder_architecture", False)
    alibi = read.flag("alibi", False)
    parallel = read.one_of("parallel_attn", [True] if new else [True, False], True)
    read.one_of("tie_word_embeddings", [True], True)
    if head_width % 2 and not alibi:
        read.refuse("hidden_size / num_attention_heads", head_width, "an even number")
    names = FALCON if parallel else FALCON_SEQUENTIAL
    if new and read.one_of("num_ln_in_parallel_attn", [1, 2], 2) == 2:
        names = replace(FALCON, attention_norm="ln_attn", ffn_norm="ln_mlp")
    if new:
        groups = read.count("num_kv_heads", heads, divides=("num_attention_heads", heads))
    else:
        groups = 1 if read.flag("multi_query", True) else heads
    width = read.count("hidden_size")
    bias = read.flag("bias", False)
    context = read.count("max_position_embeddings", 2048)
    theta, scaling, _ = (None, None, 1) if alibi else read.rotation(context)
    return Description(
        **read.shape(),
        names=names,
        context=context,
        groups=groups,
        head_width=head_width,
        ffn_width=read.count("ffn_hidden_size", 4 * width),
        act=read.one_of("activation", ["gelu", "relu"], "gelu"),
        eps=read.eps("layer_norm_epsilon", 1e-5),
        attention_bias=bias,
        mlp_bias=bias,
        parallel=parallel,
        alibi=alibi,
        theta=theta,
        scaling=scaling,
    )
