#!/usr/bin/env python3
"""Thresholds of SmolLM2-135M-Instruct: quality, speed and activity; with --json, as one object. Needs `ndp model get smollm2`.

    python3 docs/measured/thresholds.py [--json]

Thresholds are found on one text and measured on another. Every output of a machine is compared with software. It
takes about half an hour.
"""

import json
import pathlib
import sys
import tempfile

from chat import ndp

SHARES = [70, 50, 30]
FOUND_ON = "/usr/share/common-licenses/Apache-2.0"
MEASURED_ON = "/usr/share/common-licenses/GPL-3"
QUESTION = "What is the capital of France?"
STORIES = ["Once upon a time there was a king", "The three laws of thermodynamics say that", "To install the package, first", "Dear Sir or Madam,"]
DIMMS = ["--dimms", 4]
# Where a neuron lives, and whether it may move.
POLICIES = ["random", "partition", "hermes"]


def mlp_only(statistics, distance):
    """Similarity of tokens at a distance, of MLP neurons alone: those before attention are all active."""
    attention, active = 576, statistics["mlp"]["density"] * 1536
    return (statistics["similarity"][distance - 1] * (attention + active) - attention) / active


def main():
    model = ["--model", "smollm2"]
    found, answers, activity = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        files = {share: pathlib.Path(folder) / f"{share}.json" for share in SHARES}
        for share, file in files.items():
            ndp("model", "calibrate", *model, "--text", FOUND_ON, "--tokens", 512, "--share", share, "--out", file)
        listed = ",".join(map(str, files.values()))
        measured = ndp("model", "perplexity", *model, "--text", MEASURED_ON, "--tokens", 512, "--weights", "fp16", "--thresholds", listed)["formats"]
        for row in measured:
            share = next((share for share, file in files.items() if str(file) == row["thresholds"]), 100)
            found.append({"weights": row["weights"], "share": share} | {key: row[key] for key in ("active", "per_token", "change", "right")})
        for share in [100, *SHARES]:
            thresholds = ["--thresholds", files[share]] if share in files else []
            trace = pathlib.Path(folder) / f"{share}.trace"
            prompts = [word for story in STORIES for word in ("--prompt", story)]
            ndp("trace", "capture", *model, *thresholds, *prompts, "--tokens", 120, "--temperature", 0.7, "--out", trace)
            statistics = ndp("trace", "stats", trace)["statistics"]
            answer = ndp("generate", *model, *thresholds, "--backend", "cycles", *DIMMS, "--load", "backdoor", "--tokens", 24, "--chat", QUESTION)
            keys = ["text", "tokens", "cycles", "cycles_per_token", "system_tokens_per_second", "outputs_checked"]
            answers.append({"share": share} | {key: answer[key] for key in keys})
            of = ["evaluate", "--llm", "smollm2-135m", "--trace", trace, *DIMMS, "--gpu-percent", 20, "--exact", 4]
            ran = ndp(*of, "--policy", ",".join(POLICIES))["policies"]
            rates = {policy["policy"]: policy["tokens_per_second"] for policy in ran}
            predicted, mlp = None, None
            if share in files:
                ran = ndp(*of, "--policy", "hermes", "--activity", "predicted")
                predicted, mlp = ran["policies"][0]["tokens_per_second"], ran["predictors"][0]["mlp"]
            activity.append({
                "share": share, "active": statistics["mlp"]["density"], "block_share": statistics["mlp"]["block_share"],
                "adjacent": mlp_only(statistics, 1), "distant": mlp_only(statistics, 11), "hot_change": statistics["hot_change"],
                "layer": statistics["layer"], "tokens_per_second": rates, "predicted_tokens_per_second": predicted, "predictor": mlp,
            })
    result = {"found_on": FOUND_ON, "measured_on": MEASURED_ON, "question": QUESTION, "perplexity": found, "answers": answers,
              "activity": activity}
    print(json.dumps(result) if "--json" in sys.argv[1:] else json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
