"""Tests of what architectures beyond OPT, LLaMA, Mistral and Falcon need; `test_reference.py` runs them too."""

import json
import math
import pathlib
import random
import shutil
import tempfile
import unittest
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

import make_goldens
from reference import activations, alibi, checkpoint, config, decoder, enclosure, fp16, rotary, vector

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
CHECKPOINTS = make_goldens.HERE / "checkpoints"


def nearest(value):
    """RNE16 of a Fraction of a magnitude from 0 to 65504, by the definition of the format."""
    if value == 0:
        return 0
    sign, value = (0x8000, -value) if value < 0 else (0, value)
    exponent = max(value.numerator.bit_length() - value.denominator.bit_length(), -14)
    exponent -= Fraction(2) ** exponent > value and exponent > -14
    units = round(value / Fraction(2) ** (exponent - 10))  # ties to even
    return sign | ((exponent + 14) << 10) + units


def stored(name):
    """(config, expected) of a checkpoint."""
    read = lambda file: json.loads((CHECKPOINTS / name / file).read_text(encoding="utf-8"))
    return read("config.json"), read("expected.json")


def changed(name, changes):
    """The comparison with transformers of a checkpoint whose configuration has other values."""
    c, expected = stored(name)
    with tempfile.TemporaryDirectory() as copy:
        (pathlib.Path(copy) / "config.json").write_text(json.dumps({**c, **changes}))
        shutil.copy(CHECKPOINTS / name / "model.safetensors", copy)
        given = (expected[key] for key in ("made_with", "tokens", "transformers_logits"))
        return make_goldens.comparison(pathlib.Path(copy), *given)


class ScaledRotation(unittest.TestCase):
    LLAMA3 = rotary.Scaling("llama3", Fraction(8), Fraction(1), Fraction(4), 8192)
    YARN = rotary.Scaling("yarn", Fraction(4), Fraction(1), Fraction(32), 32768)

    def check(self, theta, width, scaling, expected, factor=1.0):
        """`expected(i, w)` is the frequency in double precision; only positions where that suffices."""
        for position in (1, 5, 100):
            table = rotary.table(theta, width, position, scaling)
            for i, (c, s) in enumerate(zip(*table)):
                angle = position * expected(i, theta ** (-2 * i / width))
                for found, exact in ((c, factor * math.cos(angle)), (s, factor * math.sin(angle))):
                    number = np.array([found], np.uint16).view(np.float16)[0]
                    unit = 2.0 ** (max(math.floor(math.log2(abs(exact))), -14) - 10)
                    self.assertLessEqual(abs(float(number) - exact), 0.5001 * unit, (position, i))

    def test_linear(self):
        self.check(10000, 64, rotary.Scaling("linear", Fraction(5, 2)), lambda i, w: w / 2.5)

    def test_llama3_by_the_lengths_of_waves(self):
        kinds = set()

        def expected(i, w):
            wave = 2 * math.pi / w
            if wave < 8192 / 4 or wave > 8192 / 1:
                kinds.add(wave < 8192)
                return w if wave < 8192 else w / 8
            kinds.add("between")
            smooth = (8192 / wave - 1) / 3
            return (1 - smooth) * w / 8 + smooth * w

        self.check(500000, 128, self.LLAMA3, expected)
        self.assertEqual(kinds, {True, False, "between"})

    def test_yarn_by_the_pairs_that_turn_so_often(self):
        pair = lambda turns: 128 * math.log(32768 / (turns * 2 * math.pi)) / (2 * math.log(1000000))
        low, high = math.floor(pair(32)), math.ceil(pair(1))
        self.assertEqual(rotary.ramp(1000000, 128, self.YARN), (low, high))
        share = lambda i: min(max((i - low) / (high - low), 0), 1)
        expected = lambda i, w: w / 4 * share(i) + w * (1 - share(i))
        self.check(1000000, 128, self.YARN, expected, 0.1 * math.log(4) + 1)
        self.check(1000000, 128, self.YARN._replace(attention=Fraction(1)), expected)

    def test_a_factor_at_a_rounding_boundary_is_a_tie_at_position_zero(self):
        for attention, expected in ((Fraction(2049, 2048), 0x3C00), (Fraction(2051, 2048), 0x3C02)):
            scaling = self.YARN._replace(attention=attention)
            self.assertEqual(rotary.cos_sin(10000, 1, 8, 0, scaling), (expected, 0))

    def test_logarithms(self):
        for value in (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(40), Fraction(10**6)):
            low, high = enclosure.ln(value, 96)
            with localcontext(prec=60):
                exact = (Decimal(value.numerator) / value.denominator).ln() * 2**96
                self.assertTrue(low <= exact <= high and high - low <= 2, value)

    def test_only_the_first_elements_of_a_head_turn(self):
        rng = random.Random(40)
        x = [rng.randrange(0x7C00) for _ in range(48)]
        heads = [x[begin : begin + 16] for begin in (0, 16, 32)]
        turned = [rotary.rotate(head[:12], 10000, 9, self.LLAMA3) + head[12:] for head in heads]
        self.assertEqual([rotary.rotate(head, 10000, 9, self.LLAMA3, 12) for head in heads], turned)
        found = vector.rotate(np.array(x, np.uint16), 16, 10000, 9, self.LLAMA3, 12)
        self.assertEqual(found.tolist(), sum(turned, []))

    def test_what_a_scaling_lacks_is_named(self):
        refusals = [
            ({"type": "linear"}, "rope_scaling.factor is None"),
            ({"type": "linear", "factor": 0.5}, "rope_scaling.factor is 0.5, expected a number from 1"),
            ({"type": "linear", "factor": 2, "beta_fast": 32}, "rope_scaling is .*expected nothing but factor,"),
            ({"type": "llama3", "factor": 8}, "rope_scaling.low_freq_factor is None"),
            ({"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}, "low_freq_factor is 4, expected less"),
            ({"type": "yarn", "factor": 8, "truncate": False}, "rope_scaling.truncate is False, expected True"),
            ({"type": "yarn", "factor": 8, "attention_factor": 17}, "attention_factor is 17, expected a number above 0"),
        ]
        for given, message in refusals:
            with self.assertRaisesRegex(ValueError, message):
                config.Reader({}).scaling("rope_scaling", given, 64)
        self.assertIsNone(config.Reader({}).scaling("rope_scaling", {"type": "dynamic", "factor": 2.0}, 64))


def described(name, **changes):
    """The description of a checkpoint's configuration with changes."""
    return config.describe({**stored(name)[0], **changes})


class Configurations(unittest.TestCase):
    def refused(self, name, message, **changes):
        with self.assertRaisesRegex(ValueError, "^config.json: " + message):
            described(name, **changes)

    def test_qwen(self):
        self.assertEqual((described("qwen2").attention_bias, described("qwen2").out_bias), (True, False))
        self.assertEqual((described("qwen3").qk_norm, described("qwen3").head_width), ("heads", 12))
        self.refused("qwen2", "attention_bias is False, expected True", attention_bias=False)
        self.refused("qwen3", "hidden_act is 'gelu'", hidden_act="gelu")


    def test_windows(self):
        windows = lambda name, **changes: [config.window_of(described(name, **changes), layer) for layer in (0, 1)]
        self.assertEqual(windows("mistral-window"), [7, 7])
        self.assertEqual(windows("qwen2-window", layer_types=None), [None, 5])
        self.assertEqual(windows("qwen2-window", layer_types=["sliding_attention", "full_attention"]), [5, None])
        self.assertEqual(windows("qwen2", sliding_window=5, max_window_layers=0), [None, None])
        self.refused("qwen2-window", "layer_types is .*for each of 2 layers", layer_types=["full_attention"])
        self.refused("qwen2-window", "layer_types is .*expected full_attention without", use_sliding_window=False)

    def test_relatives_of_llama(self):
        self.assertEqual((described("phi3").rotated, described("phi3").head_width), (6, 8))
        self.assertEqual([len(rows) for rows in config.fused_rows(described("phi3"))], [32, 16, 16])
        self.assertEqual((described("olmo2").qk_norm, described("olmo2").names.attention_norm), ("whole", None))
        granite = described("granite", residual_multiplier=1.0)
        factors = (granite.embedding_scale, granite.query_scale, granite.residual_scale, granite.logit_divisor)
        self.assertEqual(factors, (0x4A00, 0x3666, None, 0x4800))
        share = {"rope_theta": 10000.0, "partial_rotary_factor": 0.4}
        self.refused("phi3", "head_dim . partial_rotary_factor is 3, expected an even", rope_parameters=share)
        self.refused("phi3", "attention_bias is True", attention_bias=True)
        linear = {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.75}
        self.refused("phi3", "rope_type is 'linear', expected 'default'", rope_parameters=linear)
        self.refused("granite", "logits_scaling is 0, expected a number", logits_scaling=0)


    def test_mixtures(self):
        sizes = lambda c: (c.experts, c.experts_used, c.experts_normalised, c.ffn_width)
        self.assertEqual(sizes(described("mixtral")), (4, 2, True, 16))
        self.assertEqual(sizes(described("qwen3-moe")), (5, 3, False, 16))
        self.assertEqual(described("mixtral", rope_parameters=None).theta, 1000000)
        self.refused("mixtral", "num_experts_per_tok is 5, expected at most num_local_experts, 4", num_experts_per_tok=5)
        self.refused("mixtral", "norm_topk_prob is False, expected True", norm_topk_prob=False)
        self.refused("qwen3-moe", "mlp_only_layers is .0., expected null or", mlp_only_layers=[0])
        self.refused("qwen3-moe", "decoder_sparse_step is 2, expected 1", decoder_sparse_step=2)

    def test_equal_scores_choose_the_lower_expert(self):
        c, tensors = checkpoint.load(CHECKPOINTS / "mixtral")
        tensors["model.layers.0.block_sparse_moe.gate.weight"][:] = 0
        seen = []
        session = decoder.Session(decoder.Decoder(c, tensors))
        session.step(1, lambda stage, bits: seen.append((stage, bits.tolist())))
        self.assertIn(("layers.0.weights", [0x3800, 0x3800]), seen)
        used = {stage.split(".")[3] for stage, _ in seen if stage.startswith("layers.0.experts")}
        self.assertEqual(used, {"0", "1"})

    def test_gemma(self):
        first, second, third = (described(name) for name in ("gemma", "gemma2", "gemma3"))
        self.assertEqual((first.act, first.unit_gains, first.names.head), ("gelu_tanh", True, None))
        self.assertEqual((second.score_cap, second.logit_cap), (3, 4))
        self.assertEqual(third.window_angles, (100, None))
        self.assertEqual((third.theta, third.scaling.kind), (10000, "linear"))
        old = {"rope_theta": 10000.0, "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
        pattern = {"layer_types": None, "sliding_window_pattern": 2, "rope_parameters": None}
        self.assertEqual(described("gemma3", **old, **pattern), third)
        self.refused("gemma", "hidden_act is 'silu'", hidden_act="silu")
        self.refused("gemma", "sliding_window is 4, expected null", sliding_window=4)
        self.refused("gemma2", "attn_logit_softcapping is 0.5, expected null or", attn_logit_softcapping=0.5)
        self.refused("gemma3", "attn_logit_softcapping is 50, expected null", attn_logit_softcapping=50)
        self.refused("gemma3", "rope_parameters is .*expected only sliding_attention", rope_parameters={"rope_theta": 1e4})

    def test_an_activation_beyond_fp16_is_named(self):
        c, tensors = checkpoint.load(CHECKPOINTS / "gemma")
        tensors["model.layers.1.post_attention_layernorm.weight"][:] = 65504
        session = decoder.Session(decoder.Decoder(c, tensors))
        with self.assertRaisesRegex(ValueError, r"layers.1.(gate|ffn): element \d+ is (7c00|fc00|7e00), beyond"):
            session.step(1)


class Functions(unittest.TestCase):
    def test_gelu_with_tanh_is_rounded_correctly(self):
        rng = random.Random(41)
        with localcontext(prec=60):
            for a in make_goldens.GELU_TANH_EDGES + [rng.getrandbits(1) << 15 | rng.randrange(1, 0x4800) for _ in range(300)]:
                x = Decimal(fp16.integer(a)) / 2**24
                power = (2 * (2 / PI).sqrt() * (x + Decimal("0.044715") * x**3)).exp()
                share = power / (1 + power)
                self.assertEqual(activations.gelu_tanh(a), nearest(Fraction(x * share)), hex(a))

    def test_soft_caps_are_rounded_correctly(self):
        rng = random.Random(42)
        with localcontext(prec=80):
            for cap in (1, 30, Fraction(25, 2), 10000):
                for a in [rng.randrange(1, 0x5800) for _ in range(100)]:
                    exact = Decimal(fp16.integer(a)) / 2**24 / (Decimal(Fraction(cap).numerator) / Fraction(cap).denominator)
                    power = (2 * exact).exp()
                    y = Fraction((power - 1) / (power + 1)) * cap
                    found = [activations.soft_cap(pattern, Fraction(cap)) for pattern in (a, a | 0x8000)]
                    self.assertEqual(found, [nearest(y), nearest(y) | 0x8000], (cap, hex(a)))
        self.assertEqual([activations.soft_cap(a, Fraction(50)) for a in (0, 0x8000, 0x7C00, 0xFC00)], [0, 0x8000, 0x5240, 0xD240])
        # The cap is half-way between two numbers, the result below it.
        self.assertEqual([activations.soft_cap(a, Fraction(2051, 2)) for a in (0x7C00, 0x7BFF)], [0x6402, 0x6401])

    def test_square_roots(self):
        self.assertEqual([fp16.sqrt_of_integer(n) for n in (0, 1, 2304)], [0, 0x3C00, 0x5200])
        with localcontext(prec=60):
            for n in range(2, 300):
                self.assertEqual(fp16.sqrt_of_integer(n), nearest(Fraction(Decimal(n).sqrt())), n)


class Alibi(unittest.TestCase):
    def test_slopes_are_rounded_correctly(self):
        with localcontext(prec=60):
            for heads in (1, 3, 16, 71, 512):
                whole = 1 << heads.bit_length() - 1
                exponents = [Decimal(-8 * n) / whole for n in range(1, whole + 1)]
                exponents += [Decimal(-4 * (2 * n + 1)) / whole for n in range(heads - whole)]
                exact = [Fraction((exponent * Decimal(2).ln()).exp()) for exponent in exponents]
                self.assertEqual(alibi.slopes(heads), [nearest(slope) for slope in exact], heads)

    def test_the_distance_counts(self):
        self.assertEqual(alibi.factors(2, 64), [0x2000, 0x1000])  # 2^-4 and 2^-8, times 1/8
        self.assertEqual([alibi.biased(0x3C00, 0x2000, distance) for distance in (0, 8, 256)], [0x3C00, 0x3B80, 0xBC00])


class Comparisons(unittest.TestCase):
    CHANGES = {
        "llama3-rope": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000}},
        "yarn": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000, "factor": 4.0}},
        "linear-rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000, "factor": 2.0}},
        "qwen2": {"rope_parameters": {"rope_theta": 5000}},
        "qwen3": {"rope_parameters": {"rope_theta": 5000}},
        "phi3": {"rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.5}},
        "olmo2": {"rope_parameters": {"rope_theta": 5000}},
        "mistral-window": {"sliding_window": 8},
        "qwen2-window": {"layer_types": ["sliding_attention", "full_attention"]},
        "gemma": {"rope_parameters": {"rope_theta": 5000}},
        "gemma2": {"query_pre_attn_scalar": 8},
        "gemma3": {"sliding_window": 7},
        "mixtral": {"num_experts_per_tok": 3},
        "qwen3-moe": {"norm_topk_prob": True},
        "granite": {"embedding_multiplier": 4.0},
        "falcon-alibi": {"alibi": False},
        "opt-350m": {"relu_before_qkv": True},
    }

    def test_the_bound_tells_other_models_apart(self):
        for name, changes in self.CHANGES.items():
            content, expected = changed(name, changes), stored(name)[1]
            self.assertEqual(make_goldens.too_far({"changed": content, "stored": expected}), ["changed"], name)


if __name__ == "__main__":
    unittest.main()
