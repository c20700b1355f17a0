"""Pods that arrive at the engine without an API server, and the core that decides where they go.

The test chooses when the service decides and when the watch shows what was bound.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpusquad.core.driver import Driver
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.observed import ClusterObserved, GangFound, GangWithdrawn, TaskLocation
from gpusquad.core.ports import (
    AttemptEnded,
    ClusterChanged,
    GangEnded,
    JobCancelled,
    JobSubmitted,
    JobUpdated,
    NodeSetsChanged,
)
from gpusquad.core.state.state import SchedulerState
from gpusquad.engines.kubernetes.engine import KubernetesEngine
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.engines.kubernetes.nodes.observer import ClusterObserver
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.engines.kubernetes.settings import KubernetesSettings
from gpusquad.engines.kubernetes.watches import ClusterWatches
from gpusquad.kube.objects import Object, name_of, uid_of
from gpusquad.model.cluster import Cluster
from gpusquad.model.decision import Decision, Start
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from tests.core.test_dump import make_policies
from tests.engines.kubernetes.filters import naive

FORECAST = RunTimePrediction(3600 * US_PER_S, 3600 * US_PER_S, "test")
ALLOCATABLE = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}


class _NoLookups:
    reading_for = ""

    def forget(self, uid: str) -> None: ...


class _NoStatus:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **more: None


class _Engine(KubernetesEngine):
    """The engine without a connection. Bindings are in flight until the test ends them."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.settings = KubernetesSettings()
        self._opened = True
        self._report_scheduled = False
        self._report = arrivals.events.append
        self._arrivals = arrivals
        self.status_writer: Any = _NoStatus()
        self._registry = GangRegistry(
            lambda pod: membership_of(pod, lambda *names: None), self._request_of, self._check, self
        )
        self._observer = ClusterObserver(self._registry.holds, self._cards_on)
        self._watches = ClusterWatches(
            None, self._registry, self._observer, _NoLookups(), "gpusquad", lambda: None  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        self._registry.open()

    def _start(self, work: Any) -> None:
        work.close()

    def _schedule_report(self) -> None: ...

    def watch_start(self, gang: PodGang) -> None: ...

    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        assert rank.place is not None
        self._arrivals.check_bind(pod, rank.place.node)
        super().bind(gang, rank, pod)
        self._arrivals.in_flight.append((gang, gang.attempt, pod, rank.place.node))


class Arrivals:
    """Cluster of these nodes. ``violations`` are bindings that a direct check of the rules refuses."""

    def __init__(self, nodes: Sequence[Object], namespaces: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.nodes = [_node(item) for item in nodes]
        self.namespaces = namespaces or {"team": {}}
        self.placed: dict[str, Object] = {}
        """By UID: all pods with a node, also those in flight, as they are."""
        self.in_flight: list[tuple[PodGang, int, Object, str]] = []
        self.events: list[Any] = []
        self.violations: list[str] = []
        self.refusals: list[AttemptEnded] = []
        self.attempts: dict[str, int] = {}
        self.passes = 0
        self._jobs: dict[str, Job] = {}
        self._impossible: set[str] = set()
        self._started: list[Start] = []
        self.driver = Driver(SchedulerState(Cluster(()), make_policies("fifo", "easy", "binpack")), self._carry_out)
        self.engine = _Engine(self)
        self.watches, self.observer = self.engine._watches, self.engine._observer
        for name, labels in self.namespaces.items():
            self.watches._namespace("added", {"metadata": {"name": name, "labels": labels}}, None)
        for item in self.nodes:
            self.watches._node("added", item, None)

    # -- the cluster -------------------------------------------------------------------------------------------------

    def arrive(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            self.watches._pod("added", pod, None)

    def place_elsewhere(self, pod: Object, node: str, *, seen: bool = True) -> Object:
        """Another scheduler binds a pod of its own."""
        pod = copy.deepcopy(pod)
        pod["spec"]["nodeName"], pod["spec"]["schedulerName"] = node, "another"
        self.placed[uid_of(pod)] = pod
        if seen:
            self.watches._pod("added", pod, None)
        return pod

    def delete(self, pod: Object) -> None:
        self.placed.pop(uid_of(pod), None)
        self.watches._pod("deleted", pod, pod)

    def relabel(self, pod: Object, labels: Mapping[str, str]) -> Object:
        changed = copy.deepcopy(pod)
        changed["metadata"]["labels"] = dict(labels)
        self.placed[uid_of(pod)] = changed
        self.watches._pod("modified", changed, pod)
        return changed

    def show_bound(self, number: int | None = None) -> None:
        """The API server answers bindings, and the watch shows them: the oldest first."""
        done, self.in_flight = self.in_flight[:number], self.in_flight[len(self.in_flight[:number]) :]
        for gang, attempt, pod, _ in done:
            self.engine._registry.bound(gang, attempt, pod)
            self.watches._pod("modified", self.placed[uid_of(pod)], pod)

    def fail_binding(self) -> None:
        """The API server refuses the oldest binding."""
        gang, attempt, pod, _ = self.in_flight.pop(0)
        del self.placed[uid_of(pod)]
        self.observer.not_bound(pod)
        self.engine._registry.not_bound(gang, attempt, pod, "forbidden")

    def check_bind(self, pod: Object, node: str) -> None:
        [host] = [item for item in self.nodes if name_of(item) == node]
        if not naive.allowed(pod, host, self.nodes, list(self.placed.values()), self.namespaces):
            self.violations.append(f"{name_of(pod)} may not be on {node}: {pod}")
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = node
        self.placed[uid_of(pod)] = bound

    def node_of(self, pod: Object) -> str:
        """Empty: it is not bound."""
        return self.placed.get(uid_of(pod), {"spec": {}})["spec"].get("nodeName", "")

    def nodes_of(self, pods: Iterable[Object]) -> list[str]:
        return sorted(self.node_of(pod) for pod in pods)

    def job_of(self, pod: Object) -> Job:
        gang = self.engine._registry._index.gang_of(uid_of(pod))
        assert gang is not None
        assert gang.job is not None
        return gang.job

    def could_start(self, pod: Object) -> bool:
        return any(
            naive.allowed(pod, host, self.nodes, list(self.placed.values()), self.namespaces) for host in self.nodes
        )

    # -- the service -------------------------------------------------------------------------------------------------

    def decide(self, *, reports: bool = True, launches: bool = True) -> int:
        """One pass of the service. Returns the number of starts. ``reports``: the engine reports its changes first.
        ``launches``: it gets the starts at once, not with the next call of ``launch``."""
        self.passes += 1
        if reports:
            self.engine._report_changes()
        self._handle()
        self.driver.decide(self.passes * US_PER_S)
        count = len(self._started)
        if launches:
            self.launch()
        return count

    def launch(self) -> None:
        """The engine gets the decisions."""
        started, self._started = self._started, []
        for start in started:
            self.engine._registry.launch(start.job_id, self.attempts[start.job_id], self._places(start))

    def settle(self) -> None:
        """Until nothing happens any more."""
        for _ in range(500):
            if not self.decide() and not self.in_flight and not self.events and not self.observer.changed:
                return
            self.show_bound()
        raise AssertionError("it never comes to rest")

    def _handle(self) -> None:
        events, self.events[:] = list(self.events), []
        now_us = self.passes * US_PER_S
        for event in events:
            if isinstance(event, ClusterObserved):
                self._observed(event, now_us)
            elif isinstance(event, GangFound) and not event.places:
                self._found(event.job, now_us)
            elif isinstance(event, AttemptEnded):
                self._ended(event, now_us)
            elif isinstance(event, GangWithdrawn):
                self._withdrawn(event.job_id, now_us)

    def _observed(self, seen: ClusterObserved, now_us: int) -> None:
        if seen.cluster is not None:
            self.driver.apply(now_us, ClusterChanged(seen.cluster))
        if seen.allowed is not None:
            self.driver.apply(now_us, NodeSetsChanged(seen.allowed))
        for job_id in sorted(self._impossible):
            self._submit(self._jobs[job_id], now_us)

    def _found(self, job: Job, now_us: int) -> None:
        is_known = job.id in self._jobs
        self._jobs[job.id] = job
        if not is_known:
            self.attempts[job.id] = 0
            self._submit(job, now_us)
        elif job.id in self.driver.state.queue:
            self.driver.apply(now_us, JobUpdated(job))

    def _ended(self, event: AttemptEnded, now_us: int) -> None:
        assert event.how in ("lost", "stopped")
        if event.is_refused:
            self.refusals.append(event)
        if event.job_id in self.driver.state.runs and event.attempt == self.attempts[event.job_id]:
            self.driver.apply(now_us, GangEnded(event.job_id, "lost"))
            self.attempts[event.job_id] += 1

    def _withdrawn(self, job_id: str, now_us: int) -> None:
        if job_id in self.driver.state.queue:
            self.driver.apply(now_us, JobCancelled(job_id))
        self._impossible.discard(job_id)

    def _submit(self, job: Job, now_us: int) -> None:
        """Jobs that no node is allowed for are held until one is, as in the service."""
        if refusal(self.driver.state, job) is not None:
            self._impossible.add(job.id)
            return
        self._impossible.discard(job.id)
        self.driver.apply(now_us, JobSubmitted(job, FORECAST))

    def _carry_out(self, now_us: int, decisions: Sequence[Decision]) -> None:
        self._started += [decision for decision in decisions if isinstance(decision, Start)]

    def _places(self, start: Start) -> list[TaskLocation]:
        fixed = self.driver.state.space.fixed
        return [
            TaskLocation(fixed.node_ids[int(node)], tuple(fixed.card_ids[int(card)] for card in cards))
            for part in start.placement.parts
            for node, cards in zip(part.nodes, part.cards, strict=True)
        ]


def _node(item: Object) -> Object:
    metadata = {"uid": name_of(item), "annotations": {}, **item["metadata"]}
    return {"spec": {}, **item, "metadata": metadata, "status": {"allocatable": ALLOCATABLE}}
