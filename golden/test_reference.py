"""Tests of `reference/` against Fractions, numpy's float64, Decimal and known values. Run: python3 golden/test_reference.py

Seeds are fixed and named in the failure messages. The trained models are not needed: the decoders are compared with a plain
rational implementation on tiny random ones, and with what transformers computed for the stored checkpoints.
"""

import cmath
import contextlib
import io
import json
import math
import pathlib
import random
import shutil
import struct
import tempfile
import unittest
from decimal import Context, Decimal, getcontext
from fractions import Fraction

import numpy as np

import make_goldens
from reference import activations, checkpoint, config, decoder, dot, enclosure, exp, exponential, fp16, layernorm, rmsnorm
from reference import rotary, sampler, softmax, tokenizer, vector

getcontext().prec = 60

CORNERS = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3BFF, 0x3C00, 0x3C01, 0xBC00,
    0x4000, 0x7BFE, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00, 0xFFFF, 0x5640, 0xD640, 0x1400, 0x9400,
]  # fmt: skip


def number(bits):
    """The rational number of a finite pattern, from the definition of the format."""
    exponent, fraction = (bits >> 10) & 0x1F, bits & 0x3FF
    normal = (1 + Fraction(fraction, 1024)) * Fraction(2) ** (exponent - 15)
    magnitude = normal if exponent else Fraction(fraction, 1024) / 2**14
    return -magnitude if bits >> 15 else magnitude


def nearest(value):
    """RNE16 of a Fraction by searching the neighbours among all finite magnitudes."""
    sign, magnitude = (0x8000, -value) if value < 0 else (0, value)
    if magnitude >= 65520:
        return sign | 0x7C00
    low, high = 0, 0x7BFF
    while low < high:  # the largest pattern not above the magnitude; patterns are ordered like their numbers
        middle = (low + high + 1) // 2
        low, high = (middle, high) if number(middle) <= magnitude else (low, middle - 1)
    if low == 0x7BFF:
        return sign | low
    below, above = magnitude - number(low), number(low + 1) - magnitude
    up = above < below or (above == below and low & 1)
    bits = low + 1 if up else low
    return 0 if value == 0 else sign | bits


def random_bits(rng, count, special=False):
    """Random patterns; finite unless `special`."""
    found = []
    while len(found) < count:
        bits = rng.getrandbits(16)
        if special or fp16.is_finite(bits):
            found.append(bits)
    return found


class Rounding(unittest.TestCase):
    def test_every_finite_number_rounds_to_itself(self):
        for bits in range(0x10000):
            if fp16.is_finite(bits) and bits != 0x8000:
                self.assertEqual(fp16.rne16(fp16.integer(bits), 1 << 24), bits)

    def test_random_rationals_agree_with_a_search_of_the_neighbours(self):
        rng = random.Random(11)
        for _ in range(3000):
            value = Fraction(rng.getrandbits(rng.randint(1, 60)), rng.getrandbits(rng.randint(1, 60)) | 1)
            value *= Fraction(2) ** rng.randint(-30, 16) * rng.choice((-1, 1))
            self.assertEqual(fp16.rne16(value.numerator, value.denominator), nearest(value), value)

    def test_every_tie_goes_to_even_and_its_sides_to_their_neighbours(self):
        for bits in range(0x7BFF):
            tie = (number(bits) + number(bits + 1)) / 2
            for delta, expected in ((0, bits + (bits & 1)), (1, bits + 1), (-1, bits)):
                value = tie + Fraction(delta, 1 << 60)
                self.assertEqual(fp16.rne16(value.numerator, value.denominator), expected)

    def test_overflow_starts_at_65520(self):
        self.assertEqual(fp16.rne16(65520, 1), 0x7C00)
        self.assertEqual(fp16.rne16((65520 << 40) - 1, 1 << 40), 0x7BFF)
        self.assertEqual(fp16.rne16(-(10**30), 1), 0xFC00)

    def test_zero_is_positive_and_an_underflow_keeps_its_sign(self):
        self.assertEqual(fp16.rne16(0, 7), 0)
        self.assertEqual(fp16.rne16(-1, 1 << 25), 0x8000)
        self.assertEqual(fp16.rne16(-1 - (1 << 30), 1 << 55), 0x8001)

    def test_reciprocal_square_roots(self):
        self.assertEqual([fp16.reciprocal_sqrt_of_integer(n) for n in (1, 16, 64, 256)], [0x3C00, 0x3400, 0x3000, 0x2C00])
        for n in range(1, 400):
            root = 1 / Decimal(n).sqrt()
            self.assertEqual(fp16.reciprocal_sqrt_of_integer(n), nearest(Fraction(root)), n)


class ElementWise(unittest.TestCase):
    def check_pair(self, a, b):
        with np.errstate(all="ignore"):
            # float64 holds every sum and product of two FP16 numbers exactly, so its conversion is the one rounding.
            x, y = (np.array([v], np.uint16).view(np.float16).astype(np.float64) for v in (a, b))
            # A quotient of 11-bit numbers is a rounding boundary or at least 2^-23 of it away; float64's error is 2^-53.
            # The larger number: numpy's takes either zero, and a sum of the two zeros in question is +0.
            larger = np.where((x == 0) & (y == 0) & (a != b), x + y, np.maximum(x, y))
            results = {fp16.add: x + y, fp16.sub: x - y, fp16.mul: x * y, fp16.div: x / y, fp16.maximum: larger}
            for operation, exact in results.items():
                expected = 0x7E00 if np.isnan(exact[0]) else int(exact.astype(np.float16).view(np.uint16)[0])
                self.assertEqual(operation(a, b), expected, (operation.__name__, hex(a), hex(b)))

    def test_all_operations_agree_with_float64_on_corners_and_random_pairs(self):
        rng = random.Random(12)
        for a in CORNERS:
            for b in CORNERS:
                self.check_pair(a, b)
        for _ in range(20000):
            self.check_pair(rng.getrandbits(16), rng.getrandbits(16))

    def test_all_operations_agree_with_rationals(self):
        rng = random.Random(13)
        for _ in range(1000):
            a, b = random_bits(rng, 2)
            x, y = number(a), number(b)
            self.assertTrue(x + y == 0 or fp16.add(a, b) == nearest(x + y))
            self.assertTrue(x == y or fp16.sub(a, b) == nearest(x - y))
            self.assertTrue(x * y == 0 or fp16.mul(a, b) == fp16.scale(a, b) == nearest(x * y))
            self.assertTrue(x * y == 0 or fp16.div(a, b) == nearest(x / y))
            self.assertEqual(number(fp16.maximum(a, b)), max(x, y))

    def test_signs_of_zeros(self):
        self.assertEqual(fp16.add(0x8000, 0x8000), 0x8000)
        self.assertEqual(fp16.add(0x8000, 0x0000), 0x0000)
        self.assertEqual(fp16.add(0x3C00, 0xBC00), 0x0000)
        self.assertEqual(fp16.mul(0x8000, 0x3C00), 0x8000)
        self.assertEqual(fp16.mul(0x8000, 0xBC00), 0x0000)
        self.assertEqual(fp16.sub(0x8000, 0x0000), 0x8000)
        self.assertEqual(fp16.sub(0x8000, 0x8000), 0x0000)
        self.assertEqual(fp16.div(0x8000, 0x3C00), 0x8000)
        self.assertEqual(fp16.div(0x3C00, 0xFC00), 0x8000)
        self.assertEqual(fp16.maximum(0x8000, 0x0000), 0x0000)
        self.assertEqual(fp16.maximum(0x0000, 0x8000), 0x0000)
        self.assertEqual(fp16.maximum(0x8000, 0x8000), 0x8000)

    def test_division_by_zero_and_by_infinity(self):
        self.assertEqual(fp16.div(0x3C00, 0x8000), 0xFC00)
        self.assertEqual(fp16.div(0xFC00, 0x0000), 0xFC00)
        self.assertEqual(fp16.div(0x0000, 0x8000), 0x7E00)
        self.assertEqual(fp16.div(0x7C00, 0xFC00), 0x7E00)
        self.assertEqual(fp16.div(0xFC01, 0x0000), 0x7E00)

    def test_relu_of_every_pattern(self):
        for bits in range(0x10000):
            expected = 0x7E00 if bits & 0x7FFF > 0x7C00 else bits if bits < 0x8000 else 0
            self.assertEqual(fp16.relu(bits), expected)

    def test_vector_operations_agree_with_the_scalar_ones(self):
        rng = random.Random(14)
        pairs = [(a, b) for a in CORNERS for b in CORNERS]
        pairs += [(rng.getrandbits(16), rng.getrandbits(16)) for _ in range(20000)]
        a, b = (np.array(column, np.uint16) for column in zip(*pairs))
        self.assertEqual(vector.add(a, b).tolist(), [fp16.add(*pair) for pair in pairs])
        self.assertEqual(vector.sub(a, b).tolist(), [fp16.sub(*pair) for pair in pairs])
        self.assertEqual(vector.mul(a, b).tolist(), [fp16.mul(*pair) for pair in pairs])
        every = np.arange(0x10000, dtype=np.uint16)
        self.assertEqual(vector.relu(every).tolist(), [fp16.relu(int(x)) for x in every])


class DotProduct(unittest.TestCase):
    def test_random_sums_agree_with_fractions(self):
        rng = random.Random(15)
        for _ in range(200):
            n = rng.randint(1, 60)
            w, x = random_bits(rng, n), random_bits(rng, n)
            exact = sum((number(a) * number(b) for a, b in zip(w, x)), Fraction(0))
            self.assertEqual(dot.dot(w, x), nearest(exact))

    def test_a_cancelled_sum_is_positive_zero_and_leaves_the_rest_exact(self):
        self.assertEqual(dot.dot([0x7BFF, 0xFBFF], [0x7BFF, 0x7BFF]), 0)
        self.assertEqual(dot.dot([0x8000], [0x3C00]), 0)
        # 65504^2 - 65504^2 + 2^-24 * 1: lost by any accumulator that rounds.
        self.assertEqual(dot.dot([0x7BFF, 0x0001, 0xFBFF], [0x7BFF, 0x3C00, 0x7BFF]), 0x0001)

    def test_special_values(self):
        one, infinity, minus_infinity = 0x3C00, 0x7C00, 0xFC00
        self.assertEqual(dot.dot([infinity, one], [one, one]), infinity)
        self.assertEqual(dot.dot([infinity, one], [0xBC00, one]), minus_infinity)
        self.assertEqual(dot.dot([infinity, infinity], [one, 0xBC00]), 0x7E00)
        self.assertEqual(dot.dot([infinity, one], [0x8000, one]), 0x7E00)
        self.assertEqual(dot.dot([0xFE01], [one]), 0x7E00)
        self.assertEqual(dot.dot([infinity] * 3, [one] * 3), infinity)

    def test_parts_that_meet_in_any_order_give_the_bits_of_the_whole(self):
        rng = random.Random(19)
        for special in (False, True):
            for _ in range(200):
                n = rng.randint(1, 40)
                w, x = random_bits(rng, n, special and rng.random() < 0.3), random_bits(rng, n)
                parts = [dot.Sum() for _ in range(rng.randint(1, 4))]
                for a, b in zip(w, x):
                    rng.choice(parts).add_products([a], [b])
                rng.shuffle(parts)
                for part in parts[1:]:
                    parts[0].merge(part)
                self.assertEqual(parts[0].rounded(), dot.dot(w, x))

    def test_rounded_parts_join_before_the_last_rounding(self):
        rng = random.Random(20)
        for _ in range(200):
            n = rng.randint(1, 20)
            w, x, partials = random_bits(rng, n), random_bits(rng, n), random_bits(rng, 2)
            whole = dot.Sum()
            whole.merge_rounded(partials[0])
            whole.add_products(w, x)
            whole.merge_rounded(partials[1])
            exact = sum((number(a) * number(b) for a, b in zip(w, x)), number(partials[0]) + number(partials[1]))
            self.assertEqual(whole.rounded(), nearest(exact))
        # 1 + 2^-11 is a tie that goes to 1, so adding it twice is lost; in a sum it is not.
        half_unit, one = 0x1000, 0x3C00
        whole = dot.Sum()
        for partial in (one, half_unit, half_unit):
            whole.merge_rounded(partial)
        self.assertEqual((fp16.add(fp16.add(one, half_unit), half_unit), whole.rounded()), (one, 0x3C01))
        whole.merge_rounded(0xFC00)
        self.assertEqual(whole.rounded(), 0xFC00)
        whole.merge_rounded(0x7C00)
        self.assertEqual(whole.rounded(), 0x7E00)

    def test_the_fast_matrix_product_agrees_with_the_definition(self):
        rng = random.Random(16)
        for n, exponents in ((1, 31), (7, 31), (64, 20), (192, 31), (300, 12)):
            for special in (False, True):
                rows = 40
                matrix = [self.limited(rng, n, exponents, special and r == 0) for r in range(rows)]
                x = self.limited(rng, n, exponents, False)
                product = vector.Matrix(np.array(matrix, np.uint16)).times(np.array(x, np.uint16))
                self.assertEqual(product.tolist(), [dot.dot(row, x) for row in matrix], (n, exponents))

    def test_the_fast_matrix_product_rounds_forced_ties_like_the_definition(self):
        rng = random.Random(17)
        matrix, one = [], 0x3C00
        for _ in range(400):
            a = rng.randrange(0x0400, 0x7BFF)
            half_quantum = max((a >> 10) - 11, 0) << 10
            matrix.append([a, half_quantum, rng.choice((0x0000, 0x0001, 0x8001)), rng.choice((0, a, a | 0x8000))])
        x = [one, one, 0x0001, 0x0000]
        product = vector.Matrix(np.array(matrix, np.uint16)).times(np.array(x, np.uint16))
        self.assertEqual(product.tolist(), [dot.dot(row, x) for row in matrix])

    def test_extreme_limbs_stay_exact_at_the_column_limit(self):
        n = vector.MAX_COLUMNS
        for pattern in (0x7BFF, 0xFBFF, 0x03FF, 0x83FF):
            row, x = [pattern] * n, [0x7BFF] * n
            product = vector.Matrix(np.array([row], np.uint16)).times(np.array(x, np.uint16))
            self.assertEqual(product.tolist(), [dot.dot(row, x)])

    def test_limb_sums_agree_with_rational_rounding(self):
        rng = random.Random(18)
        sums = [[rng.randint(-(1 << bits), 1 << bits) for _ in range(3)] for bits in range(1, 53) for _ in range(40)]
        a, b, c = (np.array(column, np.int64) for column in zip(*sums))
        expected = [fp16.rne16((p << 40) + (q << 20) + r, 1 << 48) for p, q, r in sums]
        self.assertEqual(vector.round_limb_sums(a, b, c).tolist(), expected)

    @staticmethod
    def limited(rng, n, exponents, special):
        """n patterns with exponent fields below `exponents`; with specials when asked."""
        values = [rng.getrandbits(1) << 15 | rng.randrange(exponents) << 10 | rng.getrandbits(10) for _ in range(n)]
        if special:
            values[rng.randrange(n)] = rng.choice((0x7C00, 0xFC00, 0x7E01))
        return values


class Exponential(unittest.TestCase):
    def test_constants(self):
        self.assertEqual(exponential.LOG2_E, int((Decimal(2**32) / Decimal(2).ln()).to_integral_value()))
        for i in range(1, 25):
            exact = Decimal(2**30) * Decimal(2) ** (-(Decimal(2) ** -i))
            self.assertEqual(exponential.C[i], int(exact.to_integral_value()), i)

    def test_ends(self):
        self.assertEqual(exponential.exp_of_negative(0), 1 << 30)
        self.assertEqual(exponential.exp_of_negative(32 << 24), 0)
        with self.assertRaises(ValueError):
            exponential.exp_of_negative(-1)

    def test_error_is_below_80_units_of_2_to_the_minus_30(self):
        rng = random.Random(19)
        for _ in range(2000):
            d = rng.randrange(1 << rng.randint(1, 29))
            exact = (Decimal(-d) / 2**24).exp() * 2**30
            self.assertLess(abs(exponential.exp_of_negative(d) - exact), 80, d)


class Exp(unittest.TestCase):
    def test_coefficients(self):
        self.assertEqual(exp.LOG2_E, int((Decimal(2**25) / Decimal(2).ln()).to_integral_value()))
        power = lambda numerator: Decimal(2**24) * Decimal(2) ** (Decimal(numerator) / 128)
        for i, coefficients in enumerate(exp.PARABOLAS):
            start, middle, end = (power(2 * i + step) for step in range(3))
            exact = (start, -3 * start + 4 * middle - end, 2 * start - 4 * middle + 2 * end)
            for coefficient, value in zip(coefficients, exact):
                self.assertLess(abs(coefficient - value), Decimal("0.4982"), i)  # no tie within 0.0018

    def test_every_finite_input_is_rounded_correctly(self):
        boundary = [(number(b) + number(b + 1)) / 2 for b in range(0x7BFF)] + [Fraction(65520)]
        boundary = [Decimal(value.numerator) / value.denominator for value in boundary]  # exact: 41 digits at most
        context = Context(prec=40)
        for a in range(0x10000):
            if not fp16.is_finite(a) or a & 0x7FFF == 0:
                continue
            # The decimal module rounds exp correctly to 40 digits, and exp of a rational but 0 is no boundary.
            power, bits = context.exp(Decimal(fp16.integer(a)) / 2**24), exp.exp(a)
            self.assertTrue(bits == 0 or boundary[bits - 1] < power, hex(a))
            self.assertTrue(bits == 0x7C00 or power < boundary[bits], hex(a))

    def test_zeros_and_special_values(self):
        cases = {0x0000: 0x3C00, 0x8000: 0x3C00, 0x7C00: 0x7C00, 0xFC00: 0, 0x7C01: 0x7E00, 0xFFFF: 0x7E00}
        for a, expected in cases.items():
            self.assertEqual(exp.exp(a), expected, hex(a))

    def test_powers_are_within_five_units(self):
        rng = random.Random(23)
        for _ in range(3000):
            y = -rng.randrange(1 << rng.randint(1, 32))
            r, k = exp.power_of_two(y)
            self.assertTrue(1 << 24 <= r < 1 << 25)
            exact = Decimal(2) ** (Decimal(y) / 2**24 + 24 - k)
            self.assertLess(abs(r - exact), Decimal("4.8"), y)


def decimal_pi():
    """pi by the sum of Gauss and Legendre, with the digits of the context."""
    a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
    for _ in range(8):
        following = (a + b) / 2
        b, t, a, p = (a * b).sqrt(), t - p * (a - following) ** 2, following, 2 * p
    return (a + b) ** 2 / (4 * t)


PI = decimal_pi()


def decimal_sine(angle):
    """Of a non-negative Decimal angle, by the series after reduction to half a turn."""
    angle %= 2 * PI
    term, total, k = angle, Decimal(0), 1
    while abs(term) > Decimal("1e-70"):
        total += term
        term *= -angle * angle / ((k + 1) * (k + 2))
        k += 2
    return total


def decimal_erf(x):
    """By its alternating series; the largest term costs x^2 / 2.3 of the context's digits."""
    term, total, n = x, Decimal(0), 0
    while abs(term) > Decimal("1e-70"):
        total += term / (2 * n + 1)
        n += 1
        term *= -x * x / n
    return 2 * total / PI.sqrt()


class Enclosure(unittest.TestCase):
    def check(self, enclosed, exact, bits, width):
        low, high = enclosed
        self.assertLessEqual(Decimal(low), exact * 2**bits)
        self.assertLessEqual(exact * 2**bits, Decimal(high))
        self.assertLessEqual(high - low, width)

    def test_pi(self):
        self.assertEqual(str(PI)[:52], "3.14159265358979323846264338327950288419716939937510")
        for bits in (8, 64, 150):
            self.check(enclosure.pi(bits), PI, bits, 2)

    def test_exponentials_and_the_normal_distribution(self):
        rng = random.Random(30)
        for _ in range(100):
            n = rng.getrandbits(rng.randint(1, 29))
            self.check(enclosure.exp(n, 24, 96), (Decimal(n) / 2**24).exp(), 96, 2)
            n = rng.getrandbits(rng.randint(1, 26))
            self.check(enclosure.half_normal(n, 24, 96), decimal_erf(Decimal(n) / 2**24 / Decimal(2).sqrt()) / 2, 96, 2)

    def test_cosines_and_sines_in_all_quadrants(self):
        rng = random.Random(31)
        for _ in range(200):
            n = rng.getrandbits(rng.randint(1, 113))
            angle = Decimal(n) / 2**96
            cosine, sine = enclosure.cos_sin(n, n, 96)
            self.check(cosine, decimal_sine(angle + PI / 2), 96, 2)
            self.check(sine, decimal_sine(angle), 96, 2)

    def test_roots(self):
        rng = random.Random(32)
        for degree in (1, 2, 3, 5, 32, 64):
            n = rng.getrandbits(2000)
            value = enclosure.root(n, degree)
            self.assertTrue(value**degree <= n < (value + 1) ** degree)
            self.assertEqual(enclosure.root(7**degree, degree), 7)

    def test_the_enclosure_narrows_until_both_ends_round_alike(self):
        asked = []

        def close_to_a_tie(bits):  # 1 + 2^-11 + 2^-300
            asked.append(bits)
            middle = (1 << bits) + (1 << bits - 11)
            return (middle, middle + 1) if bits < 300 else (middle + (1 << bits - 300),) * 2

        self.assertEqual(enclosure.rounded(close_to_a_tie), 0x3C01)
        self.assertEqual(asked, [96, 192, 384])
        with self.assertRaises(ArithmeticError):
            enclosure.rounded(lambda bits: (-1, 1))


class Activations(unittest.TestCase):
    def samples(self):
        rng = random.Random(33)
        random_ones = [rng.getrandbits(1) << 15 | rng.randrange(1, 0x4E00) for _ in range(600)]
        return make_goldens.SILU_EDGES + make_goldens.GELU_EDGES + random_ones

    def test_silu_is_rounded_correctly(self):
        for a in self.samples():
            x = Decimal(fp16.integer(a)) / 2**24
            self.assertEqual(activations.silu(a), nearest(Fraction(x / (1 + (-x).exp()))), hex(a))

    def test_gelu_is_rounded_correctly(self):
        for a in self.samples():
            x = Decimal(fp16.integer(a)) / 2**24
            if abs(x) < 8:
                self.assertEqual(activations.gelu(a), nearest(Fraction(x * (1 + decimal_erf(x / Decimal(2).sqrt())) / 2)), hex(a))

    def test_known_values(self):
        # silu(1) = 0.7310585786, silu(-1) = -0.2689414214, gelu(1) = 0.8413447461, gelu(-1) = -0.1586552539
        self.assertEqual([activations.silu(a) for a in (0x3C00, 0xBC00)], [0x39D9, 0xB44E])
        self.assertEqual([activations.gelu(a) for a in (0x3C00, 0xBC00)], [0x3ABB, 0xB114])

    def test_large_and_special_values(self):
        for function in (activations.silu, activations.gelu):
            for a, expected in {0: 0, 0x8000: 0x8000, 0x7C00: 0x7C00, 0xFC00: 0x8000, 0x7C01: 0x7E00, 0xFFFF: 0x7E00}.items():
                self.assertEqual(function(a), expected, hex(a))
            for a in range(0x4D16, 0x7C00, 7):
                self.assertEqual((function(a), function(a | 0x8000)), (a, 0x8000), hex(a))

    def test_they_rise_from_their_least_value_on_and_fall_before_it(self):
        for function in (activations.silu, activations.gelu):
            rising = [number(function(a)) for a in range(0x7C00)]
            self.assertEqual(rising, sorted(rising))
            falling = [number(function(a)) for a in range(0x8000, 0xFC00)]
            least = falling.index(min(falling))
            self.assertEqual(falling[: least + 1], sorted(falling[: least + 1], reverse=True))
            self.assertEqual(falling[least:], sorted(falling[least:]))

    def test_vectors_agree_with_numbers(self):
        every = np.arange(0, 0x10000, 11, dtype=np.uint16)
        self.assertEqual(vector.silu(every).tolist(), [activations.silu(a) for a in every.tolist()])
        self.assertEqual(vector.gelu(every).tolist(), [activations.gelu(a) for a in every.tolist()])


class Rotary(unittest.TestCase):
    def test_cosines_and_sines_are_those_of_the_real_angle(self):
        rng = random.Random(34)
        for _ in range(250):
            theta, width = rng.choice((2, 10000, 500000, 1000000, 1 << 32)), rng.choice((2, 6, 64, 80, 128))
            i, position = rng.randrange(width // 2), rng.randrange(1, 1 << rng.randint(1, 17))
            angle = position * (-Decimal(2 * i) / width * Decimal(theta).ln()).exp()
            expected = [nearest(Fraction(decimal_sine(angle + shift))) for shift in (PI / 2, 0)]
            self.assertEqual(list(rotary.cos_sin(theta, i, width, position)), expected, (theta, width, i, position))

    def test_known_angles(self):
        # cos(1) = 0.5403023, sin(1) = 0.8414710; cos(0.01) = 0.99995, sin(0.01) = 0.0099998
        self.assertEqual(rotary.table(10000, 4, 1), ((0x3853, 0x3C00), (0x3ABB, 0x211F)))
        self.assertEqual(rotary.table(10000, 4, 0), ((0x3C00, 0x3C00), (0, 0)))
        # 355 is 113 pi + 0.00003: a cosine close to -1 and a small negative sine of -0.0000301
        self.assertEqual(rotary.table(2, 2, 355), ((0xBC00,), (0x81FA,)))

    def test_a_rotation_rounds_each_product_and_each_sum(self):
        rng = random.Random(35)
        for width in (2, 8, 80):
            x, position = random_bits(rng, width), rng.randrange(1, 5000)
            x = [a & 0xBFFF or 1 for a in x]  # below 2, so that nothing overflows, and not zero
            c, s = rotary.table(10000, width, position)
            product = lambda a, b: number(nearest(number(a) * number(b)))
            half = width // 2
            pairs = list(zip(x[:half], x[half:], c, s))
            expected = [nearest(product(a, c) - product(b, s)) for a, b, c, s in pairs]
            expected += [nearest(product(b, c) + product(a, s)) for a, b, c, s in pairs]
            self.assertEqual([v & 0x7FFF and v for v in rotary.rotate(x, 10000, position)], expected)

    def test_position_zero_keeps_numbers_and_spoils_what_is_paired_with_an_infinity(self):
        self.assertEqual(rotary.rotate([0x3C00, 0xC000, 0x0001, 0x8000], 10000, 0), [0x3C00, 0xC000, 0x0001, 0x8000])
        self.assertEqual(rotary.rotate([0x8000, 0xBC00], 10000, 0), [0x0000, 0xBC00])  # -0 less -0
        self.assertEqual(rotary.rotate([0x3C00, 0x7C00], 10000, 0), [0x7E00, 0x7C00])

    def test_vectors_of_several_heads_agree_with_the_heads(self):
        rng = random.Random(36)
        x = random_bits(rng, 48, special=True)
        heads = [rotary.rotate(x[begin : begin + 16], 500000, 77) for begin in (0, 16, 32)]
        self.assertEqual(vector.rotate(np.array(x, np.uint16), 16, 500000, 77).tolist(), sum(heads, []))

    def test_odd_widths_and_small_bases_are_refused(self):
        for theta, width in ((10000, 7), (10000, 0), (1, 8), ((1 << 32) + 1, 8)):
            with self.assertRaises(ValueError):
                rotary.table(theta, width, 1)


class Softmax(unittest.TestCase):
    def distance(self, scores):
        """Of the softmax of `scores` from the exact one, in units in the last place of the exact one."""
        visible = [s for s in scores if s != 0xFC00]
        power_of = {s: (Decimal(fp16.integer(s)) / 2**24).exp() for s in set(visible)}
        powers = [power_of[s] for s in visible]
        total, worst = sum(powers), Decimal(0)
        probabilities = softmax.softmax(scores)
        self.assertEqual([p for p, s in zip(probabilities, scores) if s == 0xFC00], [0] * (len(scores) - len(visible)))
        for got, power in set(zip((p for p, s in zip(probabilities, scores) if s != 0xFC00), powers)):
            exact = power / total
            unit = Decimal(2) ** (max(number_exponent(exact), -14) - 10)
            worst = max(worst, abs(Decimal(fp16.integer(got)) / 2**24 - exact) / unit)
        return worst

    def test_within_the_stated_bound_of_the_exact_softmax(self):
        rng = random.Random(20)
        for n in (1, 2, 3, 5, 17, 64, 256, 700):
            for spread in (0x2000, 0x4000, 0x4800, 0x5400):
                for masked in (0, 0.3):
                    scores = [rng.getrandbits(1) << 15 | rng.randrange(spread) for _ in range(n)]
                    scores = [scores[0]] + [0xFC00 if rng.random() < masked else s for s in scores[1:]]
                    self.assertLess(self.distance(scores), 0.783 + n / 2**17, (n, hex(spread)))

    def test_a_long_row_whose_terms_lose_almost_a_unit_each(self):
        # exp(-18.71875) * 2^28 = 1.99 and exp(-18.046875) * 2^28 = 3.90, which the sum takes as 1 and 3.
        for score in (0xCCAE, 0xCC83):
            scores = [0x0000] + list(range(0xC600, 0xC680)) + [score] * 16255
            self.assertLess(self.distance(scores), 0.908, hex(score))

    def test_sums_and_numerators_round_as_stated(self):
        one = 1 << 24
        self.assertEqual([softmax.term(one, 0), softmax.term(2 * one - 1, -28), softmax.term(2 * one - 1, -29)], [1 << 28, 1, 0])
        self.assertEqual(softmax.numerator(one + (1 << 11), -1), (1 << 12, -13))  # ties to even
        self.assertEqual(softmax.numerator(one + (3 << 11), -1), ((1 << 12) + 2, -13))
        self.assertEqual(softmax.numerator(2 * one - 1, -1), (1 << 13, -13))
        self.assertEqual(softmax.numerator(one, -15), (1 << 11, -26))  # the step stays 2^-26
        self.assertEqual(softmax.numerator(one, -27), (0, -26))
        self.assertEqual(softmax.numerator(one + 1, -27), (1, -26))
        self.assertEqual(softmax.reciprocal_of_sum(1 << 28), (1 << 16, -16))
        self.assertEqual(softmax.reciprocal_of_sum((1 << 29) - 1), (1 << 15, -16))

    def test_uniform_masked_and_special_rows(self):
        self.assertEqual(softmax.softmax([0x4500] * 4), [0x3400] * 4)
        self.assertEqual(softmax.softmax([0xC500]), [0x3C00])
        self.assertEqual(softmax.softmax([0x7BFF, 0xFBFF]), [0x3C00, 0])
        self.assertEqual(softmax.softmax([0x7BFF] * 16384), [0x0400] * 16384)
        self.assertEqual(softmax.softmax([0x3C00, 0xFC00]), [0x3C00, 0])
        for row in ([0xFC00, 0xFC00], [0x3C00, 0x7C00], [0xFC00, 0x7C01], [0xFE00, 0]):
            self.assertEqual(softmax.softmax(row), [0x7E00] * 2)


def number_exponent(value):
    """floor(log2(value)) of a positive Decimal."""
    numerator, denominator = value.as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    return exponent if Decimal(2) ** exponent <= value else exponent - 1


class Norms(unittest.TestCase):
    EPS = (10**6, 10**7, 123456789, 10**10)

    def inputs(self, seed):
        rng = random.Random(seed)
        for n in (1, 2, 3, 64, 192):
            for limit in (0x0400, 0x3C00, 0x5000, 0x7C00):
                for eps in self.EPS if n < 64 else (10**7,):
                    yield [rng.getrandbits(1) << 15 | rng.randrange(limit) for _ in range(n)], eps

    def test_layer_norm_s_normalized_values_are_within_one_ulp_of_the_exact_ones(self):
        for x, eps in self.inputs(21):
            values = [number(a) for a in x]
            mean = sum(values) / len(x)
            variance = sum((v - mean) ** 2 for v in values) / len(x) + Fraction(eps, 10**12)
            deviation = (Decimal(variance.numerator) / variance.denominator).sqrt()
            for got, value in zip(layernorm.normalize(x, eps), values):
                centred = value - mean
                exact = nearest(Fraction(Decimal(centred.numerator) / centred.denominator / deviation))
                self.assertLessEqual(abs(got - exact), 1, (len(x), eps))

    def test_rms_norm_s_normalized_values_are_within_half_an_ulp_and_a_thousandth(self):
        for x, eps in self.inputs(37):
            values = [number(a) for a in x]
            mean_square = sum(v * v for v in values) / len(x) + Fraction(eps, 10**12)
            root = (Decimal(mean_square.numerator) / mean_square.denominator).sqrt()
            for got, value in zip(rmsnorm.normalize(x, eps), values):
                exact = Decimal(value.numerator) / value.denominator / root
                unit = Decimal(2) ** (max(number_exponent(abs(exact)), -14) - 10) if exact else 1
                self.assertLess(abs(Decimal(fp16.integer(got)) / 2**24 - exact) / unit, Decimal("0.501"), (len(x), eps))

    def test_constant_input_gives_the_bias_and_a_special_value_spoils_everything(self):
        self.assertEqual(layernorm.layer_norm([0x4248] * 3, [0x3C00] * 3, [0x3800, 0, 0xB800]), [0x3800, 0, 0xB800])
        self.assertEqual(layernorm.layer_norm([0x3C00, 0x7C00], [0x3C00] * 2, [0] * 2), [0x7E00] * 2)
        self.assertEqual(rmsnorm.rms_norm([0x3C00, 0xFC00], [0x3C00] * 2, 10**7), [0x7E00] * 2)
        self.assertEqual(rmsnorm.rms_norm([0x3C00, 0x3C00], [0x7C00, 0x3C00], 10**7), [0x7E00] * 2)

    def test_known_values(self):
        # 3 and 4 over sqrt(12.5) are 0.848528 and 1.131371, which the gains 2 and -1 multiply
        self.assertEqual(rmsnorm.rms_norm([0x4200, 0x4400], [0x4000, 0xBC00], 10**6), [0x3ECA, 0xBC87])
        # with eps = 0.01, -0.1 and 0.1 have the root sqrt(0.02), so that 0.7071 remains
        self.assertEqual(layernorm.normalize([0xAE66, 0x2E66], 10**10), [0xB9A8, 0x39A8])
        self.assertEqual(rmsnorm.rms_norm([0x8000, 0x0000], [0x3C00] * 2, 10**6), [0, 0])

    def test_lengths_and_eps_outside_the_contract_are_refused(self):
        for n, eps in ((0, 10**7), (16385, 10**7), (2, 10**6 - 1), (2, 10**10 + 1)):
            with self.assertRaises(ValueError):
                rmsnorm.rms_norm([0] * n, [0] * n, eps)
            with self.assertRaises(ValueError):
                layernorm.layer_norm([0] * n, [0] * n, [0] * n, eps)


class Sampler(unittest.TestCase):
    def test_splitmix64_gives_its_published_first_outputs(self):
        state, outputs = 1234567, []
        for _ in range(3):
            state, z = sampler.splitmix64(state)
            outputs.append(z)
        self.assertEqual(outputs, [6457827717110365317, 3203168211198807973, 9817491932198370423])

    def test_greedy_takes_the_first_largest_and_draws_nothing(self):
        self.assertEqual(sampler.sample([0x3C00, 0x4000, 0x4000], 0, 5), (1, 5))

    def test_frequencies_follow_the_softmax(self):
        logits, state, counts = [0x0000, 0x3C00, 0x4000], 7, [0, 0, 0]
        for _ in range(6000):
            token, state = sampler.sample(logits, 100, state)
            counts[token] += 1
        for count, p in zip(counts, (0.0900, 0.2447, 0.6652)):
            self.assertAlmostEqual(count / 6000, p, delta=0.02)

    def test_only_likely_tokens_are_drawn(self):
        # Logits 2, 0, 1, 2, 1: weights 1, 0.14, 0.37, 1, 0.37.
        logits = [0x4000, 0x0000, 0x3C00, 0x4000, 0x3C00]
        for top_k, top_p, expected in ((1, 100, {0}), (3, 100, {0, 2, 3}), (0, 34, {0}), (0, 35, {0, 3}), (0, 80, {0, 2, 3}), (3, 80, {0, 3})):
            state, seen = 3, set()
            for _ in range(300):
                token, state = sampler.sample(logits, 100, state, top_k, top_p)
                seen.add(token)
            self.assertEqual(seen, expected)
        with self.assertRaises(ValueError):
            sampler.sample(logits, 100, 3, 0, 0)

    def test_low_temperature_is_greedy_and_a_special_value_is_named(self):
        self.assertEqual(sampler.sample([0x0000, 0x4400, 0x4000], 1, 3)[0], 1)
        with self.assertRaisesRegex(ValueError, "logit 1 "):
            sampler.sample([0x0000, 0x7C00], 50, 3)
        with self.assertRaises(ValueError):
            sampler.sample([0x0000], 1001, 3)


OPT = {
    "model_type": "opt",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 12,
    "vocab_size": 5,
    "max_position_embeddings": 6,
    "word_embed_proj_dim": 8,
    "do_layer_norm_before": True,
    "activation_function": "relu",
    "relu_before_qkv": True,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 10,
    "vocab_size": 5,
    "max_position_embeddings": 6,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
FALCON = {
    "model_type": "falcon",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_kv_heads": 2,
    "new_decoder_architecture": True,
    "ffn_hidden_size": 10,
    "vocab_size": 5,
    "max_position_embeddings": 6,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-3,
    "rope_parameters": {"rope_theta": 500000, "rope_type": "default"},
    "bias": False,
    "alibi": False,
    "parallel_attn": True,
    "dtype": "bfloat16",
}
# Every choice that the contract leaves to config.json, in some combination.
VARIANTS = [
    OPT,
    {**OPT, "relu_before_qkv": False},
    LLAMA,
    {**LLAMA, "relu_before_qkv": True, "hidden_act": "relu", "tie_word_embeddings": True},
    {**LLAMA, "attention_bias": True, "num_key_value_heads": 4, "head_dim": None, "rms_norm_eps": 1e-2},
    {**LLAMA, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 2, "rope_theta": 500000},
    {**LLAMA, "model_type": "mistral", "sliding_window": None, "rms_norm_eps": 1e-6},
    FALCON,
    {**FALCON, "num_ln_in_parallel_attn": 1, "relu_before_qkv": True, "bias": True},
    {**FALCON, "new_decoder_architecture": False, "multi_query": True, "activation": "relu"},
    {**FALCON, "new_decoder_architecture": False, "multi_query": False, "bias": True},
]


def opt_shapes(c):
    """Name -> shape of an OPT checkpoint."""
    d, f = c["hidden_size"], c["ffn_dim"]
    shapes = {"embed_tokens.weight": (c["vocab_size"], d), "embed_positions.weight": (c["max_position_embeddings"] + 2, d)}
    norms, linears = ["final_layer_norm"], {}
    for layer in range(c["num_hidden_layers"]):
        prefix = f"layers.{layer}."
        norms += [prefix + "self_attn_layer_norm", prefix + "final_layer_norm"]
        linears.update({f"{prefix}self_attn.{name}": (d, d) for name in ("q_proj", "k_proj", "v_proj", "out_proj")})
        linears.update({prefix + "fc1": (f, d), prefix + "fc2": (d, f)})
    for name, shape in {**{name: (d,) for name in norms}, **linears}.items():
        shapes[name + ".weight"], shapes[name + ".bias"] = shape, shape[:1]
    return {"model.decoder." + name: shape for name, shape in shapes.items()}


def llama_shapes(c):
    """Name -> shape of a LLaMA or Mistral checkpoint."""
    d, f, heads, groups = (c[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    h = c["head_dim"] or d // heads
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], d)
    for layer in range(c["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = shapes[prefix + "post_attention_layernorm.weight"] = (d,)
        attention = {"q_proj": (heads * h, d), "k_proj": (groups * h, d), "v_proj": (groups * h, d), "o_proj": (d, heads * h)}
        mlp = {"gate_proj": (f, d), "up_proj": (f, d), "down_proj": (d, f)}
        for part, linears, bias in (("self_attn.", attention, c["attention_bias"]), ("mlp.", mlp, c["mlp_bias"])):
            for name, shape in linears.items():
                shapes[f"{prefix}{part}{name}.weight"] = shape
                if bias:
                    shapes[f"{prefix}{part}{name}.bias"] = shape[:1]
    return shapes


def falcon_groups(c):
    """Heads of k and v."""
    if c["new_decoder_architecture"]:
        return c["num_kv_heads"]
    return 1 if c["multi_query"] else c["num_attention_heads"]


def falcon_norms(c):
    """The norms of attention and of the FFN in a layer."""
    two = c["new_decoder_architecture"] and c.get("num_ln_in_parallel_attn") != 1
    return ("ln_attn", "ln_mlp") if two else ("input_layernorm", "input_layernorm")


def falcon_shapes(c):
    """Name -> shape of a Falcon checkpoint."""
    d, f, heads = c["hidden_size"], c["ffn_hidden_size"], c["num_attention_heads"]
    linears = {"self_attention.query_key_value": ((heads + 2 * falcon_groups(c)) * d // heads, d), "self_attention.dense": (d, d)}
    linears.update({"mlp.dense_h_to_4h": (f, d), "mlp.dense_4h_to_h": (d, f)})
    norms = ["ln_f"] + [f"h.{layer}.{name}" for layer in range(c["num_hidden_layers"]) for name in falcon_norms(c)]
    shapes = {"word_embeddings.weight": (c["vocab_size"], d)}
    for name in norms:
        shapes[name + ".weight"] = shapes[name + ".bias"] = (d,)
    for layer in range(c["num_hidden_layers"]):
        for name, shape in linears.items():
            shapes[f"h.{layer}.{name}.weight"] = shape
            if c["bias"]:
                shapes[f"h.{layer}.{name}.bias"] = shape[:1]
    return {"transformer." + name: shape for name, shape in shapes.items()}


SHAPES = {"opt": opt_shapes, "llama": llama_shapes, "mistral": llama_shapes, "falcon": falcon_shapes}


def random_tensors(c, seed=22):
    """A random checkpoint of a configuration."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.7, shape).astype(np.float16) for name, shape in SHAPES[c["model_type"]](c).items()}


class Exact:
    """The contract's scalar operations on lists of bit patterns."""

    dot = staticmethod(dot.dot)
    softmax = staticmethod(softmax.softmax)
    rotate = staticmethod(rotary.rotate)
    layer_norm = staticmethod(layernorm.layer_norm)
    rms_norm = staticmethod(rmsnorm.rms_norm)
    zero = 0

    def values(self, tensor):
        return tensor.view(np.uint16).tolist()

    def add(self, a, b):
        return [fp16.add(p, q) for p, q in zip(a, b)]

    def mul(self, a, b):
        return [fp16.mul(p, q) for p, q in zip(a, b)]

    def act(self, name, x):
        return [{"relu": fp16.relu, "silu": activations.silu, "gelu": activations.gelu}[name](v) for v in x]

    def query_scale(self, width):
        return fp16.reciprocal_sqrt_of_integer(width)


class Floats:
    """The same on lists of floats, without any of the contract's roundings."""

    zero = 0.0

    def values(self, tensor):
        return tensor.astype(np.float64).tolist()

    def dot(self, w, x):
        return math.fsum(p * q for p, q in zip(w, x))

    def softmax(self, scores):
        powers = [math.exp(s - max(scores)) for s in scores]
        return [power / sum(powers) for power in powers]

    def rotate(self, x, theta, position):
        half = len(x) // 2
        pairs = enumerate(zip(x[:half], x[half:]))
        turned = [complex(*pair) * cmath.exp(1j * position * theta ** (-i / half)) for i, pair in pairs]
        return [z.real for z in turned] + [z.imag for z in turned]

    def layer_norm(self, x, gain, bias, eps):
        mean = sum(x) / len(x)
        return self.add(self.rms_norm([v - mean for v in x], gain, eps), bias)

    def rms_norm(self, x, gain, eps):
        root = math.sqrt(sum(v * v for v in x) / len(x) + eps / 1e12)
        return [v / root * g for v, g in zip(x, gain)]

    def add(self, a, b):
        return [p + q for p, q in zip(a, b)]

    def mul(self, a, b):
        return [p * q for p, q in zip(a, b)]

    def act(self, name, x):
        functions = {"silu": lambda v: v / (1 + math.exp(-v)), "gelu": lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2}
        return [{**functions, "relu": lambda v: max(v, 0.0)}[name](v) for v in x]

    def query_scale(self, width):
        return width**-0.5


class Plain:
    """The forward pass of docs/numerics.md written out for each architecture; no cache, all positions at once."""

    def __init__(self, operations, c, tensors):
        self.do, self.c = operations, c
        self.t = {name: operations.values(tensor) for name, tensor in tensors.items()}

    def logits(self, tokens):
        """A list per position."""
        run = {"opt": self.opt, "llama": self.llama, "mistral": self.llama, "falcon": self.falcon}
        return run[self.c["model_type"]](tokens)

    def linear(self, name, x):
        y = [self.do.dot(row, x) for row in self.t[name + ".weight"]]
        return self.do.add(y, self.t[name + ".bias"]) if name + ".bias" in self.t else y

    def layer_norm(self, name, x, eps):
        return self.do.layer_norm(x, self.t[name + ".weight"], self.t[name + ".bias"], eps)

    def relu_before_qkv(self, a):
        return self.do.act("relu", a) if self.c.get("relu_before_qkv") else a

    def heads(self, x, width):
        return [x[begin : begin + width] for begin in range(0, len(x), width)]

    def attention(self, q, k, v):
        """The outputs of the heads of every position from lists [position][head][element]."""
        shared, outputs = len(q[0]) // len(k[0]), []
        for p in range(len(q)):
            o = []
            for n, head in enumerate(q[p]):
                weights = self.do.softmax([self.do.dot(k[j][n // shared], head) for j in range(p + 1)])
                o += [self.do.dot([v[j][n // shared][i] for j in range(p + 1)], weights) for i in range(len(head))]
            outputs.append(o)
        return outputs

    def scaled(self, q, width):
        return self.do.mul(q, [self.do.query_scale(width)] * len(q))

    def rotated(self, x, width, theta):
        """[position][head][element] of the rotated heads of every position."""
        return [[self.do.rotate(head, theta, p) for head in self.heads(row, width)] for p, row in enumerate(x)]

    def opt(self, tokens):
        t, c, name = self.t, self.c, "model.decoder."
        width, eps = c["hidden_size"] // c["num_attention_heads"], 10**7
        embedding, positions = t[name + "embed_tokens.weight"], t[name + "embed_positions.weight"]
        hidden = [self.do.add(embedding[v], positions[p + 2]) for p, v in enumerate(tokens)]
        for layer in range(c["num_hidden_layers"]):
            at = f"{name}layers.{layer}."
            a = [self.relu_before_qkv(self.layer_norm(at + "self_attn_layer_norm", h, eps)) for h in hidden]
            q = [self.heads(self.scaled(self.linear(at + "self_attn.q_proj", row), width), width) for row in a]
            k, v = ([self.heads(self.linear(f"{at}self_attn.{x}_proj", row), width) for row in a] for x in "kv")
            for p, o in enumerate(self.attention(q, k, v)):
                h = self.do.add(hidden[p], self.linear(at + "self_attn.out_proj", o))
                f = self.do.act("relu", self.linear(at + "fc1", self.layer_norm(at + "final_layer_norm", h, eps)))
                hidden[p] = self.do.add(h, self.linear(at + "fc2", f))
        return [self.linear(name + "embed_tokens", self.layer_norm(name + "final_layer_norm", h, eps)) for h in hidden]

    def llama(self, tokens):
        t, c, do = self.t, self.c, self.do
        width = c["head_dim"] or c["hidden_size"] // c["num_attention_heads"]
        norm = lambda name, x: do.rms_norm(x, t[name + ".weight"], round(c["rms_norm_eps"] * 1e12))
        hidden = [t["model.embed_tokens.weight"][v] for v in tokens]
        for layer in range(c["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            a = [self.relu_before_qkv(norm(at + "input_layernorm", h)) for h in hidden]
            q, k, v = ([self.linear(f"{at}self_attn.{x}_proj", row) for row in a] for x in "qkv")
            q = self.rotated([self.scaled(row, width) for row in q], width, int(c["rope_theta"]))
            k = self.rotated(k, width, int(c["rope_theta"]))
            for p, o in enumerate(self.attention(q, k, [self.heads(row, width) for row in v])):
                h = do.add(hidden[p], self.linear(at + "self_attn.o_proj", o))
                a = norm(at + "post_attention_layernorm", h)
                gate, up = do.act(c["hidden_act"], self.linear(at + "mlp.gate_proj", a)), self.linear(at + "mlp.up_proj", a)
                m = do.mul(gate, up)
                if c["hidden_act"] == "relu":
                    m = [do.zero if g == 0 else product for g, product in zip(gate, m)]
                hidden[p] = do.add(h, self.linear(at + "mlp.down_proj", m))
        head = "model.embed_tokens" if c["tie_word_embeddings"] else "lm_head"
        return [self.linear(head, norm("model.norm", h)) for h in hidden]

    def falcon(self, tokens):
        t, c, do, name = self.t, self.c, self.do, "transformer."
        width, eps, theta = c["hidden_size"] // c["num_attention_heads"], round(c["layer_norm_epsilon"] * 1e12), 500000
        groups, (attention_norm, ffn_norm) = falcon_groups(c), falcon_norms(c)
        hidden = [t[name + "word_embeddings.weight"][v] for v in tokens]
        for layer in range(c["num_hidden_layers"]):
            at = f"{name}h.{layer}."
            b = [self.layer_norm(at + ffn_norm, h, eps) for h in hidden]
            a = [self.relu_before_qkv(self.layer_norm(at + attention_norm, h, eps)) for h in hidden]
            q, k, v = [], [], []
            for row in a:
                heads = self.heads(self.linear(at + "self_attention.query_key_value", row), width)
                sets = [heads[begin : begin + len(heads) // groups] for begin in range(0, len(heads), len(heads) // groups)]
                q.append(self.scaled([x for group in sets for head in group[:-2] for x in head], width))
                k.append([x for group in sets for x in group[-2]])
                v.append([group[-1] for group in sets])
            o = self.attention(self.rotated(q, width, theta), self.rotated(k, width, theta), v)
            for p in range(len(tokens)):
                h = do.add(hidden[p], self.linear(at + "self_attention.dense", o[p]))
                m = do.act(c["activation"], self.linear(at + "mlp.dense_h_to_4h", b[p]))
                hidden[p] = do.add(h, self.linear(at + "mlp.dense_4h_to_h", m))
        return [self.linear(name + "word_embeddings", self.layer_norm(name + "ln_f", h, eps)) for h in hidden]


class Decoder(unittest.TestCase):
    def run_tokens(self, c, tensors, tokens, observe=lambda *_: None):
        session = decoder.Session(decoder.Decoder(c, tensors))
        return [session.step(token, observe).tolist() for token in tokens]

    def test_a_scalar_transcription_of_the_contract_gives_the_same_bits(self):
        tokens = [1, 4, 0, 2, 2, 3]
        for c in VARIANTS:
            tensors = random_tensors(c)
            self.assertEqual(self.run_tokens(c, tensors, tokens), Plain(Exact(), c, tensors).logits(tokens), c)

    def test_float64_stays_close(self):
        tokens = [1, 4, 0, 3]
        for c in VARIANTS:
            tensors = random_tensors(c)
            got = np.array(self.run_tokens(c, tensors, tokens), np.uint16).view(np.float16).astype(np.float64)
            expected = np.array(Plain(Floats(), c, tensors).logits(tokens))
            np.testing.assert_allclose(got, expected, atol=0.012 * np.abs(expected).max(), err_msg=str(c))

    def test_an_infinite_weight_makes_nan_logits(self):
        tensors = random_tensors(OPT)
        tensors["model.decoder.embed_tokens.weight"][1, 3] = np.inf
        logits = self.run_tokens(OPT, tensors, [1])
        self.assertEqual(logits, [[fp16.NAN] * 5])
        self.assertEqual(logits, Plain(Exact(), OPT, tensors).logits([1]))

    def test_a_gate_of_zero_closes_on_an_infinite_product_with_relu_alone(self):
        for act, product in (("relu", 0), ("silu", fp16.NAN)):
            c, seen = {**LLAMA, "hidden_act": act}, {}
            tensors = random_tensors(c)
            tensors["model.layers.0.mlp.gate_proj.weight"][:] = 0
            up = tensors["model.layers.0.mlp.up_proj.weight"]
            up[:] = np.where(up > 0, 65504, -65504)
            tensors["model.layers.0.post_attention_layernorm.weight"][:] = 50
            self.run_tokens(c, tensors, [1], seen.__setitem__)
            infinite = seen["layers.0.up"] & 0x7FFF == 0x7C00
            self.assertTrue(infinite.any())
            self.assertEqual(seen["layers.0.gate"].tolist(), [0] * 10)
            self.assertEqual(set(seen["layers.0.ffn"][infinite].tolist()), {product})
            if act == "relu":
                self.assertEqual(seen["layers.0.ffn"].tolist(), [0] * 10)  # never -0

    def test_the_stages_are_those_of_the_architecture_in_the_order_of_computation(self):
        common = ["qkv_input", "q", "k", "v", "attention", "after_attention"]
        for c, ffn in ((OPT, ["ffn"]), (LLAMA, ["gate", "up", "ffn"]), (FALCON, ["ffn"])):
            names = []
            self.run_tokens(c, random_tensors(c), [1], lambda name, bits: names.append(name))
            layers = [f"layers.{layer}.{name}" for layer in (0, 1) for name in common + ffn + ["after_ffn"]]
            self.assertEqual(names, ["embedding", *layers, "final_layer_norm", "logits"])

    def test_the_observed_q_and_k_are_rotated(self):
        seen = []
        tensors = random_tensors(LLAMA)
        self.run_tokens(LLAMA, tensors, [1, 1], lambda name, bits: seen.append((name, bits.tolist())))
        of = lambda name: [bits for found, bits in seen if found == name]
        for name in ("layers.0.q", "layers.0.k"):
            first, second = of(name)
            turned = sum((rotary.rotate(first[begin : begin + 6], 10000, 1) for begin in range(0, len(first), 6)), [])
            self.assertEqual(second, turned)  # position 0 turns by nothing

    def test_a_token_beyond_the_context_or_the_vocabulary_is_refused(self):
        for tokens in ([0] * 7, [5], [-1]):
            with self.assertRaises(ValueError):
                self.run_tokens(OPT, random_tensors(OPT), tokens)

    def test_a_missing_tensor_and_a_wrong_shape_are_named(self):
        tensors = random_tensors(LLAMA)
        with self.assertRaisesRegex(ValueError, "model.norm.weight has shape .3., expected .8."):
            decoder.Decoder(LLAMA, {**tensors, "model.norm.weight": np.zeros(3, np.float16)})
        del tensors["model.layers.1.mlp.up_proj.weight"]
        with self.assertRaisesRegex(ValueError, "model.layers.1.mlp.up_proj.weight is missing"):
            decoder.Decoder(LLAMA, tensors)

    def test_generation_runs_every_position_but_the_last(self):
        positions = []
        model = decoder.Decoder(LLAMA, random_tensors(LLAMA))
        tokens = decoder.generate(model, [1, 2], 3, 100, 9, lambda position, logits: positions.append(position))
        self.assertEqual((len(tokens), positions), (3, [0, 1, 2, 3]))


class Config(unittest.TestCase):
    def test_what_the_contract_does_not_define_is_refused_with_its_key_and_value(self):
        refusals = [
            (LLAMA, {"model_type": "gpt2"}, "model_type is 'gpt2', expected 'opt' or 'llama' or 'mistral' or 'falcon' or"),
            (LLAMA, {"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope_scaling is .*longrope.*, expected null or"),
            (LLAMA, {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "rope_parameters.factor is None"),
            (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, expected 1"),
            (LLAMA, {"rope_theta": 10000.5}, "rope_theta is 10000.5, expected a whole number from 2 to 4294967296"),
            (LLAMA, {"rope_theta": 1.0}, "rope_theta is 1.0"),
            (LLAMA, {"rope_theta": "10000"}, "rope_theta is '10000'"),
            (LLAMA, {"hidden_act": "gelu"}, "hidden_act is 'gelu', expected 'silu' or 'relu'"),
            (LLAMA, {"head_dim": 5}, "head_dim is 5, expected an even number"),
            (LLAMA, {"head_dim": None, "num_attention_heads": 8}, "head_dim is 1, expected an even number"),
            (LLAMA, {"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of num_attention_heads, 4"),
            (LLAMA, {"rms_norm_eps": 1.5e-12}, "rms_norm_eps is 1.5e-12, expected a number from 1e-6 to 1e-2"),
            (LLAMA, {"rms_norm_eps": 0.02}, "rms_norm_eps is 0.02"),
            (LLAMA, {"rms_norm_eps": 1.00000005e-6}, "rms_norm_eps is 1.00000005e-06, expected a multiple of 1e-12"),
            (LLAMA, {"rms_norm_eps": "1e-5"}, "rms_norm_eps is '1e-5'"),
            (LLAMA, {"attention_bias": "yes"}, "attention_bias is 'yes', expected False or True"),
            (LLAMA, {"quantization_config": {"bits": 4}}, "quantization_config is .*expected null"),
            (LLAMA, {"torch_dtype": "int8"}, "torch_dtype is 'int8', expected 'float16'"),
            (LLAMA, {"dtype": "int8"}, "dtype is 'int8', expected 'float16'"),
            (LLAMA, {"vocab_size": None}, "vocab_size is None, expected a whole number from 1"),
            (LLAMA, {"sliding_window": 5}, "sliding_window is 5, expected null or at least max"),
            (LLAMA, {"model_type": "mistral", "sliding_window": 0}, "sliding_window is 0, expected null or a whole"),
            (FALCON, {"parallel_attn": False}, "parallel_attn is False, expected True"),
            (FALCON, {"activation": "silu"}, "activation is 'silu', expected 'gelu' or 'relu'"),
            (FALCON, {"num_ln_in_parallel_attn": 3}, "num_ln_in_parallel_attn is 3"),
            (FALCON, {"num_attention_heads": 16}, "hidden_size / num_attention_heads is 1, expected an even number"),
            (FALCON, {"num_attention_heads": 3}, "num_attention_heads is 3, expected a divisor of hidden_size, 16"),
            (FALCON, {"tie_word_embeddings": False}, "tie_word_embeddings is False"),
            (OPT, {"activation_function": "gelu"}, "activation_function is 'gelu', expected 'relu'"),
            (OPT, {"word_embed_proj_dim": 0}, "word_embed_proj_dim is 0, expected a whole number from 1"),
            (OPT, {"enable_bias": False}, "enable_bias is False"),
        ]
        for c, changes, message in refusals:
            with self.assertRaisesRegex(ValueError, "^config.json: " + message):
                config.describe({**c, **changes})

    def test_both_spellings_of_the_base_and_windows_as_long_as_the_context(self):
        parameters = {"rope_theta": None, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}
        self.assertEqual(config.describe({**LLAMA, **parameters}).theta, 500000)
        self.assertEqual(config.describe({**LLAMA, "rope_theta": 20000}).theta, 20000)
        self.assertEqual(config.describe({**LLAMA, "rope_theta": None}).theta, 10000)
        self.assertEqual(config.describe({**LLAMA, "rope_scaling": {"type": "default"}}).theta, 10000)
        self.assertIsNone(config.describe(OPT).theta)
        for window in (None, 6, 4096):
            self.assertIsNone(config.describe({**LLAMA, "model_type": "mistral", "sliding_window": window}).window)
        self.assertEqual(config.describe({**LLAMA, "model_type": "mistral", "max_position_embeddings": 8192}).window, 4096)

    def test_eps_counts_units_of_a_millionth_of_a_millionth(self):
        for value, eps in ((1e-5, 10**7), (1e-6, 10**6), (0.01, 10**10), (1.234567e-6, 1234567)):
            self.assertEqual(config.describe({**LLAMA, "rms_norm_eps": value}).eps, eps)


def safetensors(tensors):
    """The bytes of a safetensors file from name -> (dtype, numpy array)."""
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode("ascii")
    return struct.pack("<Q", len(text)) + text + data


class Checkpoint(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "config.json").write_text('{"model_type": "llama"}')

    def write(self, name, tensors):
        (self.directory / name).write_bytes(safetensors(tensors))

    def test_safetensors_survive_a_round_trip(self):
        tensors = {"b": np.arange(6, dtype=np.float16).reshape(2, 3), "a.long": np.float16([-0.0, 65504])}
        path = self.directory / "x.safetensors"
        checkpoint.write_safetensors(path, tensors, {"format": "pt"})
        read, metadata = checkpoint.read_safetensors(path)
        self.assertEqual(metadata, {"format": "pt"})
        for name, value in tensors.items():
            self.assertEqual(read[name].tobytes(), value.tobytes())
            self.assertEqual(read[name].shape, value.shape)

    def test_fp32_and_bf16_are_rounded_once(self):
        rng = np.random.default_rng(38)
        single = (rng.normal(0, 1, 500) * 2.0 ** rng.integers(-30, 15, 500)).astype("<f4")
        single[:3] = 1 + 2**-11, 1 + 3 * 2**-11, 65519.99  # two ties, and the largest that does not overflow
        brain = (single.view("<u4") >> 16).astype("<u2")
        self.write("model.safetensors", {"single": ("F32", single), "brain": ("BF16", brain)})
        read = checkpoint.load(self.directory)[1]
        exact = {"single": single.tolist(), "brain": (brain.astype("<u4") << 16).view("<f4").tolist()}
        for name, values in exact.items():
            self.assertEqual(read[name].view(np.uint16).tolist(), [nearest(Fraction(value)) for value in values])

    def test_what_has_no_finite_fp16_number_is_named_with_its_place(self):
        for dtype, values, what in (
            ("F32", np.array([[1, 2], [3, 65520]], "<f4"), "65520.0 at .1, 1. overflows FP16"),
            ("BF16", np.array([[0, 0], [0x4780, 0]], "<u2"), "65536.0 at .1, 0. overflows FP16"),
            ("F32", np.array([[1, np.nan]], "<f4"), "nan at .0, 1. is not finite"),
            ("F16", np.array([[-np.inf]], "<f2"), "-inf at .0, 0. is not finite"),
        ):
            self.write("model.safetensors", {"good": ("F32", np.zeros(1, "<f4")), "bad.weight": (dtype, values)})
            with self.assertRaisesRegex(ValueError, "tensor bad.weight: " + what):
                checkpoint.load(self.directory)
        self.write("model.safetensors", {"whole": ("I64", np.zeros(1, "<i8"))})
        with self.assertRaisesRegex(ValueError, "tensor whole is I64, expected one of F16, BF16, F32"):
            checkpoint.load(self.directory)

    def test_shards_are_read_as_the_index_says(self):
        self.write("one.safetensors", {"a": ("F16", np.array([1], "<f2")), "not.listed": ("F16", np.array([9], "<f2"))})
        self.write("two.safetensors", {"b": ("F32", np.array([2], "<f4"))})
        index = {"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
        (self.directory / "model.safetensors.index.json").write_text(json.dumps(index))
        read = checkpoint.load(self.directory)[1]
        self.assertEqual({name: value.tolist() for name, value in read.items()}, {"a": [1], "b": [2]})
        index["weight_map"]["c"] = "one.safetensors"
        (self.directory / "model.safetensors.index.json").write_text(json.dumps(index))
        with self.assertRaisesRegex(ValueError, "one.safetensors: tensor c is missing"):
            checkpoint.load(self.directory)


def tokenizer_json(merges, pre_tokenizer, **changes):
    """A byte-level BPE with the tokens of the merges after those of the bytes."""
    tokens = tokenizer.CHARACTERS + [merge.replace(" ", "") for merge in merges]
    model = {"type": "BPE", "vocab": {token: index for index, token in enumerate(tokens)}, "merges": merges}
    description = {"normalizer": None, "pre_tokenizer": pre_tokenizer, "decoder": {"type": "ByteLevel"}, "post_processor": None}
    return {**description, "model": model, **changes}


PATTERN = r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+"
WORDS = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ],
}
GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
MERGES = ["t h", "th e", "Ġ the", "e n", "Ġ t", "h e"]  # tokens 256 to 261


class Tokenizer(unittest.TestCase):
    def spelled(self, description, text):
        made = tokenizer.Tokenizer(description)
        ids = made.encode(text)
        self.assertEqual(made.decode(ids), text.encode("utf-8"))
        return [made.decode([index]).decode("utf-8", "replace") for index in ids]

    def test_the_merge_of_the_lowest_rank_comes_first(self):
        self.assertEqual(self.spelled(tokenizer_json(MERGES, WORDS), "the then  hen"), ["the", " the", "n", " ", " ", "h", "en"])
        pairs = [merge.split(" ") for merge in MERGES]
        described = tokenizer_json(MERGES, WORDS)
        described["model"]["merges"] = pairs
        self.assertEqual(tokenizer.Tokenizer(described).encode("the hen"), [257, 32, 104, 259])

    def test_of_equal_ranks_the_left_one_comes_first(self):
        self.assertEqual(self.spelled(tokenizer_json(["a a"], WORDS), "aaa"), ["aa", "a"])
        # a merge whose result ranks before it: one pair at a time, not all equal ones together
        self.assertEqual(self.spelled(tokenizer_json(["aa a", "a a"], WORDS), "aaaa"), ["aaa", "a"])

    def test_bytes_that_are_no_text_survive(self):
        every = tokenizer.Tokenizer(tokenizer_json(MERGES, WORDS))
        self.assertEqual(every.decode(range(256)), bytes(range(256)))
        self.assertEqual(every.encode("\x00\u00e9\U0001f600"), list("\x00\u00e9\U0001f600".encode("utf-8")))
        with self.assertRaisesRegex(ValueError, "token 262 "):
            every.decode([262])

    def test_merges_stay_within_pieces(self):
        self.assertEqual(self.spelled(tokenizer_json(["s t", "' s"], GPT2), "it's st"), ["i", "t", "'s", " ", "st"])
        self.assertEqual(self.spelled(tokenizer_json(["n Ġ"], GPT2), "n n"), ["n", " ", "n"])
        self.assertEqual(self.spelled(tokenizer_json(["n Ġ"], {**GPT2, "use_regex": False}), "n n"), ["n ", "n"])

    def test_gpt2_s_pattern_takes_letters_and_numbers_of_all_scripts(self):
        pattern = tokenizer.compiled(tokenizer.GPT2_PATTERN)
        text = "na\u00efve \u6587\u5b57 x\u00b2 \u216712 a_b\x1c\n\n  end "
        expected = ["na\u00efve", " \u6587\u5b57", " x", "\u00b2", " \u216712", " a", "_", "b", "\x1c", "\n\n ", " end", " "]
        self.assertEqual(tokenizer.pieces(pattern, text), expected)

    def test_added_tokens_are_cut_out_before_anything_else(self):
        added = [{"id": 300, "content": "<|end|>", "special": True}, {"id": 301, "content": "<|end|>>", "special": False}]
        made = tokenizer.Tokenizer(tokenizer_json(MERGES, WORDS, added_tokens=added))
        self.assertEqual(made.encode("the<|end|>>the<|end|>"), [257, 301, 257, 300])
        self.assertEqual(made.decode([257, 301, 300]), b"the<|end|>><|end|>")

    def test_whole_words_where_merges_are_ignored(self):
        described = tokenizer_json(["h e"], WORDS)
        described["model"]["vocab"]["the"] = 257
        self.assertEqual(tokenizer.Tokenizer(described).encode("the"), [ord("t"), 256])
        described["model"]["ignore_merges"] = True
        self.assertEqual(tokenizer.Tokenizer(described).encode("the"), [257])

    def test_what_is_not_supported_is_refused_by_name(self):
        first, second = WORDS["pretokenizers"]
        split = lambda **changes: {**WORDS, "pretokenizers": [{**first, **changes}, second]}
        described = tokenizer_json(MERGES, WORDS)
        refusals = [
            ({"model": {**described["model"], "type": "Unigram"}}, 'model.type is "Unigram", expected "BPE"'),
            ({"model": {**described["model"], "byte_fallback": True}}, "model.byte_fallback is true"),
            ({"model": {**described["model"], "dropout": 0.1}}, "model.dropout is 0.1"),
            ({"model": {**described["model"], "vocab": {"\u2581a": 0}}}, "model.vocab is"),
            ({"normalizer": {"type": "NFC"}}, 'normalizer is {"type": "NFC"}, expected null'),
            ({"decoder": {"type": "Metaspace"}}, 'decoder.type is "Metaspace"'),
            ({"decoder": None}, "decoder.type is null"),
            ({"post_processor": {"type": "TemplateProcessing"}}, 'post_processor.type is "TemplateProcessing"'),
            ({"pre_tokenizer": None}, "pre_tokenizer is null"),
            ({"pre_tokenizer": {"type": "Metaspace"}}, r'pre_tokenizer is ."Metaspace"., expected ByteLevel, or'),
            ({"pre_tokenizer": {**GPT2, "add_prefix_space": True}}, "pre_tokenizer ByteLevel, add_prefix_space is true"),
            ({"pre_tokenizer": {**WORDS, "pretokenizers": [first, GPT2]}}, "ByteLevel, use_regex is true"),
            ({"pre_tokenizer": split(behavior="Removed")}, "pre_tokenizer Split is .*Removed"),
            ({"pre_tokenizer": split(pattern={"Regex": r"\w+"})}, "pattern is .*expected no .w"),
            ({"pre_tokenizer": split(pattern={"Regex": r"\p{Greek}"})}, "pattern is .*expected no .p"),
            ({"pre_tokenizer": split(pattern={"Regex": r"[^\S]"})}, "expected no .S in a class"),
            ({"pre_tokenizer": split(pattern={"Regex": r"(a"})}, "Python's re does not understand"),
            ({"added_tokens": [{"id": 300, "content": "<s>", "lstrip": True}]}, "added_tokens, <s>, lstrip is true"),
        ]
        for changes, message in refusals:
            with self.assertRaisesRegex(ValueError, "^tokenizer.json: .*" + message):
                tokenizer.Tokenizer({**described, **changes})


class Goldens(unittest.TestCase):
    def test_one_wrong_digit_on_disk_is_drift(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            files = {"a.json": make_goldens.rendered({"cases": ["3c003c00"]}), "b.json": "{}\n"}
            self.assertEqual(make_goldens.drifted(files, path), ["a.json", "b.json"])
            for name, text in files.items():
                (path / name).write_text(text)
            self.assertEqual(make_goldens.drifted(files, path), [])
            (path / "a.json").write_text(files["a.json"].replace("3c003c00", "3c003c01"))
            self.assertEqual(make_goldens.drifted(files, path), ["a.json"])

    def test_fnv1a_gives_its_published_values(self):
        self.assertEqual(make_goldens.fnv1a64(b""), 0xCBF29CE484222325)
        self.assertEqual(make_goldens.fnv1a64(b"foobar"), 0x85944171F73967E8)

    def test_the_stored_vectors_are_the_reference_s(self):
        files = {path: make_goldens.rendered(content) for path, content in make_goldens.vector_documents().items()}
        self.assertEqual(make_goldens.drifted(files, make_goldens.HERE), [])

    def test_a_llama_model_writes_texts_in_its_own_tokens(self):
        c = {**LLAMA, "vocab_size": 262, "max_position_embeddings": 128}
        with tempfile.TemporaryDirectory() as directory:
            model = pathlib.Path(directory) / "model-llama"
            model.mkdir()
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(make_goldens.llama_documents(model), {})
            self.assertIn("model-llama has no config.json, model.safetensors, tokenizer.json", said.getvalue())
            (model / "config.json").write_text(json.dumps(c))
            (model / "tokenizer.json").write_text(json.dumps(tokenizer_json(MERGES, WORDS)))
            checkpoint.write_safetensors(model / "model.safetensors", random_tensors(c), {})
            documents = make_goldens.llama_documents(model)
            made = tokenizer.load(model)
        of_weights = {None: ["default", "greedy"], "int4": ["int4-default", "int4-greedy"], "int8": ["int8-greedy"]}
        for weights, texts in of_weights.items():
            found = sorted(path for path, content in documents.items() if content.get("weights") == weights)
            self.assertEqual(found, [f"generate/llama-{text}.json" for text in texts])
        self.assertEqual(len(documents), 5)
        self.assertEqual(len({tuple(documents[path]["logits_fnv1a64"]) for path in documents}), 5)
        for content in documents.values():
            self.assertEqual(content["model"], "golden/model-llama")
            self.assertEqual(made.decode(content["prompt_tokens"]).decode(), content["prompt"])
            self.assertEqual(made.decode(content["generated_tokens"]).decode("utf-8", "replace"), content["text"])
            self.assertEqual(len(content["logits_fnv1a64"]), len(content["prompt_tokens"]) + content["tokens"] - 1)

    def test_the_bound_on_the_distance_from_transformers_tells_models_apart(self):
        changes = {
            "llama": {"rope_parameters": {"rope_theta": 11000}},
            "mistral": {"rms_norm_eps": 2e-3},
            "falcon-mq": {"activation": "relu"},
        }
        for name, change in changes.items():
            directory = make_goldens.HERE / "checkpoints" / name
            stored = json.loads((directory / "expected.json").read_text())
            with tempfile.TemporaryDirectory() as copy:
                c = json.loads((directory / "config.json").read_text())
                (pathlib.Path(copy) / "config.json").write_text(json.dumps({**c, **change}))
                shutil.copy(directory / "model.safetensors", copy)
                given = (stored[key] for key in ("made_with", "tokens", "transformers_logits"))
                content = make_goldens.comparison(pathlib.Path(copy), *given)
            self.assertEqual(make_goldens.too_far({"changed": content, "stored": stored}), ["changed"], name)


def load_tests(loader, tests, _):
    """Those of test_quantised.py and test_architectures.py too."""
    tests.addTests(loader.loadTestsFromName("test_quantised"))
    tests.addTests(loader.loadTestsFromName("test_architectures"))
    return tests


if __name__ == "__main__":
    unittest.main()
