"""Rotary embedding: cosines and sines of the real angles, each rounded once, and the rotation of a head."""

import functools
import math
from fractions import Fraction
from typing import NamedTuple, Optional

from . import enclosure, fp16

SMALLEST_THETA, LARGEST_THETA = 2, 1 << 32
ONE = 0x3C00


class Scaling(NamedTuple):
    """What changes the frequencies of docs/numerics.md; every number is the exact one of the configuration."""

    kind: str  # "linear", "llama3" or "yarn"
    factor: Fraction
    low: Optional[Fraction] = None  # turns in the original positions; of YaRN beta_slow
    high: Optional[Fraction] = None  # of YaRN beta_fast
    positions: int = 0
    attention: Optional[Fraction] = None  # YaRN's factor of cosines and sines, if it is stated
    mscales: tuple = (Fraction(1), Fraction(0))  # otherwise, those that it is computed from


@functools.lru_cache(maxsize=None)
def frequency(theta, i, width, bits):
    """The floor of theta^(-2i / width) in units of 2^-bits."""
    common = math.gcd(2 * i, width)
    power, degree = 2 * i // common, width // common
    return enclosure.root((1 << bits * degree) // theta**power, degree)


def cut(value):
    """The floor of a Fraction."""
    return value.numerator // value.denominator


def raised(value):
    """A Fraction rounded up."""
    return -(-value.numerator // value.denominator)


def turns(theta, i, width, positions, bits):
    """Enclosure of how often pair i turns in so many positions: positions * w / (2 pi)."""
    low = frequency(theta, i, width, bits)
    pi_low, pi_high = enclosure.pi(bits)
    return (low * positions << bits) // (2 * pi_high), enclosure.up((low + 1) * positions << bits, 2 * pi_low)


def turns_more(theta, i, width, positions, limit):
    """Whether pair i turns more often than the limit; no number of turns is rational."""
    bits = 64
    while True:
        low, high = turns(theta, i, width, positions, bits)
        if low > limit * 2**bits:
            return True
        if high < limit * 2**bits:
            return False
        bits *= 2


@functools.lru_cache(maxsize=None)
def ramp(theta, width, scaling):
    """YaRN's (low, high): the last pair that turns more than beta_fast times, the first that turns less than beta_slow times."""
    count = lambda limit: next((k for k in range(width) if not turns_more(theta, k, width, scaling.positions, limit)), width)
    return max(count(scaling.high) - 1, 0), min(count(scaling.low), width - 1)


@functools.lru_cache(maxsize=None)
def scaled(theta, i, width, scaling, bits):
    """Enclosure of the frequency of pair i."""
    low = frequency(theta, i, width, bits)
    high = low + 1
    if scaling is None:
        return low, high
    if scaling.kind == "llama3":
        # The scaled frequency grows with the frequency and with its share.
        span = (scaling.high - scaling.low) * 2**bits
        shares = [(t - scaling.low * 2**bits) / span for t in turns(theta, i, width, scaling.positions, bits)]
        shares = [min(max(share, Fraction(0)), Fraction(1)) for share in shares]
        low, high = (w * ((1 - share) / scaling.factor + share) for w, share in zip((low, high), shares))
        return cut(low), raised(high)
    part = Fraction(1)
    if scaling.kind == "yarn":
        first, last = ramp(theta, width, scaling)
        part = Fraction(0) if i <= first else Fraction(1) if i >= last else Fraction(i - first, last - first)
    multiple = part / scaling.factor + 1 - part
    return cut(low * multiple), raised(high * multiple)


def magnitude(scaling, bits):
    """Enclosure of the factor of cosines and sines; both ends are Fractions in units of 2^-bits."""
    if scaling is None or scaling.kind != "yarn":
        return Fraction(1 << bits), Fraction(1 << bits)
    if scaling.attention is not None:
        return (scaling.attention * 2**bits,) * 2
    above, below = scaling.mscales
    if scaling.factor == 1 or above == below:
        return Fraction(1 << bits), Fraction(1 << bits)
    ends = [Fraction(end, 1 << bits) / 10 for end in enclosure.ln(scaling.factor, bits)]
    return (1 + above * ends[0]) / (1 + below * ends[1]) * 2**bits, (1 + above * ends[1]) / (1 + below * ends[0]) * 2**bits


def cos_sin(theta, i, width, position, scaling=None):
    """(c[i], s[i]) of docs/numerics.md."""
    if position == 0:
        low, high = magnitude(scaling, enclosure.FIRST_BITS)
        if low == high:
            exact = low / 2**enclosure.FIRST_BITS
            return fp16.rne16(exact.numerator, exact.denominator), 0
        return enclosure.rounded(lambda bits: (cut(magnitude(scaling, bits)[0]), raised(magnitude(scaling, bits)[1]))), 0

    def enclose(part):
        # The angle is between `position` times the ends of the frequency.
        def at(bits):
            work = bits + position.bit_length()
            low, high = (position * end for end in scaled(theta, i, width, scaling, work))
            low, high = enclosure.cos_sin(low, high, work)[part]
            low, high = low >> (work - bits), enclosure.up(high, 1 << (work - bits))
            products = [Fraction(a) * b / 2**bits for a in (low, high) for b in magnitude(scaling, bits)]
            return cut(min(products)), raised(max(products))

        return at

    # The angle is not zero. Without scaling it is algebraic, so that neither value is rational, let alone a rounding boundary.
    return enclosure.rounded(enclose(0)), enclosure.rounded(enclose(1))


@functools.lru_cache(maxsize=1 << 16)
def table(theta, width, position, scaling=None):
    """(c, s): two tuples of width / 2 patterns."""
    if width < 2 or width % 2:
        raise ValueError(f"head width {width} must be even and at least 2")
    if not SMALLEST_THETA <= theta <= LARGEST_THETA:
        raise ValueError(f"theta {theta} must be {SMALLEST_THETA}..{LARGEST_THETA}")
    return tuple(zip(*(cos_sin(theta, i, width, position, scaling) for i in range(width // 2))))


def rotate(x, theta, position, scaling=None, width=None):
    """The head x, of which the first `width` elements (by default all) are turned by the angles of the position."""
    width = len(x) if width is None else width
    half = width // 2
    c, s = table(theta, width, position, scaling)
    low, high = x[:half], x[half:width]
    return [
        *(fp16.sub(fp16.mul(a, c), fp16.mul(b, s)) for a, b, c, s in zip(low, high, c, s)),
        *(fp16.add(fp16.mul(b, c), fp16.mul(a, s)) for a, b, c, s in zip(low, high, c, s)),
        *x[width:],
    ]
