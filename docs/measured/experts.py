#!/usr/bin/env python3
"""Mixtures of experts on four NDP-DIMMs and a GPU under three policies; with --json, as one object.

    python3 docs/measured/experts.py [--json]

The traces are synthetic. Two of 24 tokens run on the machine, the others are interpolated. It takes some minutes.
"""

import json
import pathlib
import sys
import tempfile

from chat import ndp

MODELS = ["mixtral-8x7b", "qwen3-30b-a3b"]
FORMATS = ["fp16", "int4"]
TEXTS = ["--tokens", 48, "--prompt-tokens", 24, "--sequences", 3]


def main():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            trace = pathlib.Path(folder) / f"{model}.trace"
            ndp("trace", "synth", "--llm", model, *TEXTS, "--out", trace)
            for weights in FORMATS:
                found = ndp("evaluate", "--llm", model, "--weights", weights, "--trace", trace, "--dimms", 4, "--policy", "random,partition,hermes",
                            "--exact", 2, "--links", "bandwidth")
                rates = {of["policy"]: of["tokens_per_second"] for of in found["policies"]}
                moved = found["policies"][-1]
                rows.append({
                    "model": model, "weights": weights, "active": found["density"], "tokens_per_second": rates,
                    "to_the_gpu_bytes_per_token": moved["upload_bytes_per_token"], "moved_bytes_per_token": moved["migration_bytes_per_token"],
                })
                print(rows[-1], file=sys.stderr, flush=True)
    print(json.dumps(rows) if "--json" in sys.argv[1:] else json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
