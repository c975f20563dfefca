#!/usr/bin/env python3
"""Points at which `ndp compare` and `ndp evaluate` have to print the same rates; with --json, each point with the formulas' rates beside them.

    python3 docs/measured/points.py [--json] [NAME...]

A point is a model, a format of weights, a batch and a context. A trace is drawn for each. `compare` draws the same one itself, or reads
the file where the model has no ReLU. Rates are those after the prompt. Exit code 1 if a rate differs. It takes about an
hour.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NDP = os.environ.get("NDP", str(ROOT / "target/release/ndp"))
# Tokens of a prompt that have activity, as in `compare`.
SEEN = 128
GENERATED, EXACT = 16, 2
# Active share of models without ReLU, which have none of their own.
DENSITY = "0.4"
# Model, format, batch, context.
POINTS = [
    ("relu-llama2-7b", "fp16", 1, 128), ("relu-llama2-7b", "fp16", 16, 128), ("relu-llama2-7b", "int4", 1, 8192),
    ("relu-llama2-7b", "int8", 4, 1024), ("relu-llama2-13b", "fp16", 1, 128), ("relu-llama2-13b", "fp16", 4, 2048),
    ("relu-llama2-13b", "int4", 16, 512), ("opt-13b", "fp16", 1, 128), ("opt-13b", "fp16", 8, 1024), ("opt-13b", "int8", 1, 2048),
    ("opt-13b", "int4", 2, 256), ("opt-30b", "fp16", 1, 128), ("opt-30b", "fp16", 2, 1024), ("opt-30b", "int8", 8, 512),
    ("opt-66b", "fp16", 1, 128), ("opt-66b", "int8", 1, 2048), ("opt-66b", "int4", 4, 128), ("opt-175b", "int4", 1, 128),
    ("opt-175b", "int4", 1, 2048), ("opt-175b", "int8", 1, 1024), ("relu-llama2-70b", "fp16", 1, 128),
    ("relu-llama2-70b", "fp16", 1, 8192), ("relu-llama2-70b", "int4", 1, 4096), ("relu-llama2-70b", "int8", 2, 1024),
    ("llama2-7b", "fp16", 1, 128), ("llama2-7b", "int4", 1, 8192), ("llama2-7b", "int8", 8, 1024), ("llama3-70b", "fp16", 1, 128),
    ("llama3-70b", "int4", 1, 8192), ("llama3-70b", "int8", 2, 2048),
]


def name(point):
    return "{} {} b{} c{}".format(*point)


def ndp(*words):
    done = subprocess.run([NDP, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ndp {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def measure(point):
    model, weights, batch, context = point
    relu = not model.startswith("llama")
    prompt = min(context, SEEN)
    earlier = context - prompt
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/{model}.trace"
        density = [] if relu else ["--density", DENSITY]
        ndp("trace", "synth", "--llm", model, "--tokens", prompt + GENERATED, "--prompt-tokens", prompt, "--sequences", batch + 1,
            *density, "--out", trace)
        of = ["--llm", model, "--weights", weights, "--exact", EXACT, "--json"]
        texts = ["--prompt", context, "--output", GENERATED] if relu else ["--trace", trace, "--earlier", earlier]
        compared = json.loads(ndp("compare", *of, "--batches", batch, "--policies", "hermes", *texts))["entries"][0]
        evaluated = json.loads(ndp("evaluate", *of, "--batch", batch, "--policy", "hermes", "--trace", trace, "--earlier", earlier, "--fast",
                                   "--activity", "predicted", "--table-tokens", SEEN, "--assume", "hermes"))["policies"][0]
    base = None
    # A run of a larger model takes many minutes.
    if batch == 1 and context in (128, 8192) and not model.endswith(("70b", "175b")):
        base = json.loads(ndp("compare", *of, "--policies", "hermes-base", "--prompt", context, "--output", GENERATED))["entries"][0]
    formula = json.loads(ndp("compare", *of[:4], "--json", "--formula", "--batches", batch, "--policies", "hermes,hermes-base", "--prompt",
                             context, "--output", GENERATED))["entries"]
    rates = {entry["policy"]: entry["decode_tokens_per_second"] for entry in formula}
    return {
        "name": name(point), "model": model, "weights": weights, "batch": batch, "context": context,
        "compare": compared["decode_tokens_per_second"], "evaluate": evaluated["tokens_per_second"],
        "equal": compared["decode_tokens_per_second"] == evaluated["tokens_per_second"],
        "formula": rates["hermes"] if relu else None, "base": base and base["decode_tokens_per_second"],
        "base_formula": base and rates["hermes-base"],
    }


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    points = [point for point in POINTS if not words or name(point) in words]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = []
        for point in pool.map(measure, points):
            found.append(point)
            print("{name}: {compare:.3f} {evaluate:.3f} tokens/s, {}".format("equal" if point["equal"] else "DIFFERENT", **point),
                  file=sys.stderr, flush=True)
    if "--json" in sys.argv:
        print(json.dumps({"density": float(DENSITY), "generated": GENERATED, "exact": EXACT, "points": found}))
    sys.exit(not all(point["equal"] for point in found))


if __name__ == "__main__":
    main()
