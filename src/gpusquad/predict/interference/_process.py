"""A Gaussian process over ordered pairs of workloads.

Why this and not trees or a network: with nine workloads there are ninety figures, and they have a strong structure that
a kernel says in a line each: own sensitivity, the other's pressure, workloads that look alike behave alike, and what
is left of an own or another one that no feature shows. How much each line counts is found by maximising the marginal
likelihood, so with few figures the answer stays near the mean and its spread is wide, and nothing has to be tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_PRIOR_PARTS = np.log([0.1, 0.1, 0.1, 0.1, 0.1, 0.08, 0.08, 0.05, 0.4])
"""Own alike, other alike, both alike, own itself, other itself, own itself with alike other, alike own with other
itself, beside its twin, physics: standard deviations, in logarithms of a rate, before anything was seen."""
_PRIOR_NOISE = np.log(0.05)
_PRIOR_SPREAD = 0.2
"""All of these go with the spread of the figures: they are for figures that spread so much."""
_LEAST_NOISE = np.log(0.004)
_STIFF = 1.0
"""How dear it is to leave what is usual: half a nat at a factor of two."""
_MOST_SEARCHED = 300
"""Figures the search looks at; the answer is made of all of them."""
_ROUNDS = 3
_GOLDEN = 0.6180339887498949


class Pairs(NamedTuple):
    """Ordered pairs as places in a list of workloads; -1 where a workload is none of those that were learnt from."""

    own: np.ndarray
    other: np.ndarray


@dataclass(frozen=True)
class Workloads:
    """Where workloads are in the space of their features, and what physics says of two of them needs to know."""

    points: np.ndarray
    groups: np.ndarray
    """The number of the length each coordinate is measured by."""
    physical: np.ndarray
    """What each takes of the card, from 0 to 1: utilisation, bandwidth, need of SMs, those that are known."""


class PairProcess:
    """Learns figures of pairs, and tells the mean and the variance of others."""

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
        """Of pairs of the asked workloads; ``ids`` says which of the learnt ones they are (-1: none)."""
        across = self._kernel(self.parameters, asked, pairs, ids)
        mean = self._middle + across @ self._weights
        explained = (across @ self._inverse * across).sum(axis=1)
        return mean, np.maximum(self._alone(asked, pairs) - explained, 0.0) + self._noise

    @property
    def _noise(self) -> float:
        return float(np.exp(2 * max(self.parameters[-1], _LEAST_NOISE)))

    def _search(self, figures: np.ndarray) -> np.ndarray:
        """Coordinate by coordinate, uphill in steps: few parameters, a smooth hill, and no derivative to err in."""
        spread = max(float(figures.std()), 0.01)
        size = np.log(spread / _PRIOR_SPREAD)
        lengths = np.full(2 * self._lengths, 0.2 + 0.5 * np.log(max(self._lengths, 1)))
        usual = np.concatenate([lengths, _PRIOR_PARTS + size, [_PRIOR_NOISE + size]])
        chosen = np.argsort(np.arange(len(figures)) * _GOLDEN % 1.0)[:_MOST_SEARCHED]
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
        covariance[np.diag_indices(len(figures))] += np.exp(2 * max(parameters[-1], _LEAST_NOISE)) + 1e-9
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
        own_like, other_like = self._alike(parameters, asked.points)
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
        """The variance before anything was seen."""
        parts = self._parts(self.parameters)
        twins = parts[7] * (pairs.own == pairs.other)
        return parts[:7].sum() + twins + parts[8] * (self._physics(asked, pairs) ** 2).sum(axis=1)

    def _physics(self, workloads: Workloads, pairs: Pairs) -> np.ndarray:
        return physics(workloads, pairs) - self._physics_middle

    def _alike(self, parameters: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.exp(parameters[: 2 * self._lengths])
        return tuple(  # pyright: ignore[reportReturnType]
            _closeness(points, self._workloads.points, side[self._workloads.groups])
            for side in (lengths[: self._lengths], lengths[self._lengths :])
        )

    def _parts(self, parameters: np.ndarray) -> np.ndarray:
        return np.exp(2 * parameters[2 * self._lengths : -1])


def physics(workloads: Workloads, pairs: Pairs) -> np.ndarray:
    """What two workloads take from each other, as far as arithmetic of shares goes. Time slicing: each keeps about its
    own duty cycle until the two sum to more than the card. MPS: who needs the SMs shares them, who needs memory shares
    that, and who waits for launches does not care."""
    own, other = workloads.physical[pairs.own], workloads.physical[pairs.other]
    across = [own[:, [0]] * other[:, [1]], own[:, [1]] * other[:, [0]]] if own.shape[1] > 1 else []
    return np.concatenate([own, other, own * other, np.maximum(own + other - 1, 0), *across], axis=1)


def _closeness(these: np.ndarray, those: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    these, those = these / lengths, those / lengths
    apart = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1)[None] - 2 * these @ those.T
    return np.exp(-0.5 * np.maximum(apart, 0.0))
