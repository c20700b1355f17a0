"""Student's t distribution: with few repeats, a normal distribution would be too narrow.

Its tails are an incomplete beta function, which numpy does not have. A continued fraction gives at least ten digits in
a few steps; a library for this one function would be the largest dependency.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p

_MAX_TERMS = 300
_EXACT = 1e-15
_TINY = 1e-300
"""Replaces a zero divisor."""


def two_sided_p(t: float, freedom: float) -> float:
    """The probability of a t at least this far from zero, in either direction, if there is no difference."""
    if t == 0.0:
        return 1.0
    square = t * t
    if square == inf:
        return 0.0
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square))


@lru_cache(maxsize=1024)
def quantile(freedom: float, level: float = 0.95) -> float:
    """The t within which this fraction of the distribution lies on both sides: 12.706 for one degree of freedom."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > 1 - level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised function: 0 at x = 0, 1 at x = 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    # The fraction converges quickly on the near side of the distribution's bulk. On the far side the mirrored one is
    # used.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """1/(1 + d1/(1 + d2/(1 + …))), evaluated from the front with ratios of neighbouring convergents."""
    above, below = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, _MAX_TERMS):
        for d in (_even(a, b, x, m), _odd(a, b, x, m)):
            below = 1.0 / _not_zero(1.0 + d * below)
            above = _not_zero(1.0 + d / above)
            step = above * below
            value *= step
        if abs(step - 1.0) < _EXACT:
            break
    return value


def _even(a: float, b: float, x: float, m: int) -> float:
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _odd(a: float, b: float, x: float, m: int) -> float:
    return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
