"""The exact dot product: a sum of FP16 products in unbounded integers, special values beside it, one rounding at the end.

This is the definition itself, element by element; `vector` has the fast version for finite matrices.
"""

from . import fp16

PRODUCT_UNIT_BITS = 2 * fp16.UNIT_BITS  # a product is an integer multiple of 2^-48


def dot(w, x):
    """`RNE16(sum_k w[k] * x[k])` of two equally long sequences of bit patterns."""
    if len(w) != len(x):
        raise ValueError(f"{len(w)} weights but {len(x)} inputs")
    total = 0
    nan_seen = positive_infinity_seen = negative_infinity_seen = False
    for a, b in zip(w, x):
        if fp16.is_finite(a) and fp16.is_finite(b):
            total += fp16.integer(a) * fp16.integer(b)
        elif fp16.mul(a, b) == fp16.NAN:
            nan_seen = True
        elif (a ^ b) & fp16.SIGN:
            negative_infinity_seen = True
        else:
            positive_infinity_seen = True
    if nan_seen or (positive_infinity_seen and negative_infinity_seen):
        return fp16.NAN
    if positive_infinity_seen:
        return fp16.INFINITY
    if negative_infinity_seen:
        return fp16.SIGN | fp16.INFINITY
    return fp16.rne16(total, 1 << PRODUCT_UNIT_BITS)
