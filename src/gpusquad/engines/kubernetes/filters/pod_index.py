"""Locations of all pods, and the anti-affinity of all pods.

It contains every pod of the cluster, whatever scheduler it has. Placed pods count for affinity, spread, host ports and
claims. Pending pods only contribute their anti-affinity. Ended pods do not count. Pods that are being deleted count
until they are gone, except for spread, as in kube-scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.pod_affinity import Term, terms_of
from gpusquad.engines.kubernetes.filters.ports import HostPort, ports_of
from gpusquad.engines.kubernetes.filters.selectors import Labels
from gpusquad.engines.kubernetes.filters.term_lookup import TermLookup
from gpusquad.engines.kubernetes.filters.volumes import claims_mounted
from gpusquad.kube.objects import Object, is_leaving, key_of, labels_of, namespace_of, uid_of

Tag = tuple[str, str] | Term | str | int
"""A label, an anti-affinity term, the key of a claim, or a host port."""
LOG_KEPT = 50_000
"""Changes kept for counts that follow the log. Counts that are further behind start again."""


@dataclass(frozen=True, slots=True, eq=False)
class PodKind:
    """What matters of a placed pod to other pods. Similar pods share one object, compared by identity."""

    namespace: str
    labels: Mapping[str, str]
    leaving: bool
    repels: tuple[Term, ...]
    ports: tuple[HostPort, ...]
    claims: tuple[str, ...]

    def tags(self) -> Iterator[Tag]:
        """Everything by which it can be found."""
        yield from self.labels.items()
        yield from self.repels
        yield from self.claims
        yield from {port.port for port in self.ports}


@dataclass(frozen=True, slots=True)
class PodChange:
    """One pod more (+1) or less (-1) on a node."""

    kind: PodKind
    slot: int
    by: int


class PodIndex:
    """A node gets a slot once and keeps it, so that counts are arrays that do not depend on the current nodes."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Labels] = {}
        self.namespaces_version = 0
        self.version = 0
        self._slots: dict[str, int] = {}
        self._kinds: dict[tuple, PodKind] = {}
        self._pods: dict[str, tuple[PodKind, int]] = {}
        self._assumed: dict[str, tuple[str, str]] = {}
        """UID and node of pods that are bound, or are being bound, where the pod does not show it yet."""
        self._where: dict[PodKind, Counter[int]] = {}
        self._by_tag: dict[Tag, set[PodKind]] = {}
        self._terms = TermLookup()
        self._terms_of: dict[str, tuple[Term, ...]] = {}
        self._log: list[PodChange] = []
        self._log_start = 0

    # --- updates ---

    def put(self, pod: Object) -> tuple[Term, ...]:
        """Adds or changes a pod. Returns anti-affinity terms that are new: rules of pods that match them have to be
        built again."""
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            self.remove(pod)
            return ()
        key = key_of(pod)
        place = self._node_of(key, pod)
        terms = _repels(pod)
        new = self._terms.replace(self._terms_of.get(key, ()), terms)
        if terms:
            self._terms_of[key] = terms
        else:
            self._terms_of.pop(key, None)
        self._place(key, self._kind(pod) if place else None, place)
        return new

    def assume(self, pod: Object, node: str) -> None:
        """The pod counts on the node from now on, although its binding is still in flight."""
        self._assumed[key_of(pod)] = uid_of(pod), node
        self.put(pod)

    def forget_assumed(self, pod: Object) -> None:
        """Its binding has failed."""
        key = key_of(pod)
        if self._assumed.get(key, ("",))[0] == uid_of(pod):
            del self._assumed[key]
            self._place(key, None, None)

    def kind_of(self, pod: Object) -> PodKind:
        """What a pod counts as once it is placed."""
        key = kind_key(pod)
        return self._kinds.get(key) or PodKind(key[0], dict(key[1]), *key[2:])

    def remove(self, pod: Object) -> None:
        key = key_of(pod)
        self._assumed.pop(key, None)
        self._terms.replace(self._terms_of.pop(key, ()), ())
        self._place(key, None, None)

    def put_namespace(self, name: str, labels: Labels | None) -> None:
        """None: the namespace is gone. Rules of its pods have to be built again if other pods select namespaces by
        labels."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = dict(labels)
        self.namespaces_version += 1
        self.version += 1

    # --- queries for rules ---

    @property
    def selects_namespaces(self) -> bool:
        """An anti-affinity term depends on the labels of namespaces."""
        return any(term.uses_namespaces for term in self._terms)

    def repellers(self, pod: Object) -> tuple[Term, ...]:
        """Anti-affinity terms of all pods, placed or pending, that match this pod, including its own."""
        namespace = namespace_of(pod)
        return self._terms.matching(labels_of(pod), namespace, self.namespaces.get(namespace, {}))

    # --- queries for counts ---

    def slot(self, node: str) -> int:
        return self._slots.setdefault(node, len(self._slots))

    @property
    def slots(self) -> int:
        return len(self._slots)

    def counted(self) -> int:
        """Number of changes so far."""
        return self._log_start + len(self._log)

    def since(self, position: int) -> list[PodChange] | None:
        """Changes after the first ``position`` ones; None: they are no longer kept."""
        return self._log[position - self._log_start :] if position >= self._log_start else None

    def kinds(self, tags: Iterable[Tag] | None = None) -> Iterator[tuple[PodKind, Counter[int]]]:
        """All kinds of placed pods with their numbers by slot, or only those with one of these tags."""
        if tags is None:
            yield from self._where.items()
            return
        found: set[PodKind] = set()
        for tag in tags:
            found |= self._by_tag.get(tag, set())
        for kind in found:
            yield kind, self._where[kind]

    # --- internals ---

    def _kind(self, pod: Object) -> PodKind:
        key = kind_key(pod)
        kind = self._kinds.get(key)
        return kind or self._kinds.setdefault(key, PodKind(key[0], dict(key[1]), *key[2:]))

    def _node_of(self, key: str, pod: Object) -> str | None:
        shown = pod["spec"].get("nodeName")
        uid, node = self._assumed.get(key, ("", ""))
        if node and (shown or uid != uid_of(pod)):
            del self._assumed[key]
            return shown
        return shown or node or None

    def _place(self, key: str, kind: PodKind | None, node: str | None) -> None:
        new = None if kind is None or node is None else (kind, self.slot(node))
        old = self._pods.get(key)
        if old == new:
            return
        self._pods.pop(key, None)
        if new is not None:  # before the old one is removed, which might drop their common kind
            self._pods[key] = new
            self._count(*new, 1)
        if old is not None:
            self._count(*old, -1)
        self.version += 1

    def _count(self, kind: PodKind, slot: int, by: int) -> None:
        where = self._where.get(kind)
        if where is None:
            where = self._where[kind] = Counter()
            for tag in kind.tags():
                self._by_tag.setdefault(tag, set()).add(kind)
        where[slot] += by
        if not where[slot]:
            del where[slot]
        if not where:
            self._forget(kind)
        self._log.append(PodChange(kind, slot, by))
        if len(self._log) > 2 * LOG_KEPT:
            del self._log[:LOG_KEPT]
            self._log_start += LOG_KEPT

    def _forget(self, kind: PodKind) -> None:
        del self._where[kind]
        for tag in kind.tags():
            self._by_tag[tag].discard(kind)
            if not self._by_tag[tag]:
                del self._by_tag[tag]
        key = (kind.namespace, tuple(sorted(kind.labels.items())), kind.leaving, kind.repels, kind.ports, kind.claims)
        self._kinds.pop(key, None)


def kind_key(pod: Object) -> tuple:
    """Equal for pods of one kind."""
    labels = tuple(sorted(labels_of(pod).items()))
    return namespace_of(pod), labels, is_leaving(pod), _repels(pod), ports_of(pod), claims_mounted(pod)


def _repels(pod: Object) -> tuple[Term, ...]:
    """Terms that cannot be parsed are ignored, as in kube-scheduler."""
    try:
        return terms_of(pod, "podAntiAffinity")
    except UnsupportedRule:
        return ()
