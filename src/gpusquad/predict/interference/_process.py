"""A Gaussian process over ordered pairs of workloads.

Why not trees or a network: nine workloads give ninety values with a strong structure, which a kernel expresses in one
term each. The terms are a workload's own sensitivity, the neighbour's pressure, similar behaviour of similar workloads,
and what no feature explains of either. The weight of each term maximises the marginal likelihood. With few values the
result therefore stays near the mean with a wide spread, and nothing has to be tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_PRIOR_PARTS = np.log([0.1, 0.1, 0.1, 0.1, 0.1, 0.08, 0.08, 0.05, 0.4])
"""Standard deviations of the terms, in logarithms of a rate, before any value is seen: own similar, other similar, both
similar, own identity, other identity, own identity with similar other, similar own with other identity, beside an equal
workload, physics.
"""
_PRIOR_NOISE = np.log(0.05)
_PRIOR_SPREAD = 0.2
"""Spread of values for which these priors are meant. They are scaled with the actual spread."""
_MIN_NOISE = np.log(0.004)
_STIFF = 1.0
"""Cost of leaving the prior: half a nat at a factor of two."""
_MAX_SEARCHED = 300
"""Number of values that the search uses. The result uses all of them."""
_ROUNDS = 3
_GOLDEN = 0.6180339887498949


class Pairs(NamedTuple):
    """Ordered pairs as indexes in a list of workloads. -1: not a workload that was learned from."""

    own: np.ndarray
    other: np.ndarray


@dataclass(frozen=True)
class Workloads:
    """Workloads as points in feature space, with what the physics term needs."""

    points: np.ndarray
    groups: np.ndarray
    """Index of the length scale of each coordinate."""
    physical: np.ndarray
    """What each uses of the card, from 0 to 1: utilisation, bandwidth, need of SMs, where known."""


class PairProcess:
    """Learns values of pairs and predicts the mean and variance of others."""

    def __init__(self, workloads: Workloads, pairs: Pairs, figures: np.ndarray) -> None:
        self._workloads, self._pairs = workloads, pairs
        self._lengths = int(workloads.groups.max()) + 1 if workloads.groups.size else 0
        self._middle = float(figures.mean())
        self._physics_middle = physics(workloads, pairs).mean(axis=0)
        self.parameters = self._search(figures - self._middle)
        covariance = self._covariance(self.parameters, pairs)
        covariance[np.diag_indices(len(figures))] += self._noise + 1e-9
        self._inverse = np.linalg.inv(covariance)
        self._weights = self._inverse @ (figures - self._middle)

    def predict(self, asked: Workloads, pairs: Pairs, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict pairs of the given workloads. ``ids``: their indexes among the learned ones (-1: none)."""
        across = self._kernel(self.parameters, asked, pairs, ids)
        mean = self._middle + across @ self._weights
        explained = (across @ self._inverse * across).sum(axis=1)
        return mean, np.maximum(self._alone(asked, pairs) - explained, 0.0) + self._noise

    @property
    def _noise(self) -> float:
        return float(np.exp(2 * max(self.parameters[-1], _MIN_NOISE)))

    def _search(self, figures: np.ndarray) -> np.ndarray:
        """Coordinate ascent: few parameters, a smooth function, and no derivative that could be wrong."""
        spread = max(float(figures.std()), 0.01)
        size = np.log(spread / _PRIOR_SPREAD)
        lengths = np.full(2 * self._lengths, 0.2 + 0.5 * np.log(max(self._lengths, 1)))
        usual = np.concatenate([lengths, _PRIOR_PARTS + size, [_PRIOR_NOISE + size]])
        chosen = np.argsort(np.arange(len(figures)) * _GOLDEN % 1.0)[:_MAX_SEARCHED]
        pairs, seen = Pairs(self._pairs.own[chosen], self._pairs.other[chosen]), figures[chosen]

        def cost(parameters: np.ndarray) -> float:
            return self._misfit(parameters, pairs, seen) + _STIFF * float(((parameters - usual) ** 2).sum())

        best, least = usual.copy(), cost(usual)
        steps = np.full(len(best), 0.8)
        for _ in range(_ROUNDS):
            for at in range(len(best)):
                for sign in (1.0, -1.0):
                    tried = best.copy()
                    tried[at] += sign * steps[at]
                    if (found := cost(tried)) < least:
                        best, least, steps[at] = tried, found, steps[at] * 1.3
                        break
                else:
                    steps[at] *= 0.5
        return best

    def _misfit(self, parameters: np.ndarray, pairs: Pairs, figures: np.ndarray) -> float:
        """The negative logarithm of the marginal likelihood."""
        covariance = self._covariance(parameters, pairs)
        covariance[np.diag_indices(len(figures))] += np.exp(2 * max(parameters[-1], _MIN_NOISE)) + 1e-9
        try:
            lower = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return np.inf
        part = np.linalg.solve(lower, figures)
        return float(0.5 * part @ part + np.log(np.diag(lower)).sum())

    def _covariance(self, parameters: np.ndarray, pairs: Pairs) -> np.ndarray:
        learnt = np.arange(len(self._workloads.points))
        return self._kernel(parameters, self._workloads, pairs, learnt, pairs)

    def _kernel(self, parameters: np.ndarray, asked: Workloads, pairs: Pairs, ids: np.ndarray,
                learnt: Pairs | None = None) -> np.ndarray:  # fmt: skip
        learnt = learnt or self._pairs
        parts = self._parts(parameters)
        own_like, other_like = self._similarity(parameters, asked.points)
        own = own_like[np.ix_(pairs.own, learnt.own)]
        other = other_like[np.ix_(pairs.other, learnt.other)]
        own_id, other_id = ids[pairs.own], ids[pairs.other]
        own_same = own_id[:, None] == learnt.own[None]
        other_same = other_id[:, None] == learnt.other[None]
        twins = ((own_id == other_id) & (own_id >= 0))[:, None] & (learnt.own == learnt.other)[None]
        result = (parts[0] + parts[2] * other + parts[6] * other_same) * own
        result += (parts[1] + parts[5] * own_same) * other
        result += parts[3] * own_same + parts[4] * other_same + parts[7] * twins
        if self._workloads.physical.shape[1]:
            result += parts[8] * (self._physics(asked, pairs) @ self._physics(self._workloads, learnt).T)
        return result

    def _alone(self, asked: Workloads, pairs: Pairs) -> np.ndarray:
        """The variance before any value is seen."""
        parts = self._parts(self.parameters)
        twins = parts[7] * (pairs.own == pairs.other)
        return parts[:7].sum() + twins + parts[8] * (self._physics(asked, pairs) ** 2).sum(axis=1)

    def _physics(self, workloads: Workloads, pairs: Pairs) -> np.ndarray:
        return physics(workloads, pairs) - self._physics_middle

    def _similarity(self, parameters: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.exp(parameters[: 2 * self._lengths])
        return tuple(  # pyright: ignore[reportReturnType]
            _closeness(points, self._workloads.points, side[self._workloads.groups])
            for side in (lengths[: self._lengths], lengths[self._lengths :])
        )

    def _parts(self, parameters: np.ndarray) -> np.ndarray:
        return np.exp(2 * parameters[2 * self._lengths : -1])


def physics(workloads: Workloads, pairs: Pairs) -> np.ndarray:
    """What two workloads take from each other by simple arithmetic of shares.

    Time-slicing: each keeps about its own duty cycle until their sum exceeds the card. MPS: workloads that need SMs
    share them, workloads that need memory share that, and workloads that wait for launches are not affected.
    """
    own, other = workloads.physical[pairs.own], workloads.physical[pairs.other]
    across = [own[:, [0]] * other[:, [1]], own[:, [1]] * other[:, [0]]] if own.shape[1] > 1 else []
    return np.concatenate([own, other, own * other, np.maximum(own + other - 1, 0), *across], axis=1)


def _closeness(these: np.ndarray, those: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    these, those = these / lengths, those / lengths
    apart = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1)[None] - 2 * these @ those.T
    return np.exp(-0.5 * np.maximum(apart, 0.0))
