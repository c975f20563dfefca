#!/usr/bin/env python3
"""Tests of the Python side of the trace format: python3 rust/traces/python/test_capture.py

The writer's test needs numpy alone; it compares with a file that the Rust tests read (rust/traces/tests/python.rs), made by
  python3 rust/traces/python/test_capture.py --write
Those of the capture run small models with random weights and are skipped without torch and transformers.
"""

import os
import struct
import sys
import tempfile
import unittest
import zlib

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trace_format import block_bytes, pack, trace_bytes, varints, write_trace

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/python.trace")
LAYERS, ATTENTION, MLP = 2, 70, 600
DENSITY = [50, 50, 10, 10, 0, 100]


def golden_trace():
    """Two sequences of three tokens, the first two of each are the prompt. The Rust test has the same formula."""

    def active(token, block, neurons):
        neuron = np.arange(neurons, dtype=np.uint64)
        mixed = (neuron * 7919 + block * 104729 + token // 2 * 1299709) * 2654435761 >> 16
        return mixed % 100 < DENSITY[token]

    widths = [ATTENTION, MLP] * LAYERS
    tokens = [
        (t % 3 == 0, t % 3 == 2, [pack(active(t, b, n)) for b, n in enumerate(widths)]) for t in range(len(DENSITY))
    ]
    return {"model": "python", "layers": LAYERS, "attention": ATTENTION, "mlp": MLP, "tokens": tokens,
            "seed": 7, "source": "test_capture.py"}


def unpack(data, widths):
    """Reads a trace back, independently of the writer: list of (flags, blocks as bool arrays)."""
    (length,) = struct.unpack_from("<I", data, 12)
    at = 16 + length + 4
    chain, tokens, before = data[at - 4 : at], [], None
    while True:
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0xFFFFFFFF:
            assert struct.unpack_from("<Q", data, at + 4)[0] == len(tokens)
            assert data[at + 12 :] == struct.pack("<I", zlib.crc32(chain + data[at : at + 12]))
            return tokens
        record = data[at + 4 : at + 4 + length]
        chain = struct.pack("<I", zlib.crc32(chain + data[at : at + 4 + length]))
        at += 8 + length
        assert data[at - 4 : at] == chain
        if record[0] & 1:
            before = [np.zeros(n, bool) for n in widths]
        blocks, rest = [], iter(record[1:])

        def number():
            value, shift = 0, 0
            for byte in rest:
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value
            raise AssertionError("the record ends within a number")

        for n, last in zip(widths, before):
            count = number()
            if count == 0:
                raw = np.array([next(rest) for _ in range((n + 7) // 8)], np.uint8)
                blocks.append(np.unpackbits(raw, bitorder="little")[:n].astype(bool))
                continue
            bits, neuron = last.copy(), -1
            for _ in range(count - 1):
                neuron += number() + 1
                bits[neuron] ^= True
            blocks.append(bits)
        assert next(rest, None) is None
        tokens.append((record[0], blocks))
        before = blocks


class Writer(unittest.TestCase):
    def test_the_stored_trace_is_what_the_writer_makes(self):
        with open(GOLDEN, "rb") as file:
            self.assertEqual(b"".join(trace_bytes(**golden_trace())), file.read())

    def test_bits_come_back(self):
        trace = golden_trace()
        widths = [ATTENTION, MLP] * LAYERS
        for (first, generated, blocks), (flags, found) in zip(
            trace["tokens"], unpack(b"".join(trace_bytes(**trace)), widths), strict=True
        ):
            self.assertEqual(flags, first + 2 * generated)
            for bits, found in zip(blocks, found, strict=True):
                self.assertEqual(bits.tobytes(), pack(found).tobytes())

    def test_numbers_take_as_few_bytes_as_they_can(self):
        self.assertEqual(varints([0, 127, 128, 16383, 16384]), bytes([0, 127, 128, 1, 255, 127, 128, 128, 1]))

    def test_a_block_is_raw_when_that_is_shorter(self):
        none = np.zeros(2, np.uint8)
        self.assertEqual(block_bytes(pack([1, 0] * 8), none), bytes([0, 0x55, 0x55]))
        self.assertEqual(block_bytes(pack([0] * 9 + [1] + [0] * 6), none), bytes([2, 9]))

    def test_blocks_of_another_shape_are_refused(self):
        trace = golden_trace()
        trace["mlp"] += 8
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaises(ValueError):
                write_trace(os.path.join(directory, "x"), **trace)
            self.assertEqual(os.listdir(directory), [])


try:
    import torch
    import transformers
except ImportError:
    torch = None


@unittest.skipUnless(torch, "torch and transformers are not installed")
class Capture(unittest.TestCase):
    """Models with random weights; the reference runs the whole sequence at once, without a cache."""

    def check(self, model, mlp_input, hidden, ffn):
        from capture_hf import capture

        model = model.eval()
        prompts, new_tokens = [[5, 9, 2, 7, 11], [3, 1]], 6
        trace = capture(model, prompts, new_tokens)
        self.assertEqual((trace["layers"], trace["attention"], trace["mlp"]), (2, 0, ffn))
        at = 0
        for prompt in prompts:
            ids = list(prompt)
            for _ in range(new_tokens - 1):
                with torch.no_grad():
                    ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            seen = []
            hooks = [module.register_forward_pre_hook(lambda _m, x: seen.append(x[0])) for module in mlp_input(model)]
            with torch.no_grad():
                model(input_ids=torch.tensor([ids]), use_cache=False)
            for hook in hooks:
                hook.remove()
            seen = [(values.reshape(len(ids), ffn) != 0).numpy() for values in seen]
            for position in range(len(ids)):
                first, generated, blocks = trace["tokens"][at]
                self.assertEqual((first, generated), (position == 0, position >= len(prompt)))
                for bits, values in zip(blocks, seen, strict=True):
                    self.assertEqual(bits.tobytes(), pack(values[position]).tobytes())
                at += 1
        self.assertEqual(at, len(trace["tokens"]))
        active = np.mean([np.unpackbits(b).mean() for _, _, blocks in trace["tokens"] for b in blocks])
        self.assertTrue(0.1 < active < 0.9, active)
        with self.assertRaisesRegex(ValueError, "no ReLU"):
            capture(model, prompts, 2, attention=True)
        data = b"".join(trace_bytes(model="test", **trace))
        self.assertEqual(len(unpack(data, [ffn] * 2)), at)

    def test_opt(self):
        torch.manual_seed(1)
        config = transformers.OPTConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, ffn_dim=100, num_attention_heads=4,
            max_position_embeddings=64, word_embed_proj_dim=32, activation_function="relu",
        )
        model = transformers.OPTForCausalLM(config)
        self.check(model, lambda m: [layer.fc2 for layer in m.model.decoder.layers], 32, 100)

    def test_inputs_of_attention_behind_a_relu(self):
        from capture_hf import capture

        torch.manual_seed(3)
        config = transformers.OPTConfig(
            vocab_size=64, hidden_size=36, num_hidden_layers=2, ffn_dim=100, num_attention_heads=4,
            max_position_embeddings=64, word_embed_proj_dim=36, activation_function="relu",
        )
        model = transformers.OPTForCausalLM(config).eval()
        seen = []
        for layer in model.model.decoder.layers:
            layer.self_attn_layer_norm = torch.nn.Sequential(layer.self_attn_layer_norm, torch.nn.ReLU())
            layer.self_attn_layer_norm.register_forward_hook(lambda _m, _x, y: seen.append(y))
            layer.fc2.register_forward_pre_hook(lambda _m, x: seen.append(x[0]))
        prompt = [4, 8, 15, 16, 23, 42]
        trace = capture(model, [prompt], 1, attention=True)
        self.assertEqual((trace["layers"], trace["attention"], trace["mlp"]), (2, 36, 100))
        self.assertEqual([generated for _, generated, _ in trace["tokens"]], [False] * len(prompt))
        seen = [(values.reshape(len(prompt), -1) != 0).numpy() for values in seen]
        for position, (_, _, blocks) in enumerate(trace["tokens"]):
            for bits, values in zip(blocks, seen, strict=True):
                self.assertTrue(0 < values[position].sum() < len(values[position]))
                self.assertEqual(bits.tobytes(), pack(values[position]).tobytes())

    def test_llama_with_relu(self):
        torch.manual_seed(2)
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, intermediate_size=84, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, hidden_act="relu",
        )
        model = transformers.LlamaForCausalLM(config)
        self.check(model, lambda m: [layer.mlp.down_proj for layer in m.model.layers], 32, 84)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_trace(GOLDEN, **golden_trace())
    else:
        unittest.main()
