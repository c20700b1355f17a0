"""Nodes as columns: for each label in use, a code per node that stands for its value.

A condition on labels is then evaluated once per value and looked up for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.selectors import IN, NOT_IN, Requirement
from gpusquad.engines.kubernetes.filters.taints import Taint, is_unschedulable, taints_of
from gpusquad.kube.objects import Object, labels_of, name_of

Mask = NDArray[np.bool_]
Nodes = NDArray[np.intp]
"""Positions of nodes."""
T = TypeVar("T", bound=Hashable)


@dataclass
class NodeColumn(Generic[T]):
    """Code 0 stands for a missing value."""

    codes: NDArray[np.int32]
    values: list[T]
    code_of: dict[T, int]

    @classmethod
    def of(cls, found: Iterable[T], none: T) -> NodeColumn[T]:
        column = cls(np.empty(0, np.int32), [none], {none: 0})
        column.codes = np.fromiter((column._code(value) for value in found), np.int32)
        return column

    def put(self, position: int, value: T) -> None:
        self.codes = self.codes.copy()  # frozen rules keep the earlier ones
        self.codes[position] = self._code(value)

    def look_up(self, answers: Callable[[T], bool], at: Nodes | slice) -> Mask:
        table = np.fromiter((answers(value) for value in self.values), np.bool_, len(self.values))
        return table[self.codes[at]]

    def _code(self, value: T) -> int:
        code = self.code_of.get(value)
        if code is None:
            code = self.code_of[value] = len(self.values)
            self.values.append(value)
        return code


class NodeColumns:
    """All nodes of the cluster in the caller's order, and a log of changed nodes."""

    def __init__(self, nodes: Sequence[Object]) -> None:
        self._nodes = list(nodes)
        self.names = [name_of(node) for node in nodes]
        self.position_of = {name: position for position, name in enumerate(self.names)}
        self.changes: list[int] = []
        self._labels: dict[str, NodeColumn[str | None]] = {}
        self.taints: NodeColumn[tuple[Taint, ...]] = NodeColumn.of((taints_of(node) for node in nodes), ())
        self.cordoned: Mask = np.fromiter(map(is_unschedulable, nodes), np.bool_, len(nodes))

    def __len__(self) -> int:
        return len(self._nodes)

    def change(self, position: int, node: Object) -> bool:
        """False: nothing relevant has changed."""
        if name_of(node) != self.names[position]:
            raise ValueError(f"{name_of(node)} is not {self.names[position]}: a node keeps its position and its name")
        old, self._nodes[position] = self._nodes[position], node
        if _facts(old) == _facts(node):
            return False
        for key, column in self._labels.items():
            column.put(position, labels_of(node).get(key))
        self.taints.put(position, taints_of(node))
        self.cordoned[position] = is_unschedulable(node)
        self.changes.append(position)
        return True

    def label(self, key: str) -> NodeColumn[str | None]:
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = NodeColumn.of((labels_of(node).get(key) for node in self._nodes), None)
        return column

    def labels_at(self, position: int) -> dict[str, str]:
        return dict(labels_of(self._nodes[position]))

    def holds(self, wanted: Requirement, at: Nodes | slice) -> Mask:
        column = self.label(wanted.key)
        if wanted.operator not in (IN, NOT_IN):
            return column.look_up(wanted.holds, at)
        table = np.full(len(column.values), wanted.operator == NOT_IN)
        table[[column.code_of[value] for value in wanted.values if value in column.code_of]] ^= True
        return table[column.codes[at]]

    def is_named(self, wanted: Requirement, at: Nodes | slice) -> Mask:
        table = np.full(len(self), wanted.operator == NOT_IN)
        table[[self.position_of[name] for name in wanted.values if name in self.position_of]] ^= True
        return table[at]


def _facts(node: Object) -> tuple:
    return labels_of(node), taints_of(node), is_unschedulable(node)
