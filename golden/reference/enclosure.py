"""Enclosures of real numbers in integers, and the one rounding of a real number to FP16.

An enclosure is a pair (low, high) of integers in units of 2^-bits between which the number lies, ends included. Every step
rounds the low end down and the high end up, or widens both by what its comment proves.
"""

import functools
import math
from fractions import Fraction

from . import fp16

FIRST_BITS = 96
LAST_BITS = 1 << 14


def rounded(enclose):
    """RNE16 of the number that `enclose(bits)` encloses: more bits until both ends round alike."""
    bits = FIRST_BITS
    while bits <= LAST_BITS:
        low, high = (fp16.rne16(end, 1 << bits) for end in enclose(bits))
        if low == high:
            return low
        bits *= 2
    raise ArithmeticError(f"{LAST_BITS} bits do not tell on which side of a rounding boundary the number is")


def up(numerator, denominator):
    """The quotient rounded up."""
    return -(-numerator // denominator)


def exp(numerator, unit_bits, bits):
    """e^x of x = numerator / 2^unit_bits >= 0."""
    # The series at y = x / 2^halvings < 1/16, then as many squarings. The working unit is 2^-work, of which y is a multiple.
    halvings = max(numerator.bit_length() - unit_bits + 4, 0)
    work = max(bits + 64, unit_bits + halvings)
    y = numerator << (work - unit_bits - halvings)
    term = total = 1 << work
    count = 0
    while term:
        count += 1
        term = term * y // (count << work)
        total += term
    # A term is low by at most the error of the one before over 16, and 1: by less than 2. The last is computed as zero, so
    # what follows it is less than 2 / 16 + 2 / 256 + ... < 1.
    low, high = total, total + 2 * count + 1
    for _ in range(halvings):
        low, high = low * low >> work, up(high * high, 1 << work)
    return low >> (work - bits), up(high, 1 << (work - bits))


@functools.lru_cache(maxsize=None)
def pi(bits):
    """Machin: pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    work = bits + 32

    def arctan_of_reciprocal(n):
        """(sum, error): the alternating series; each term is cut off by less than 1, and what follows the last is less than 1."""
        power, total, k = (1 << work) // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        # power is low by less than 2 throughout, its quotient hence by less than 3
        return total, 3 * k + 3

    (a, error_a), (b, error_b) = arctan_of_reciprocal(5), arctan_of_reciprocal(239)
    middle, error = 16 * a - 4 * b, 16 * error_a + 4 * error_b
    return (middle - error) >> (work - bits), up(middle + error, 1 << (work - bits))


def ln(value, bits):
    """The natural logarithm of a Fraction >= 1."""
    work, doublings = bits + 32, 0
    while value >= 2:
        value, doublings = value / 2, doublings + 1

    def artanh(z):
        """(sum, error) of z + z^3 / 3 + ... for 0 <= z <= 1/3: each term is cut off by less than 2."""
        power, total, odd, count = (z.numerator << work) // z.denominator, 0, 1, 0
        while power:
            total += power // odd
            power = power * z.numerator**2 // z.denominator**2
            odd, count = odd + 2, count + 1
        # what follows the last term is less than 1
        return total, 2 * count + 1

    (rest, rest_error), (two, two_error) = artanh((value - 1) / (value + 1)), artanh(Fraction(1, 3))
    low = 2 * (rest + doublings * two)
    return low >> (work - bits), up(low + 2 * (rest_error + doublings * two_error), 1 << (work - bits))


def half_normal(numerator, unit_bits, bits):
    """The integral of the normal density from 0 to a = numerator / 2^unit_bits >= 0, that is erf(a / sqrt(2)) / 2."""
    # e^(-a^2 / 2) / sqrt(2 pi) * (a + a^3 / 3 + a^5 / (3 * 5) + ...): all terms are positive.
    work = bits + 96
    square, square_bits = numerator * numerator, 2 * unit_bits
    low_term, high_term = (numerator << work) >> unit_bits, up(numerator << work, 1 << unit_bits)
    low = high = 0
    odd = 1
    # From the first term on whose successor is less than half of it, what follows a term is less than that term.
    while low_term or 2 * square >= (odd << square_bits):
        low, high = low + low_term, high + high_term
        odd += 2
        low_term = low_term * square // (odd << square_bits)
        high_term = up(high_term * square, odd << square_bits)
    high += 2 * high_term
    exp_low, exp_high = exp(square, square_bits + 1, work)
    pi_low, pi_high = pi(work)
    root_low, root_high = math.isqrt(2 * pi_low << work), math.isqrt(2 * pi_high << work) + 1
    return (low << (work + bits)) // (exp_high * root_high), up(high << (work + bits), exp_low * root_low)


def root(n, degree):
    """The floor of the degree-th root of an integer n >= 1, by Newton from above."""
    value = 1 << up(n.bit_length(), degree)
    while True:
        following = ((degree - 1) * value + n // value ** (degree - 1)) // degree
        if following >= value:
            return value
        value = following


def cos_sin(low, high, bits):
    """The enclosures of cosine and sine of an angle >= 0 in [low, high]."""
    work = bits + high.bit_length() + 16
    low, high = low << (work - bits), high << (work - bits)
    pi_low, pi_high = pi(work)
    quarters = 2 * low // pi_high
    # The angle less quarters * pi/2, from which the series are taken at r; the derivatives are at most 1.
    r, end = low - up(quarters * pi_high, 2), high - (quarters * pi_low >> 1)
    (cosine, cosine_error), (sine, sine_error) = _series(1 << work, 1, r, work), _series(r, 2, r, work)
    for _ in range(quarters % 4):
        (cosine, cosine_error), (sine, sine_error) = (-sine, sine_error), (cosine, cosine_error)
    enclosures = []
    for value, error in ((cosine, cosine_error), (sine, sine_error)):
        error += end - r
        enclosures.append(((value - error) >> (work - bits), up(value + error, 1 << (work - bits))))
    return enclosures


def _series(term, k, r, work):
    """(sum, error) of term - term r^2 / (k (k + 1)) + term r^4 / (k ... (k + 3)) - ..., for |r| < 1.6 and |term| < 1.6."""
    square = r * r >> work
    total = count = 0
    while term:
        total += term
        count += 1
        term = -(term * square >> work) // (k * (k + 1))
        k += 2
    # From an error e of a term the next has e * 2.56 / (k (k + 1)), and less than 1.6 / 2 from the cut-off of the square and 1.5
    # from its own two. For k = 1 and 2, e is 0; from 3 on, e * 2.56 / 12 stays below 0.7 if e is below 3, hence the sum below 3.
    # The terms from the computed zero on are less than 3 together, since they alternate and shrink.
    return total, 3 * count + 3
