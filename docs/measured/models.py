#!/usr/bin/env python3
"""Tokens per second of eleven public models on four NDP-DIMMs and a GPU; with --json, as one object.

    python3 docs/measured/models.py [--json] [MODEL...]

Each model in FP16 and INT4, for batches of 1 and 8, with all neurons and with thresholds that leave half of the MLP neurons active. Kept
results of `ndp compare` make a second run short.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NDP = os.environ.get("NDP", str(ROOT / "target/release/ndp"))
SYSTEM = ROOT / "rust/config/presets/systems/hermes.toml"
MODELS = ["llama3.2-1b", "llama3.2-3b", "phi3-mini", "qwen2.5-7b", "mistral-7b", "llama3.1-8b", "qwen3-8b", "gemma-2-9b", "qwen3-30b-a3b",
          "mixtral-8x7b", "llama3.1-70b"]
# Tokens of the prompt and of the output, and how many of the latter run on the machine.
LENGTHS = ["--prompt", 128, "--output", 128, "--exact", 2]


def compare(*words):
    done = subprocess.run([NDP, "compare", *map(str, words), "--policies", "hermes", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}


def main():
    wanted = [word for word in sys.argv[1:] if word != "--json"] or MODELS
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        system = pathlib.Path(folder) / "hermes-4.toml"
        text = SYSTEM.read_text()
        assert text.count("count = 8") == 1
        system.write_text(text.replace("count = 8", "count = 4").replace('name = "hermes"', 'name = "hermes-4"'))
        for model in wanted:
            for weights in ["fp16", "int4"]:
                for density in [None, 0.5]:
                    thresholds = [] if density is None else ["--density", density]
                    found = compare("--llm", model, "--system", system, "--weights", weights, "--batches", "1,8", *LENGTHS, *thresholds)
                    of = {"model": model, "weights": weights, "density": density}
                    for entry in found.get("entries", []):
                        rows.append(of | {key: entry[key] for key in ("batch", "tokens_per_second", "decode_tokens_per_second")})
                    for batch, why in [(refused["batch"], refused["reason"]) for refused in found.get("refused", [])]:
                        rows.append(of | {"batch": batch, "refused": why})
                    if "error" in found:
                        rows.append(of | {"batch": None, "refused": found["error"]})
                    print(rows[-1], file=sys.stderr, flush=True)
    print(json.dumps(rows) if "--json" in sys.argv[1:] else json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
