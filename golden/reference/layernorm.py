"""LayerNorm of one vector in integers: exact mean and variance, one integer square root, one rounding per normalized value."""

import math

from . import fp16

MAX_LENGTH = 16384
EPS_UNIT = 10**12  # eps is an integer multiple of 10^-12
SMALLEST_EPS, LARGEST_EPS = 10**6, 10**10
DEFAULT_EPS = 10**7


def normalize(x, eps=DEFAULT_EPS):
    """The `z[i]` of docs/numerics.md for finite x: normalized values before gain and bias."""
    n = len(x)
    values = [fp16.integer(a) for a in x]
    total = sum(values)
    deviations = [n * value - total for value in values]
    mean_square = sum(d * d for d in deviations) // n + (n * n * eps << 48) // EPS_UNIT
    root = math.isqrt(mean_square << 16)
    return [fp16.rne16(d << 8, root) for d in deviations]


def layer_norm(x, gain, bias, eps=DEFAULT_EPS):
    """Bit patterns of LayerNorm(x); all NaN when any input is NaN or infinite."""
    check("LayerNorm", len(x), eps)
    if not all(fp16.is_finite(a) for vector in (x, gain, bias) for a in vector):
        return [fp16.NAN] * len(x)
    return [fp16.add(fp16.mul(z, g), b) for z, g, b in zip(normalize(x, eps), gain, bias)]


def check(name, n, eps):
    """Refuses lengths and eps outside the contract."""
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"{name} length {n} must be 1..{MAX_LENGTH}")
    if not SMALLEST_EPS <= eps <= LARGEST_EPS:
        raise ValueError(f"{name} eps {eps} must be {SMALLEST_EPS}..{LARGEST_EPS}, in units of 10^-12")
