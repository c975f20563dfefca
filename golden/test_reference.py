"""Tests of `reference/` against Fractions, numpy's float64, Decimal and known values. Run: python3 golden/test_reference.py

Seeds are fixed and named in the failure messages. The trained model is not needed: the decoder is compared with a plain
rational implementation on a tiny random one.
"""

import pathlib
import random
import tempfile
import unittest
from decimal import Context, Decimal, getcontext
from fractions import Fraction

import numpy as np

import make_goldens
from reference import checkpoint, dot, exp, exponential, fp16, layernorm, opt, sampler, softmax, vector

getcontext().prec = 60

CORNERS = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3BFF, 0x3C00, 0x3C01, 0xBC00,
    0x4000, 0x7BFE, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00, 0xFFFF, 0x5640, 0xD640, 0x1400, 0x9400,
]  # fmt: skip


def number(bits):
    """The rational number of a finite pattern, from the definition of the format."""
    exponent, fraction = (bits >> 10) & 0x1F, bits & 0x3FF
    magnitude = Fraction(fraction, 1024) / 2**14 if exponent == 0 else (1 + Fraction(fraction, 1024)) * Fraction(2) ** (exponent - 15)
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


class LayerNorm(unittest.TestCase):
    def test_normalized_values_within_one_ulp_of_the_exact_ones(self):
        rng = random.Random(21)
        for n in (1, 2, 3, 64, 192):
            for limit in (0x0400, 0x3C00, 0x5000, 0x7C00):
                x = [rng.getrandbits(1) << 15 | rng.randrange(limit) for _ in range(n)]
                values = [number(a) for a in x]
                mean = sum(values) / n
                variance = sum((v - mean) ** 2 for v in values) / n + Fraction(1, 100000)
                deviation = (Decimal(variance.numerator) / variance.denominator).sqrt()
                for got, value in zip(layernorm.normalize(x), values):
                    centred = value - mean
                    exact = nearest(Fraction(Decimal(centred.numerator) / centred.denominator / deviation))
                    self.assertLessEqual(abs(got - exact), 1, (n, hex(limit)))

    def test_constant_input_gives_the_bias_and_a_special_value_spoils_everything(self):
        self.assertEqual(layernorm.layer_norm([0x4248] * 3, [0x3C00] * 3, [0x3800, 0, 0xB800]), [0x3800, 0, 0xB800])
        self.assertEqual(layernorm.layer_norm([0x3C00, 0x7C00], [0x3C00] * 2, [0] * 2), [0x7E00] * 2)


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

    def test_low_temperature_is_greedy_and_a_special_value_is_named(self):
        self.assertEqual(sampler.sample([0x0000, 0x4400, 0x4000], 1, 3)[0], 1)
        with self.assertRaisesRegex(ValueError, "logit 1 "):
            sampler.sample([0x0000, 0x7C00], 50, 3)
        with self.assertRaises(ValueError):
            sampler.sample([0x0000], 1001, 3)


class Decoder(unittest.TestCase):
    CONFIG = {
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

    def tensors(self):
        rng = np.random.default_rng(22)
        d, f = 8, 12
        shapes = {"embed_tokens.weight": (5, d), "embed_positions.weight": (8, d)}
        shapes.update({"final_layer_norm.weight": (d,), "final_layer_norm.bias": (d,)})
        for layer in range(2):
            prefix = f"layers.{layer}."
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes[f"{prefix}self_attn.{name}.weight"], shapes[f"{prefix}self_attn.{name}.bias"] = (d, d), (d,)
            for name in ("self_attn_layer_norm", "final_layer_norm"):
                shapes[f"{prefix}{name}.weight"], shapes[f"{prefix}{name}.bias"] = (d,), (d,)
            shapes[f"{prefix}fc1.weight"], shapes[f"{prefix}fc1.bias"] = (f, d), (f,)
            shapes[f"{prefix}fc2.weight"], shapes[f"{prefix}fc2.bias"] = (d, f), (d,)
        return {f"model.decoder.{name}": rng.normal(0, 0.7, shape).astype(np.float16) for name, shape in shapes.items()}

    def logits(self, tokens, **changes):
        session = opt.Session(opt.Decoder({**self.CONFIG, **changes}, self.tensors()))
        return [session.step(token).tolist() for token in tokens]

    def test_a_scalar_transcription_of_the_contract_gives_the_same_bits(self):
        tokens = [1, 4, 0, 2, 2, 3]
        for flag in (True, False):
            expected = scalar_decoder({**self.CONFIG, "relu_before_qkv": flag}, self.tensors(), tokens)
            self.assertEqual(self.logits(tokens, relu_before_qkv=flag), expected)

    def test_float64_stays_close(self):
        got = np.array(self.logits([1, 4, 0]), np.uint16).view(np.float16).astype(np.float64)
        np.testing.assert_allclose(got[-1], float_decoder(self.CONFIG, self.tensors(), [1, 4, 0]), atol=0.06)

    def test_an_infinite_weight_makes_nan_logits(self):
        tensors = self.tensors()
        tensors["model.decoder.embed_tokens.weight"][1, 3] = np.inf
        logits = opt.Session(opt.Decoder(self.CONFIG, tensors)).step(1)
        self.assertEqual(logits.tolist(), [fp16.NAN] * 5)
        self.assertEqual(logits.tolist(), scalar_decoder(self.CONFIG, tensors, [1])[0])

    def test_a_token_beyond_the_context_is_refused(self):
        with self.assertRaises(ValueError):
            self.logits([0] * 7)

    def test_generation_runs_every_position_but_the_last(self):
        decoder, positions = opt.Decoder(self.CONFIG, self.tensors()), []
        tokens = opt.generate(decoder, [1, 2], 3, 100, 9, lambda position, logits: positions.append(position))
        self.assertEqual((len(tokens), positions), (3, [0, 1, 2, 3]))


def scalar_decoder(config, tensors, tokens):
    """The forward pass of docs/numerics.md with Python lists and the scalar operations; no cache, all positions at once."""
    t = {name.removeprefix("model.decoder."): value.view(np.uint16).tolist() for name, value in tensors.items()}
    width = config["hidden_size"] // config["num_attention_heads"]
    scale = fp16.reciprocal_sqrt_of_integer(width)

    def norm(name, x):
        return layernorm.layer_norm(x, t[name + ".weight"], t[name + ".bias"])

    def linear(name, x):
        return [fp16.add(dot.dot(row, x), b) for row, b in zip(t[name + ".weight"], t[name + ".bias"])]

    def added(a, b):
        return [fp16.add(p, q) for p, q in zip(a, b)]

    hidden = [added(t["embed_tokens.weight"][v], t["embed_positions.weight"][p + 2]) for p, v in enumerate(tokens)]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"layers.{layer}."
        a = [norm(prefix + "self_attn_layer_norm", h) for h in hidden]
        if config["relu_before_qkv"]:
            a = [[fp16.relu(v) for v in row] for row in a]
        q = [[fp16.mul(v, scale) for v in linear(prefix + "self_attn.q_proj", row)] for row in a]
        k, v = ([linear(f"{prefix}self_attn.{name}", row) for row in a] for name in ("k_proj", "v_proj"))
        for p in range(len(tokens)):
            o = []
            for begin in range(0, config["hidden_size"], width):
                head = slice(begin, begin + width)
                weights = softmax.softmax([dot.dot(k[j][head], q[p][head]) for j in range(p + 1)])
                o += [dot.dot([v[j][i] for j in range(p + 1)], weights) for i in range(begin, begin + width)]
            h = added(hidden[p], linear(prefix + "self_attn.out_proj", o))
            f = [fp16.relu(x) for x in linear(prefix + "fc1", norm(prefix + "final_layer_norm", h))]
            hidden[p] = added(h, linear(prefix + "fc2", f))
    return [[dot.dot(row, norm("final_layer_norm", h)) for row in t["embed_tokens.weight"]] for h in hidden]


def float_decoder(config, tensors, tokens):
    """The last position's logits in float64, in matrix form, as a check of the architecture rather than of the bits."""
    t = {name.removeprefix("model.decoder."): value.astype(np.float64) for name, value in tensors.items()}
    n, heads = len(tokens), config["num_attention_heads"]

    def norm(name, x):
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * t[name + ".weight"] + t[name + ".bias"]

    def linear(name, x):
        return x @ t[name + ".weight"].T + t[name + ".bias"]

    h = t["embed_tokens.weight"][tokens] + t["embed_positions.weight"][2 : 2 + n]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"layers.{layer}."
        a = np.maximum(norm(prefix + "self_attn_layer_norm", h), 0)
        q, k, v = (linear(f"{prefix}self_attn.{name}", a).reshape(n, heads, -1) for name in ("q_proj", "k_proj", "v_proj"))
        scores = np.einsum("phi,jhi->hpj", q, k) / np.sqrt(q.shape[2])
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(2, keepdims=True))
        weights /= weights.sum(2, keepdims=True)
        h = h + linear(prefix + "self_attn.out_proj", np.einsum("hpj,jhi->phi", weights, v).reshape(n, -1))
        h = h + linear(prefix + "fc2", np.maximum(linear(prefix + "fc1", norm(prefix + "final_layer_norm", h)), 0))
    return (norm("final_layer_norm", h) @ t["embed_tokens.weight"].T)[-1]


class Checkpoint(unittest.TestCase):
    def test_safetensors_survive_a_round_trip(self):
        tensors = {"b": np.arange(6, dtype=np.float16).reshape(2, 3), "a.long": np.float16([-0.0, 65504])}
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            checkpoint.write_safetensors(file.name, tensors, {"format": "pt"})
            read, metadata = checkpoint.read_safetensors(file.name)
        self.assertEqual(metadata, {"format": "pt"})
        for name, value in tensors.items():
            self.assertEqual(read[name].tobytes(), value.tobytes())
            self.assertEqual(read[name].shape, value.shape)


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


if __name__ == "__main__":
    unittest.main()
