"""Jobs that the service may start at any time: their rules, and what their pods count as once they are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpusquad.engines.kubernetes.filters.node_sets import SelectionLookup, StartEffect
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex, PodKind, kind_key
from gpusquad.engines.kubernetes.filters.pod_selections import PodSelection
from gpusquad.kube.objects import Object
from gpusquad.model.job import Job, Request

T = TypeVar("T")
Kinds = tuple[tuple[PodKind, ...], ...]
"""Of the pods of a gang, by shape and task."""


@dataclass(eq=False)
class _Similar:
    """Jobs whose pods count as the same."""

    key: Hashable
    kinds: Kinds
    known: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    effect: StartEffect = ()
    lookup: SelectionLookup | None = None
    """The lookup that ``effect`` was found with."""

    def effect_by(self, lookup: SelectionLookup) -> StartEffect:
        """Empty: a start changes nothing."""
        if self.lookup is not lookup:
            found = tuple(tuple(map(lookup.matching, kinds)) for kinds in self.kinds)
            self.effect = found if any(some for kinds in found for some in kinds) else ()
            self.lookup = lookup
        return self.effect


class WaitingJobs:
    """All jobs that the service knows, and which of them wait."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._known: dict[str, tuple[_Similar, tuple[str, ...]]] = {}
        """By job: its pods and the names of its rules."""
        self._similar: dict[Hashable, _Similar] = {}
        self._names: Counter[str] = Counter()
        self._waiting: set[str] = set()
        self._lookup = SelectionLookup((), {})
        self._namespaces_seen = -1

    @property
    def names(self) -> Iterable[str]:
        """Rules of waiting jobs."""
        return self._names.keys()

    def put(self, job: Job, pods: Sequence[Object]) -> None:
        """The job waits. ``pods`` by rank."""
        self.drop(job.id)
        key = _by_shape(job, [kind_key(pod) for pod in pods])
        similar = self._similar.get(key)
        if similar is None:
            kinds = _by_shape(job, [self._index.kind_of(pod) for pod in pods])
            similar = self._similar[key] = _Similar(key, kinds)
        similar.known.add(job.id)
        self._known[job.id] = similar, tuple(request.where for request, _ in job.groups)
        self.released(job.id)

    def placed(self, job_id: str) -> None:
        """The job no longer waits, but may wait again."""
        if job_id in self._waiting:
            similar, names = self._known[job_id]
            self._waiting.discard(job_id)
            similar.waiting.discard(job_id)
            for name in names:
                self._names[name] -= 1
                if not self._names[name]:
                    del self._names[name]

    def released(self, job_id: str) -> None:
        """The job waits again."""
        if job_id in self._known and job_id not in self._waiting:
            similar, names = self._known[job_id]
            self._waiting.add(job_id)
            similar.waiting.add(job_id)
            self._names.update(names)

    def drop(self, job_id: str) -> None:
        self.placed(job_id)
        if job_id in self._known:
            similar, _ = self._known.pop(job_id)
            similar.known.discard(job_id)
            if not similar.known:
                del self._similar[similar.key]

    def knows(self, job_id: str) -> bool:
        return job_id in self._known

    def names_of(self, job_id: str) -> Sequence[str]:
        """Names of the rules of a known job."""
        return self._known[job_id][1]

    def effects(self, selections: Iterable[PodSelection]) -> Mapping[str, StartEffect]:
        """By waiting job, the selections that its pods count in. Without jobs that count in none."""
        wanted = frozenset(selections)
        if self._lookup.selections != wanted or self._namespaces_seen != self._index.namespaces_version:
            self._lookup = SelectionLookup(wanted, self._index.namespaces)
            self._namespaces_seen = self._index.namespaces_version
        found = {}
        for similar in self._similar.values():
            effect = similar.effect_by(self._lookup) if similar.waiting else ()
            if effect:
                found.update(dict.fromkeys(similar.waiting, effect))
        return found

    def changes_sets(self, job_id: str) -> bool:
        """Its start changes the sets that were reported last."""
        return bool(self._known[job_id][0].effect_by(self._lookup))


def _by_shape(job: Job, of_pods: Sequence[T]) -> tuple[tuple[T, ...], ...]:
    """What is given by rank, by shape of the gang. Tasks of one shape keep their order."""
    found: dict[Request, list[T]] = {request: [] for request, _ in job.groups}
    requests = (role.request for role in job.roles for _ in range(role.count))
    for request, one in zip(requests, of_pods, strict=True):
        found[request].append(one)
    return tuple(map(tuple, found.values()))
