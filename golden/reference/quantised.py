"""INT4 and INT8 weights: numbers with an FP16 scale that up to 32 of them share, and what a quantised model is.

`quantise` and `dequantise` are the definitions, on integers; `round_trip` does whole matrices and says why that is exact.
"""

from fractions import Fraction

import numpy as np

from . import fp16, vector
from .config import describe, fused_rows

LIMITS = {"int4": 7, "int8": 127}  # the largest number that `quantise` gives
PLACE = 32  # weights that share a scale


def dequantise(q, scale):
    """The weight of the number q."""
    return fp16.mul(fp16.rne16(q, 1), scale)


def quantise(weights, limit):
    """(numbers, scale) of weights that share a scale; a scale of zero leaves nothing to divide by: all numbers are 0."""
    for place, bits in enumerate(weights):
        if not fp16.is_finite(bits):
            raise ValueError(f"weight {bits:04x} at [{place}] is not finite")
    scale = fp16.div(max(bits & 0x7FFF for bits in weights), fp16.rne16(limit, 1))
    if scale == 0:
        return [0] * len(weights), scale
    nearest = (round(Fraction(fp16.integer(bits), fp16.integer(scale))) for bits in weights)  # ties to even
    return [max(-limit, min(limit, q)) for q in nearest], scale


def round_trip(matrix, limit, along=1):
    """A matrix quantised and dequantised; 32 weights `along` this axis from a multiple of 32 on share a scale, fewer at its end."""
    bad = np.argwhere(matrix & fp16.INFINITY == fp16.INFINITY)
    if len(bad):
        place = tuple(bad[0].tolist())
        raise ValueError(f"weight {matrix[place]:04x} at {list(place)} is not finite")
    rows = np.moveaxis(matrix, along, 1)
    count, columns = rows.shape
    # Zeros fill the last place: they change neither the largest magnitude nor another number.
    places = np.pad(rows, ((0, 0), (0, -columns % PLACE))).reshape(count, -1, PLACE)
    # The quotient of an 11-bit number by 7 or 127 is a rounding boundary of FP16 or at least 2^-20 of itself away from it, and
    # float64 is off by 2^-53 of it: the conversion is the one rounding.
    largest = (places & 0x7FFF).max(2, keepdims=True)
    scales = vector.to_float64(vector.from_float64(vector.to_float64(largest) / limit))
    # For a multiple h of 1/2, w and h * s are multiples of 2^-25, and s is below 2^14: w / s is h or at least 2^-39 away from it.
    # Quotients that the limit lets through are below 2^7, where float64 is off by 2^-47: it does not reach h from elsewhere.
    with np.errstate(divide="ignore", invalid="ignore"):
        nearest = np.rint(vector.to_float64(places) / scales)
    q = np.where(scales == 0, 0, np.clip(nearest, -limit, limit)) + 0.0  # a sum with +0 is never -0
    # 8 by 11 bits: the product is exact.
    made = vector.from_float64(q * scales).reshape(count, -1)[:, :columns]
    return np.moveaxis(made, 1, along)


def matrices(description, layer):
    """(name, rows, along) of the matrices of a layer: weights that share a scale are side by side `along` this axis.

    Axis 0 are the outputs, 1 the inputs. A tensor that q, k and v share is three matrices, each of the `rows` listed.
    """
    names = description.names
    prefix, every = f"{names.layers}.{layer}.", slice(None)
    if len(names.projections) == 3:
        yield from ((prefix + name, every, 0) for name in names.projections)
    else:
        yield from ((prefix + names.projections[0], rows, 0) for rows in fused_rows(description))
    yield prefix + names.down, every, 0
    fused = {names.gate, names.up} if names.gate_up else set()
    parts = (names.out, names.gate, names.up, names.gate_up)
    yield from ((prefix + name, every, 1) for name in parts if name and name not in fused)


def model(config, tensors, weights):
    """The tensors of the model whose layers have INT4 or INT8 weights; None leaves them as they are."""
    if weights is None:
        return tensors
    if weights not in LIMITS:
        raise ValueError(f"weights are {weights!r}, expected {' or '.join(LIMITS)}")
    description, changed = describe(config), dict(tensors)
    if description.experts:
        raise ValueError(f"config.json: {description.experts} experts, expected none in a model with {weights} weights")
    for layer in range(description.layers):
        for name, rows, along in matrices(description, layer):
            name += ".weight"
            if changed[name] is tensors[name]:
                changed[name] = tensors[name].copy()
            try:
                made = round_trip(tensors[name][rows].view(np.uint16), LIMITS[weights], along)
            except ValueError as error:
                raise ValueError(f"tensor {name}: {error}") from None
            changed[name][rows] = made.view(np.float16)
    return changed
