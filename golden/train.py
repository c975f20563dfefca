"""Trains the byte-level OPT-style decoder of `golden/model/` on one CPU core and stores it as an FP16 checkpoint.

The text is fetched as described in `corpus.py`. The step count is fixed, never the time, so the schedule does not depend
on the machine. Measuring the result and writing its model card is left to `model_card.py`.
"""

import argparse
import json
import pathlib
import time

import opt_jax  # first: it sets jax to one thread
import jax
import numpy as np
import optax

import corpus
from reference import checkpoint

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "ffn_dim": 768,
    "vocab_size": 256,
    "max_position_embeddings": 256,
    "word_embed_proj_dim": 192,
    "activation_function": "relu",
    "do_layer_norm_before": True,
    "layer_norm_elementwise_affine": True,
    "enable_bias": True,
    "tie_word_embeddings": True,
    "init_std": 0.05,
    "torch_dtype": "float16",
    "relu_before_qkv": True,
}
PEAK_LEARNING_RATE = 2e-3
WARM_UP_STEPS = 200
WEIGHT_DECAY = 0.05
CLIP_NORM = 1.0
TOKENS_PER_STEP = 1024
# (window length, share of the steps). Short windows first: at the same tokens per step, 300 steps reached 2.93 bits/byte with
# windows of 64 and 3.48, little more than pairs of bytes, with windows of 256 (one trial each). They are laid at random
# positions so that all position embeddings are trained.
PHASES = ((64, 0.5), (128, 0.25), (256, 0.25))
REPORT_EVERY = 200


def optimizer(steps):
    """AdamW with linear warm-up and a cosine to zero; weight decay on matrices only."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, PEAK_LEARNING_RATE, WARM_UP_STEPS, steps, 0.0)
    matrices = lambda parameters: {name: value.ndim == 2 for name, value in parameters.items()}
    return optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.adamw(schedule, b1=0.9, b2=0.98, weight_decay=WEIGHT_DECAY, mask=matrices),
    )


def window_lengths(steps):
    """The window length of each step."""
    lengths = []
    for length, share in PHASES:
        lengths += [length] * round(steps * share)
    return (lengths + [PHASES[-1][0]] * steps)[:steps]


def train(text, config, steps, seed):
    """(parameters, loss curve): AdamW steps on random windows of the text."""
    data = np.frombuffer(text, np.uint8)
    rng = np.random.default_rng(seed)
    parameters = opt_jax.initial_parameters(config, seed)
    rule = optimizer(steps)
    state = rule.init(parameters)

    @jax.jit
    def step(parameters, state, windows, first):
        loss = lambda p: opt_jax.loss_nats(p, windows[:, :-1], windows[:, 1:], config, first)
        value, gradient = jax.value_and_grad(loss)(parameters)
        update, state = rule.update(gradient, state, parameters)
        return optax.apply_updates(parameters, update), state, value

    curve, recent, began = [], [], time.monotonic()
    for number, length in enumerate(window_lengths(steps), 1):
        starts = rng.integers(0, len(data) - length, TOKENS_PER_STEP // length)
        first = rng.integers(0, config["max_position_embeddings"] - length + 1)
        windows = data[starts[:, None] + np.arange(length + 1)].astype(np.int32)
        parameters, state, value = step(parameters, state, windows, first)
        recent.append(float(value))
        if number % REPORT_EVERY == 0 or number == steps:
            bits = float(np.mean(recent) / np.log(2))
            curve.append([number, round(bits, 4)])
            print(f"step {number}/{steps}: {bits:.4f} bits/byte, {time.monotonic() - began:.0f} s", flush=True)
            recent = []
    return parameters, curve


def store(directory, parameters, config, training):
    """Writes model.safetensors (rounded to FP16), config.json and training.json."""
    tensors = {name: np.asarray(value).astype(np.float16) for name, value in parameters.items()}
    bad = [name for name, value in tensors.items() if not np.isfinite(value).all()]
    if bad:
        raise SystemExit(f"not finite in FP16: {bad}")
    directory.mkdir(parents=True, exist_ok=True)
    checkpoint.write_safetensors(
        directory / "model.safetensors", tensors, {"format": "pt", "generated_by": training["command"]}
    )
    for name, content in (("config.json", config), ("training.json", training)):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--cache", type=pathlib.Path, default=HERE / ".cache", help="where packages are extracted")
    arguments = parser.parse_args()
    text, held_out = corpus.split(corpus.novels(arguments.cache))
    print(f"{len(text)} bytes to train on, {len(held_out)} held out", flush=True)
    began = time.monotonic()
    parameters, curve = train(text, CONFIG, arguments.steps, arguments.seed)
    training = {
        "command": f"python3 golden/train.py --steps {arguments.steps} --seed {arguments.seed}",
        "packages": {"jax": jax.__version__, "optax": optax.__version__, "numpy": np.__version__},
        "seed": arguments.seed,
        "steps": arguments.steps,
        "tokens_per_step": TOKENS_PER_STEP,
        "window_lengths_and_shares": PHASES,
        "optimizer": f"AdamW, peak {PEAK_LEARNING_RATE}, warm-up {WARM_UP_STEPS}, cosine to 0, decay {WEIGHT_DECAY}",
        "train_bytes": len(text),
        "held_out_bytes": len(held_out),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "loss_curve_bits_per_byte": curve,
    }
    store(arguments.out, parameters, CONFIG, training)


if __name__ == "__main__":
    main()
