"""ALiBi: what a head subtracts from a score for each position between query and key."""

from . import fp16


def power_of_half(a, b):
    """RNE16(2^(-a/b)) for whole numbers 0 < a <= 14 b. The b-th powers of candidates are compared as integers."""
    exponent = -(-a // b)
    # The significand is 2^(rest/b) in [1, 2).
    rest = exponent * b - a
    low, high = 1 << 10, 1 << 11
    while high - low > 1:  # the largest number of 11 bits that is not above it
        middle = (low + high) // 2
        low, high = (middle, high) if middle**b <= 1 << rest + 10 * b else (low, middle)
    above_the_middle = (2 * low + 1) ** b < 1 << rest + 11 * b
    return fp16.rne16(low + above_the_middle, 1 << exponent + 10)


def slopes(heads):
    """Of each head; those beyond a power of two lie between the others."""
    whole = 1 << heads.bit_length() - 1
    powers = [2 * n for n in range(1, whole + 1)] + [2 * n + 1 for n in range(heads - whole)]
    return [power_of_half(4 * power, whole) for power in powers]


def factors(heads, head_width):
    """The slopes on the scale of scores."""
    scale = fp16.reciprocal_sqrt_of_integer(head_width)
    return [fp16.mul(slope, scale) for slope in slopes(heads)]


def biased(score, factor, distance):
    """A score of a key `distance` positions before its query."""
    return fp16.sub(score, fp16.rne16(fp16.integer(factor) * distance, 1 << 24))
