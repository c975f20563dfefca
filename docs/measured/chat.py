#!/usr/bin/env python3
"""Answers of SmolLM2-135M-Instruct on each machine; with --json, as one object. Needs `ndp model get smollm2`.

    python3 docs/measured/chat.py [--json]

The cycle model and the device model compute the answers. Exit code 1 if an output is wrong or an answer differs from what is expected.
It takes about half an hour.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NDP = os.environ.get("NDP", str(ROOT / "target/release/ndp"))
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
TEXT = "/usr/share/common-licenses/GPL-3"
FORMATS = ["fp16", "int8", "int4"]
MACHINES = {"1 DIMM": [], "4 DIMMs": ["--dimms", "4", "--load", "backdoor"]}
PIM = ["--memory", "librapim", "--channels", "16", "--hardware", "librapim", "--channel", "model", "--temperature", "0"]


def ndp(*words):
    done = subprocess.run([NDP, *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"ndp {' '.join(map(str, words))}: {done.stderr}{done.stdout[-2000:]}")
    return json.loads(done.stdout)


def main():
    answers, prompt, tokens = [], None, None
    for machine, options in MACHINES.items():
        for weights in FORMATS:
            found = ndp("generate", "--model", "smollm2", "--backend", "cycles", "--tokens", 24, "--weights", weights,
                        "--chat", QUESTION, *options)
            prompt, tokens = found["prompt"], tokens or found["tokens"]
            keys = ["text", "tokens", "cycles", "cycles_per_token", "system_tokens_per_second", "outputs_checked"]
            answers.append({"machine": machine, "weights": weights} | {key: found[key] for key in keys})
            print(answers[-1], file=sys.stderr, flush=True)
    found = ndp("generate", "pim", "--model", "smollm2", *PIM, "--mode", "serial", "--mode", "dex+dbo", "--tokens", tokens,
                "--prompt", prompt)
    for mode in found["modes"]:
        answers.append({
            "machine": f"HBM-PIM, {mode['mode']}", "weights": "fp16", "text": found["texts"][0].removeprefix(prompt), "tokens": mode["tokens"],
            "clocks": mode["clocks"], "system_tokens_per_second": mode["tokens_per_second"], "outputs_checked": mode["outputs_checked"],
        })
    perplexity = ndp("model", "perplexity", "--model", "smollm2", "--text", TEXT, "--tokens", 1024, "--context", 256)["formats"]
    wrong = [answer for answer in answers if answer["text"] != ANSWER]
    result = {"question": QUESTION, "answers": answers, "perplexity": perplexity}
    if "--json" in sys.argv[1:]:
        print(json.dumps(result))
    else:
        for answer in answers:
            print(answer)
        print(perplexity)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
