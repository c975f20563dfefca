"""Rotary embedding: cosines and sines of the real angles, each rounded once, and the rotation of a head."""

import functools
import math

from . import enclosure, fp16

SMALLEST_THETA, LARGEST_THETA = 2, 1 << 32
ONE = 0x3C00


@functools.lru_cache(maxsize=None)
def frequency(theta, i, width, bits):
    """The floor of theta^(-2i / width) in units of 2^-bits."""
    common = math.gcd(2 * i, width)
    power, degree = 2 * i // common, width // common
    return enclosure.root((1 << bits * degree) // theta**power, degree)


def cos_sin(theta, i, width, position):
    """(c[i], s[i]) of docs/numerics.md."""
    if position == 0:
        return ONE, 0

    def enclose(part):
        # The frequency is less than a unit above its floor, the angle less than `position` units above its low end.
        def at(bits):
            low = position * frequency(theta, i, width, bits + position.bit_length())
            work = bits + position.bit_length()
            low, high = enclosure.cos_sin(low, low + position, work)[part]
            return low >> (work - bits), enclosure.up(high, 1 << (work - bits))

        return at

    # The angle is algebraic and not zero, so that neither value is rational, let alone a rounding boundary.
    return enclosure.rounded(enclose(0)), enclosure.rounded(enclose(1))


@functools.lru_cache(maxsize=1 << 16)
def table(theta, width, position):
    """(c, s): two tuples of width / 2 patterns."""
    if width < 2 or width % 2:
        raise ValueError(f"head width {width} must be even and at least 2")
    if not SMALLEST_THETA <= theta <= LARGEST_THETA:
        raise ValueError(f"theta {theta} must be {SMALLEST_THETA}..{LARGEST_THETA}")
    return tuple(zip(*(cos_sin(theta, i, width, position) for i in range(width // 2))))


def rotate(x, theta, position):
    """The head x turned by the angles of the position."""
    half = len(x) // 2
    c, s = table(theta, len(x), position)
    low, high = x[:half], x[half:]
    return [
        *(fp16.sub(fp16.mul(a, c), fp16.mul(b, s)) for a, b, c, s in zip(low, high, c, s)),
        *(fp16.add(fp16.mul(b, c), fp16.mul(a, s)) for a, b, c, s in zip(low, high, c, s)),
    ]
