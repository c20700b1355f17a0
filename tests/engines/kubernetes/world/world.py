"""A simulated cluster with its pods, controllers and kubelets, and a service that decides.

Everything that takes time is a queue: the test chooses what happens next.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from gpusquad.engines.kubernetes.actions import binding_of, verdict_on
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang, is_over, node_name
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.objects import Object, is_leaving, name_of, uid_of
from tests.engines.kubernetes.world.actions import PendingBinding, RecordingActions
from tests.engines.kubernetes.world.cluster import Cluster
from tests.engines.kubernetes.world.service import ON_CARDS, Service


@dataclass
class World(Cluster, Service):
    """A registry between a cluster and a service, with its actions that are not carried out yet."""

    binds: list[PendingBinding] = field(default_factory=list)
    deletes: list[Object] = field(default_factory=list)
    owner_deletes: list[str] = field(default_factory=list)
    owner_checks: list[PodGang] = field(default_factory=list)
    timers: list[tuple[PodGang, int]] = field(default_factory=list)
    obstacle_text: str = ""
    bound_ever: set[str] = field(default_factory=set)
    withdrawn: Counter[str] = field(default_factory=Counter)
    unschedulable: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registry = self._new_registry()
        self.registry.open()
        self.reports.clear()

    def _new_registry(self) -> GangRegistry:
        return GangRegistry(
            lambda pod: membership_of(pod, self._find), request_of_pod, lambda formed: None, RecordingActions(self)
        )

    def _find(self, group: str, kind: str, namespace: str, name: str) -> Object | None:
        return self.jobs.get(name) if kind == "Job" else None

    # -- actions of the registry, and their answers --------------------------------------------------------------------

    def apply_binding(self, index: int) -> None:
        """The server accepts or refuses a binding."""
        bind = self.binds[index]
        if bind.landed or bind.refused:
            return
        pod = self.pods.get(name_of(bind.pod))
        if pod is None or uid_of(pod) != uid_of(bind.pod) or is_leaving(pod) or is_over(pod):
            bind.refused = "gone"
        else:
            assert not node_name(pod), "bound twice"
            binding = binding_of(pod, bind.place, bind.job, bind.attempt)
            pod["spec"]["nodeName"] = binding["target"]["name"]
            pod["metadata"]["annotations"].update(binding["metadata"]["annotations"])
            bind.landed = True
            self.bound_ever.add(uid_of(pod))
            self._emit("seen", pod)

    def refuse(self, index: int) -> None:
        bind = self.binds[index]
        if not bind.landed and not bind.refused:
            bind.refused = "forbidden"

    def answer(self, index: int) -> None:
        """The registry gets the outcome of a binding."""
        bind = self.binds[index]
        wanted = bind.gang.placed and bind.gang.attempt == bind.attempt and not bind.gang.stopping
        if not (bind.landed or bind.refused) and wanted:
            return
        del self.binds[index]
        if bind.landed:
            self.registry.bound(bind.gang, bind.attempt, bind.pod)
        else:
            self.registry.not_bound(bind.gang, bind.attempt, bind.pod, bind.refused, bind.refused == "gone")

    def carry_out_deletion(self, index: int) -> None:
        pod = self.deletes.pop(index)
        current = self.pods.get(name_of(pod))
        if current is not None and uid_of(current) == uid_of(pod):
            self._start_deletion(current)

    def answer_owner(self, index: int) -> None:
        gang = self.owner_checks[index]
        if gang.job is not None and not gang.live():
            owner = gang.owner
            found = self.jobs.get(owner["name"]) if owner is not None else None
            self.registry.owner_checked(gang, verdict_on(found, owner["uid"]) if owner is not None else "gone")
        if gang.job is None or gang.live():
            self.owner_checks.remove(gang)
            gang.is_checking_owner = False

    def deliver(self) -> None:
        kind, pod = self.events.popleft()
        if kind == "seen":
            self.registry.seen(pod)
        elif kind == "gone":
            self.registry.gone(pod)
        else:
            gang = self.registry._index.gang_of(uid_of(pod))
            if gang is not None:
                self.registry.seen(gang.pods[uid_of(pod)])

    def time_out(self, index: int) -> None:
        gang, attempt = self.timers.pop(index)
        self.registry.start_timed_out(gang, attempt, 600)

    # -- another process ---------------------------------------------------------------------------------------------

    def restart(self, applies_binding: Callable[[], bool]) -> None:
        """The scheduler process ends and another starts: everything in flight is lost, or was done just before."""
        for index, _ in enumerate(self.binds):
            if applies_binding():
                self.apply_binding(index)
        for queue in (self.events, self.reports, self.calls, self.binds, self.deletes, self.owner_checks, self.timers):
            queue.clear()
        self.owner_deletes.clear()
        self.registry = self._new_registry()
        self.known = set(self.store)
        self.withdrawn.clear()
        self.bound_ever = {uid_of(pod) for pod in self.pods.values() if node_name(pod)}
        for pod in self.pods.values():
            self.registry.seen(copy.deepcopy(pod))
        for job, row in list(self.store.items()):
            if row.state in ON_CARDS:
                self.may_end_again[job, row.attempt] += self.ends[job, row.attempt]
                self.registry.resume(row.job, row.attempt, row.places, row.state != "starting")
                if row.state in ("preempting", "stopping"):
                    self.may_end_again[job, row.attempt] += 1
                    self.may_withdraw_again[job] += 1
                    self.registry.stop(job, row.attempt, row.state, None)
        self.registry.open()

    # -- settling ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        for _ in range(400):
            self._settle_once()
            if not self._step_world():
                starting = [i for i, (gang, attempt) in enumerate(self.timers) if _is_starting(gang, attempt)]
                if not starting:
                    return
                self.time_out(starting[0])
        raise AssertionError("it never comes to rest")

    def _settle_once(self) -> None:
        for _ in range(2000):
            if self.events:
                self.deliver()
            elif self.calls:
                self.calls.popleft()()
            elif self.reports:
                self.on_change()
            elif self.binds:
                self.apply_binding(0)
                self.answer(0)
            elif self.deletes:
                self.carry_out_deletion(0)
            elif self.owner_deletes:
                self.delete_job(self.owner_deletes.pop())
            else:
                return
        raise AssertionError("it never comes to rest")

    def _step_world(self) -> bool:
        """Advance the cluster and the service; true if work is left."""
        self.obstacle_text = ""
        for job in [job for job, row in self.store.items() if row.state == "pending"]:
            self.launch(job)
        for name in list(self.jobs):
            self.control(name)
        for name in list(self.pods):
            pod = self.pods.get(name)
            if pod is not None and not is_over(pod):
                self.run_pod(name, "gone" if is_leaving(pod) else "Running")
        for gang in list(self.owner_checks):
            self.answer_owner(self.owner_checks.index(gang))
        return bool(self.events or self.calls or self.reports or self.binds or self.deletes or self.owner_deletes)


def _is_starting(gang: PodGang, attempt: int) -> bool:
    return gang.placed and gang.attempt == attempt and not gang.started and not gang.stopping
