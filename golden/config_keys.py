"""Writes `checkpoints/keys.json`: for each key of a checkpoint's `config.json` what transformers computes with another value.

A case is `{checkpoint, key, value, outcome, logits}`. `outcome` is `same` or `changed` logits at the last position, which
`logits` then has, or `refused`: transformers does not run, or lacks weights.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers

import make_goldens

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = {"architectures", "model_type", "transformers_version", "dtype"}
# Without them the values follow from the type.
VALUES = {
    "_remove_final_layer_norm": [True],
    "activation": ["relu", "silu"],
    "activation_function": ["gelu"],
    "attn_logit_softcapping": [2.0, None],
    "bos_token_id": [3],
    "eos_token_id": [3],
    "final_logit_softcapping": [2.0, None],
    "hidden_act": ["relu", "silu", "gelu", "gelu_pytorch_tanh"],
    "hidden_activation": ["gelu_pytorch_tanh", "silu"],
    "layer_norm_epsilon": [1e-3],
    "layer_types": [["sliding_attention", "full_attention"], ["full_attention", "full_attention"]],
    "max_window_layers": [0],
    "mlp_only_layers": [[0]],
    "num_attention_heads": [2],
    "num_experts_per_tok": [1],
    "num_hidden_layers": [1],
    "num_ln_in_parallel_attn": [1],
    "pad_token_id": [3],
    "rms_norm_eps": [1e-2],
    "sliding_window": [3, None],
}


def others(key, value):
    """Other values of a key."""
    if key == "rope_parameters":
        kinds = [value[kind] for kind in ("sliding_attention", "full_attention") if kind in value] or [value]
        changed = [{**kinds[0], "rope_theta": 500.0}, {"rope_type": "linear", "factor": 3.0, "rope_theta": 10000.0}]
        if kinds[0] is not value:
            return [{**value, kind: one} for kind in ("sliding_attention", "full_attention") for one in changed]
        return changed
    if key in VALUES:
        return [other for other in VALUES[key] if other != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value]
    return [1.5 * value] if isinstance(value, float) else []


def logits(directory, tokens):
    """At the last position, in FP32 on the weights rounded to FP16; None if transformers does not run or lacks weights."""
    kind = "sdpa" if directory.name.startswith("falcon") else "eager"  # eager attention adds ALiBi twice
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation=kind, output_loading_info=True
        )
        if info["missing_keys"] or info["mismatched_keys"]:
            return None
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.half().float())
            found = model.eval()(torch.tensor([tokens])).logits[0, -1].tolist()
    except Exception:  # any kind of refusal
        return None
    return [float(f"{value:.5g}") for value in found]


def cases(directory):
    """All cases of one checkpoint."""
    config = json.loads((directory / "config.json").read_text())
    tokens = json.loads((directory / "expected.json").read_text())["tokens"]
    before = logits(directory, tokens)
    with tempfile.TemporaryDirectory() as root:
        copy = pathlib.Path(root) / directory.name
        shutil.copytree(directory, copy)
        for key, value in config.items():
            for other in [] if key in SKIPPED else others(key, value):
                (copy / "config.json").write_text(json.dumps({**config, key: other}))
                found = logits(copy, tokens)
                outcome = "refused" if found is None else "same" if found == before else "changed"
                case = {"checkpoint": directory.name, "key": key, "value": other, "outcome": outcome}
                yield {**case, "logits": found} if outcome == "changed" else case


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    root = HERE / "checkpoints"
    folders = sorted(path.parent for path in root.glob("*/config.json"))
    content = {
        "generated_by": "python3 golden/config_keys.py",
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "cases": [case for folder in folders for case in cases(folder)],
    }
    (root / "keys.json").write_text(make_goldens.rendered(content), encoding="ascii")
    outcomes = [case["outcome"] for case in content["cases"]]
    print({outcome: outcomes.count(outcome) for outcome in set(outcomes)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
