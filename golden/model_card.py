"""Measures a stored FP16 checkpoint and writes its model card: `golden/model/README.md` or `golden/model-llama/README.md`,
and beside it `quantised.json`: what INT4 and INT8 weights cost.

Bits per byte, sparsity and ranges come from float32 arithmetic on the whole held-out text; the exact FP16 numerics of
`reference/` are slower and are measured on its beginning, and they write the sample texts.
"""

import argparse
import dataclasses
import json
import math
import pathlib

import decoder_jax  # first: it sets jax to one thread
import jax
import jax.numpy as jnp
import numpy as np

import corpus
from reference import checkpoint, quantised, tokenizer
from reference.decoder import Decoder, Session, generate

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "python3 golden/model_card.py"
EXACT_WINDOWS = 4
SAMPLE_COUNT = 16
SAMPLE_TEMPERATURE_PERCENT = 70
SHOWN_SAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the card says about one of the two models."""

    option: str
    directory: str
    title: str
    architecture: str
    token: str
    neurons: str
    prompt: str
    sample_tokens: int  # with the prompt


KINDS = {
    "opt": Kind(
        option="",
        directory="model",
        title="a small byte-level OPT",
        architecture="OPT decoder (pre-LN, ReLU, learned positions, tied head, biases) with a ReLU before QKV",
        token="byte",
        neurons="FFN",
        prompt="The ",
        sample_tokens=256,
    ),
    "llama": Kind(
        option=" --model llama",
        directory="model-llama",
        title="a small LLaMA over sub-word tokens",
        architecture="LLaMA decoder (RMSNorm, rotary positions, grouped queries, ReGLU, tied head, no biases) "
        "with a ReLU before QKV",
        token="token",
        neurons="gate",
        prompt="The",
        sample_tokens=100,
    ),
}


class Bytes:
    """The tokens of a model without a tokenizer.json."""

    def encode(self, text):
        return list(text.encode("utf-8"))

    def decode(self, ids):
        return bytes(ids)


class Model:
    """A checkpoint, what encodes text for it, and the held-out text in its tokens."""

    def __init__(self, directory, held_out):
        self.config, self.tensors = checkpoint.load(directory)
        self.codec = tokenizer.load(directory) if (directory / "tokenizer.json").exists() else Bytes()
        self.parameters = in_float32(self.tensors)
        spelled = np.array([len(self.codec.decode([token])) for token in range(self.config["vocab_size"])])
        ids = np.array(self.codec.encode(held_out.decode("utf-8")), np.int32)
        self.windows = windows(ids, self.config["max_position_embeddings"])
        self.window_bytes = spelled[self.windows[:, 1:]].sum(1)

    def window_bits(self, parameters=None):
        """Bits of each window in float32, with the model's parameters or others."""
        parameters = parameters or self.parameters
        loss = jax.jit(lambda rows: decoder_jax.loss_nats(parameters, rows[:, :-1], rows[:, 1:], self.config))
        nats = np.array([float(loss(row[None])) for row in self.windows])
        return nats * (self.windows.shape[1] - 1) / math.log(2)

    def exact_window_bits(self, decoder, count):
        """Bits of the first windows together from the logits of the exact FP16 numerics."""
        total = 0.0
        for row in self.windows[:count]:
            session = Session(decoder)
            for token, following in zip(row[:-1].tolist(), row[1:].tolist()):
                logits = session.step(token).view(np.float16).astype(np.float64)
                total += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[following]
        return total / math.log(2)


def in_float32(tensors):
    """The tensors as jax computes with them."""
    return {name: jnp.asarray(value, jnp.float32) for name, value in tensors.items()}


def windows(ids, length):
    """[windows x (length + 1)] tokens: neighbours share one token, so that every token but the first is predicted once."""
    count = (len(ids) - 1) // length
    return ids[np.arange(count)[:, None] * length + np.arange(length + 1)]


class Activity:
    """Counts zeros, neighbours' common active neurons and the largest magnitudes over several batches."""

    def __init__(self, length):
        self.length = length
        self.sums = {}
        self.ever = {}
        self.largest = {}

    def __call__(self, kind, layer, values):
        values = np.asarray(values)
        self.largest[kind] = max(self.largest.get(kind, 0.0), float(np.abs(values).max()))
        if kind in ("qkv_input", "ffn"):
            active = (values != 0).reshape(-1, self.length, values.shape[-1])
            both = (active[:, 1:] & active[:, :-1]).sum()
            counts = np.array([active.size - active.sum(), active.size, both, active[:, 1:].sum()], float)
            self.sums[kind, layer] = self.sums.get((kind, layer), 0) + counts
            self.ever[kind, layer] = self.ever.get((kind, layer), False) | active.any((0, 1))

    def zeros_percent(self, kind, layer):
        """Share of zeros among all values."""
        zeros, size, _, _ = self.sums[kind, layer]
        return 100 * zeros / size

    def overlap_percent(self, kind, layer):
        """Share of a token's active values that were active at the token before."""
        _, _, both, active = self.sums[kind, layer]
        return 100 * both / active

    def never_active(self, kind, layer):
        """How many of a layer's values were zero throughout."""
        return int((~self.ever[kind, layer]).sum())


def activity(model):
    """Activity over all windows."""
    seen = Activity(model.windows.shape[1] - 1)
    for rows in np.array_split(model.windows, max(1, len(model.windows) // 16)):
        logits = decoder_jax.forward(model.parameters, jnp.asarray(rows[:, :-1]), model.config, observe=seen)
        seen("logits", None, logits)
    return seen


def sample_texts(kind, decoder, codec):
    """Texts of `sample_tokens` tokens, one per seed."""
    start = codec.encode(kind.prompt)
    count = kind.sample_tokens - len(start)
    return [
        codec.decode(start + generate(decoder, start, count, SAMPLE_TEMPERATURE_PERCENT, seed, lambda *_: None))
        for seed in range(1, SAMPLE_COUNT + 1)
    ]


def known_words_percent(texts, known):
    """Share of words in `known`; the last word of a text may be cut off and does not count."""
    found = [word for text in texts for word in corpus.words(text)[:-1]]
    return 100 * sum(word in known for word in found) / len(found)


def quantisation(kind, model, bits):
    """`quantised.json`: `bits` per byte of the held-out text, those with INT8 and INT4 weights, and the errors of these weights."""
    formats = [weight_format("fp16", bits, bits)]
    for weights in ("int8", "int4"):
        tensors = quantised.model(model.config, model.tensors, weights)
        changed = [name for name in tensors if tensors[name] is not model.tensors[name]]
        exact = joined(model.tensors, changed)
        errors = np.abs(joined(tensors, changed) - exact)
        total = model.window_bits(in_float32(tensors)).sum()
        formats.append(weight_format(weights, total / model.window_bytes.sum(), bits))
        formats[-1] |= {"largest_error": three_digits(errors.max()), "mean_error": three_digits(errors.mean())}
    return {
        "generated_by": COMMAND + kind.option,
        "contract": "docs/numerics.md",
        "packages": {"jax": jax.__version__, "numpy": np.__version__},
        "held_out_bytes": int(model.window_bytes.sum()),
        "quantised_weights": exact.size,
        "largest_weight": three_digits(np.abs(exact).max()),
        "mean_weight": three_digits(np.abs(exact).mean()),
        "formats": formats,
    }


def joined(tensors, names):
    """All elements of the named tensors."""
    return np.concatenate([tensors[name].astype(np.float64).ravel() for name in names])


def weight_format(weights, bits, fp16_bits):
    """What the held-out text says about a format of weights."""
    return {
        "weights": weights,
        "bits_per_byte": round(float(bits), 4),
        "perplexity_per_byte": round(float(2**bits), 4),
        "change_percent": round(float(100 * (2 ** (bits - fp16_bits) - 1)), 2) + 0.0,
    }


def three_digits(value):
    """Three significant digits."""
    return float(f"{value:.3g}")


def format_rows(formats):
    """The rows of the table of weight formats."""
    return "\n".join(
        f"| {row['weights'].upper()} | {row['bits_per_byte']:.4f} | {row['perplexity_per_byte']:.4f} "
        f"| {row['change_percent']:.2f} | {row.get('largest_error', 0):.3g} | {row.get('mean_error', 0):.3g} |"
        for row in formats
    )


def layer_rows(seen, layers):
    """The rows of the sparsity table."""
    return "\n".join(
        f"| {layer} | {seen.zeros_percent('ffn', layer):.1f} | {seen.overlap_percent('ffn', layer):.1f} "
        f"| {seen.zeros_percent('qkv_input', layer):.1f} | {seen.overlap_percent('qkv_input', layer):.1f} |"
        for layer in range(layers)
    )


def shape(config):
    """The shape of either model in words."""
    start = f"hidden {config['hidden_size']}, {config['num_attention_heads']} heads"
    layers, context = config["num_hidden_layers"], config["max_position_embeddings"]
    if config["model_type"] == "opt":
        return f"{start}, {layers} layers, FFN {config['ffn_dim']}, context {context} bytes, vocabulary 256 (bytes)"
    return (
        f"{start} of width {config['head_dim']} and {config['num_key_value_heads']} of keys and values, {layers} layers, "
        f"FFN {config['intermediate_size']}, context {context} tokens, "
        f"vocabulary {config['vocab_size']:,} (256 bytes and {config['vocab_size'] - 256} merges, no special tokens)"
    )


def llama_rows(figures):
    """Rows of the first table that only the LLaMA has."""
    seen, opt = figures["activity"], figures["opt_bits"]
    dead = ", ".join(str(seen.never_active("ffn", layer)) for layer in range(figures["layers"]))
    return (
        f"| the byte-level OPT of `golden/model/` on this text | {opt:.4f} bits/byte (perplexity per byte {2 ** opt:.3f}) |\n"
        f"| a token of the held-out text | {figures['held_out'] / figures['predicted']:.2f} bytes on average; "
        f"perplexity per token {2 ** (figures['total_bits'] / figures['predicted']):.1f} |\n"
        f"| gates zero at every token | {dead} of the layers' neurons |\n"
    )


def overlap_remark(kind, figures):
    """What the table's overlap means for the simulator."""
    if kind.token == "byte":
        return (
            "Neighbouring bytes share fewer active neurons than the 90 % that is reported for neighbouring words of large "
            "models: what rests on\nthat figure needs synthetic traces, not this model."
        )
    seen = figures["activity"]
    overlaps = [seen.overlap_percent("ffn", layer) for layer in range(figures["layers"])]
    return (
        f"Of a token's active gates, {min(overlaps):.0f} to {max(overlaps):.0f} % were active at the token before; for "
        "neighbouring words of large models 90 % is reported.\nWhat rests on that figure needs synthetic traces, not this model."
    )


def regularisation(training):
    """A row on dropout and the penalty on the gates, if there were any."""
    if not training.get("dropout") and not training.get("gate_penalty"):
        return ""
    return (
        f"| regularisation | dropout {training['dropout']} on the embedding and on each addition to the residual stream; "
        f"the loss has {training['gate_penalty']} x the sum of the layers' mean gates added |\n"
    )


def card(kind, config, training, figures):
    """The text of the model card."""
    stored = figures["quantised"]
    texts = [text.decode("utf-8", "replace") for text in figures["texts"][:SHOWN_SAMPLES]]
    shown = "\n\n".join("> " + text.replace("\n", "\n> ") for text in texts)
    seen, bits = figures["activity"], figures["bits"]
    largest = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in sorted(seen.largest.items()))
    packages = ", ".join(f"{name} {version}" for name, version in training["packages"].items())
    lengths = ", ".join(f"{length} ({share:.0%})" for length, share in training["window_lengths_and_shares"])
    of_tokens = f" ({training['train_tokens']:,} tokens)" if kind.token == "token" else ""
    return f"""# Model card: {kind.title}

Written by `{COMMAND}{kind.option}`. The model exists to run the whole simulated system end to end on \
weights that
were trained, with the sparsity that training gives; it knows nothing beyond the spelling and the manner of its text.

| | |
| --- | --- |
| architecture | {kind.architecture} |
| shape | {shape(config)} |
| parameters | {figures["parameters"]:,} (FP16, {figures["file_bytes"]:,} bytes) |
| held-out bits/byte | {bits:.4f} (perplexity per byte {2 ** bits:.3f}); {figures["held_out"]:,} bytes in \
separate windows of {config["max_position_embeddings"]}{" tokens" if of_tokens else ""}, FP16 weights, float32 arithmetic |
| the same in the exact FP16 numerics | {figures["exact"]:.4f} on the first {EXACT_WINDOWS} windows, where float32 has \
{figures["first_bits"]:.4f} |
{llama_rows(figures) if of_tokens else ""}| words in the dictionary | {figures["dictionary"]:.1f} % of the words sampled at \
temperature 0.7 are in Debian's \
`{corpus.WORDS_PACKAGE}`, {figures["dictionary_or_text"]:.1f} % there or in the training text; \
{figures["held_out_dictionary"]:.1f} % of the held-out text's own words are in `{corpus.WORDS_PACKAGE}` |
| largest magnitudes | {largest} (FP16 ends at 65504) |

## Sparsity on the held-out text

Zeros are the share of values that are exactly zero; overlap is the share of a {kind.token}'s active values that were also \
active at
the {kind.token} before.

| layer | {kind.neurons} zeros % | {kind.neurons} overlap % | QKV-input zeros % | QKV-input overlap % |
| --- | --- | --- | --- | --- |
{layer_rows(seen, config["num_hidden_layers"])}

{overlap_remark(kind, figures)}

## INT8 and INT4 weights

The matrices of the decoder layers, {stored["quantised_weights"]:,} weights, quantised as
[docs/numerics.md](../../docs/numerics.md#int4-and-int8-weights) says and dequantised again; the same held-out text, float32
arithmetic. Errors are absolute; the largest magnitude of these weights is {stored["largest_weight"]:.3g}, the mean \
{stored["mean_weight"]:.3g}.
The figures are also in `quantised.json`.

| weights | bits/byte | perplexity per byte | change % | largest error | mean error |
| --- | ---: | ---: | ---: | ---: | ---: |
{format_rows(stored["formats"])}

## Training

| | |
| --- | --- |
| text | six novels of Jane Austen (public domain) from Debian's package `{corpus.NOVELS_PACKAGE}` (MIT licence, \
(c) 2016-2017 Julia Silge); {training["train_bytes"]:,} bytes{of_tokens}, plus the last {corpus.HELD_OUT_FRACTION:.1%} of each \
novel held out |
| command | `{training["command"]}` |
| seed, steps | {training["seed"]}, {training["steps"]} |
| {kind.token}s per step | {training["tokens_per_step"]} in windows of {lengths} |
| optimizer | {training["optimizer"]} |
{regularisation(training)}| time | {training["minutes"]} minutes on one core of an x86-64 server |
| packages | {packages} |

The steps, the windows and the initial weights are fixed by the seed. The last bits of the weights also depend on the
processor and on the version of jax, so the checkpoint is stored rather than rebuilt. The loss curve is in `training.json`.

## Samples

Temperature 0.7, prompt `{kind.prompt}`, seeds 1 to {SHOWN_SAMPLES}, in the exact FP16 numerics.

{shown}
"""


def measure(kind, model, cache, held_out, train_text):
    """The card's figures, without those of files."""
    decoder = Decoder(model.config, model.tensors)
    texts = sample_texts(kind, decoder, model.codec)
    dictionary = corpus.dictionary(cache)
    bits, spelled = model.window_bits(), model.window_bytes
    return {
        "parameters": sum(value.size for value in model.tensors.values()),
        "layers": model.config["num_hidden_layers"],
        "held_out": spelled.sum(),
        "predicted": model.windows[:, 1:].size,
        "total_bits": bits.sum(),
        "bits": bits.sum() / spelled.sum(),
        "first_bits": bits[:EXACT_WINDOWS].sum() / spelled[:EXACT_WINDOWS].sum(),
        "exact": model.exact_window_bits(decoder, EXACT_WINDOWS) / spelled[:EXACT_WINDOWS].sum(),
        "activity": activity(model),
        "texts": texts,
        "dictionary": known_words_percent(texts, dictionary),
        "dictionary_or_text": known_words_percent(texts, dictionary | set(corpus.words(train_text))),
        "held_out_dictionary": known_words_percent([held_out], dictionary),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=KINDS, default="opt")
    parser.add_argument("--directory", type=pathlib.Path, help="default: the model's directory")
    parser.add_argument("--cache", type=pathlib.Path, default=HERE / ".cache", help="where packages are extracted")
    arguments = parser.parse_args()
    kind = KINDS[arguments.model]
    directory = arguments.directory or HERE / kind.directory
    training = json.loads((directory / "training.json").read_text(encoding="utf-8"))
    train_text, held_out = corpus.split(corpus.novels(arguments.cache))
    model = Model(directory, held_out)
    figures = measure(kind, model, arguments.cache, held_out, train_text)
    figures["file_bytes"] = (directory / "model.safetensors").stat().st_size
    figures["quantised"] = quantisation(kind, model, figures["bits"])
    if arguments.model == "llama":
        opt = Model(HERE / KINDS["opt"].directory, held_out)
        figures["opt_bits"] = opt.window_bits().sum() / opt.window_bytes.sum()
    text = card(kind, model.config, training, figures)
    (directory / "README.md").write_text(text, encoding="utf-8")
    (directory / "quantised.json").write_text(json.dumps(figures["quantised"], indent=2) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
