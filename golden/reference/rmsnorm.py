"""RMSNorm of one vector in integers: exact mean of the squares, one integer square root, one rounding per normalized value."""

import math

from . import fp16
from .layernorm import EPS_UNIT, check


def normalize(x, eps):
    """The `z[i]` of docs/numerics.md for finite x and eps in units of 10^-12: normalized values before the gain."""
    n = len(x)
    values = [fp16.integer(a) for a in x]
    mean_square = n * sum(value * value for value in values) + (n * n * eps << 48) // EPS_UNIT
    root = math.isqrt(mean_square << 16)
    return [fp16.rne16(n * value << 8, root) for value in values]


def rms_norm(x, gain, eps):
    """Bit patterns of RMSNorm(x); all NaN when any input is NaN or infinite."""
    check("RMSNorm", len(x), eps)
    if not all(fp16.is_finite(a) for vector in (x, gain) for a in vector):
        return [fp16.NAN] * len(x)
    return [fp16.mul(z, g) for z, g in zip(normalize(x, eps), gain)]
