#!/usr/bin/env python3
"""Points at which `ndp compare` and `ndp evaluate` have to print the same rates; with --json, each point with the formulas' rates beside them.

    python3 docs/measured/points.py [--layers] [--json] [NAME...]

A point is a model, a format of weights, a batch and a context. A trace is drawn for each. `compare` draws the same one itself, or reads
the file where the model has no ReLU. Rates are those after the prompt. Exit code 1 if a rate differs. It takes about two
hours.

With --layers, `ndp compare` and `ndp layer` have to take the same cycles for each operation of a layer: a model of one layer with the
sizes of the point, all neurons active, on the DIMMs alone. It takes about an hour beside other work.
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
# Of a layer: those of the system `hermes`, and the most weights that a matrix of `ndp layer` may have.
DIMMS, MOST_WEIGHTS = 8, 1 << 28
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


def layer(point):
    model, weights, batch, context = point
    sizes = json.loads(ndp("compare", "--llm", model, "--weights", weights, "--formula", "--policies", "hermes-base", "--json"))["model"]
    hidden, heads, kv_heads = (sizes[key] for key in ("hidden", "heads", "kv_heads"))
    # More weights than a matrix of `layer` may have: a part of them takes a part of the time in both.
    ffn = min(sizes["ffn"], MOST_WEIGHTS // hidden // DIMMS * DIMMS)
    gated = sizes["mlp_matrices"] == 3
    with tempfile.TemporaryDirectory() as folder:
        file, system = f"{folder}/layer.toml", f"{folder}/dimms.toml"
        pathlib.Path(file).write_text(
            f"name = 'layer'\nlayers = 1\nhidden = {hidden}\nheads = {heads}\nkv_heads = {kv_heads}\nffn = {ffn}\n"
            f"mlp_matrices = {3 if gated else 2}\nactivation = 'relu'\nvocabulary = 1\ntied_embeddings = true\nbiased = true\n")
        preset = (ROOT / "rust/config/presets/systems/hermes.toml").read_text()
        assert "memory_gb = 24.0" in preset
        # The GPU has room for the projection after attention, and not for a layer's neurons.
        gigabytes = 0.5 + 1.2 * hidden * hidden * {"fp16": 2, "int8": 1.0625, "int4": 0.5625}[weights] / 1e9
        pathlib.Path(system).write_text(preset.replace("memory_gb = 24.0", f"memory_gb = {gigabytes:.6f}"))
        asked = ["--weights", weights, "--links", "rtl", "--json"]
        compared = json.loads(ndp("compare", "--llm", file, "--system", system, *asked, "--policies", "hermes-base", "--batches", batch,
                                  "--prompt", context - 1, "--output", 1, "--exact", 1, "--every-program", "--assume", "stated"))
        alone = json.loads(ndp("layer", "--backend", "cycles", "--dimms", DIMMS, *asked, "--batch", batch, "--context", context, "--active", 1,
                               "--activity", "oracle", "--hidden", hidden, "--heads", heads, "--kv-heads", kv_heads, "--ffn", ffn,
                               *(["--gated"] if gated else [])))["rows"][0]["operation_cycles"]
    cycles = {row["name"]: row["cycles"] for row in compared["cycles"]}
    return {"name": name(point), "ffn": ffn, "cycles": alone, "equal": cycles == alone, "compare": None if cycles == alone else cycles}


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    points = [point for point in POINTS if not words or name(point) in words]
    of_layers = "--layers" in sys.argv
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = []
        for point in pool.map(layer if of_layers else measure, points):
            found.append(point)
            numbers = "{} cycles".format(sum(point["cycles"].values())) if of_layers else "{compare:.3f} {evaluate:.3f} tokens/s".format(**point)
            print(f"{point['name']}: {numbers}, {'equal' if point['equal'] else 'DIFFERENT'}", file=sys.stderr, flush=True)
    if "--json" in sys.argv:
        asked = {"dimms": DIMMS} if of_layers else {"density": float(DENSITY), "generated": GENERATED, "exact": EXACT}
        print(json.dumps({**asked, "points": found}))
    sys.exit(not all(point["equal"] for point in found))


if __name__ == "__main__":
    main()
