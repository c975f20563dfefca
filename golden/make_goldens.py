"""Writes the golden data with the exact reference: `vectors/` (operations), `generate/` (the models' texts and logits) and
the reference's part of `checkpoints/*/expected.json`, beside the logits of Hugging Face's transformers stored there.

Everything is deterministic; `--check` regenerates in memory and fails, naming the files, when one differs from disk. FP16
numbers are stored as bit patterns, four hex digits each, a vector as its digits side by side. The formats are in README.md.
"""

import argparse
import json
import math
import pathlib
import random
import sys
from fractions import Fraction

import numpy as np

from reference import activations, alibi, checkpoint, config, dot, exp, exponential, fp16, layernorm, quantised, rmsnorm, rotary, sampler
from reference import softmax
from reference import tokenizer as byte_level_bpe
from reference.decoder import Decoder, Session, generate

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "python3 golden/make_goldens.py"
CONTRACT = "docs/numerics.md"

CORNERS = [
    0x0000, 0x8000,                                          # zeros
    0x0001, 0x8001, 0x0002, 0x0003, 0x01FF, 0x0200, 0x03FF, 0x83FF,  # subnormals
    0x0400, 0x8400, 0x0401, 0x07FF, 0x0800, 0x0C00,          # smallest normals
    0x1000, 0x1400, 0x1800, 0x3555, 0xB555,                  # reciprocals of powers of two, 1/3
    0x3800, 0x3BFF, 0x3C00, 0xBC00, 0x3C01, 0xBC01, 0x4000, 0xC200,  # around one
    0x4BFF, 0x4C00, 0x5C00, 0x6800, 0x7800,                  # around the quantum of one and beyond
    0x7BFE, 0x7BFF, 0xFBFF,                                  # largest finite numbers
    0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00, 0xFFFF,          # infinities, NaN patterns
]  # fmt: skip


def digits(bits):
    """Bit patterns as hex digits side by side."""
    return "".join(f"{b:04x}" for b in bits)


def fnv1a64(data):
    """FNV-1a, 64 bits, of bytes."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return value


def digest(bits):
    """16 hex digits: FNV-1a 64 of the bit patterns, two little-endian bytes each."""
    return f"{fnv1a64(np.asarray(bits, '<u2').tobytes()):016x}"


def finite_bits(rng, exponents=range(31)):
    """A random finite pattern with its exponent field in `exponents`."""
    return rng.getrandbits(1) << 15 | rng.choice(exponents) << 10 | rng.getrandbits(10)


def document(description, seed, **content):
    """The common head of a vector file, then its content."""
    return {"generated_by": COMMAND, "contract": CONTRACT, "description": description, "seed": seed, **content}


# --- element-wise operations -------------------------------------------------------------------------------------------


def operand_pairs(rng):
    """All pairs of corner values, then random pairs: any patterns, near exponents (cancellation, ties) and subnormal results."""
    pairs = [(a, b) for a in CORNERS for b in CORNERS]
    for _ in range(150):
        pairs.append((rng.getrandbits(16), rng.getrandbits(16)))
        exponent = rng.randrange(2, 29)
        pairs.append((finite_bits(rng, [exponent]), finite_bits(rng, range(exponent - 2, exponent + 3))))
        exponent = rng.randrange(1, 15)
        pairs.append((finite_bits(rng, [exponent]), finite_bits(rng, range(14 - exponent, 18 - exponent))))
    return pairs


def element_wise(name, operation, seed):
    """Cases `a b result` of a two-operand operation."""
    cases = [digits((a, b, operation(a, b))) for a, b in operand_pairs(random.Random(seed))]
    return document(f"{name}(a, b): each case is a, b, result", seed, cases=cases)


# --- dot products ------------------------------------------------------------------------------------------------------

ONE = 0x3C00


def near_tie(rng):
    """Products that sum to a tie between two FP16 numbers, or to 2^-48 beside it, the parts in random order."""
    a = rng.randrange(0x3000, 0x7BFF)
    half_quantum = ((a >> 10) - 11) << 10
    terms = [(a, ONE), (half_quantum, ONE), rng.choice([(0, ONE), (1, 1), (0x8001, 1)])]
    terms += cancelling(rng, rng.randint(0, 20))
    rng.shuffle(terms)
    sign = rng.getrandbits(1) << 15
    return [(w ^ sign, x) for w, x in terms]


def cancelling(rng, pairs):
    """Terms whose products cancel exactly, two by two."""
    terms = []
    for _ in range(pairs):
        w, x = finite_bits(rng), finite_bits(rng)
        terms += [(w, x), (w ^ 0x8000, x)]
    return terms


def near_overflow(rng):
    """Sums at 65520, 2^-48 below it and 2^-48 above it."""
    terms = [(0x7BFF, ONE), (0x4C00, ONE), rng.choice([(0, ONE), (1, 1), (0x8001, 1)])]
    terms += cancelling(rng, rng.randint(0, 20))
    rng.shuffle(terms)
    sign = rng.getrandbits(1) << 15
    return [(w ^ sign, x) for w, x in terms]


def with_specials(rng):
    """Random terms with one to three NaN, infinities or infinities times zero among them."""
    terms = [(finite_bits(rng), finite_bits(rng)) for _ in range(rng.randint(3, 60))]
    special = [(0x7C00, ONE), (0xFC00, ONE), (ONE, 0x7C00), (0x7C00, 0xBC00), (0x7C00, 0x0000), (0x8000, 0xFC00)]
    special += [(0x7E00, ONE), (0x0000, 0xFC01), (0x7C00, 0x7C00), (0x7C00, 0xFC00), (0x7C00, 0x0001)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        terms[rng.randrange(len(terms))] = rng.choice(special)
    return terms


def ordinary(rng):
    """Up to 200 terms with exponents of one band, as activations and weights have."""
    low = rng.randrange(0, 20)
    band = range(low, low + rng.randint(2, 11))
    return [(finite_bits(rng, band), finite_bits(rng, band)) for _ in range(rng.randint(1, 200))]


def any_finite(rng):
    """Up to 200 terms of any finite patterns; half of these sums overflow."""
    return [(finite_bits(rng), finite_bits(rng)) for _ in range(rng.randint(1, 200))]


def subnormal_sum(rng):
    """Terms so small that their sum is subnormal or rounds to zero."""
    inputs = range(0, rng.choice((2, 9)))
    return [(finite_bits(rng, range(0, 5)), finite_bits(rng, inputs)) for _ in range(rng.randint(1, 60))]


def exact_zero(rng):
    """Products that cancel to an exact zero in random order."""
    terms = cancelling(rng, rng.randint(1, 60))
    rng.shuffle(terms)
    return terms


def dot_products(seed):
    """`dot.json`."""
    rng = random.Random(seed)
    kinds = [(ordinary, 110), (any_finite, 50), (subnormal_sum, 50), (exact_zero, 30), (near_tie, 60), (near_overflow, 30)]
    kinds.append((with_specials, 70))
    cases = []
    for make, count in kinds:
        for _ in range(count):
            w, x = zip(*make(rng))
            cases.append({"kind": make.__name__, "w": digits(w), "x": digits(x), "y": digits([dot.dot(w, x)])})
    return document("dot(w, x) = y", seed, cases=cases)


# --- norms, rotation, softmax, activations, E, sampler -----------------------------------------------------------------


def layer_norms(seed):
    """`layernorm.json`."""
    rng = random.Random(seed)
    cases = []
    for n in (1, 2, 3, 5, 8, 13, 64, 128, 192, 500):
        for band in (range(0, 3), range(0, 16), range(10, 16), range(13, 17), range(0, 31)):
            x = [finite_bits(rng, band) for _ in range(n)]
            gain = [finite_bits(rng, range(12, 17)) for _ in range(n)]
            bias = [finite_bits(rng, range(0, 16)) for _ in range(n)]
            cases.append((x, gain, bias))
    cases.append(([0x4248] * 16, [ONE] * 16, [0x2E66] * 16))  # no variance
    cases.append(([0x7BFF, 0xFBFF] * 8, [ONE] * 16, [0] * 16))  # the largest variance
    cases.append(([0x3C00, 0x3C01] * 8, [ONE] * 16, [0] * 16))  # a variance below eps
    for special in (0x7C00, 0xFC00, 0x7E00):
        cases.append(([ONE, special, 0], [ONE] * 3, [0] * 3))
    listed = [
        {"x": digits(x), "gain": digits(g), "bias": digits(b), "y": digits(layernorm.layer_norm(x, g, b))}
        for x, g, b in cases
    ]
    return document("LayerNorm(x; gain, bias) = y", seed, cases=listed)


def rms_norms(seed):
    """`rms_norm.json`."""
    rng = random.Random(seed)
    smallest, largest = layernorm.SMALLEST_EPS, layernorm.LARGEST_EPS
    cases = []
    for n in (1, 2, 3, 5, 8, 13, 64, 128, 192, 500):
        for band in (range(0, 3), range(0, 16), range(10, 16), range(13, 17), range(0, 31)):
            eps = rng.choice((smallest, layernorm.DEFAULT_EPS, largest, rng.randint(smallest, largest)))
            x = [finite_bits(rng, band) for _ in range(n)]
            cases.append((x, [finite_bits(rng, range(12, 17)) for _ in range(n)], eps))
    cases.append(([0x0000, 0x8000] * 8, [ONE] * 16, smallest))  # nothing but eps
    cases.append(([0x0001, 0x8001] * 8, [ONE] * 16, smallest))  # squares far below eps
    cases.append(([0x7BFF, 0xFBFF] * 8, [0x7BFF] * 16, largest))  # the largest mean
    cases.append(([0x7BFF] + [0x0000] * 15, [ONE] * 16, smallest))
    for special in (0x7C00, 0xFC00, 0x7E00):
        cases.append(([ONE, special, 0], [ONE] * 3, smallest))
        cases.append(([ONE, ONE, 0], [ONE, ONE, special], smallest))
    listed = [
        {"x": digits(x), "gain": digits(gain), "eps": eps, "y": digits(rmsnorm.rms_norm(x, gain, eps))}
        for x, gain, eps in cases
    ]
    return document("RMSNorm(x; gain) = y, eps in units of 10^-12", seed, cases=listed)


def rotations(seed):
    """`rotary.json`."""
    rng = random.Random(seed)
    cases = []
    for theta in (10000, 500000, 1000000):
        for width in (8, 16, 32, 64, 80, 128):
            for position in (0, 1, 2, 7, 63, 1000, 4095, 32767, 100000):
                band = rng.choice((range(0, 31), range(10, 17), range(0, 3)))
                cases.append((theta, width, position, [finite_bits(rng, band) for _ in range(width)]))
    for theta in (2, 3, 10007, 1 << 32):
        for width in (2, 6, 24):
            position = rng.randrange(1, 2048)
            cases.append((theta, width, position, [finite_bits(rng, range(10, 17)) for _ in range(width)]))
    for position in (0, 5):  # special values and overflows; a rotation by nothing still adds and multiplies
        cases.append((10000, 8, position, [0x7C00, 0xFC00, 0x7C01, 0x8000, 0x8000, ONE, ONE, 0x8000]))
        cases.append((10000, 8, position, [0x7BFF, 0xFBFF, 0x7BFF, 0x0000, 0x7BFF, 0x7BFF, 0xFBFF, 0x8000]))
    listed = [
        {"theta": theta, "width": width, "position": position, "x": digits(x), "y": digits(rotary.rotate(x, theta, position))}
        for theta, width, position, x in cases
    ]
    return document("rotate(x, position) = y with base theta", seed, cases=listed)


# Scalings as a configuration states them; the numbers are decimals.
SCALINGS = [
    {"rope_type": "linear", "factor": 2.5},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original": 8192},
    {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.75, "high_freq_factor": 4.5, "original": 64},
    {"rope_type": "yarn", "factor": 4.0, "original": 32768},
    {"rope_type": "yarn", "factor": 40.0, "original": 4096, "mscale": 1.0, "mscale_all_dim": 0.707},
    {"rope_type": "yarn", "factor": 3.2, "original": 100, "beta_fast": 16.0, "beta_slow": 1.5, "attention_factor": 1.00048828125},
]


def scaled_rotations(seed):
    """`rotary_scaled.json`."""
    rng = random.Random(seed)
    cases = []
    for number, stated in enumerate(SCALINGS):
        given = {key: value for key, value in stated.items() if key != "original"}
        given["original_max_position_embeddings"] = stated.get("original")
        scaling = config.Reader({}).scaling("scaling", given, 1)
        for theta, width, rotated in ((10000, 64, 64), (500000, 128, 128), (1000000, 80, 20)):
            for position in (0, 1, 13, 200, 8191, 131071):
                x = [finite_bits(rng, rng.choice((range(0, 31), range(10, 17)))) for _ in range(width)]
                y = digits(rotary.rotate(x, theta, position, scaling, rotated))
                cases.append({"scaling": number, "theta": theta, "rotated": rotated, "position": position, "x": digits(x), "y": y})
    return document("rotate(x, position) = y of scaled frequencies", seed, scalings=SCALINGS, cases=cases)


def alibi_biases(seed):
    """`alibi.json`."""
    rng = random.Random(seed)
    cases = []
    for heads, width in ((1, 64), (2, 3), (6, 8), (12, 64), (32, 64), (71, 64), (128, 20), (1000, 16)):
        factors = alibi.factors(heads, width)
        scores = []
        for distance in [0, 1, 2, 2047, 2049, 16383] + [rng.randrange(16384) for _ in range(6)]:
            head, score = rng.randrange(heads), finite_bits(rng, rng.choice((range(0, 31), range(8, 20))))
            y = alibi.biased(score, factors[head], distance)
            scores.append({"head": head, "distance": distance, "s": digits([score]), "y": digits([y])})
        cases.append({"heads": heads, "width": width, "factors": digits(factors), "scores": scores})
    return document("factors of heads; y = sub(s, RNE16(factor * distance))", seed, cases=cases)


MASKED = 0xFC00


def score_rows(rng):
    """Rows of scores: several lengths and spreads, equal scores, far apart scores, masked positions, special values."""
    bands = (range(0, 15), range(10, 18), range(14, 20), range(0, 31))
    rows = [[finite_bits(rng, band) for _ in range(n)] for n in (1, 2, 3, 7, 16, 63, 64, 100, 256, 500) for band in bands]
    for n in (2, 5, 33, 100):
        for band in bands:
            kept = rng.randrange(n)
            rows.append([finite_bits(rng, band) if j == kept or rng.random() < 0.6 else MASKED for j in range(n)])
    # one score at the top and many near the end of what still counts
    rows += [[0x0000] + [rng.randrange(low, low + 0x100) for _ in range(400)] for low in (0xC900, 0xCA00, 0xCC00)]
    rows += [[0x4500] * 3, [0x4500] * 256, [0x7BFF, 0xFBFF], [0xFBFF] * 5, [0x0000, 0x8000, 0x0001]]
    rows += [[ONE, MASKED], [MASKED] * 9 + [0xFBFF], [MASKED], [MASKED] * 3]
    rows += [[0x7C00, ONE], [0x7E00, ONE, 0], [MASKED, 0xFC01], [0x7C00, MASKED]]
    return rows


def generated_scores(state, n, lowest, exponents, masked_percent):
    """The row that README.md describes: SplitMix64 from `state`, one step for each score."""
    row = []
    for _ in range(n):
        state, z = sampler.splitmix64(state)
        exponent = lowest + (z >> 16) % exponents
        masked = (z >> 32) % 100 < masked_percent
        row.append(MASKED if masked else z & 0x83FF | exponent << 10)
    return row


def generated_rows(rng):
    """Longer rows as the parameters that they are generated from, with a digest of the probabilities."""
    rows = []
    for n in (1000, 4096, 10007, 16384):
        for lowest, exponents in ((0, 15), (10, 8), (14, 6), (0, 31)):
            for masked_percent in (0, 30):
                state = rng.getrandbits(64)
                scores = generated_scores(state, n, lowest, exponents, masked_percent)
                parameters = {"state": f"{state:016x}", "n": n, "lowest": lowest, "exponents": exponents}
                parameters |= {"masked_percent": masked_percent, "p_fnv1a64": digest(softmax.softmax(scores))}
                rows.append(parameters)
    return rows


def softmaxes(seed):
    """`softmax.json`."""
    rng = random.Random(seed)
    cases = [{"scores": digits(row), "p": digits(softmax.softmax(row))} for row in score_rows(rng)]
    return document("softmax(scores) = p", seed, cases=cases, generated=generated_rows(rng))


def every_input(name, function, edges, seed):
    """Listed cases of a function of one number, and the digest of the results for all 65,536 patterns."""
    rng = random.Random(seed)
    every = [function(a) for a in range(0x10000)]
    listed = CORNERS + edges + [rng.getrandbits(16) for _ in range(100)]
    cases = [digits((a, every[a])) for a in listed]
    return document(f"{name}(a): each case is a, result", seed, all_fnv1a64=digest(every), cases=cases)


# the least that overflows, the least above zero, and their neighbours
EXP_EDGES = [0x498B, 0x498C, 0x498D, 0xCC54, 0xCC55, 0xCC56, 0xCC57]
# where the result becomes a, where it becomes -0, the ends of its least values, and the smallest odd halves
SILU_EDGES = [0x4800, 0x4801, 0xCD15, 0xCD16, 0xBD0E, 0xBD0F, 0xBD2B, 0xBD2C, 0x0003, 0x8003, 0x0005, 0x8005]
GELU_EDGES = [0x42E4, 0x42E5, 0xC5B9, 0xC5BA, 0xB9D5, 0xB9D6, 0xBA32, 0xBA33, 0x0003, 0x8003, 0x0005, 0x8005]


# where the result becomes a, where it becomes -0, and the ends of its least values
GELU_TANH_EDGES = [0x42C2, 0x42C3, 0xC549, 0xC54A, 0xB9E3, 0xB9E4, 0xBA26, 0xBA27, 0x0003, 0x8003, 0x0005, 0x8005]
CAPS = ["50", "30", "1", "12.5", "1025.5", "10000"]


def soft_caps(seed):
    """`soft_cap.json`: all patterns of the first cap, some of the others."""
    rng = random.Random(seed)
    positive = [activations.soft_cap(a, Fraction(CAPS[0])) for a in range(0x8000)]
    every = positive + [r if r == fp16.NAN else r | fp16.SIGN for r in positive]
    cases = []
    for cap in CAPS:
        for a in CORNERS + [finite_bits(rng, range(0, 31)) for _ in range(60)] + [finite_bits(rng, range(13, 24)) for _ in range(60)]:
            cases.append({"cap": cap, "a": digits([a]), "y": digits([activations.soft_cap(a, Fraction(cap))])})
    return document("soft_cap(a, cap) = y", seed, all_cap=CAPS[0], all_fnv1a64=digest(every), cases=cases)


def exponentials(seed):
    """`exp_q30.json`."""
    rng = random.Random(seed)
    arguments = list(range(40)) + [1 << k for k in range(30)] + [(1 << k) - 1 for k in range(1, 30)]
    arguments += [exponential.CUT_OFF + delta for delta in (-2, -1, 0, 1, 1 << 40)]
    # around the multiples of ln 2, where E's shift k changes
    arguments += [round(k * 2**24 * 0.6931471805599453) + delta for k in range(1, 32) for delta in (-1, 0, 1)]
    arguments += [rng.randrange(1 << rng.randint(10, 29)) for _ in range(800)]
    cases = [[d, exponential.exp_of_negative(d)] for d in sorted(set(arguments))]
    return document("each case is D, E(D)", seed, cases=cases)


def samples(seed):
    """`sample.json`."""
    rng = random.Random(seed)
    rows = [[finite_bits(rng, band) for _ in range(n)] for n in (1, 2, 5, 50, 256) for band in (range(10, 17), range(13, 19))]
    rows += [[0x3C00] * 8, [0x7BFF, 0xFBFF, 0x7BFF], [0x8000, 0x0000]]
    cases = []
    for row in rows:
        for temperature in (0, 1, 50, 70, 100, 333, 1000):
            state = rng.getrandbits(64)
            for _ in range(2 if temperature else 1):
                token, after = sampler.sample(row, temperature, state)
                cases.append(sample_case(row, temperature, state, token, after))
                state = after
    for row in rows:
        for top_k, top_p in ((1, 100), (2, 100), (3, 60), (40, 90), (0, 1), (0, 30), (0, 50), (0, 95)):
            temperature, state = rng.choice((50, 100, 300)), rng.getrandbits(64)
            for _ in range(2):
                token, after = sampler.sample(row, temperature, state, top_k, top_p)
                case = sample_case(row, temperature, state, token, after)
                cases.append(case | {"top_k": top_k, "top_p_percent": top_p})
                state = after
    return document("sampling from logits; state is SplitMix64's before the call, state_after after it", seed, cases=cases)


def sample_case(row, temperature, state, token, after):
    """One entry of `sample.json`."""
    return {
        "logits": digits(row),
        "temperature_percent": temperature,
        "state": f"{state:016x}",
        "token": token,
        "state_after": f"{after:016x}",
    }


# --- INT4 and INT8 weights ---------------------------------------------------------------------------------------------


def with_ties(rng, limit):
    """Weights of which the scale s is an exact share: multiples of s / 2, their neighbours, and the largest, limit * s."""
    scale = rng.randrange(1, 9) << rng.randrange(0, 24)  # in units of 2^-24
    number = lambda halves: fp16.rne16(halves * scale, 1 << (fp16.UNIT_BITS + 1))
    weights = [number(rng.randint(1 - 2 * limit, 2 * limit - 1)) for _ in range(quantised.PLACE - 1)]
    weights = [bits + rng.choice((-1, 0, 0, 0, 1)) if bits & 0x7FFF else bits for bits in weights]
    weights.append(number(rng.choice((-2, 2)) * limit))
    rng.shuffle(weights)
    return weights


def weight_groups(rng):
    """(kind, weights) of places: all but the last one of a row have 32."""
    finite, ordinary_band = [bits for bits in CORNERS if fp16.is_finite(bits)], range(7, 14)
    full = quantised.PLACE
    groups = [("corners", rng.sample([bits for bits in finite if bits & 0x7FFF <= top], 8) * 4) for top in (0xC00, 0x7BFF)]
    groups += [("largest", [sign | 0x7BFF] + [finite_bits(rng) for _ in range(full - 1)]) for sign in (0, 0x8000)]
    groups += [("zeros", [0x0000] * full), ("zeros", [0x8000] * full), ("zeros", [0x0000, 0x8000] * (full // 2))]
    groups += [("one", [sign | rng.choice(finite)] + [0x8000] * (full - 1)) for sign in (0, 0x8000)]
    for _ in range(12):
        groups.append(("ordinary", [finite_bits(rng, ordinary_band) for _ in range(full)]))
        groups.append(("any_finite", [finite_bits(rng) for _ in range(full)]))
        # down to where m / 7 and m / 127 round to zero
        top = 1 << rng.randrange(1, 11)
        groups.append(("subnormal", [rng.getrandbits(1) << 15 | rng.randrange(top) for _ in range(full)]))
    groups += [("with_ties", with_ties(rng, limit)) for limit in quantised.LIMITS.values() for _ in range(6)]
    groups += [("short", [finite_bits(rng, ordinary_band) for _ in range(count)]) for count in (1, 2, 7, 16, 31)]
    # the least that has a scale, and the largest that has none
    groups += [("least", [sign | bits]) for limit in (7, 127) for bits in (limit // 2, limit // 2 + 1) for sign in (0, 0x8000)]
    return groups


def quantisations(seed):
    """`quantise.json`."""
    cases = []
    for kind, weights in weight_groups(random.Random(seed)):
        for limit in quantised.LIMITS.values():
            numbers, scale = quantised.quantise(weights, limit)
            made = digits(quantised.dequantise(q, scale) for q in numbers)
            cases.append({"kind": kind, "limit": limit, "w": digits(weights), "q": numbers, "s": digits([scale]), "y": made})
    every = [{"s": digits([s]), "y": digits(quantised.dequantise(q, s) for q in range(-128, 128))} for s in CORNERS]
    return document("quantise(w) = q, s; dequantise(q, s) = y", seed, cases=cases, all_numbers=every)


# --- generation --------------------------------------------------------------------------------------------------------


class Bytes:
    """The tokens of a model without a `tokenizer.json`: the bytes themselves."""

    def encode(self, text):
        return list(text.encode("utf-8"))

    def decode(self, tokens):
        return bytes(tokens)


def generation(name, weights, decoder, codec, prompt, tokens, temperature_percent, seed):
    """A continuation by the model with a digest of the logits at every position run; `weights` is None for FP16."""
    digests = []
    prompt_tokens = codec.encode(prompt)
    spelled = lambda made: codec.decode(made).decode("utf-8", "replace")
    made = generate(
        decoder, prompt_tokens, tokens, temperature_percent, seed, lambda position, logits: digests.append(digest(logits))
    )
    return {
        "generated_by": COMMAND,
        "contract": CONTRACT,
        "model": name,
        **({"weights": weights} if weights else {}),
        "prompt": prompt,
        "prompt_tokens": prompt_tokens,
        "temperature_percent": temperature_percent,
        "seed": seed,
        "tokens": tokens,
        "text": spelled(made),
        "text_with_prompt": spelled(prompt_tokens + made),
        "generated_tokens": made,
        "logits_fnv1a64": digests,
        "stages_at_last_prompt_token": stages(decoder, prompt_tokens),
    }


def stages(decoder, tokens):
    """[name, digest] of every intermediate vector while the last of `tokens` is run: to find where a mismatch begins."""
    session, found = Session(decoder), []
    for token in tokens[:-1]:
        session.step(token)
    session.step(tokens[-1], lambda stage, bits: found.append([stage, digest(bits)]))
    return found


# --- checkpoints of Hugging Face's transformers ------------------------------------------------------------------------


def roundings(description):
    """How many FP16 roundings follow one another on the longest way from the embedding to a logit."""
    norm = 2 if description.rms else 3
    rotation = 0 if description.theta is None else 3  # of the cosine, the product and the sum
    scale, score, weight, value = 1, 1 + (description.score_cap is not None) + description.alibi, 1, 1
    residual = 1 + (norm if description.names.after_ffn else 0) + (description.residual_scale is not None)
    linear = 1 + description.attention_bias + (0 if description.qk_norm is None else norm)
    attention = norm + linear + scale + rotation + score + weight + value + linear + residual
    gate = 0 if description.names.gate is None else 1
    act = 0 if description.act == "relu" else 1
    linear = 1 + description.mlp_bias
    mixture = 2 if description.experts else 0  # the weight and the sum
    ffn = norm + linear + act + gate + linear + mixture + residual
    layer = max(attention + residual, ffn) if description.parallel else attention + ffn
    embedding = 0 if description.names.positions is None and description.embedding_scale is None else 1
    embedding += 2 if description.names.project_in else 0  # and in front of the head
    return embedding + description.layers * layer + norm + 1 + (description.logit_divisor is not None) + (description.logit_cap is not None)


def six_digits(value):
    """A float as JSON keeps it: six significant digits."""
    return float(f"{value:.6g}")


# A function that is not ReLU, with and without a gate, biases, and experts.
THRESHOLDED = ("falcon-new", "gemma", "llama", "llama-bias", "mixtral", "qwen3")


def with_thresholds(decoder, tokens):
    """A threshold for each layer, the median of the activations at the last token, and the digests with them."""
    found, session = {}, Session(decoder)

    def observe(stage, bits):
        name = stage.split(".")
        if name[0] == "layers" and name[-1] in ("gate", "ffn") and int(name[1]) not in found:
            found[int(name[1])] = int(np.sort(bits & 0x7FFF)[len(bits) // 2])

    for token in tokens:
        found.clear()
        session.step(token, observe)
    thresholds = [found[index] for index in range(len(decoder.layers))]
    decoder.set_thresholds(thresholds)
    session = Session(decoder)
    digests = [digest(session.step(token)) for token in tokens]
    return {"thresholds": [f"{threshold:04x}" for threshold in thresholds], "logits_fnv1a64": digests}


def comparison(directory, made_with, tokens, logits):
    """`expected.json`: the reference's digests, and its distance from the logits that transformers computed in FP32."""
    decoder = Decoder(*checkpoint.load(directory))
    session, digests, furthest = Session(decoder), [], 0.0
    for token, expected in zip(tokens, logits):
        ours = session.step(token)
        digests.append(digest(ours))
        distances = np.abs(ours.view(np.float16).astype(np.float64) - np.array(expected, np.float64))
        furthest = max(furthest, float(np.where(np.isnan(distances), np.inf, distances).max()))
    largest, count = max(abs(logit) for row in logits for logit in row), roundings(decoder.description)
    dense, thresholded = stages(decoder, tokens), {}
    if directory.name in THRESHOLDED:
        thresholded["thresholded"] = with_thresholds(decoder, tokens)
    return {
        "generated_by": f"python3 golden/hugging_face.py, then {COMMAND}",
        "contract": CONTRACT,
        "model": f"golden/checkpoints/{directory.name}",
        "made_with": made_with,
        "tokens": tokens,
        "largest_logit": six_digits(largest),
        "roundings": count,
        "bound": six_digits(2 * math.sqrt(count) * largest / 2048),
        "bound_relative": six_digits(2 * math.sqrt(count) / 2048),
        "difference": six_digits(furthest),
        "difference_relative": six_digits(furthest / largest),
        "logits_fnv1a64": digests,
        "stages_at_last_token": dense,
        **thresholded,
        "transformers_logits": logits,
    }


def too_far(documents):
    """The paths of comparisons whose difference exceeds their bound."""
    return [path for path, content in documents.items() if content.get("difference", 0) > content.get("bound", 0)]


# --- files -------------------------------------------------------------------------------------------------------------


def vector_documents():
    """Path -> document of the operation vectors."""
    return {
        "vectors/add.json": element_wise("add", fp16.add, 101),
        "vectors/mul.json": element_wise("mul", fp16.mul, 102),
        "vectors/sub.json": element_wise("sub", fp16.sub, 108),
        "vectors/div.json": element_wise("div", fp16.div, 109),
        "vectors/max.json": element_wise("max", fp16.maximum, 110),
        "vectors/dot.json": dot_products(103),
        "vectors/layernorm.json": layer_norms(104),
        "vectors/softmax.json": softmaxes(105),
        "vectors/exp.json": every_input("exp", exp.exp, EXP_EDGES, 111),
        "vectors/exp_q30.json": exponentials(106),
        "vectors/sample.json": samples(107),
        "vectors/rms_norm.json": rms_norms(112),
        "vectors/rotary.json": rotations(113),
        "vectors/rotary_scaled.json": scaled_rotations(117),
        "vectors/silu.json": every_input("silu", activations.silu, SILU_EDGES, 114),
        "vectors/quantise.json": quantisations(116),
        "vectors/gelu_tanh.json": every_input("gelu_tanh", activations.gelu_tanh, GELU_TANH_EDGES, 118),
        "vectors/soft_cap.json": soft_caps(119),
        "vectors/alibi.json": alibi_biases(120),
        "vectors/gelu.json": every_input("gelu", activations.gelu, GELU_EDGES, 115),
    }


TEXTS = {"default": ("Elizabeth was surprised at", 64, 50, 4), "greedy": ("Emma could not", 32, 0, 0)}


def generation_documents(model, stored):
    """Path -> document of a model's texts; `stored` has (prefix of the file, weights, name in `TEXTS`) of each."""
    config, tensors = checkpoint.load(model)
    codec = byte_level_bpe.load(model) if (model / "tokenizer.json").exists() else Bytes()
    decoders = {weights: Decoder(config, quantised.model(config, tensors, weights)) for _, weights, _ in stored}
    return {
        f"generate/{prefix}{text}.json": generation(f"golden/{model.name}", weights, decoders[weights], codec, *TEXTS[text])
        for prefix, weights, text in stored
    }


def opt_documents(model):
    """Path -> document of the OPT model's texts."""
    return generation_documents(model, [("", None, "default"), ("", None, "greedy"), ("int4-", "int4", "greedy")])


LLAMA_FILES = ("config.json", "model.safetensors", "tokenizer.json")


def llama_documents(model):
    """Path -> document of the LLaMA model's texts; none, with a message, before it has been trained."""
    missing = [name for name in LLAMA_FILES if not (model / name).exists()]
    if not missing:
        stored = [("llama-", None, "default"), ("llama-", None, "greedy"), ("llama-int8-", "int8", "greedy")]
        stored += [("llama-int4-", "int4", "default"), ("llama-int4-", "int4", "greedy")]
        return generation_documents(model, stored)
    print(f"golden/{model.name} has no {', '.join(missing)}: generate/llama-*.json are left out", file=sys.stderr)
    return {}


def comparison_documents(checkpoints):
    """Path -> document of the comparisons with transformers, from the logits that are stored."""
    documents = {}
    for path in sorted(checkpoints.glob("*/expected.json")):
        stored = json.loads(path.read_text(encoding="ascii"))
        given = (stored[key] for key in ("made_with", "tokens", "transformers_logits"))
        documents[f"checkpoints/{path.parent.name}/expected.json"] = comparison(path.parent, *given)
    return documents


def rendered(content):
    """JSON text with one list entry per line, so that a difference can be read."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], (str, list, dict)):
            entries = ",\n".join("  " + json.dumps(entry) for entry in value)
            lines.append(f"{json.dumps(key)}: [\n{entries}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def drifted(files, directory):
    """The paths of `files` (path -> text) whose copy in `directory` is missing or different."""
    current = lambda path: (directory / path).read_bytes() if (directory / path).exists() else None
    return [path for path, text in files.items() if current(path) != text.encode("ascii")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a file differs")
    arguments = parser.parse_args()
    documents = {**vector_documents(), **opt_documents(HERE / "model"), **llama_documents(HERE / "model-llama")}
    documents |= comparison_documents(HERE / "checkpoints")
    far = too_far(documents)
    for path in far:
        print(f"golden/{path}: the reference is further from transformers than the bound", file=sys.stderr)
    files = {path: rendered(content) for path, content in documents.items()}
    stale = drifted(files, HERE)
    if arguments.check:
        for path in stale:
            print(f"golden/{path} differs from what the reference computes; regenerate with {COMMAND}", file=sys.stderr)
        print(f"{len(files) - len(stale)} of {len(files)} golden files are up to date")
        return 1 if stale or far else 0
    for path, text in files.items():
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / path).write_text(text, encoding="ascii")
        print(f"golden/{path}: {len(text)} bytes")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
