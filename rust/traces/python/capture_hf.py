#!/usr/bin/env python3
"""Captures an activation trace of a Hugging Face model: OPT, or LLaMA with ReLU (ReGLU) in its MLP.

Runs the model on one prompt after the other, draws the most likely token, and records which outputs of the MLP's activation
function are not zero; with --attention also which inputs of the Q projection are not, for models that have a ReLU there. The
last generated token is not run, so it has no activity. Needs torch, transformers and numpy; the format is in trace_format.py.

  python3 capture_hf.py --model facebook/opt-1.3b --prompt "Once upon a time" --tokens 128 --out opt.trace
  python3 capture_hf.py --model SparseLLM/ReluLLaMA-7B --dtype float16 --device cuda --prompt-file texts.txt --out relu.trace
"""

import argparse
import sys

import numpy as np

from trace_format import pack, write_trace


def decoder_layers(model):
    """The decoder layers, whichever of the two families it is."""
    for path in ("model.decoder.layers", "model.layers", "decoder.layers", "layers"):
        found = model
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            return list(found)
    raise ValueError(f"{type(model).__name__} has no decoder layers where OPT and LLaMA have them")


def activation_of(layer):
    """The module between the MLP's projections whose zeros count."""
    module = getattr(getattr(layer, "mlp", None), "act_fn", None) or getattr(layer, "activation_fn", None)
    if module is None:
        raise ValueError(f"{type(layer).__name__} has neither mlp.act_fn nor activation_fn")
    return module


class Recorder:
    """Collects the bits of all layers by forward hooks; a context manager that removes them."""

    def __init__(self, model, attention):
        self.layers = decoder_layers(model)
        self.attention = attention
        self.bits = []
        self.hooks = []

    def __enter__(self):
        for layer in self.layers:
            if self.attention:
                self.hooks.append(layer.self_attn.q_proj.register_forward_pre_hook(self._input))
            self.hooks.append(activation_of(layer).register_forward_hook(self._output))
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def _input(self, _module, inputs):
        self._take(inputs[0])

    def _output(self, _module, _inputs, output):
        self._take(output)

    def _take(self, values):
        active = (values.reshape(-1, values.shape[-1]) != 0).cpu().numpy()
        self.bits.append([pack(row) for row in active])
        self.widths = getattr(self, "widths", {})
        self.widths[(len(self.bits) - 1) % (1 + self.attention)] = active.shape[1]

    def take(self):
        """Per token of the last forward pass the bits of all blocks, in the order of computation."""
        expected = len(self.layers) * (1 + self.attention)
        if len(self.bits) != expected:
            raise ValueError(f"{len(self.bits)} blocks were seen, {expected} expected")
        tokens = [list(blocks) for blocks in zip(*self.bits)]
        self.bits = []
        return tokens


def capture(model, prompts, new_tokens, attention=False):
    """Runs the prompts (lists of token numbers). Returns arguments of write_trace: layers, attention, mlp, tokens."""
    import torch

    tokens = []
    with torch.no_grad(), Recorder(model, attention) as recorder:
        for prompt in prompts:
            ids = torch.tensor([prompt], device=next(model.parameters()).device)
            cache = None
            for step in range(new_tokens):
                result = model(input_ids=ids, past_key_values=cache, use_cache=True)
                cache = result.past_key_values
                ids = result.logits[:, -1:].argmax(dim=-1)
                rows = recorder.take()
                tokens += [(step == 0 and k == 0, step > 0, blocks) for k, blocks in enumerate(rows)]
        layers, widths = len(recorder.layers), recorder.widths
    if attention:
        filled = sum(int(np.unpackbits(b).sum()) for _, _, blocks in tokens for b in blocks[::2])
        if filled > 0.99 * len(tokens) * layers * widths[0]:
            raise ValueError("the inputs of the Q projection are not sparse: the model has no ReLU there")
    return {"layers": layers, "attention": widths[0] if attention else 0, "mlp": widths[int(attention)], "tokens": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="name or directory")
    parser.add_argument("--prompt", action="append", default=[], help="text to continue; may be given several times")
    parser.add_argument("--prompt-file", help="file with a prompt per line")
    parser.add_argument("--tokens", type=int, default=128, help="tokens to generate for each prompt")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--attention", action="store_true", help="also the inputs of the Q projection")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    try:
        prompts = list(args.prompt)
        if args.prompt_file:
            with open(args.prompt_file, encoding="utf-8") as file:
                prompts += [line.rstrip("\n") for line in file if line.strip()]
        if not prompts or args.tokens < 1:
            raise ValueError("no prompt, or no tokens to generate")
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(args.model)
        model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=getattr(torch, args.dtype))
        model = model.to(args.device).eval()
        trace = capture(model, [tokenizer(p)["input_ids"] for p in prompts], args.tokens, args.attention)
        source = f"capture_hf.py: {len(prompts)} prompt(s), {args.tokens} generated tokens each, greedy, {args.dtype}"
        write_trace(args.out, model=args.model[-256:], source=source, **trace)
        print(f"{args.out}: {len(trace['tokens'])} tokens")
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
