"""The next token from the logits: greedy at temperature 0, else drawn with SplitMix64."""

from . import exponential, fp16

MASK64 = (1 << 64) - 1
MAX_TEMPERATURE_PERCENT = 1000


def splitmix64(state):
    """(next state, output) of SplitMix64."""
    state = (state + 0x9E3779B97F4A7C15) & MASK64
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return state, z ^ (z >> 31)


def likely(values, weights, top_k, top_p_percent):
    """The weights, 0 for tokens that are not among the `top_k` largest (0: all) that reach the share `top_p_percent`."""
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    order = order[: top_k or len(order)]
    total = sum(weights[token] for token in order)
    kept, reached = set(), 0
    for token in order:
        kept.add(token)
        reached += weights[token]
        if reached * 100 >= total * top_p_percent:
            break
    return [weight if token in kept else 0 for token, weight in enumerate(weights)]


def sample(logits, temperature_percent, state, top_k=0, top_p_percent=100):
    """(token, next state). Temperature 0 takes the first largest logit and leaves the state alone."""
    if not 1 <= top_p_percent <= 100:
        raise ValueError(f"top-p {top_p_percent} % must be 1..100")
    if not 0 <= temperature_percent <= MAX_TEMPERATURE_PERCENT:
        raise ValueError(f"temperature {temperature_percent} % must be 0..{MAX_TEMPERATURE_PERCENT}")
    for position, logit in enumerate(logits):
        if not fp16.is_finite(logit):
            raise ValueError(f"logit {position} is {logit:#06x}, not a finite number")
    values = [fp16.integer(logit) for logit in logits]
    largest = max(values)
    if temperature_percent == 0:
        return values.index(largest), state
    weights = [exponential.exp_of_negative((largest - value) * 100 // temperature_percent) for value in values]
    weights = likely(values, weights, top_k, top_p_percent)
    state, z = splitmix64(state)
    target = (z * sum(weights)) >> 64  # below sum(weights) because z < 2^64
    cumulated = 0
    for token, weight in enumerate(weights):
        cumulated += weight
        if cumulated > target:
            return token, state
    raise AssertionError("unreachable: the sum of all weights exceeds the target")
