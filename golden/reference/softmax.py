"""Softmax of one row of scores, as the activation unit computes it. A score of -Inf masks its position."""

from . import exp, fp16

MINUS_INFINITY = fp16.SIGN | fp16.INFINITY
SUM_BITS = 28  # terms of the sum are in units of 2^-28
NUMERATOR_BITS = 12  # numerators have 12 fraction bits after the leading one, and no step below 2^-26
SMALLEST_EXPONENT = -14


def softmax(scores):
    """Bit patterns of the probabilities; all NaN when a score is NaN or +Inf, or when all are -Inf."""
    undefined = any(fp16.is_nan(s) or s == fp16.INFINITY for s in scores)
    if undefined or all(s == MINUS_INFINITY for s in scores):
        return [fp16.NAN] * len(scores)
    exponents = [None if s == MINUS_INFINITY else exp.log2_of_exp(s) for s in scores]
    # Y is monotone, so the largest exponent is that of the largest score.
    largest = max(y for y in exponents if y is not None)
    powers = [None if y is None else exp.power_of_two(y - largest) for y in exponents]
    total = sum(term(*power) for power in powers if power is not None)
    reciprocal, scale = reciprocal_of_sum(total)
    return [0 if power is None else probability(*numerator(*power), reciprocal, scale) for power in powers]


def term(r, k):
    """`E`: r * 2^(k - 24) in units of 2^-28, rounded down (k <= 0)."""
    return (r << SUM_BITS - exp.FRACTION_BITS) >> -k


def numerator(r, k):
    """`e` as (integer, exponent of its unit): r * 2^(k - 24) to nearest even with 13 significant bits, fewer below 2^-14."""
    unit = max(k, SMALLEST_EXPONENT) - NUMERATOR_BITS
    step = 1 << (unit - k + exp.FRACTION_BITS)
    quotient, rest = divmod(r, step)
    if 2 * rest > step or (2 * rest == step and quotient & 1):
        quotient += 1
    return quotient, unit


def reciprocal_of_sum(total):
    """(R, x): 1 / (total * 2^-28) is about R * 2^x, from the leading 17 bits of the sum."""
    t = total.bit_length() - 1
    leading = total << 16 >> t
    return (1 << 32) // leading, 12 - t


def probability(e, unit, reciprocal, scale):
    """RNE16(e * 2^unit * reciprocal * 2^scale); both exponents are negative."""
    return fp16.rne16(e * reciprocal, 1 << -(unit + scale))
