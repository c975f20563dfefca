"""SiLU and GELU, rounded once: enclosures narrow until both ends round alike. Every result is kept."""

import functools

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


def _gelu(n, negative, bits):
    low, high = enclosure.half_normal(n, fp16.UNIT_BITS, bits)
    half = 1 << bits - 1
    low, high = (half - high, half - low) if negative else (half + low, half + high)
    return n * low >> fp16.UNIT_BITS, enclosure.up(n * high, 1 << fp16.UNIT_BITS)
