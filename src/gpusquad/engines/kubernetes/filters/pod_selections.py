"""Sorts of placed pods that a rule looks at, each a question that is asked of every kind of pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_affinity import Term
from gpusquad.engines.kubernetes.filters.pod_index import PodKind, Tag
from gpusquad.engines.kubernetes.filters.ports import HostPort, clash
from gpusquad.engines.kubernetes.filters.selectors import Labels, Selector
from gpusquad.engines.kubernetes.filters.spread import TopologySpread
from gpusquad.model.lazy import lazy

Namespaces = dict[str, Labels]

# Each says whether it asks for labels of namespaces, which labels of pods alone decide (none: something else does), and
# the tags by which all pods can be found that it may hold for (None: any pod may be one).


class _OfTerms:
    """What looks at pods by terms of affinity."""

    terms: tuple[Term, ...]

    @property
    def asks_namespaces(self) -> bool:
        return any(term.asks_namespaces for term in self.terms)

    @lazy
    def labels(self) -> tuple[str, ...]:
        return _mentioned(*(term.selector for term in self.terms))


@dataclass(frozen=True)
class AffinityPods(_OfTerms):
    """Pods that all of these terms match: what affinity looks for."""

    terms: tuple[Term, ...]

    def tags(self) -> Iterable[Tag] | None:
        return _anchors(self.terms[0].selector)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        labels = namespaces.get(kind.namespace)
        return all(term.matches(kind.labels, kind.namespace, labels) for term in self.terms)


@dataclass(frozen=True)
class AntiAffinityPods(_OfTerms):
    """Pods that any of these terms matches: what anti-affinity avoids. All are about domains of one key."""

    topology_key: str
    terms: tuple[Term, ...]

    def tags(self) -> Iterable[Tag] | None:
        anchors = [_anchors(term.selector) for term in self.terms]
        return None if None in anchors else [tag for some in anchors for tag in some or ()]

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        labels = namespaces.get(kind.namespace)
        return any(term.matches(kind.labels, kind.namespace, labels) for term in self.terms)


@dataclass(frozen=True)
class RepellingPods:
    """Pods that say any of these terms of anti-affinity, which are about domains of one key."""

    topology_key: str
    terms: tuple[Term, ...]
    asks_namespaces: bool = False
    labels: tuple[str, ...] = ()

    def tags(self) -> Iterable[Tag] | None:
        return self.terms

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return any(term in self.terms for term in kind.repels)


@dataclass(frozen=True)
class SpreadPods:
    """Pods that a spread constraint counts: not those on their way out."""

    namespace: str
    selector: Selector
    asks_namespaces: bool = False

    @classmethod
    def of(cls, spread: TopologySpread) -> SpreadPods:
        return cls(spread.namespace, spread.selector)

    @lazy
    def labels(self) -> tuple[str, ...]:
        return _mentioned(self.selector)

    def tags(self) -> Iterable[Tag] | None:
        return _anchors(self.selector)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        if kind.leaving or kind.namespace != self.namespace or self.selector.is_everything:
            return False  # kube-scheduler counts nobody for an empty selector
        return self.selector.matches(kind.labels)


@dataclass(frozen=True)
class PortPods:
    """Pods that have one of these ports of the host."""

    ports: tuple[HostPort, ...]
    asks_namespaces: bool = False
    labels: tuple[str, ...] = ()

    def tags(self) -> Iterable[Tag] | None:
        return {port.port for port in self.ports}

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return bool(kind.ports) and clash(self.ports, kind.ports)


@dataclass(frozen=True)
class ClaimPods:
    """Pods that mount this claim."""

    claim: str
    asks_namespaces: bool = False
    labels: tuple[str, ...] = ()

    def tags(self) -> Iterable[Tag] | None:
        return (self.claim,)

    def holds(self, kind: PodKind, namespaces: Namespaces) -> bool:
        return self.claim in kind.claims


Sort = AffinityPods | AntiAffinityPods | RepellingPods | SpreadPods | PortPods | ClaimPods


@dataclass(frozen=True)
class PodSelections:
    """All that a rule looks at."""

    ports: PortPods | None
    near: AffinityPods | None
    apart: tuple[AntiAffinityPods, ...]
    repelling: tuple[RepellingPods, ...]
    spreading: tuple[SpreadPods, ...]
    """In the order of the rule's spreads."""

    def __iter__(self) -> Iterator[Sort]:
        yield from (one for one in (self.ports, self.near) if one is not None)
        yield from (*self.apart, *self.repelling, *self.spreading)


def sorts_of(rule: PlacementRule) -> PodSelections:
    """Terms about one key are one sort: what counts is whether any of them is met."""
    return PodSelections(
        ports=PortPods(rule.ports) if rule.ports else None,
        near=AffinityPods(rule.near) if rule.near else None,
        apart=tuple(AntiAffinityPods(key, terms) for key, terms in _by_key(rule.apart)),
        repelling=tuple(RepellingPods(key, terms) for key, terms in _by_key(rule.repelled_by)),
        spreading=tuple(map(SpreadPods.of, rule.spreads)),
    )


def _by_key(terms: Iterable[Term]) -> Iterator[tuple[str, tuple[Term, ...]]]:
    kept = tuple(terms)
    for key in sorted({term.topology_key for term in kept}):
        yield key, tuple(term for term in kept if term.topology_key == key)


def _mentioned(*selectors: Selector) -> tuple[str, ...]:
    return tuple(sorted({wanted.key for selector in selectors for wanted in selector.requirements}))


def _anchors(selector: Selector) -> Iterable[Tag] | None:
    """Labels by which to find whom it selects; None: everybody has to be looked at."""
    if selector.is_nothing:
        return ()
    anchor = selector.anchor()
    return None if anchor is None else [(anchor.key, value) for value in anchor.values]
