"""Writes the tiny random checkpoints of `checkpoints/` with Hugging Face's transformers, and the logits that it computes.

Each checkpoint has another architecture, or other choices within one, and is stored by `save_pretrained`. transformers then
runs it in FP32 on the weights rounded to FP16; `expected.json` holds its logits beside the digests of the exact reference.
Afterwards `make_goldens.py` needs neither torch nor transformers to compute the reference's part again.
"""

import argparse
import pathlib
import random
import shutil
import sys

import numpy as np
import torch
import transformers

import make_goldens

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = 24

COMMON = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
LLAMA = {**COMMON, "intermediate_size": 96, "num_key_value_heads": 2}
SMALL = {**LLAMA, "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48}
FALCON = {**COMMON, "ffn_hidden_size": 96, "alibi": False}


def small(kind, dtype=torch.float16, **own):
    """A configuration of half the width; its own values replace the common ones."""
    return kind(**{**SMALL, **own}), dtype, "1GB"


# Name -> configuration, type of the stored numbers, largest file.
CHECKPOINTS = {
    "opt": (
        transformers.OPTConfig(**COMMON, ffn_dim=128, activation_function="relu", do_layer_norm_before=True),
        torch.float16,
        "1GB",
    ),
    "llama": (
        transformers.LlamaConfig(**LLAMA, hidden_act="silu", rms_norm_eps=1e-5, tie_word_embeddings=False),
        torch.float16,
        "1GB",
    ),
    "llama-bias": (
        transformers.LlamaConfig(
            **{**LLAMA, "num_key_value_heads": 4},
            head_dim=24,
            hidden_act="relu",
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        ),
        torch.bfloat16,
        "100KB",
    ),
    "mistral": (
        transformers.MistralConfig(
            **{**LLAMA, "num_attention_heads": 8},
            sliding_window=None,
            hidden_act="silu",
            rms_norm_eps=1e-3,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        torch.float16,
        "1GB",
    ),
    "falcon-new": (
        transformers.FalconConfig(**FALCON, new_decoder_architecture=True, num_kv_heads=2, activation="gelu", bias=True),
        torch.float16,
        "1GB",
    ),
    "falcon-mq": (
        transformers.FalconConfig(
            **FALCON,
            new_decoder_architecture=False,
            multi_query=True,
            parallel_attn=True,
            activation="gelu",
            bias=False,
            layer_norm_epsilon=1e-2,
        ),
        torch.float32,
        "1GB",
    ),
    "llama3-rope": small(
        transformers.LlamaConfig,
        head_dim=16,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "yarn": small(
        transformers.LlamaConfig,
        head_dim=16,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16},
    ),
    "linear-rope": small(
        transformers.LlamaConfig, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}
    ),
    "qwen2": small(transformers.Qwen2Config, torch.bfloat16, rms_norm_eps=1e-6, tie_word_embeddings=True),
    "qwen3": small(transformers.Qwen3Config, torch.bfloat16, head_dim=12),
    "phi3": small(
        transformers.Phi3Config,
        original_max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
    ),
    "olmo2": small(transformers.Olmo2Config, torch.bfloat16),
    "granite": small(
        transformers.GraniteConfig,
        tie_word_embeddings=True,
        embedding_multiplier=12.0,
        attention_multiplier=0.4,
        residual_multiplier=0.22,
        logits_scaling=8.0,
    ),
    "mistral-window": small(transformers.MistralConfig, sliding_window=7),
    "qwen2-window": small(
        transformers.Qwen2Config,
        torch.bfloat16,
        use_sliding_window=True,
        sliding_window=5,
        max_window_layers=1,
        tie_word_embeddings=True,
    ),
    "gemma": small(transformers.GemmaConfig, torch.bfloat16, head_dim=12, num_key_value_heads=1),
    "gemma2": small(
        transformers.Gemma2Config,
        torch.bfloat16,
        head_dim=12,
        query_pre_attn_scalar=7,
        sliding_window=6,
        attn_logit_softcapping=3.0,
        final_logit_softcapping=4.0,
    ),
    "gemma3": small(
        transformers.Gemma3TextConfig,
        torch.bfloat16,
        head_dim=12,
        query_pre_attn_scalar=20,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        },
    ),
    "mixtral": small(
        transformers.MixtralConfig, torch.bfloat16, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2
    ),
    "qwen3-moe": small(
        transformers.Qwen3MoeConfig,
        torch.bfloat16,
        head_dim=8,
        intermediate_size=16,
        moe_intermediate_size=16,
        num_experts=5,
        num_experts_per_tok=3,
        norm_topk_prob=False,
    ),
    "opt-350m": (
        transformers.OPTConfig(
            **{**COMMON, "hidden_size": 32}, word_embed_proj_dim=16, ffn_dim=48, do_layer_norm_before=False
        ),
        torch.float16,
        "1GB",
    ),
    "falcon-alibi": (
        transformers.FalconConfig(
            **{**FALCON, "hidden_size": 48, "num_attention_heads": 6, "alibi": True},
            new_decoder_architecture=False,
            multi_query=False,
            parallel_attn=False,
            activation="gelu",
            bias=True,
        ),
        torch.float16,
        "1GB",
    ),
}


def fill(model, seed):
    """Random parameters, large enough that every operation counts: gains around one, the others around zero."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            gain = parameter.dim() == 1 and name.endswith("weight")
            deviation = 0.3 if "embed" in name else 0.2 if parameter.dim() == 1 else 0.15
            gain = gain and not model.config.model_type.startswith("gemma")  # whose gains are 1 more
            values = rng.normal(1.0 if gain else 0.0, deviation, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def transformers_logits(directory, tokens):
    """The logits at each position, computed in FP32 on the stored weights rounded to FP16."""
    # Falcon's eager attention adds ALiBi to the scores after the mask, which has it already.
    kind = "sdpa" if directory.name == "falcon-alibi" else "eager"
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation=kind).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
        logits = model(torch.tensor([tokens])).logits[0]
    return [[make_goldens.six_digits(value) for value in row] for row in logits.tolist()]


def make(name, seed, root):
    """Writes one checkpoint with its `expected.json`; returns the latter's content."""
    config, dtype, largest_file = CHECKPOINTS[name]
    directory = root / name
    shutil.rmtree(directory, ignore_errors=True)
    model = transformers.AutoModelForCausalLM.from_config(config)
    fill(model, seed)
    model.to(dtype).save_pretrained(directory, max_shard_size=largest_file)
    (directory / "generation_config.json").unlink(missing_ok=True)
    for path in directory.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner can read
    rng = random.Random(seed)
    tokens = [rng.randrange(config.vocab_size) for _ in range(TOKENS)]
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "seed": seed}
    content = make_goldens.comparison(directory, versions, tokens, transformers_logits(directory, tokens))
    (directory / "expected.json").write_text(make_goldens.rendered(content), encoding="ascii")
    return content


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="checkpoints to write; by default all")
    parser.add_argument("--to", type=pathlib.Path, default=HERE / "checkpoints", help="another directory to write to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    seeds = {name: 200 + index for index, name in enumerate(CHECKPOINTS)}
    unknown = set(arguments.names) - set(seeds)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: expected names among {', '.join(seeds)}")
    contents = {name: make(name, seeds[name], arguments.to) for name in arguments.names or seeds}
    for name, content in contents.items():
        size = sum(file.stat().st_size for file in (arguments.to / name).iterdir())
        print(
            f"{name}: {size} bytes; largest difference {content['difference']}, bound {content['bound']}; "
            f"relative to the largest logit {content['difference_relative']}, bound {content['bound_relative']}"
        )
    return 1 if make_goldens.too_far(contents) else 0


if __name__ == "__main__":
    sys.exit(main())
