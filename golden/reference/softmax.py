"""Softmax of one row of scores. Masking is the caller's: it passes the visible scores only."""

from . import exponential, fp16


def softmax(scores):
    """Bit patterns of the probabilities; all NaN when a score is NaN or infinite."""
    if not all(map(fp16.is_finite, scores)):
        return [fp16.NAN] * len(scores)
    values = [fp16.integer(s) for s in scores]
    largest = max(values)
    weights = [exponential.exp_of_negative(largest - value) for value in values]
    total = sum(weights)
    return [fp16.rne16(weight, total) for weight in weights]
