"""FP16 (IEEE 754 binary16) on bit patterns: rounding of exact rationals, the element-wise operations.

Integers only. Sums of products are in `dot`, arrays in `vector`.
"""

import math

FRACTION_BITS = 10
SIGN = 0x8000
INFINITY = 0x7C00
NAN = 0x7E00  # the one NaN that operations return
UNIT_BITS = 24  # every finite number is an integer multiple of 2^-24


def is_nan(a):
    """True for every NaN pattern, canonical or not."""
    return a & 0x7FFF > INFINITY


def is_infinite(a):
    """True for both infinities."""
    return a & 0x7FFF == INFINITY


def is_finite(a):
    """True for zeros, subnormals and normal numbers."""
    return a & INFINITY != INFINITY


def integer(a):
    """`I(a) = a * 2^24`, the exact integer of a finite number."""
    exponent = (a >> FRACTION_BITS) & 0x1F
    fraction = a & 0x3FF
    magnitude = fraction if exponent == 0 else (fraction | 0x400) << (exponent - 1)
    return -magnitude if a & SIGN else magnitude


def rne16(numerator, denominator):
    """Bits of the rational numerator / denominator (denominator > 0) rounded once: nearest, ties to even."""
    if numerator == 0:
        return 0
    sign, magnitude = (SIGN, -numerator) if numerator < 0 else (0, numerator)
    # The leading bit of the quotient weighs 2^exponent: the bit lengths leave two candidates.
    exponent = magnitude.bit_length() - denominator.bit_length()
    if magnitude << max(-exponent, 0) < denominator << max(exponent, 0):
        exponent -= 1
    exponent = max(exponent, -14)  # subnormals share the quantum of the smallest normal exponent
    quantum_exponent = exponent - FRACTION_BITS
    if quantum_exponent >= 0:
        denominator <<= quantum_exponent
    else:
        magnitude <<= -quantum_exponent
    significand, rest = divmod(magnitude, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and significand & 1):
        significand += 1
    # A significand of 1024..2047 carries its hidden bit into the exponent field, and one rounded up to 2048 carries once
    # more, which is the next binade (or, from the last binade, infinity).
    bits = ((exponent + 14) << FRACTION_BITS) + significand
    return sign | min(bits, INFINITY)


def add(a, b):
    """IEEE addition, rounded to nearest even."""
    if is_nan(a) or is_nan(b):
        return NAN
    if is_infinite(a):
        return NAN if is_infinite(b) and a != b else a
    if is_infinite(b):
        return b
    total = integer(a) + integer(b)
    if total == 0:
        return SIGN if a == SIGN and b == SIGN else 0
    return rne16(total, 1 << UNIT_BITS)


def mul(a, b):
    """IEEE multiplication, rounded to nearest even."""
    if is_nan(a) or is_nan(b):
        return NAN
    sign = (a ^ b) & SIGN
    if is_infinite(a) or is_infinite(b):
        other_is_zero = (a & 0x7FFF) == 0 or (b & 0x7FFF) == 0
        return NAN if other_is_zero else sign | INFINITY
    product = integer(a) * integer(b)
    if product == 0:
        return sign
    return rne16(product, 1 << (2 * UNIT_BITS))


def sub(a, b):
    """IEEE subtraction: add(a, -b)."""
    return add(a, b ^ SIGN)


def div(a, b):
    """IEEE division, rounded to nearest even: x / 0 is infinite, 0 / 0 and Inf / Inf are NaN."""
    if is_nan(a) or is_nan(b):
        return NAN
    sign = (a ^ b) & SIGN
    dividend, divisor = a & 0x7FFF, b & 0x7FFF
    if dividend == divisor and dividend in (0, INFINITY):
        return NAN
    if dividend == INFINITY or divisor == 0:
        return sign | INFINITY
    if dividend == 0 or divisor == INFINITY:
        return sign
    return sign | rne16(integer(dividend), integer(divisor))


def maximum(a, b):
    """The larger number; -0 is below +0, and a NaN makes the result NaN."""
    if is_nan(a) or is_nan(b):
        return NAN
    return max(a, b, key=lambda bits: -(bits & 0x7FFF) - 1 if bits & SIGN else bits)


def scale(a, factor):
    """mul(a, factor): an element of a vector times a scalar."""
    return mul(a, factor)


def relu(a):
    """NaN stays NaN (canonical), negative numbers and -0 become +0, the rest is unchanged."""
    if is_nan(a):
        return NAN
    return 0 if a & SIGN else a


def sqrt_of_integer(n):
    """RNE16(sqrt(n)) for an integer n >= 0."""
    # As below: floor(2^60 * sqrt(n)), and half a unit for a rest.
    root = math.isqrt(n << 120)
    return rne16(2 * root + (root * root != n << 120), 1 << 61)


def reciprocal_sqrt_of_integer(n):
    """RNE16(1 / sqrt(n)) for an integer n >= 1."""
    # floor(2^60 / sqrt(n)); when it is inexact the half unit below it stands for the discarded rest. Rounding boundaries of
    # the result have at most 12 significant bits, so none lies strictly between two neighbouring multiples of 2^-60.
    root = math.isqrt((1 << 120) // n)
    inexact = root * root * n != 1 << 120
    return rne16(2 * root + inexact, 1 << 61)
