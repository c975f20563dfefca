"""The exact dot product: a sum of FP16 products in unbounded integers, special values beside it, one rounding at the end.

This is the definition itself, element by element; `vector` has the fast version for finite matrices.
"""

from dataclasses import dataclass

from . import fp16

PRODUCT_UNIT_BITS = 2 * fp16.UNIT_BITS  # a product is an integer multiple of 2^-48
ONE = 0x3C00


@dataclass
class Sum:
    """A sum of products that is not rounded yet, or a part of one: parts may meet in any order."""

    total: int = 0  # in units of 2^-48
    nan_seen: bool = False
    positive_infinity_seen: bool = False
    negative_infinity_seen: bool = False

    def add_products(self, w, x):
        """Adds `sum_k w[k] * x[k]` of two equally long sequences of bit patterns."""
        if len(w) != len(x):
            raise ValueError(f"{len(w)} weights but {len(x)} inputs")
        for a, b in zip(w, x):
            if fp16.is_finite(a) and fp16.is_finite(b):
                self.total += fp16.integer(a) * fp16.integer(b)
            elif fp16.mul(a, b) == fp16.NAN:
                self.nan_seen = True
            elif (a ^ b) & fp16.SIGN:
                self.negative_infinity_seen = True
            else:
                self.positive_infinity_seen = True

    def merge(self, other):
        """Adds another part."""
        self.total += other.total
        self.nan_seen |= other.nan_seen
        self.positive_infinity_seen |= other.positive_infinity_seen
        self.negative_infinity_seen |= other.negative_infinity_seen

    def merge_rounded(self, partial):
        """Adds a part that arrives as an FP16 pattern."""
        self.add_products([ONE], [partial])

    def rounded(self):
        if self.nan_seen or (self.positive_infinity_seen and self.negative_infinity_seen):
            return fp16.NAN
        if self.positive_infinity_seen:
            return fp16.INFINITY
        if self.negative_infinity_seen:
            return fp16.SIGN | fp16.INFINITY
        return fp16.rne16(self.total, 1 << PRODUCT_UNIT_BITS)


def dot(w, x):
    """`RNE16(sum_k w[k] * x[k])` of two equally long sequences of bit patterns."""
    whole = Sum()
    whole.add_products(w, x)
    return whole.rounded()
