"""Selections of placed pods that a rule depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_affinity import Term
from gpusquad.engines.kubernetes.filters.pod_index import PodKind, Tag
from gpusquad.engines.kubernetes.filters.ports import HostPort, clash
from gpusquad.engines.kubernetes.filters.selectors import Labels, Selector
from gpusquad.engines.kubernetes.filters.spread import TopologySpread
from gpusquad.model.lazy import lazy

Namespaces = dict[str, Labels]

# Each has: whether it depends on labels of namespaces; the labels of pods that alone decide (empty: something else
# does); and the tags by which all candidate pods can be found (None: any pod).


def _hash_once(self: Any) -> int:
    """Selections are keys of dicts, and hashing their terms is slow."""
    known = self.__dict__
    if "_hash" not in known:
        known["_hash"] = hash(tuple(known[field.name] for field in fields(self)))
    return known["_hash"]


class _TermSelection:
    """Selections by affinity terms."""

    terms: tuple[Term, ...]

    @property
    def uses_namespaces(self) -> bool:
        return any(term.uses_namespaces for term in self.terms)

    @lazy
    def labels(self) -> tuple[str, ...]:
        return _mentioned(*(term.selector for term in self.terms))


@dataclass(frozen=True)
class AffinityPods(_TermSelection):
    """Pods that match all terms of an affinity."""

    terms: tuple[Term, ...]

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        return _anchors(self.terms[0].selector)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        labels = namespaces.get(kind.namespace)
        return all(term.matches(kind.labels, kind.namespace, labels) for term in self.terms)


@dataclass(frozen=True)
class AntiAffinityPods(_TermSelection):
    """Pods that match any term of an anti-affinity. All terms have the same topology key."""

    topology_key: str
    terms: tuple[Term, ...]

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        anchors = [_anchors(term.selector) for term in self.terms]
        return None if None in anchors else [tag for some in anchors for tag in some or ()]

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        labels = namespaces.get(kind.namespace)
        return any(term.matches(kind.labels, kind.namespace, labels) for term in self.terms)


@dataclass(frozen=True)
class RepellingPods:
    """Pods with any of these anti-affinity terms, which have the same topology key."""

    topology_key: str
    terms: tuple[Term, ...]
    uses_namespaces: bool = False
    labels: tuple[str, ...] = ()

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        return self.terms

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return any(term in self.terms for term in kind.repels)


@dataclass(frozen=True)
class SpreadPods:
    """Pods that a spread constraint counts: not those being deleted."""

    namespace: str
    selector: Selector
    uses_namespaces: bool = False

    @classmethod
    def of(cls, spread: TopologySpread) -> SpreadPods:
        return cls(spread.namespace, spread.selector)

    @lazy
    def labels(self) -> tuple[str, ...]:
        return _mentioned(self.selector)

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        return _anchors(self.selector)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        if kind.leaving or kind.namespace != self.namespace or self.selector.is_everything:
            return False  # kube-scheduler counts no pods for an empty selector
        return self.selector.matches(kind.labels)


@dataclass(frozen=True)
class PortPods:
    """Pods with one of these host ports."""

    ports: tuple[HostPort, ...]
    uses_namespaces: bool = False
    labels: tuple[str, ...] = ()

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        return {port.port for port in self.ports}

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return bool(kind.ports) and clash(self.ports, kind.ports)


@dataclass(frozen=True)
class ClaimPods:
    """Pods that mount this claim."""

    claim: str
    uses_namespaces: bool = False
    labels: tuple[str, ...] = ()

    __hash__ = _hash_once

    def tags(self) -> Iterable[Tag] | None:
        return (self.claim,)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return self.claim in kind.claims


PodSelection = AffinityPods | AntiAffinityPods | RepellingPods | SpreadPods | PortPods | ClaimPods


@dataclass(frozen=True)
class PodSelections:
    """All selections of a rule."""

    ports: PortPods | None
    near: AffinityPods | None
    apart: tuple[AntiAffinityPods, ...]
    repelling: tuple[RepellingPods, ...]
    spread: tuple[SpreadPods, ...]
    """In the order of the rule's spreads."""

    def __iter__(self) -> Iterator[PodSelection]:
        yield from (one for one in (self.ports, self.near) if one is not None)
        yield from (*self.apart, *self.repelling, *self.spread)


def selections_of(rule: PlacementRule) -> PodSelections:
    """Terms with the same topology key form one selection: it only matters whether any of them matches."""
    return PodSelections(
        ports=PortPods(rule.ports) if rule.ports else None,
        near=AffinityPods(rule.near) if rule.near else None,
        apart=tuple(AntiAffinityPods(key, terms) for key, terms in _by_key(rule.apart)),
        repelling=tuple(RepellingPods(key, terms) for key, terms in _by_key(rule.repelled_by)),
        spread=tuple(map(SpreadPods.of, rule.spreads)),
    )


def _by_key(terms: Iterable[Term]) -> Iterator[tuple[str, tuple[Term, ...]]]:
    kept = tuple(terms)
    for key in sorted({term.topology_key for term in kept}):
        yield key, tuple(term for term in kept if term.topology_key == key)


def _mentioned(*selectors: Selector) -> tuple[str, ...]:
    return tuple(sorted({wanted.key for selector in selectors for wanted in selector.requirements}))


def _anchors(selector: Selector) -> Iterable[Tag] | None:
    """Labels by which selected pods can be found; None: all pods have to be checked."""
    if selector.is_nothing:
        return ()
    anchor = selector.anchor()
    return None if anchor is None else [(anchor.key, value) for value in anchor.values]
