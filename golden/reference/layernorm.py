"""LayerNorm of one vector in integers: exact mean and variance, one integer square root, one rounding per normalized value."""

import math

from . import fp16

MAX_LENGTH = 16384


def normalize(x):
    """The `z[i]` of docs/numerics.md for finite x: normalized values before gain and bias."""
    n = len(x)
    values = [fp16.integer(a) for a in x]
    total = sum(values)
    deviations = [n * value - total for value in values]
    mean_square = sum(d * d for d in deviations) // n + (n * n << 48) // 100000
    root = math.isqrt(mean_square << 16)
    return [fp16.rne16(d << 8, root) for d in deviations]


def layer_norm(x, gain, bias):
    """Bit patterns of LayerNorm(x); all NaN when any input is NaN or infinite."""
    n = len(x)
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"LayerNorm length {n} must be 1..{MAX_LENGTH}")
    if not all(fp16.is_finite(a) for vector in (x, gain, bias) for a in vector):
        return [fp16.NAN] * n
    return [fp16.add(fp16.mul(z, g), b) for z, g, b in zip(normalize(x), gain, bias)]
