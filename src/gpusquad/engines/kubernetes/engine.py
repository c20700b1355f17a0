"""The Kubernetes engine: watches the cluster, reports what it sees, and carries out decisions by binding pods.

Everything runs in one loop thread. Calls from the service are handed over to it and return at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from gpusquad.core.observed import GangFound, GangWithdrawn, Sighting, TaskLocation
from gpusquad.core.ports import AttemptEnded, Launch, Report
from gpusquad.engines.kubernetes import actions
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.loop_thread import LoopThread
from gpusquad.engines.kubernetes.create.job_groups import JobGroupWatcher
from gpusquad.engines.kubernetes.filters import check_gang, check_roles, rule_of
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang, node_name
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.engines.kubernetes.lookups import Lookups
from gpusquad.engines.kubernetes.nodes.devices import with_devices
from gpusquad.engines.kubernetes.nodes.observer import ClusterObserver
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang
from gpusquad.engines.kubernetes.parse.groups import Membership
from gpusquad.engines.kubernetes.parse.ids import job_id as id_of
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.engines.kubernetes.settings import KubernetesSettings
from gpusquad.engines.kubernetes.sharing_annotator import SharingAnnotator
from gpusquad.engines.kubernetes.status.gang_writer import GangStatusWriter
from gpusquad.engines.kubernetes.watches import ClusterWatches
from gpusquad.kube.access import KubeAccess
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import Object, annotations_of, uid_of
from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request
from gpusquad.model.priority import DEFAULT_PRIORITY
from gpusquad.model.sharing_params import SharingParams

_OWNER_CHECK_INTERVAL_S = 5.0
_ANSWER_S = 10.0
_ANNOTATION_CHECK_INTERVAL_S = 60.0
_log = logging.getLogger(__name__)
OnReport = Callable[[Report | Sighting], None]
T = TypeVar("T")


class KubernetesEngine:
    """``report`` is called in the loop thread."""

    def __init__(self, access: KubeAccess, report: OnReport, settings: KubernetesSettings | None = None,
                 on_broken: Callable[[BaseException], None] | None = None) -> None:  # fmt: skip
        self.settings = settings or KubernetesSettings()
        self._report = report
        self._access = access
        self._loop_thread = LoopThread(on_broken=on_broken)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._report_scheduled = False
        self._opened = False
        """The service has restored its state and receives reports."""
        try:
            self.cluster: Cluster = self._loop_thread.submit(self._connect()).result(self.settings.sync_timeout_s)
        except BaseException:
            self._loop_thread.close()
            raise

    # -- called by the service, from its thread ----------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        places = [TaskLocation(task.node, task.cards, launch.sharing_params) for task in launch.tasks]
        self._run_in_loop(lambda: self._registry.launch(launch.job_id, launch.attempt, places))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        # The grace period of the pods applies.
        self._run_in_loop(lambda: self._registry.stop(job_id, attempt, cause, None))

    def withdraw(self, job_id: str, cause: str) -> None:
        self._run_in_loop(lambda: self._registry.withdraw(job_id, cause))

    def call_api(self, work: Callable[[AsyncKubeApi], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Runs ``work`` in the loop thread."""

        async def do() -> T:
            return await work(self._api)

        return self._loop_thread.submit(do())

    def begin_incarnation(self, job_id: str) -> None:
        self._run_in_loop(lambda: self._registry.begin_incarnation(job_id))

    def finished(self, job_id: str) -> None:
        self._run_in_loop(lambda: self._registry.finished(job_id))

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        self._run_in_loop(lambda: self._registry.resume(job, attempt, places, has_started))

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """A pod's resources are fixed when it is created."""
        raise Invalid("memory", "cannot change after a pod was created", "change the pod template")

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        """Not known here: the agents report it."""
        return (0,) * tasks

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        """Changes the annotations of the job's pods, which the agents read."""

        def do() -> None:
            self._registry.change(job_id, attempt, sharing_params)
            if not self.settings.dry_run:
                self._start(self._annotator.update(self._registry.pods_in_ranks(job_id)))

        self._run_in_loop(do)

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        """All stored attempts have been resumed: report everything that is on the cluster."""
        self._run_in_loop(self._open_reports)

    def close(self) -> None:
        self._loop_thread.close()

    def write_status(self, what: Callable[[GangStatusWriter], None]) -> None:
        """Calls ``what`` in the loop thread, before later requests."""
        with contextlib.suppress(RuntimeError):  # the engine is closing
            self._run_in_loop(lambda: what(self.status_writer))

    def pending_status_writes(self) -> int:
        """Gangs with a queued status write."""
        return self.status_writer.waiting

    def cluster_priority(self, job_id: str) -> str:
        """Priority class that the cluster grants to the pods of a job. Safe for any thread."""
        gang = self._registry.by_job.get(job_id)
        return DEFAULT_PRIORITY if gang is None else gang.cluster_priority

    def job_of_pod(self, namespace: str, name: str) -> str:
        """The job of a pod; empty: none yet, or no such pod of this scheduler."""

        async def find() -> str:
            return self.status_writer.job_of_pod(namespace, name)

        return self._loop_thread.submit(find()).result(_ANSWER_S)

    def _run_in_loop(self, what: Callable[[], None]) -> None:
        async def do() -> None:
            what()
            self._schedule_report()

        self._loop_thread.submit(do()).add_done_callback(_log_failure)

    # -- in the loop thread ------------------------------------------------------------------------------------------

    async def _connect(self) -> Cluster:
        settings = self.settings
        self._api = AsyncKubeApi(self._access, in_flight=settings.in_flight, per_second=settings.per_second)
        self._loop_thread.on_close(self._api.close)
        self._lookups = Lookups(self._api, self._reparse)
        self._loop_thread.on_close(self._lookups.close)
        self._registry = GangRegistry(
            self._membership, self._request_of, self._check, self, self._lookups.top_owner, settings.scheduler
        )
        self._annotator = SharingAnnotator(self._registry.pod_sharing, partial(actions.annotate, self._api))
        self._observer = ClusterObserver(self._registry.holds, self._cards_on)
        self._watches = ClusterWatches(
            self._api, self._registry, self._observer, self._lookups, settings.scheduler, self._schedule_report
        )  # fmt: skip
        status_api = AsyncKubeApi(self._access, in_flight=settings.status.in_flight)
        self._loop_thread.on_close(status_api.close)
        self.status_writer = GangStatusWriter(
            status_api, self._registry, self._request_of, self._watches.ours, settings
        )
        self._start(self.status_writer.run())
        self._start(self._check_annotations())
        self._groups = JobGroupWatcher(self._api)
        for reflector in (*self._watches.all, self._groups.jobs):
            self._loop_thread.keep(reflector.run(), reflector.path)
        await self._watches.synced()
        await self._lookups.synced(settings.sync_timeout_s / 2)
        landscape = self._observer.news()
        assert landscape is not None
        assert landscape.cluster is not None
        self._first = landscape
        return landscape.cluster

    def pods_of(self, job_id: str) -> list[Object]:
        """All existing pods that were bound for a job, including ended ones."""
        return [pod for pod in self._watches.pods.items.values() if annotations_of(pod).get(JOB) == job_id]

    def live_pods(self, job_id: str) -> list[Object]:
        gang = self._registry.by_job.get(job_id)
        return [] if gang is None else gang.live()

    def waits_for(self, job_id: str) -> str:
        """What a group lacks to be complete, by the id that its job will have."""
        gangs = (gang for gang in self._registry.gangs.values() if gang.member.key.uid)
        return next((gang.waits_for for gang in gangs if id_of(gang.member.key) == job_id), "")

    def _open_reports(self) -> None:
        self._opened = True
        self._report(replace(self._first, cluster=None))
        self._report_changes()  # pods of resumed gangs no longer count as foreign
        self._registry.open()
        self._schedule_report()

    async def _check_annotations(self) -> None:
        """Users may change annotations of their pods, and a write of ours may have failed."""
        while not self.settings.dry_run:
            await asyncio.sleep(_ANNOTATION_CHECK_INTERVAL_S)
            if self._opened:
                self._start(self._annotator.check_all(self._registry.pods_in_ranks()))

    def _reparse(self, uids: set[str]) -> None:
        self._watches.reparse(uids)

    def _membership(self, pod: Object) -> Membership:
        return membership_of(pod, self._lookups.find)

    def _request_of(self, pod: Object) -> Request:
        rule = rule_of(pod, self._observer.index)
        self._observer.know(rule)
        return replace(with_devices(request_of_pod(pod), pod), where=rule.name, most_per_node=rule.most_per_node)

    def _check(self, formed: CompleteGang) -> Invalid | None:
        """Why these pods cannot be placed together; None: they can."""
        firsts = []
        members = iter(formed.members)
        for role in formed.job.roles:
            pods = [next(members) for _ in range(role.count)]
            wrong = check_gang(self._observer.rules[role.request.where], role.count, self._observer.storage)
            if wrong is not None:
                return wrong
            firsts.append(pods[0])
        return check_roles(firsts, self._observer.index) if len(firsts) > 1 else None

    def _cards_on(self, node: str) -> frozenset[str]:
        return frozenset(
            card for gang in self._registry.by_job.values() if gang.placed and not gang.disowned
            for card in gang.cards_on(node)
        )  # fmt: skip

    def _schedule_report(self) -> None:
        """Reports to the service soon, together with further changes until then."""
        if self._opened and not self._report_scheduled and self._observer.changed:
            self._report_scheduled = True
            asyncio.get_running_loop().call_later(self.settings.settle_s, self._report_changes)

    def _report_changes(self) -> None:
        self._report_scheduled = False
        self._observer.forget_rules(self._registry.rules_in_use)
        news = self._observer.news()
        if news is not None:
            self._report(news)

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_failure)

    # -- ClusterOperations, called by the registry -------------------------------------------------------------------

    def report(self, event: Report | Sighting) -> None:
        """The allowed nodes of a gang are reported before the gang, and before it is pending again."""
        if isinstance(event, GangFound) and not event.places:
            self._note_waiting(event.job)
        elif isinstance(event, GangWithdrawn):
            self._observer.waits_no_more(event.job_id)
        elif isinstance(event, AttemptEnded):
            self._observer.waits_again(event.job_id)
        if isinstance(event, GangFound) or (isinstance(event, AttemptEnded) and event.is_refused):
            self._report_changes()
        self._report(event)

    def _note_waiting(self, job: Job) -> None:
        gang = self._registry.by_job.get(job.id)
        if gang is not None and len(gang.intended) == job.tasks and gang.pods.keys() >= set(gang.intended):
            self._observer.waits(job, [gang.pods[uid] for uid in gang.intended])

    def obstacle(self, gang: PodGang, places: Sequence[TaskLocation]) -> str:
        """Nodes may be gone, and new pods may have excluded them, since the service decided."""
        for place in places:
            if place.node not in self._observer.nodes:
                return f"node {place.node} is gone"
        asked = {
            (rule_of(pod, self._observer.index), node)
            for pod in gang.unbound()
            for node in self._nodes_for(gang, places, pod)
        }
        return next((why for rule, node in asked if (why := self._observer.why_not(rule, node))), "")

    def _nodes_for(self, gang: PodGang, places: Sequence[TaskLocation], pod: Object) -> set[str]:
        """Where the pod may be bound: at the place of its rank, or of any equal rank if it has come later."""
        for uid, place in zip(gang.intended, places, strict=False):
            if uid == uid_of(pod):
                return {place.node}
        assert gang.job is not None
        requests = [role.request for role in gang.job.roles for _ in range(role.count)]
        own = _bare(self._request_of(pod))
        return {place.node for request, place in zip(requests, places, strict=True) if _bare(request) == own}

    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        assert rank.place is not None
        assert gang.job is not None
        self._observer.assume(gang.job.id, pod, rank.place.node)
        if self.settings.dry_run:
            self.status_writer.assigned(gang, rank, pod)
        else:
            self._start(self._bind(gang, gang.attempt, rank.place, gang.job.id, pod))

    async def _bind(self, gang: PodGang, attempt: int, place: TaskLocation, job: str, pod: Object) -> None:
        def wanted() -> bool:
            return gang.placed and gang.attempt == attempt and not gang.stopping

        try:
            await actions.bind(self._api, pod, place, job, attempt, wanted, self._observer.rates_name)
            self._registry.bound(gang, attempt, pod)
            self.status_writer.bound(gang, attempt, pod)
            now = self._registry.pod_sharing(uid_of(pod))
            if now is not None and now[1] != place.sharing_params:  # the parameters changed during the binding
                self._start(self._annotator.update([uid_of(pod)]))
        except actions.NotBound as error:
            self._observer.not_bound(pod)
            self._registry.not_bound(gang, attempt, pod, str(error), error.pod_is_gone)
        self._schedule_report()

    def node_obstacle(self, rank: GangRank, pod: Object) -> str:
        assert rank.place is not None
        return self._observer.why_not(rule_of(pod, self._observer.index), rank.place.node)

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        self.status_writer.write_deletion(pod, why)
        if node_name(pod) not in self._observer.nodes:
            grace_s = 0  # no kubelet can report its end
        if not self.settings.dry_run:
            self._start(self._delete(pod, why, grace_s))

    async def _delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        await actions.mark_disrupted(self._api, pod, why)
        await actions.delete(self._api, pod, grace_s)

    def delete_owner(self, gang: PodGang, why: str) -> None:
        owner = gang.owner
        if owner is not None and not self.settings.dry_run:
            _log.info("withdrawing job %s: %s", gang.job.id if gang.job else "", why)
            if self._groups.remove(gang.member.key):
                return
            self._start(self._delete_owner(gang, owner))

    async def _delete_owner(self, gang: PodGang, owner: Object) -> None:
        found = await self._lookups.get(owner["apiVersion"], owner["kind"], gang.member.key.namespace, owner["name"])
        if found is not None and found["metadata"]["uid"] == owner["uid"]:
            await self._lookups.delete(owner["apiVersion"], owner["kind"], found)

    def check_owner(self, gang: PodGang) -> None:
        if not gang.is_checking_owner:
            gang.is_checking_owner = True
            self._start(self._check_owner(gang, gang.owner))

    async def _check_owner(self, gang: PodGang, owner: Object | None) -> None:
        """Repeats until the owner has ended or new pods have appeared."""
        try:
            while gang.job is not None and not gang.live():
                self._registry.owner_checked(gang, await self._verdict(gang, owner))
                if gang.job is not None and not gang.live():
                    await asyncio.sleep(_OWNER_CHECK_INTERVAL_S)
        finally:
            gang.is_checking_owner = False

    async def _verdict(self, gang: PodGang, owner: Object | None) -> str:
        of_group = self._groups.verdict_on(gang.member.key)
        if of_group:
            return of_group
        if owner is None:
            return "gone"
        try:
            found = await self._lookups.get(
                owner["apiVersion"], owner["kind"], gang.member.key.namespace, owner["name"]
            )  # fmt: skip
        except (ApiRefused, ApiUnreachable) as error:
            _log.info("cannot read %s %s: %s", owner["kind"], owner["name"], error)
            return "active"
        return actions.verdict_on(found, owner["uid"])

    def recount_nodes(self, nodes: Iterable[str]) -> None:
        self._observer.recount_nodes(nodes)

    def watch_start(self, gang: PodGang) -> None:
        attempt, after_s = gang.attempt, self.settings.start_timeout_s
        asyncio.get_running_loop().call_later(after_s, self._start_is_due, gang, attempt, after_s)

    def _start_is_due(self, gang: PodGang, attempt: int, after_s: float) -> None:
        self._registry.start_timed_out(gang, attempt, after_s)
        self._schedule_report()

    def report_unschedulable(self, gang: PodGang, what: str) -> None:
        self.status_writer.write_unschedulable(gang, what)


def _bare(request: Request) -> Request:
    """Without the placement rule."""
    return replace(request, where="", most_per_node=0)


def _log_failure(done: Any) -> None:
    """Logs the failure of a task that no caller waits for."""
    if not done.cancelled() and done.exception() is not None:
        _log.error("a task of the engine failed", exc_info=done.exception())
