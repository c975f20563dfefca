"""add, sub, mul, relu and matrix-vector products on numpy uint16 arrays of FP16 bit patterns: fast, and exact for stated reasons.

float64 is used as an exact integer or dyadic arithmetic, never as an approximation. A matrix-vector product with a special
value in it goes to `dot`.
"""

import numpy as np

from . import activations, fp16, rotary
from .dot import dot

LIMB = 2.0**20
LIMB_BITS = 20
# A limb product is at most 2^40 in magnitude, so 2^13 of them stay within float64's exact integers (2^53).
MAX_COLUMNS = 1 << 13


def to_float64(bits):
    """The numbers of bit patterns; every FP16 number is a float64 number."""
    return bits.view(np.float16).astype(np.float64)


def from_float64(values):
    """float64 rounded once to FP16 (nearest even, as numpy's conversion does), NaN made canonical."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(fp16.NAN), bits)


def is_finite(bits):
    """True when no element is NaN or infinite."""
    return bool(np.all(bits & fp16.INFINITY != fp16.INFINITY))


def add(a, b):
    """Element-wise IEEE addition."""
    # Multiples of 2^-24 below 2^17 have at most 41 significant bits: the float64 sum is exact, signs of zeros included.
    with np.errstate(invalid="ignore"):
        return from_float64(to_float64(a) + to_float64(b))


def mul(a, b):
    """Element-wise IEEE multiplication."""
    # 11 x 11 significant bits make 22, and 2^-48 is far above float64's smallest exponent: the product is exact.
    with np.errstate(invalid="ignore"):
        return from_float64(to_float64(a) * to_float64(b))


def sub(a, b):
    """Element-wise IEEE subtraction: add(a, -b)."""
    return add(a, b ^ fp16.SIGN)


def relu(a):
    """Element-wise ReLU; NaN stays NaN (canonical), -0 becomes +0."""
    is_nan = (a & 0x7FFF) > fp16.INFINITY
    return np.where(is_nan, np.uint16(fp16.NAN), np.where(a & fp16.SIGN, np.uint16(0), a))


def silu(a):
    """Element-wise SiLU."""
    return np.array([activations.silu(bits) for bits in a.tolist()], np.uint16)


def gelu(a):
    """Element-wise GELU."""
    return np.array([activations.gelu(bits) for bits in a.tolist()], np.uint16)


def gelu_tanh(a):
    """Element-wise GELU in its form with tanh."""
    return np.array([activations.gelu_tanh(bits) for bits in a.tolist()], np.uint16)


def soft_cap(a, cap):
    """Element-wise soft cap; a where the cap is None."""
    return a if cap is None else np.array([activations.soft_cap(bits, cap) for bits in a.tolist()], np.uint16)


def rotate(x, width, theta, position, scaling=None, rotated=None):
    """The heads of `width`, side by side in x, turned by the angles of the position: their first elements, by default all."""
    rotated = width if rotated is None else rotated
    c, s = (np.array(row, np.uint16) for row in rotary.table(theta, rotated, position, scaling))
    heads = x.reshape(-1, width)
    (low, high), rest = np.split(heads[:, :rotated], 2, axis=1), heads[:, rotated:]
    return np.concatenate([sub(mul(low, c), mul(high, s)), add(mul(high, c), mul(low, s)), rest], axis=1).ravel()


def limbs(bits):
    """(high, low) with I(a) = high * 2^20 + low, |high| <= 2^20, 0 <= low < 2^20, as float64 integers."""
    # I(a) is an integer below 2^40 and LIMB a power of two, so every step is exact.
    integers = to_float64(bits) * 2.0**fp16.UNIT_BITS
    high = np.floor(integers / LIMB)
    return high, integers - high * LIMB


class Matrix:
    """A matrix [rows x columns] of FP16 bit patterns, prepared for products with vectors."""

    def __init__(self, bits):
        self.bits = bits
        self.rows, columns = bits.shape
        if columns > MAX_COLUMNS:
            raise ValueError(f"{columns} columns, at most {MAX_COLUMNS} keep the limb sums exact")
        self.finite = is_finite(bits)
        self.limbs = np.concatenate(limbs(bits)) if self.finite else None

    def times(self, x):
        """`dot(row, x)` for every row."""
        if not self.finite or not is_finite(x):
            other = x.tolist()
            return np.array([dot(row.tolist(), other) for row in self.bits], np.uint16)
        # Every partial sum of this product is an integer of at most 2^53, whatever the order of summation.
        partial = (self.limbs @ np.stack(limbs(x), axis=1)).astype(np.int64)
        high, low = partial[: self.rows], partial[self.rows :]
        return round_limb_sums(high[:, 0], high[:, 1] + low[:, 0], low[:, 1])


def round_limb_sums(a, b, c):
    """FP16 bits of (a * 2^40 + b * 2^20 + c) * 2^-48 for int64 arrays, rounded once."""
    b = b + (c >> LIMB_BITS)
    a = a + (b >> LIMB_BITS)
    rest = ((b & (2**LIMB_BITS - 1)) << LIMB_BITS) | (c & (2**LIMB_BITS - 1))
    # Now the sum is T = a * 2^40 + rest with 0 <= rest < 2^40. For -2^12 <= a < 2^12 it fits float64: |T| <= 2^52.
    # Beyond that |T| >= 2^52, that is a value of at least 16, where FP16's rounding boundaries are multiples of 2^41 in
    # these units. A non-zero rest then only says "strictly between a * 2^40 and the next multiple": the middle says the
    # same. 2 * a + 1 is exact while |a| < 2^52; a larger a is a value above 2^43, infinite however it is rounded.
    small = (a >= -(2**12)) & (a < 2**12)
    exact = np.where(small, a * 2**40 + rest, 0).astype(np.float64) * 2.0**-48
    coarse = (2 * a + (rest != 0)).astype(np.float64) * 2.0**-9
    return from_float64(np.where(small, exact, coarse))
