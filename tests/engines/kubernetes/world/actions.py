"""Actions of the gang registry: recorded for the simulation, and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpusquad.core.observed import GangFound, GangWithdrawn, TaskLocation
from gpusquad.core.ports import AttemptEnded, AttemptStarted
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang, is_over, node_name
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.kube.objects import Object, annotations_of, controller_of, name_of, uid_of

if TYPE_CHECKING:
    from tests.engines.kubernetes.world.world import World


@dataclass
class PendingBinding:
    """A binding in flight to the server, or its answer."""

    gang: PodGang
    attempt: int
    place: TaskLocation
    job: str
    pod: Object
    refused: str = ""
    landed: bool = False


class RecordingActions:
    """Records the actions of the registry; the simulation carries them out later."""

    def __init__(self, world: World) -> None:
        self._world = world

    def report(self, event: Any) -> None:
        world = self._world
        if isinstance(event, GangFound):
            world.known.add(event.job.id)
        elif isinstance(event, GangWithdrawn):
            assert event.job_id in world.known
            world.withdrawn[event.job_id] += 1
            assert world.withdrawn[event.job_id] <= 1 + world.may_withdraw_again[event.job_id], "withdrawn twice"
        elif isinstance(event, AttemptStarted):
            assert event.job_id in world.known
            gang = world.registry.by_job[event.job_id]
            assert gang.job is not None
            assert len(world.ran.get((event.job_id, event.attempt), ())) >= gang.job.tasks, "not all have run"
        elif isinstance(event, AttemptEnded):
            self._ended(event)
        world.reports.append(event)

    def _ended(self, event: AttemptEnded) -> None:
        world, key = self._world, (event.job_id, event.attempt)
        assert event.job_id in world.known
        world.ends[key] += 1
        assert world.ends[key] <= 1 + world.may_end_again[key], "ended twice"
        for pod in world.pods.values():
            annotations = annotations_of(pod)
            pod_key = (annotations.get(JOB), int(annotations.get(ATTEMPT, -1)))
            assert pod_key != key or not node_name(pod) or is_over(pod), f"{name_of(pod)} still has its cards"
        live = {uid_of(pod) for pod in world.pods.values() if not is_over(pod)}
        in_flight = [bind for bind in world.binds if not bind.refused and uid_of(bind.pod) in live]
        assert not any((bind.job, bind.attempt) == key for bind in in_flight), "being bound"

    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        assert gang.job is not None
        assert rank.place is not None
        assert uid_of(pod) not in self._world.bound_ever, "bound twice"
        assert not any(uid_of(bind.pod) == uid_of(pod) for bind in self._world.binds)
        self._world.binds.append(PendingBinding(gang, gang.attempt, rank.place, gang.job.id, pod))

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        world = self._world
        if controller_of(pod) is None:
            gang = world.registry._index.gang_of(uid_of(pod))
            jobs = {annotations_of(pod).get(JOB, ""), gang.job.id if gang is not None and gang.job is not None else ""}
            failed = (gang is not None and gang.failed_start) or why.startswith("its gang was released")
            assert failed or jobs & world.stop_requested, f"{name_of(pod)} is deleted and not recreated: {why}"
        world.deletes.append(pod)

    def delete_owner(self, gang: PodGang, why: str) -> None:
        if gang.owner is not None:
            self._world.owner_deletes.append(gang.owner["name"])

    def check_owner(self, gang: PodGang) -> None:
        if not gang.is_checking_owner:
            gang.is_checking_owner = True
            self._world.owner_checks.append(gang)

    def obstacle(self, gang: PodGang, places: Sequence[TaskLocation]) -> str:
        return self._world.obstacle_text

    def node_obstacle(self, rank: GangRank, pod: Object) -> str:
        return self._world.obstacle_text

    def watch_start(self, gang: PodGang) -> None:
        self._world.timers.append((gang, gang.attempt))

    def recount_nodes(self, nodes: Iterable[str]) -> None:
        pass

    def report_unschedulable(self, gang: PodGang, what: str) -> None:
        self._world.unschedulable.append(what)
