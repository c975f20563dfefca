"""exp of FP16 numbers: log2(exp(a)) in fixed point, then 2^y by 64 parabolas. Softmax takes both, `exp` rounds once.

Not to be confused with `exponential`, the E(D) of the sampler.
"""

import math

from . import fp16

FRACTION_BITS = 24  # exponents to the base 2, and the powers of their fractions, are in units of 2^-24
LOG2_E = 48408813  # round(log2(e) * 2^25)
INTERVALS = 64
OFFSET_BITS = 18  # of a fraction, below the 6 bits that choose the interval
SQUARE_BITS = 11  # of the offset, that meet the quadratic coefficient


def _parabolas():
    """(C0, C1, C2) of each interval: through the ends and the middle."""
    # 2^(j/128) with 256 fractional bits from seven nested square roots of 2^j: each root is low by less than 2^-256 and
    # halves what it inherits, so the power is low by less than 2^-254 and a coefficient wrong by less than 2^-251 (in units
    # of 1). Rounding to 24 bits is right unless the discarded part is that close to one half, which the check excludes.
    precision = 256
    discarded = precision - FRACTION_BITS
    powers = []
    for j in range(2 * INTERVALS + 1):
        value = 1 << (precision + j)
        for _ in range(7):
            value = math.isqrt(value << precision)
        powers.append(value)

    def rounded(value):
        rest = value & ((1 << discarded) - 1)
        if abs(rest - (1 << (discarded - 1))) < 1 << 32:
            raise ArithmeticError("a coefficient is too close to a tie")
        return (value + (1 << (discarded - 1))) >> discarded

    table = []
    for i in range(INTERVALS):
        g0, g1, g2 = powers[2 * i : 2 * i + 3]
        constant = g0 >> discarded if i == 0 else rounded(g0)  # 2^0 is exact
        table.append((constant, rounded(4 * g1 - 3 * g0 - g2), rounded(2 * g0 - 4 * g1 + 2 * g2)))
    return table


PARABOLAS = _parabolas()


def log2_of_exp(a):
    """`Y(a)` of docs/numerics.md for a finite pattern: log2(exp(a)) in units of 2^-24, towards zero."""
    # M * 2^(X - 1) is the number in units of 2^-24, so M * L * 2^(X - 26) is L times that, over 2^25.
    number = fp16.integer(a)
    magnitude = (abs(number) * LOG2_E) >> 25
    return -magnitude if number < 0 else magnitude


def power_of_two(y):
    """(r, k): 2^(y / 2^24) is r * 2^(k - 24), 2^24 <= r < 2^25."""
    k, f = divmod(y, 1 << FRACTION_BITS)
    i, offset = divmod(f, 1 << OFFSET_BITS)
    c0, c1, c2 = PARABOLAS[i]
    slope = c1 + ((c2 * (offset >> (OFFSET_BITS - SQUARE_BITS))) >> SQUARE_BITS)
    return c0 + ((slope * offset) >> OFFSET_BITS), k


def exp(a):
    """exp of any pattern, rounded to nearest even; NaN is canonical."""
    if fp16.is_nan(a):
        return fp16.NAN
    if fp16.is_infinite(a):
        return 0 if a & fp16.SIGN else fp16.INFINITY
    r, k = power_of_two(log2_of_exp(a))
    # From 2^16 on all is infinite; below, the denominator is an integer.
    return fp16.INFINITY if k >= 16 else fp16.rne16(r, 1 << (FRACTION_BITS - k))
