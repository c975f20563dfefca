"""Writes the golden data with the exact reference: `vectors/` (operations) and `generate/` (the model's text and logits).

Everything is deterministic; `--check` regenerates in memory and fails, naming the files, when one differs from disk. FP16
numbers are stored as bit patterns, four hex digits each, a vector as its digits side by side. The formats are in README.md.
"""

import argparse
import json
import pathlib
import random
import sys

import numpy as np

from reference import checkpoint, dot, exp, exponential, fp16, layernorm, opt, sampler, softmax

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


# --- LayerNorm, softmax, exp, E, sampler -------------------------------------------------------------------------------


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


def exps(seed):
    """`exp.json`."""
    rng = random.Random(seed)
    every = [exp.exp(a) for a in range(0x10000)]
    # the least that overflows, the least above zero, and their neighbours
    listed = CORNERS + [0x498B, 0x498C, 0x498D, 0xCC54, 0xCC55, 0xCC56, 0xCC57] + [rng.getrandbits(16) for _ in range(100)]
    cases = [digits((a, every[a])) for a in listed]
    return document("exp(a): each case is a, result", seed, all_fnv1a64=digest(every), cases=cases)


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


# --- generation --------------------------------------------------------------------------------------------------------


def generation(decoder, prompt, tokens, temperature_percent, seed):
    """A continuation by the model with a digest of the logits at every position run."""
    digests = []
    prompt_tokens = list(prompt.encode("utf-8"))
    made = opt.generate(
        decoder, prompt_tokens, tokens, temperature_percent, seed, lambda position, logits: digests.append(digest(logits))
    )
    return {
        "generated_by": COMMAND,
        "contract": CONTRACT,
        "model": "golden/model",
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


def spelled(tokens):
    """The text of byte tokens."""
    return bytes(tokens).decode("utf-8", "replace")


def stages(decoder, tokens):
    """[name, digest] of every intermediate vector while the last of `tokens` is run: to find where a mismatch begins."""
    session, found = opt.Session(decoder), []
    for token in tokens[:-1]:
        session.step(token)
    session.step(tokens[-1], lambda stage, bits: found.append([stage, digest(bits)]))
    return found


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
        "vectors/exp.json": exps(111),
        "vectors/exp_q30.json": exponentials(106),
        "vectors/sample.json": samples(107),
    }


def generation_documents(model):
    """Path -> document of the model's texts."""
    decoder = opt.Decoder(*checkpoint.load(model))
    return {
        "generate/default.json": generation(decoder, "Elizabeth was surprised at", 64, 50, 4),
        "generate/greedy.json": generation(decoder, "Emma could not", 32, 0, 0),
    }


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
    documents = {**vector_documents(), **generation_documents(HERE / "model")}
    files = {path: rendered(content) for path, content in documents.items()}
    stale = drifted(files, HERE)
    if arguments.check:
        for path in stale:
            print(f"golden/{path} differs from what the reference computes; regenerate with {COMMAND}", file=sys.stderr)
        print(f"{len(files) - len(stale)} of {len(files)} golden files are up to date")
        return 1 if stale else 0
    for path, text in files.items():
        (HERE / path).parent.mkdir(exist_ok=True)
        (HERE / path).write_text(text, encoding="ascii")
        print(f"golden/{path}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
