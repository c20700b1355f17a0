"""Allowed nodes as reported to the service, with what starts of waiting jobs change about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np

from gpusquad.engines.kubernetes.filters.columns import Mask
from gpusquad.engines.kubernetes.filters.pod_checks import Counts, PodCheck
from gpusquad.engines.kubernetes.filters.pod_index import PodKind, Tag
from gpusquad.engines.kubernetes.filters.pod_selections import Namespaces, PodSelection
from gpusquad.model.node_sets import NodeSets
from gpusquad.model.placement import Placement

StartEffect = tuple[tuple[tuple[PodSelection, ...], ...], ...]
"""By shape of the gang and task: the selections that its pod counts in once it is placed."""


@dataclass(frozen=True, eq=False, slots=True)
class FrozenRule:
    """A rule at one instant, as a function of the number of pods on each node."""

    base: Mask
    checks: tuple[PodCheck, ...]

    def mask(self, counts: Mapping[PodSelection, Counts]) -> Mask:
        mask = self.base.copy()
        for check in self.checks:
            mask &= check.ok(counts.__getitem__)
        mask.flags.writeable = False
        return mask


class LiveNodeSets(NodeSets):
    """The sets of all rules. Those of ``rules`` change with the jobs of ``starts``."""

    def __init__(
        self,
        masks: Mapping[str, Mask],
        rules: Mapping[str, FrozenRule],
        counts: Mapping[PodSelection, Counts],
        starts: Mapping[str, StartEffect],
        reasons: Mapping[str, str],
        given: NodeSets | None = None,
    ) -> None:
        """``reasons``: why sets are empty."""
        super().__init__(masks)
        self._rules, self._counts, self._starts, self._given = rules, counts, starts, given
        self._reasons = reasons

    @property
    def given(self) -> NodeSets:
        return self if self._given is None else self._given

    @property
    def awaited(self) -> Set[str]:
        return self._starts.keys()

    def why_none(self, name: str) -> str:
        return self._reasons.get(name, "")

    def with_start(self, job_id: str, placement: Placement) -> NodeSets:
        effect = self._starts.get(job_id)
        if effect is None:
            return self
        counts, masks = dict(self._counts), dict(self)
        changed: set[PodSelection] = set()
        for part in placement.parts:
            for node, selections in zip(part.nodes.tolist(), effect[part.request_index], strict=False):
                for selection in selections:
                    if selection not in changed:
                        changed.add(selection)
                        counts[selection] = counts[selection].copy()
                    counts[selection][node] += 1
        for name, rule in self._rules.items():
            if any(check.selection in changed for check in rule.checks):
                mask = rule.mask(counts)
                if not np.array_equal(mask, masks[name]):
                    masks[name] = mask
        return LiveNodeSets(masks, self._rules, counts, self._starts, self._reasons, self.given)


class SelectionLookup:
    """Finds the selections that a pod counts in."""

    def __init__(self, selections: Iterable[PodSelection], namespaces: Namespaces) -> None:
        self.selections = frozenset(selections)
        self._namespaces = namespaces
        self._by_tag: dict[Tag, list[PodSelection]] = {}
        self._others: list[PodSelection] = []
        for selection in self.selections:
            tags = selection.tags()
            if tags is None:
                self._others.append(selection)
            for tag in set(tags or ()):
                self._by_tag.setdefault(tag, []).append(selection)

    def matching(self, kind: PodKind) -> tuple[PodSelection, ...]:
        candidates = dict.fromkeys(self._others)
        for tag in kind.tags():
            candidates.update(dict.fromkeys(self._by_tag.get(tag, ())))
        return tuple(one for one in candidates if one.holds(kind, self._namespaces))
