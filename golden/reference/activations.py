"""SiLU, GELU, its form with tanh, and soft caps, rounded once: enclosures narrow until both ends round alike. Every result is kept."""

import functools
import math
from fractions import Fraction

from . import enclosure, fp16

# Beyond these magnitudes the difference from a or from -0 is below 2^-40 (comments below), so that rounding does not see it.
SILU_SATURATES = 32 << fp16.UNIT_BITS
GELU_SATURATES = 8 << fp16.UNIT_BITS


@functools.lru_cache(maxsize=None)
def silu(a):
    """a / (1 + e^-a) of any pattern."""
    # The function is a less a / (1 + e^a), and of -a, minus that. From a = 32 on, a / (1 + e^a) < 32 e^-32 < 2^-41.
    return _rounded(a, SILU_SATURATES, _silu)


@functools.lru_cache(maxsize=None)
def gelu(a):
    """a times the normal distribution function of a, of any pattern."""
    # With the tail Q(a) = 1/2 - half_normal(a), the function is a - a Q(a), and of -a, -a Q(a). From a = 8 on, a Q(a) is less
    # than the density at 8, e^-32 / sqrt(2 pi) < 2^-47.
    return _rounded(a, GELU_SATURATES, _gelu)


@functools.lru_cache(maxsize=None)
def gelu_tanh(a):
    """a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2 of any pattern."""
    # It is a / (1 + e^(-2u)): a less a / (1 + e^2u), and of -a, minus that. From a = 8 on, 2u > 49, hence a / (1 + e^2u) < 2^-67.
    return _rounded(a, GELU_SATURATES, _gelu_tanh)


@functools.lru_cache(maxsize=None)
def soft_cap(a, cap):
    """c tanh(a / c) of any pattern, for a Fraction c from 1 to 10^4; at an infinity it is c with its sign."""
    sign, size = a & fp16.SIGN, a & 0x7FFF
    if size > fp16.INFINITY:
        return fp16.NAN
    if size == 0:
        return a
    if size == fp16.INFINITY:
        return sign | fp16.rne16(cap.numerator, cap.denominator)
    x = Fraction(fp16.integer(size), 1 << fp16.UNIT_BITS) / cap

    def enclose(bits):
        if x >= 32:  # 1 - tanh(x) < 2 e^-64 < 2^-91, and more than nothing
            low, high = Fraction(2**91 - 1, 2**91), Fraction(1)
            return math.floor(cap * low * 2**bits), math.ceil(cap * high * 2**bits) - 1
        work = bits + 64
        ends = (math.floor(2 * x * 2**work), math.ceil(2 * x * 2**work))
        low, high = enclosure.exp(ends[0], work, work)[0], enclosure.exp(ends[1], work, work)[1]
        shares = (Fraction(power - (1 << work), power + (1 << work)) for power in (low, high))
        low, high = (cap * share * 2**bits for share in shares)
        return math.floor(low), math.ceil(high)

    return sign | enclosure.rounded(enclose)


def _rounded(a, saturates, magnitude):
    """The common cases; `magnitude(n, negative, bits)` encloses the function's magnitude at n / 2^24 or at its negative."""
    sign, size = a & fp16.SIGN, a & 0x7FFF
    if size > fp16.INFINITY:
        return fp16.NAN
    if size == 0 or size == fp16.INFINITY or fp16.integer(size) >= saturates:
        return a if size == 0 or not sign else fp16.SIGN
    return sign | enclosure.rounded(lambda bits: magnitude(fp16.integer(size), bool(sign), bits))


def _silu(n, negative, bits):
    # a / (1 + e^-a) = a e^a / (1 + e^a)
    low, high = enclosure.exp(n, fp16.UNIT_BITS, bits)
    one = 1 << bits
    if negative:
        return (n << 2 * bits - fp16.UNIT_BITS) // (one + high), enclosure.up(n << 2 * bits - fp16.UNIT_BITS, one + low)
    product = n << bits
    return (
        product * low // ((one + low) << fp16.UNIT_BITS),
        enclosure.up(product * high, (one + high) << fp16.UNIT_BITS),
    )


def _gelu_tanh(n, negative, bits):
    work = bits + 64
    # 2u = sqrt(8 / pi) (a + 0.044715 a^3), the second factor exact
    pi_low, pi_high = enclosure.pi(work)
    root_low, root_high = math.isqrt((8 << 3 * work) // pi_high), math.isqrt(enclosure.up(8 << 3 * work, pi_low)) + 1
    a = Fraction(n, 1 << fp16.UNIT_BITS)
    inner = a + Fraction(44715, 10**6) * a**3
    low = enclosure.exp(math.floor(root_low * inner), work, bits)[0]
    high = enclosure.exp(math.ceil(root_high * inner), work, bits)[1]
    one = 1 << bits
    if negative:
        return (n << 2 * bits - fp16.UNIT_BITS) // (one + high), enclosure.up(n << 2 * bits - fp16.UNIT_BITS, one + low)
    product = n << bits
    return (
        product * low // ((one + low) << fp16.UNIT_BITS),
        enclosure.up(product * high, (one + high) << fp16.UNIT_BITS),
    )


def _gelu(n, negative, bits):
    low, high = enclosure.half_normal(n, fp16.UNIT_BITS, bits)
    half = 1 << bits - 1
    low, high = (half - high, half - low) if negative else (half + low, half + high)
    return n * low >> fp16.UNIT_BITS, enclosure.up(n * high, 1 << fp16.UNIT_BITS)
