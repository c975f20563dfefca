"""Measures the stored FP16 checkpoint and writes its model card, `golden/model/README.md`.

Bits per byte, sparsity and ranges come from float32 arithmetic on the whole held-out text; the exact FP16 numerics of
`reference/` are slower and are measured on its beginning, and they write the sample texts.
"""

import argparse
import json
import math
import pathlib

import opt_jax  # first: it sets jax to one thread
import jax
import jax.numpy as jnp
import numpy as np

import corpus
from reference import checkpoint, opt

HERE = pathlib.Path(__file__).resolve().parent
EXACT_WINDOWS = 4
SAMPLE_COUNT = 16
SAMPLE_TEMPERATURE_PERCENT = 70
SAMPLE_PROMPT = b"The "
SHOWN_SAMPLES = 3


def held_out_windows(text, length):
    """[windows x (length + 1)] tokens: neighbouring windows share one byte, so that every byte but the first is predicted once."""
    data = np.frombuffer(text, np.uint8).astype(np.int32)
    count = (len(data) - 1) // length
    return data[np.arange(count)[:, None] * length + np.arange(length + 1)]


def float_bits_per_byte(parameters, windows, config):
    """Bits per byte of each window in float32."""
    loss = jax.jit(lambda rows: opt_jax.loss_nats(parameters, rows[:, :-1], rows[:, 1:], config))
    return np.array([float(loss(row[None])) for row in windows]) / math.log(2)


def exact_bits_per_byte(decoder, windows):
    """Bits per byte from the logits of the exact FP16 numerics."""
    total = 0.0
    for row in windows:
        session = opt.Session(decoder)
        for token, following in zip(row[:-1].tolist(), row[1:].tolist()):
            logits = session.step(token).view(np.float16).astype(np.float64)
            total += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[following]
    return total / math.log(2) / (windows.shape[0] * (windows.shape[1] - 1))


class Activity:
    """Counts zeros, neighbours' common active neurons and the largest magnitudes over several batches."""

    def __init__(self, length):
        self.length = length
        self.sums = {}
        self.largest = {}

    def __call__(self, kind, layer, values):
        values = np.asarray(values)
        self.largest[kind] = max(self.largest.get(kind, 0.0), float(np.abs(values).max()))
        if kind in ("qkv_input", "ffn"):
            active = (values != 0).reshape(-1, self.length, values.shape[-1])
            both = (active[:, 1:] & active[:, :-1]).sum()
            counts = np.array([active.size - active.sum(), active.size, both, active[:, 1:].sum()], float)
            self.sums[kind, layer] = self.sums.get((kind, layer), 0) + counts

    def zeros_percent(self, kind, layer):
        """Share of zeros among all values."""
        zeros, size, _, _ = self.sums[kind, layer]
        return 100 * zeros / size

    def overlap_percent(self, kind, layer):
        """Share of a byte's active values that were active at the byte before."""
        _, _, both, active = self.sums[kind, layer]
        return 100 * both / active


def activity(parameters, windows, config):
    """Activity over all windows."""
    seen = Activity(windows.shape[1] - 1)
    for rows in np.array_split(windows, max(1, len(windows) // 16)):
        logits = opt_jax.forward(parameters, jnp.asarray(rows[:, :-1]), config, observe=seen)
        seen("logits", None, logits)
    return seen


def sample_texts(decoder):
    """Texts of the context's length, one per seed."""
    count = decoder.context - len(SAMPLE_PROMPT)
    return [
        SAMPLE_PROMPT + bytes(opt.generate(decoder, SAMPLE_PROMPT, count, SAMPLE_TEMPERATURE_PERCENT, seed, lambda *_: None))
        for seed in range(1, SAMPLE_COUNT + 1)
    ]


def known_words_percent(texts, known):
    """Share of words in `known`; the last word of a text may be cut off and does not count."""
    found = [word for text in texts for word in corpus.words(text)[:-1]]
    return 100 * sum(word in known for word in found) / len(found)


def layer_rows(seen, layers):
    """The rows of the sparsity table."""
    return "\n".join(
        f"| {layer} | {seen.zeros_percent('ffn', layer):.1f} | {seen.overlap_percent('ffn', layer):.1f} "
        f"| {seen.zeros_percent('qkv_input', layer):.1f} | {seen.overlap_percent('qkv_input', layer):.1f} |"
        for layer in range(layers)
    )


def card(config, training, figures):
    """The text of the model card."""
    shown = "\n\n".join(f"> {text.decode('utf-8', 'replace')}".replace("\n", "\n> ") for text in figures["texts"][:SHOWN_SAMPLES])
    seen, bits = figures["activity"], figures["bits"]
    largest = ", ".join(f"{kind.replace('_', ' ')} {value:.3g}" for kind, value in sorted(seen.largest.items()))
    packages = ", ".join(f"{name} {version}" for name, version in training["packages"].items())
    lengths = ", ".join(f"{length} ({share:.0%})" for length, share in training["window_lengths_and_shares"])
    return f"""# Model card: a small byte-level OPT

Written by `python3 golden/model_card.py`. The model exists to run the whole simulated system end to end on weights that
were trained, with the sparsity that training gives; it knows nothing beyond the spelling and the manner of its text.

| | |
| --- | --- |
| architecture | OPT decoder (pre-LN, ReLU, learned positions, tied head, biases) with a ReLU before QKV |
| shape | hidden {config["hidden_size"]}, {config["num_attention_heads"]} heads, {config["num_hidden_layers"]} layers, \
FFN {config["ffn_dim"]}, context {config["max_position_embeddings"]} bytes, vocabulary 256 (bytes) |
| parameters | {figures["parameters"]:,} (FP16, {figures["file_bytes"]:,} bytes) |
| held-out bits/byte | {bits.mean():.4f} (perplexity per byte {2 ** bits.mean():.3f}); {figures["held_out"]:,} bytes in \
separate windows of {config["max_position_embeddings"]}, FP16 weights, float32 arithmetic |
| the same in the exact FP16 numerics | {figures["exact"]:.4f} on the first {EXACT_WINDOWS} windows, where float32 has \
{bits[:EXACT_WINDOWS].mean():.4f} |
| words in the dictionary | {figures["dictionary"]:.1f} % of the words sampled at temperature 0.7 are in Debian's \
`{corpus.WORDS_PACKAGE}`, {figures["dictionary_or_text"]:.1f} % there or in the training text; \
{figures["held_out_dictionary"]:.1f} % of the held-out text's own words are in `{corpus.WORDS_PACKAGE}` |
| largest magnitudes | {largest} (FP16 ends at 65504) |

## Sparsity on the held-out text

Zeros are the share of values that are exactly zero; overlap is the share of a byte's active values that were also active at
the byte before.

| layer | FFN zeros % | FFN overlap % | QKV-input zeros % | QKV-input overlap % |
| --- | --- | --- | --- | --- |
{layer_rows(seen, config["num_hidden_layers"])}

Neighbouring bytes share fewer active neurons than the 90 % that is reported for neighbouring words of large models: what rests on
that figure needs synthetic traces, not this model.

## Training

| | |
| --- | --- |
| text | six novels of Jane Austen (public domain) from Debian's package `{corpus.NOVELS_PACKAGE}` (MIT licence, \
(c) 2016-2017 Julia Silge); {training["train_bytes"]:,} bytes, plus the last {corpus.HELD_OUT_FRACTION:.1%} of each novel held out |
| command | `{training["command"]}` |
| seed, steps | {training["seed"]}, {training["steps"]} |
| bytes per step | {training["tokens_per_step"]} in windows of {lengths} |
| optimizer | {training["optimizer"]} |
| time | {training["minutes"]} minutes on one core of an x86-64 server |
| packages | {packages} |

The steps, the windows and the initial weights are fixed by the seed. The last bits of the weights also depend on the
processor and on the version of jax, so the checkpoint is stored rather than rebuilt. The loss curve is in `training.json`.

## Samples

Temperature 0.7, prompt `{SAMPLE_PROMPT.decode()}`, seeds 1 to {SHOWN_SAMPLES}, in the exact FP16 numerics.

{shown}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--cache", type=pathlib.Path, default=HERE / ".cache", help="where packages are extracted")
    arguments = parser.parse_args()
    config, tensors = checkpoint.load(arguments.model)
    training = json.loads((arguments.model / "training.json").read_text(encoding="utf-8"))
    parameters = {name: jnp.asarray(value, jnp.float32) for name, value in tensors.items()}
    train_text, held_out = corpus.split(corpus.novels(arguments.cache))
    windows = held_out_windows(held_out, config["max_position_embeddings"])
    decoder = opt.Decoder(config, tensors)
    texts = sample_texts(decoder)
    dictionary = corpus.dictionary(arguments.cache)
    figures = {
        "parameters": sum(value.size for value in tensors.values()),
        "file_bytes": (arguments.model / "model.safetensors").stat().st_size,
        "held_out": windows.shape[0] * (windows.shape[1] - 1),
        "bits": float_bits_per_byte(parameters, windows, config),
        "exact": exact_bits_per_byte(decoder, windows[:EXACT_WINDOWS]),
        "activity": activity(parameters, windows, config),
        "texts": texts,
        "dictionary": known_words_percent(texts, dictionary),
        "dictionary_or_text": known_words_percent(texts, dictionary | set(corpus.words(train_text))),
        "held_out_dictionary": known_words_percent([held_out], dictionary),
    }
    text = card(config, training, figures)
    (arguments.model / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
