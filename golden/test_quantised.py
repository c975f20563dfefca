"""Tests of INT4 and INT8 weights in `reference/`; test_reference.py runs them too. Alone: python3 golden/test_quantised.py"""

import random
import unittest

import numpy as np

from reference import decoder, fp16, quantised
from test_reference import CORNERS, FALCON, LLAMA, OPT, random_tensors

LIMITS = tuple(quantised.LIMITS.values())


def halves(*values):
    """Bit patterns of numbers."""
    return np.array(values, np.float16).view(np.uint16).tolist()


def round_trip(weights, limit):
    """Quantised and dequantised by the definitions."""
    numbers, scale = quantised.quantise(weights, limit)
    return [quantised.dequantise(q, scale) for q in numbers]


def finite_matrix(rng, rows, columns, exponents):
    """Random finite patterns with an exponent field below `exponents`."""
    bits = rng.integers(0, exponents << 10, (rows, columns)) | rng.integers(0, 2, (rows, columns)) << 15
    return bits.astype(np.uint16)


class Dequantise(unittest.TestCase):
    def test_every_number_times_these_scales_is_the_float32_product_rounded_once(self):
        numbers, rng = np.arange(-128, 128), random.Random(31)
        for scale in CORNERS + [rng.getrandbits(16) for _ in range(300)]:
            with np.errstate(all="ignore"):
                # 8 by 11 bits make 19, so float32 has the product exactly.
                exact = numbers.astype(np.float32) * np.array(scale, np.uint16).view(np.float16).astype(np.float32)
                expected = np.where(np.isnan(exact), 0x7E00, exact.astype(np.float16).view(np.uint16))
            self.assertEqual([quantised.dequantise(q, scale) for q in numbers.tolist()], expected.tolist(), hex(scale))

    def test_known_weights(self):
        for q, scale, weight in [
            (-8, 0x3C00, 0xC800),
            (3, 0x0001, 0x0003),
            (-128, 0x03FF, 0x9FFE),
            (7, 0x7092, 0x7C00),  # 7 * 9360 is 65520, the least that overflows
            (0, 0x8001, 0x8000),
            (-1, 0x0000, 0x8000),
            (-3, 0xFC00, 0x7C00),
            (0, 0x7C00, 0x7E00),
            (5, 0xFE01, 0x7E00),
        ]:
            self.assertEqual(quantised.dequantise(q, scale), weight, (q, hex(scale)))


class Quantise(unittest.TestCase):
    def test_ties_go_to_even(self):
        weights = halves(7, -3.5, 3.5, 0.5, 1.5, 2.5, -0.5, -0.0)
        self.assertEqual(quantised.quantise(weights, 7), ([7, -4, 4, 0, 2, 2, 0, 0], 0x3C00))
        self.assertEqual(quantised.quantise(halves(-127, 63.5, 62.5, 1), 127), ([-127, 64, 62, 1], 0x3C00))

    def test_the_scale_is_rounded_before_the_numbers(self):
        # 10 / 7 is 1463 / 1024 in FP16; 5 is 3.4997 of these, and 3.5 of what 10 / 7 is.
        self.assertEqual(quantised.quantise(halves(10, 5), 7), ([7, 3], 0x3DB7))
        # 65504 / 7 is rounded up to 9360, 7 of which overflow.
        self.assertEqual(round_trip([0xFBFF, 0x7092], 7), [0xFC00, 0x7092])

    def test_a_subnormal_scale_cuts_numbers_off_at_the_limit_and_one_of_zero_leaves_zeros(self):
        self.assertEqual(quantised.quantise([0x000A, 0x8004, 0x8008], 7), ([7, -4, -7], 0x0001))
        self.assertEqual(quantised.quantise([0x0004, 0x8003], 7), ([4, -3], 0x0001))
        self.assertEqual(quantised.quantise([0x8003, 0x0001, 0x8000], 7), ([0, 0, 0], 0x0000))
        self.assertEqual(quantised.quantise([0x003F], 127), ([0], 0x0000))
        self.assertEqual(quantised.quantise([0x0040], 127), ([64], 0x0001))

    def test_what_is_not_finite_is_refused_with_its_place(self):
        for bits in (0x7C00, 0xFC00, 0x7E00, 0xFC01):
            with self.assertRaisesRegex(ValueError, rf"weight {bits:04x} at \[1\] is not finite"):
                quantised.quantise([0x3C00, bits], 7)
            matrix = np.zeros((3, 40), np.uint16)
            matrix[2, 35] = bits
            for along in (0, 1):
                with self.assertRaisesRegex(ValueError, rf"weight {bits:04x} at \[2, 35\] is not finite"):
                    quantised.round_trip(matrix, 127, along)


class Matrices(unittest.TestCase):
    def test_every_magnitude_alone_agrees_with_the_definition(self):
        every = np.arange(0x7C00, dtype=np.uint16)[:, None]
        for limit in LIMITS:
            expected = [round_trip([bits], limit) for bits in every[:, 0].tolist()]
            self.assertEqual(quantised.round_trip(every, limit).tolist(), expected)

    def test_rows_with_a_short_last_place_agree_with_the_definition(self):
        rng = np.random.default_rng(32)
        for columns in (1, 31, 32, 33, 70):
            for exponents in (1, 3, 16, 31):
                matrix = finite_matrix(rng, 20, columns, exponents)
                for limit in LIMITS:
                    expected = [
                        [bits for at in range(0, columns, 32) for bits in round_trip(row[at : at + 32], limit)]
                        for row in matrix.tolist()
                    ]
                    self.assertEqual(quantised.round_trip(matrix, limit).tolist(), expected, (columns, exponents, limit))
                    turned = np.ascontiguousarray(matrix.T)
                    self.assertEqual(quantised.round_trip(turned, limit, along=0).T.tolist(), expected)

    def test_ties_agree_with_the_definition(self):
        for limit in LIMITS:
            for scale in (0x0001, 0x0003, 0x0555, 0x1400, 0x3C00, 0x3D00, 0x5001):
                units = fp16.integer(scale)
                row = [fp16.rne16(n * units, 1 << 25) for n in range(-2 * limit, 2 * limit + 1)]
                row = [[bits, row[-1]] for bits in row]
                expected = [round_trip(pair, limit) for pair in row]
                self.assertEqual(quantised.round_trip(np.array(row, np.uint16), limit).tolist(), expected, hex(scale))

    def test_a_large_weight_spoils_those_of_its_place_alone(self):
        ones = np.full((40, 40), 0x3C00, np.uint16)
        ones[0, 33] = halves(70)[0]
        for along, spoiled in ((0, np.s_[:32, 33]), (1, np.s_[0, 32:])):
            expected = ones.copy()
            expected[spoiled] = 0
            expected[0, 33] = ones[0, 33]
            made = quantised.round_trip(ones, 7, along)
            self.assertEqual(made.tolist(), expected.tolist(), along)


def plain(matrix, limit, along_outputs):
    """A matrix [outputs x inputs], quantised weight by weight as the table of the contract says."""
    made = [row[:] for row in matrix]
    outputs, inputs = len(matrix), len(matrix[0])
    if along_outputs:
        places = [[(r, c) for r in range(at, min(at + 32, outputs))] for c in range(inputs) for at in range(0, outputs, 32)]
    else:
        places = [[(r, c) for c in range(at, min(at + 32, inputs))] for r in range(outputs) for at in range(0, inputs, 32)]
    for place in places:
        for (r, c), bits in zip(place, round_trip([matrix[r][c] for r, c in place], limit)):
            made[r][c] = bits
    return made


class Model(unittest.TestCase):
    def check(self, config, along_outputs, along_inputs, weights):
        """The named matrices of each layer change as `plain` says, all other tensors stay."""
        tensors = random_tensors(config)
        made = quantised.model(config, tensors, weights)
        self.assertEqual(list(made), list(tensors))
        seen = 0
        for name, tensor in tensors.items():
            part = name.split(".")[-2]
            if name.endswith(".weight") and part in along_outputs + along_inputs:
                expected = plain(tensor.view(np.uint16).tolist(), quantised.LIMITS[weights], part in along_outputs)
                self.assertEqual(made[name].view(np.uint16).tolist(), expected, name)
                seen += 1
            else:
                self.assertIs(made[name], tensor, name)
        self.assertEqual(seen, config["num_hidden_layers"] * len(along_outputs + along_inputs))
        decoder.Decoder(config, made)

    def test_opt(self):
        config = {**OPT, "hidden_size": 36, "word_embed_proj_dim": 36, "ffn_dim": 70}
        self.check(config, ["q_proj", "k_proj", "v_proj", "fc2"], ["out_proj", "fc1"], "int4")

    def test_llama(self):
        config = {**LLAMA, "hidden_size": 36, "head_dim": 18, "intermediate_size": 70, "attention_bias": True}
        outputs, inputs = ["q_proj", "k_proj", "v_proj", "down_proj"], ["o_proj", "gate_proj", "up_proj"]
        for weights in quantised.LIMITS:
            self.check(config, outputs, inputs, weights)

    def test_falcon_s_tensor_of_q_k_and_v_is_three_matrices(self):
        config = {**FALCON, "hidden_size": 72, "num_hidden_layers": 1, "bias": True}
        tensors = random_tensors(config)
        made = quantised.model(config, tensors, "int4")
        name = "transformer.h.0.self_attention.query_key_value.weight"
        # two heads of k and v, each behind its two heads of q; a head has 18 rows
        heads = np.split(tensors[name].view(np.uint16), 8)
        changed = np.split(made[name].view(np.uint16), 8)
        for places in ([0, 1, 4, 5], [2, 6], [3, 7]):
            expected = plain(np.concatenate([heads[at] for at in places]).tolist(), 7, True)
            self.assertEqual(np.concatenate([changed[at] for at in places]).tolist(), expected)
        for part, along_outputs in (("mlp.dense_4h_to_h", True), ("self_attention.dense", False), ("mlp.dense_h_to_4h", False)):
            name = f"transformer.h.0.{part}.weight"
            expected = plain(tensors[name].view(np.uint16).tolist(), 7, along_outputs)
            self.assertEqual(made[name].view(np.uint16).tolist(), expected, part)

    def test_fp16_leaves_everything_and_other_formats_are_refused(self):
        tensors = random_tensors(LLAMA)
        self.assertIs(quantised.model(LLAMA, tensors, None), tensors)
        with self.assertRaisesRegex(ValueError, "weights are 'int5', expected int4 or int8"):
            quantised.model(LLAMA, tensors, "int5")

    def test_an_infinite_weight_is_refused_with_its_tensor_and_the_caller_s_tensors_stay(self):
        tensors = random_tensors(LLAMA)
        before = {name: tensor.copy() for name, tensor in tensors.items()}
        quantised.model(LLAMA, tensors, "int4")
        for name, tensor in tensors.items():
            self.assertEqual(tensor.tolist(), before[name].tolist(), name)
        name = "model.layers.1.mlp.down_proj.weight"
        tensors[name][3, 5] = np.inf
        with self.assertRaisesRegex(ValueError, rf"tensor {name}: weight 7c00 at \[3, 5\] is not finite"):
            quantised.model(LLAMA, tensors, "int8")


if __name__ == "__main__":
    unittest.main()
