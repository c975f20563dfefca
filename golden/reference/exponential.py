"""`E(D)`: exp(-D / 2^24) for an integer D >= 0, in units of 2^-30. The sampler is built on it."""

import math

ONE = 1 << 30
CUT_OFF = 32 << 24  # from here on E is 0
LOG2_E = 6196328019  # round(log2(e) * 2^32)
FRACTION_BITS = 24


def _powers_of_two():
    """`C[1..24]`, C[i] = round(2^30 * 2^(-2^-i)); index 0 is unused."""
    # Repeated square roots of 1/2 with 256 fractional bits. Each isqrt is low by less than 2^-256 and a square root of a
    # number above 1/4 does not enlarge an error, so value is low by less than 24 * 2^-256. Rounding to 30 bits is therefore
    # right unless the discarded part is that close to one half, which the check excludes.
    precision = 256
    discarded = precision - 30
    value, table = 1 << (precision - 1), [None]
    for _ in range(FRACTION_BITS):
        value = math.isqrt(value << precision)
        rest = value & ((1 << discarded) - 1)
        if abs(rest - (1 << (discarded - 1))) < 1 << 32:
            raise ArithmeticError("a table entry is too close to a tie")
        table.append((value + (1 << (discarded - 1))) >> discarded)
    return table


C = _powers_of_two()


def exp_of_negative(d):
    """`E(d)` of docs/numerics.md."""
    if d < 0:
        raise ValueError(f"E is defined for D >= 0, not {d}")
    if d >= CUT_OFF:
        return 0
    y = (d * LOG2_E) >> 32
    k, f = y >> FRACTION_BITS, y & ((1 << FRACTION_BITS) - 1)
    t = ONE
    for i in range(1, FRACTION_BITS + 1):
        if f >> (FRACTION_BITS - i) & 1:
            t = (t * C[i] + (1 << 29)) >> 30
    return t >> k
