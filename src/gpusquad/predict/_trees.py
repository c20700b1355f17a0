"""Boosted trees as flat arrays.

One row passes through all trees at once in a tenth of a millisecond. The library that trains them takes milliseconds
for one row, and a submission waits for the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusquad.predict._bins import Floats

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Trees:
    """Several models over the same features, side by side. A leaf points to itself."""

    feature: Rows
    threshold: Floats
    left: Rows
    right: Rows
    value: Floats
    roots: Rows
    first: Rows
    """Position of each model's first tree among the roots."""
    base: Floats
    """Value of each model before its trees are added."""
    depth: int

    def answers(self, row: Floats) -> Floats:
        """One number per model."""
        at = self.roots
        for _ in range(self.depth):
            at = np.where(row[self.feature[at]] <= self.threshold[at], self.left[at], self.right[at])
        return self.base + np.add.reduceat(self.value[at], self.first)


def flat(models: Sequence[Any]) -> Trees:
    """Convert fitted histogram boosters of scikit-learn that have one output each and no missing values."""
    nodes, roots, first, base, depth, count = [], [], [], [], 0, 0
    for model in models:
        first.append(len(roots))
        base.append(float(np.ravel(model._baseline_prediction)[0]))
        for (tree,) in model._predictors:
            grown = tree.nodes
            nodes.append((grown, count))
            roots.append(count)
            count += len(grown)
            depth = max(depth, int(grown["depth"].max()))
    return Trees(
        feature=np.concatenate([_features(grown) for grown, _ in nodes]),
        threshold=np.concatenate([grown["num_threshold"] for grown, _ in nodes]).astype(np.float64),
        left=np.concatenate([_next(grown, "left", at) for grown, at in nodes]),
        right=np.concatenate([_next(grown, "right", at) for grown, at in nodes]),
        value=np.concatenate([grown["value"] for grown, _ in nodes]).astype(np.float64),
        roots=np.asarray(roots), first=np.asarray(first), base=np.asarray(base), depth=depth,
    )  # fmt: skip


def _leaves(grown: Any) -> NDArray[np.bool_]:
    return grown["is_leaf"].astype(bool)


def _next(grown: Any, side: str, at: int) -> Rows:
    return np.where(_leaves(grown), np.arange(len(grown)), grown[side]).astype(np.int64) + at


def _features(grown: Any) -> Rows:
    return np.where(_leaves(grown), 0, grown["feature_idx"]).astype(np.int64)
