"""Trains the low-rank activity predictors of a stored model: `predictor.safetensors` and `predictor.json` beside its weights.

For the MLP of each layer, `t = A a`, `s = B t + bias` in the FP16 numerics of docs/numerics.md, `a` being the input of FC1 (of
the gate, if there is one); a neuron is predicted active if `s > 0`. What is learnt is the activity of the FP16 checkpoint in
float32 arithmetic, on windows of the training text. Steps are fixed. docs/predictor.md says more and has the results.
"""

import argparse
import contextlib
import json
import os
import pathlib
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # results must not depend on how many cores are free

import decoder_jax  # it sets jax to one thread
import jax
import jax.numpy as jnp
import numpy as np

import corpus
from make_goldens import fnv1a64
from model_card import Bytes, windows
from reference import checkpoint, fp16, tokenizer, vector
from reference.decoder import Decoder, Session

HERE = pathlib.Path(__file__).resolve().parent
DIRECTORIES = {"opt": "model", "llama": "model-llama"}
FALSE_NEGATIVES, FALSE_POSITIVES = 0.05, 0.07  # LLM in a flash, of active and of inactive neurons
MARGIN = 0.9  # a rank is chosen if it stays below this share of the bars on the validation windows
RANKS = (16, 24, 32, 48, 64, 96, 128)
TRAINING_WINDOWS, VALIDATION_WINDOWS = 320, 64
STEPS, BATCH, LEARNING_RATE, SEED = 800, 512, 1e-3, 1
BATCH_WINDOWS = 16
DIGEST_TOKENS = 32
MOST_ACTIVATIONS = 0.8  # PowerInfer's measure of skewness: the least share of neurons that has this share of the activations


class Model:
    """A checkpoint with its tokens."""

    def __init__(self, kind):
        self.kind, self.directory = kind, HERE / DIRECTORIES[kind]
        self.config, self.tensors = checkpoint.load(self.directory)
        self.parameters = {name: jnp.asarray(value, jnp.float32) for name, value in self.tensors.items()}
        self.codec = tokenizer.load(self.directory) if (self.directory / "tokenizer.json").exists() else Bytes()
        self.context, self.layers = self.config["max_position_embeddings"], self.config["num_hidden_layers"]
        self.decoder, self.norm, self.prefix, self.matrix = (
            ("Opt", "final_layer_norm", "model.decoder.layers.", "fc1")
            if self.config["model_type"] == "opt"
            else ("Llama", "post_attention_layernorm", "model.layers.", "mlp.gate_proj")
        )

    def first_matrix(self, layer):
        """(weight, bias) of FC1 or of the gate in double precision."""
        name = f"{self.prefix}{layer}.{self.matrix}"
        weight = self.tensors[name + ".weight"].astype(np.float64)
        bias = self.tensors.get(name + ".bias", np.zeros(len(weight)))
        return weight, bias.astype(np.float64)

    def spread_windows(self, text, count):
        """`count` windows of a whole context from places all over the text."""
        step, found = len(text) // count, []
        for start in range(0, step * count, step):
            part = text[start : start + 6 * self.context].decode("utf-8", "ignore")
            found.append(self.codec.encode(part)[: self.context])
        return np.array(found, np.int32)

    @contextlib.contextmanager
    def neurons(self, change):
        """Inside, the decoder's MLP is what `change(layer, input of FC1, activity, product)` returns."""
        model, original = self, getattr(decoder_jax, self.decoder)

        class Changed(original):
            def neurons(self, prefix, h):
                active, product = super().neurons(prefix, h)
                a = self.norm(prefix + model.norm, h)
                layer = int(prefix[len(model.prefix) : -1])
                return active, change(layer, a, active, product)

        with mock.patch.object(decoder_jax, self.decoder, Changed):
            yield

    def activity(self, rows):
        """For each layer ([tokens x d] inputs of FC1 in FP16, [tokens x f] activity in FP16) of the windows."""
        seen = [([], []) for _ in range(self.layers)]

        def change(layer, a, active, product):
            seen[layer][0].append(np.asarray(a).astype(np.float16))
            seen[layer][1].append(np.asarray(active).astype(np.float16))
            return product

        with self.neurons(change):
            for part in np.array_split(rows, max(1, len(rows) // BATCH_WINDOWS)):
                decoder_jax.forward(self.parameters, jnp.asarray(part), self.config)
        return [tuple(np.concatenate(values) for values in layer) for layer in seen]

    def perplexity(self, rows, layers=None):
        """Per token, of windows that overlap by a token, in float32; with predictors only the predicted neurons are computed."""

        def change(layer, a, active, product):
            if layers is None:
                return product
            s = layers[layer].scores(a, jnp)
            return jnp.where(s > 0, product, 0)

        with self.neurons(change):
            loss = jax.jit(lambda part: decoder_jax.loss_nats(self.parameters, part[:, :-1], part[:, 1:], self.config))
            nats = [float(loss(rows[at : at + 1])) for at in range(len(rows))]
        return float(np.exp(np.mean(nats)))


class LowRank:
    """The predictor of one layer in FP16."""

    def __init__(self, a, b, bias):
        self.a, self.b, self.bias = (np.asarray(value).astype(np.float16) for value in (a, b, bias))

    def products(self, inputs, xp=np):
        """`B A a` of FP16 inputs [tokens x d]. In double precision the sums are exact while they stay below 2^5."""
        wide = np.float64 if xp is np else jnp.float32
        half = lambda values: values.astype(np.float16)
        t = half(half(inputs).astype(wide) @ xp.asarray(self.a.T, wide))
        return half(t.astype(wide) @ xp.asarray(self.b.T, wide))

    def scores(self, inputs, xp=np):
        """`s` of FP16 inputs [tokens x d]."""
        return self.products(inputs, xp) + xp.asarray(self.bias)

    def exact(self, bits):
        """One bit per neuron for an input of bit patterns, by the exact numerics."""
        matrix = lambda values: vector.Matrix(np.ascontiguousarray(values).view(np.uint16))
        s = vector.add(matrix(self.b).times(matrix(self.a).times(bits)), self.bias.view(np.uint16))
        return (s & fp16.SIGN == 0) & (s != 0) & ((s & 0x7FFF) <= fp16.INFINITY)


def rates(predicted, active):
    """(missed of the active ones, predicted of the inactive ones)."""
    count = active.sum()
    return (active & ~predicted).sum() / count, (predicted & ~active).sum() / (active.size - count)


def from_svd(inputs, weight, bias, rank):
    """A, B and bias whose `B A a + bias` is nearest to `weight a + bias` of these inputs in the mean square."""
    inputs = inputs.astype(np.float64)
    mean = inputs.mean(0)
    values, vectors = np.linalg.eigh((inputs - mean).T @ (inputs - mean) / len(inputs))
    roots = np.sqrt(np.maximum(values, 1e-9))
    u, sizes, vt = np.linalg.svd(weight @ (vectors * roots) @ vectors.T, full_matrices=False)
    a = np.sqrt(sizes[:rank])[:, None] * vt[:rank] @ (vectors / roots) @ vectors.T
    b = u[:, :rank] * np.sqrt(sizes[:rank])
    return a, b, bias + (weight - b @ a) @ mean


def train(start, inputs, active):
    """A, B and bias after `STEPS` of Adam on the logistic loss of random tokens.

    An active neuron weighs sqrt(inactive / active), 1 an inactive one.
    """
    inputs, active = jnp.asarray(inputs), jnp.asarray(active)
    weight = jnp.sqrt((1 - active.mean()) / active.mean())

    def loss(parameters, x, y):
        a, b, bias = parameters
        s, y = (x.astype(jnp.float32) @ a.T) @ b.T + bias, y.astype(jnp.float32)
        return ((jax.nn.softplus(s) - y * s) * (1 + (weight - 1) * y)).mean()

    def step(state, number):
        parameters, first, second = state
        chosen = jax.random.randint(jax.random.fold_in(jax.random.key(SEED), number), (BATCH,), 0, len(inputs))
        gradient = jax.grad(loss)(parameters, inputs[chosen], active[chosen])
        rate, time = LEARNING_RATE * 0.5 * (1 + jnp.cos(jnp.pi * number / STEPS)), number + 1.0
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradient)]
        second = [0.99 * v + 0.01 * g * g for v, g in zip(second, gradient)]
        moved = [
            p - rate * (m / (1 - 0.9**time)) / (jnp.sqrt(v / (1 - 0.99**time)) + 1e-8)
            for p, m, v in zip(parameters, first, second)
        ]
        return (moved, first, second), None

    start = [jnp.asarray(value, jnp.float32) for value in start]
    zeros = [jnp.zeros_like(value) for value in start]
    return jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(STEPS)))((start, zeros, zeros))[0][0]


def balanced(parameters, inputs, active):
    """The predictor whose bias is shifted so that both rates are the same share of their bars, and these rates."""
    a, b, bias = parameters
    predictor, low, high = LowRank(a, b, bias), -8.0, 8.0
    products = predictor.products(inputs)
    for _ in range(14):
        middle = (low + high) / 2
        predictor.bias = np.asarray(bias + middle).astype(np.float16)
        found = rates(products + predictor.bias > 0, active)
        low, high = (middle, high) if found[0] / FALSE_NEGATIVES > found[1] / FALSE_POSITIVES else (low, middle)
    return predictor, found


def skewness(active):
    """The least share of a layer's neurons that has `MOST_ACTIVATIONS` of the activations."""
    counts = np.sort(active.sum(0))[::-1]
    return float((np.cumsum(counts) < MOST_ACTIVATIONS * counts.sum()).sum() + 1) / len(counts)


def search(layer, training, validation, weight, bias):
    """The predictor of the smallest rank that meets the bars, and what was found on the way.

    PowerInfer (5.1) sizes a predictor by the layer's sparsity, then makes it smaller or larger by its skewness until the
    accuracy is just met. Here the first size is the number of active neurons of a token times the share of neurons that most
    activations come from; from there the rank grows until the bars are met, or else shrinks as long as they are.
    """
    inputs, active = training
    skew = skewness(active)
    first_size = active.mean() * active.shape[1] * skew
    at = min((i for i, rank in enumerate(RANKS) if rank >= first_size), default=len(RANKS) - 1)
    tried, found, direction = [], None, 0
    while 0 <= at < len(RANKS):
        start = from_svd(inputs, weight, bias, RANKS[at])
        predictor, (missed, extra) = balanced(train(start, inputs, active), *validation)
        meets = missed <= MARGIN * FALSE_NEGATIVES and extra <= MARGIN * FALSE_POSITIVES
        tried.append(f"{RANKS[at]}: {percent(missed)}, {percent(extra)}")
        print(f"layer {layer}, rank {RANKS[at]}: {missed:.2%} missed, {extra:.2%} extra", flush=True)
        found = predictor if meets or found is None or direction == 1 else found
        if direction and meets == (direction == 1):
            break
        direction = direction or (-1 if meets else 1)
        at += direction
    return found, {
        "sparsity_percent": percent(1 - active.mean()),
        "skewness_percent": percent(skew),
        "tried_false_negatives_and_positives": tried,
    }


def percent(share):
    return round(100 * float(share), 3)


def figures(predictor, inputs, values, gated):
    """How good it is on these tokens, and the bytes it costs and saves."""
    predicted, active = predictor.scores(inputs) > 0, values > 0
    missed, extra = rates(predicted, active)
    sizes = values.astype(np.float64)
    (rank, width), neurons = predictor.a.shape, len(predictor.b)
    matrix = 2 * neurons * width
    return {
        "rank": rank,
        "false_negatives_percent": percent(missed),
        "false_positives_percent": percent(extra),
        "magnitude_missed_percent": percent((sizes * ~predicted).sum() / sizes.sum()),
        "active_percent": percent(active.mean()),
        "predicted_percent": percent(predicted.mean()),
        "predictor_bytes": 2 * (rank * (width + neurons) + neurons),
        ("gate_bytes" if gated else "fc1_bytes"): matrix,
        "bytes_saved_per_token": round(matrix * (1 - float(predicted.mean()))),
        **({"up_bytes_saved_if_read_with_the_gate": round(matrix * (1 - float(predicted.mean())))} if gated else {}),
    }


def digest(model, layers, tokens):
    """FNV-1a of all bits that are predicted for a text: token after token, layer after layer, a byte for eight neurons."""
    decoder = Decoder(model.config, model.tensors)
    session, packed = Session(decoder), []

    def observe(stage, bits):
        if stage.endswith(".after_attention"):
            layer = int(stage.split(".")[1])
            exact = layers[layer].exact(decoder.layers[layer].ffn_norm(bits))
            packed.append(np.packbits(exact, bitorder="little").tobytes())

    for token in tokens:
        session.step(token, observe)
    return f"{fnv1a64(b''.join(packed)):016x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=DIRECTORIES, default="opt")
    parser.add_argument("--out", type=pathlib.Path, help="default: the model's directory")
    parser.add_argument("--cache", type=pathlib.Path, default=HERE / ".cache", help="where packages are extracted")
    arguments = parser.parse_args()
    model = Model(arguments.model)
    out = arguments.out or model.directory
    text, held_out = corpus.split(corpus.novels(arguments.cache))

    rows = model.spread_windows(text, TRAINING_WINDOWS + VALIDATION_WINDOWS)
    every = (TRAINING_WINDOWS + VALIDATION_WINDOWS) // VALIDATION_WINDOWS
    kept = np.arange(len(rows)) % every == every - 1
    training, validation = model.activity(rows[~kept]), model.activity(rows[kept])
    layers, searched = [], []
    for layer in range(model.layers):
        sets = [(inputs, values > 0) for inputs, values in (training[layer], validation[layer])]
        predictor, story = search(layer, *sets, *model.first_matrix(layer))
        layers.append(predictor)
        searched.append(story)

    ids = np.array(model.codec.encode(held_out.decode("utf-8")), np.int32)
    rows = windows(ids, model.context)
    gated = arguments.model == "llama"
    found = [
        {"layer": layer, **searched[layer], **figures(layers[layer], inputs, values, gated)}
        for layer, (inputs, values) in enumerate(model.activity(rows[:, :-1]))
    ]
    mean = lambda key: round(float(np.mean([row[key] for row in found])), 3)
    means = ("false_negatives_percent", "false_positives_percent", "magnitude_missed_percent")
    exact, predicted = model.perplexity(rows), model.perplexity(rows, layers)
    piece = ids[: model.context].tolist()
    content = {
        "generated_by": f"python3 golden/predictor.py --model {arguments.model}",
        "contract": "docs/numerics.md",
        "packages": {"jax": jax.__version__, "numpy": np.__version__},
        "training": {
            "start": "singular values of FC1 or of the gate, weighted by the covariance of its inputs",
            "loss": "logistic; an active neuron weighs sqrt(inactive / active)",
            "optimizer": f"Adam, {LEARNING_RATE}, cosine to 0",
            "steps": STEPS,
            "tokens_per_step": BATCH,
            "seed": SEED,
            "training_tokens": TRAINING_WINDOWS * model.context,
            "validation_tokens": VALIDATION_WINDOWS * model.context,
            "ranks": ", ".join(map(str, RANKS)),
            "share_of_the_bars": MARGIN,
        },
        "bars_percent": {"false_negatives": percent(FALSE_NEGATIVES), "false_positives": percent(FALSE_POSITIVES)},
        "held_out_tokens": rows[:, :-1].size,
        "held_out_mean": {key: mean(key) for key in means},
        "held_out_perplexity_float32": {"exact": round(exact, 4), "predicted": round(predicted, 4)},
        "layers": found,
        "held_out_text": model.codec.decode(piece).decode("utf-8"),
        "digest_tokens": piece[:DIGEST_TOKENS],
        "predicted_fnv1a64": digest(model, layers, piece[:DIGEST_TOKENS]),
    }
    tensors = {}
    for layer, predictor in enumerate(layers):
        for name in ("a", "b", "bias"):
            tensors[f"layers.{layer}.{name}"] = getattr(predictor, name)
    bad = [name for name, value in tensors.items() if not np.isfinite(value).all()]
    if bad:
        raise SystemExit(f"not finite in FP16: {bad}")
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.write_safetensors(
        out / "predictor.safetensors", tensors, {"format": "pt", "generated_by": content["generated_by"]}
    )
    (out / "predictor.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: content[key] for key in ("held_out_mean", "held_out_perplexity_float32")}), flush=True)


if __name__ == "__main__":
    main()
