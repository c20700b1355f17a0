"""The engine that the service holds: it watches the cluster, tells what it sees, and carries decisions out by binding.

Everything lives in the hub's one thread; calls from the service are handed over and return at once.
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

from gpusquad.core.observed import GangFound, Sighting, TaskLocation
from gpusquad.core.ports import Launch, Report
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
from gpusquad.engines.kubernetes.parse.requests import ask_of
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
from gpusquad.model.sharing_params import SharingParams

_ASK_AGAIN_S = 5.0
_ANSWER_S = 10.0
_LOOK_AT_WORTHS_S = 60.0
_log = logging.getLogger(__name__)
Say = Callable[[Report | Sighting], None]
T = TypeVar("T")


class KubernetesEngine:
    """``report`` is called from the hub's thread."""

    def __init__(self, access: KubeAccess, report: Say, settings: KubernetesSettings | None = None,
                 on_broken: Callable[[BaseException], None] | None = None) -> None:  # fmt: skip
        self.settings = settings or KubernetesSettings()
        self._report = report
        self._access = access
        self._hub = LoopThread(on_broken=on_broken)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stir_due = False
        self._opened = False
        """The service listens."""
        try:
            self.cluster: Cluster = self._hub.submit(self._begin()).result(self.settings.sync_timeout_s)
        except BaseException:
            self._hub.close()
            raise

    # -- called by the service, from its thread ----------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        places = [TaskLocation(task.node, task.cards, launch.sharing_params) for task in launch.tasks]
        self._do(lambda: self._book.launch(launch.job_id, launch.attempt, places))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        # The pods say themselves how much time they need to end.
        self._do(lambda: self._book.stop(job_id, attempt, cause, None))

    def withdraw(self, job_id: str, cause: str) -> None:
        self._do(lambda: self._book.withdraw(job_id, cause))

    def ask(self, work: Callable[[AsyncKubeApi], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Have something asked of the API server, or of us, in the hub's thread."""

        async def do() -> T:
            return await work(self._api)

        return self._hub.submit(do())

    def another_life(self, job_id: str) -> None:
        self._do(lambda: self._book.another_life(job_id))

    def finished(self, job_id: str) -> None:
        self._do(lambda: self._book.finished(job_id))

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        self._do(lambda: self._book.resume(job, attempt, places, has_started))

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """Kubernetes counts what a pod asked for when it was made."""
        raise Invalid("memory", "of a pod is fixed when the pod is made", "change the pod template")

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        """Their nodes know; here it changes nothing."""
        return (0,) * tasks

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        """The agents of the nodes go by what its pods say."""

        def do() -> None:
            self._book.change(job_id, attempt, sharing_params)
            if not self.settings.dry_run:
                self._start(self._worths.tell(self._book.seated(job_id)))

        self._do(do)

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        """All that was on record has been resumed: tell of everything that is there."""
        self._do(self._open)

    def close(self) -> None:
        self._hub.close()

    def tell(self, what: Callable[[GangStatusWriter], None]) -> None:
        """What users are to see on their pods; called later, in the hub's thread, before anything asked for later."""
        with contextlib.suppress(RuntimeError):  # it closes: nobody is told any more
            self._do(lambda: what(self.teller))

    def untold(self) -> int:
        """How many gangs are still to be told something."""
        return self.teller.waiting

    def job_of_pod(self, namespace: str, name: str) -> str:
        """The job that a pod belongs to; empty: none yet, or there is no such pod of ours."""

        async def find() -> str:
            return self.teller.job_of_pod(namespace, name)

        return self._hub.submit(find()).result(_ANSWER_S)

    def _do(self, what: Callable[[], None]) -> None:
        async def do() -> None:
            what()
            self._stir()

        self._hub.submit(do()).add_done_callback(_complain)

    # -- in the hub's thread -----------------------------------------------------------------------------------------

    async def _begin(self) -> Cluster:
        settings = self.settings
        self._api = AsyncKubeApi(self._access, in_flight=settings.in_flight, per_second=settings.per_second)
        self._hub.on_close(self._api.close)
        self._lookups = Lookups(self._api, self._see_again)
        self._hub.on_close(self._lookups.close)
        self._book = GangRegistry(
            self._membership, self._ask, self._check, self, self._lookups.maker, settings.scheduler
        )
        self._worths = SharingAnnotator(self._book.worth_of, partial(actions.annotate, self._api))
        self._survey = ClusterObserver(self._book.holds, self._cards_on)
        self._watching = ClusterWatches(
            self._api, self._book, self._survey, self._lookups, settings.scheduler, self._stir
        )  # fmt: skip
        telling = AsyncKubeApi(self._access, in_flight=settings.status.in_flight)
        self._hub.on_close(telling.close)
        self.teller = GangStatusWriter(telling, self._book, self._ask, self._watching.ours, settings)
        self._start(self.teller.run())
        self._start(self._look_at_worths())
        self._groups = JobGroupWatcher(self._api)
        for reflector in (*self._watching.all, self._groups.jobs):
            self._hub.keep(reflector.run(), reflector.path)
        await self._watching.synced()
        await self._lookups.settled(settings.sync_timeout_s / 2)
        landscape = self._survey.news()
        assert landscape is not None
        assert landscape.cluster is not None
        self._first = landscape
        return landscape.cluster

    def pods_of(self, job_id: str) -> list[Object]:
        """All that were bound for a job and are still there, those that have ended too."""
        return [pod for pod in self._watching.pods.items.values() if annotations_of(pod).get(JOB) == job_id]

    def live_pods(self, job_id: str) -> list[Object]:
        gang = self._book.by_job.get(job_id)
        return [] if gang is None else gang.live()

    def waits_for(self, job_id: str) -> str:
        """What a group lacks to be found, by the id that it will be found under."""
        gangs = (gang for gang in self._book.gangs.values() if gang.member.key.uid)
        return next((gang.waits_for for gang in gangs if id_of(gang.member.key) == job_id), "")

    def _open(self) -> None:
        self._opened = True
        self._report(replace(self._first, cluster=None))
        self._tell_news()  # pods of gangs that were resumed are not others' any more
        self._book.open()
        self._stir()

    async def _look_at_worths(self) -> None:
        """Users may write to their pods, and a write of ours may have failed."""
        while not self.settings.dry_run:
            await asyncio.sleep(_LOOK_AT_WORTHS_S)
            if self._opened:
                self._start(self._worths.look_at_all(self._book.seated()))

    def _see_again(self, uids: set[str]) -> None:
        self._watching.see_again(uids)

    def _membership(self, pod: Object) -> Membership:
        return membership_of(pod, self._lookups.find)

    def _ask(self, pod: Object) -> Request:
        rule = rule_of(pod, self._survey.index)
        self._survey.know(rule)
        return replace(with_devices(ask_of(pod), pod), where=rule.name, most_per_node=rule.most_per_node)

    def _check(self, formed: CompleteGang) -> Invalid | None:
        """Why these pods cannot be placed together; None: they can."""
        firsts = []
        members = iter(formed.members)
        for role in formed.job.roles:
            pods = [next(members) for _ in range(role.count)]
            wrong = check_gang(self._survey.rules[role.request.where], role.count, self._survey.storage)
            if wrong is not None:
                return wrong
            firsts.append(pods[0])
        return check_roles(firsts, self._survey.index) if len(firsts) > 1 else None

    def _cards_on(self, node: str) -> frozenset[str]:
        return frozenset(
            card for gang in self._book.by_job.values() if gang.placed and not gang.disowned
            for card in gang.cards_on(node)
        )  # fmt: skip

    def _stir(self) -> None:
        """Something changed: soon, and with whatever changes until then, the service hears of it."""
        if self._opened and not self._stir_due and self._survey.changed:
            self._stir_due = True
            asyncio.get_running_loop().call_later(self.settings.settle_s, self._tell_news)

    def _tell_news(self) -> None:
        self._stir_due = False
        self._survey.forget_rules(self._book.rules_in_use)
        news = self._survey.news()
        if news is not None:
            self._report(news)

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_complain)

    # -- hands of the book -------------------------------------------------------------------------------------------

    def report(self, said: Report | Sighting) -> None:
        if isinstance(said, GangFound):
            self._tell_news()  # the nodes it may go to are known before it is
        self._report(said)

    def obstacle(self, gang: PodGang, places: Sequence[TaskLocation]) -> str:
        """Nodes may have gone, and pods may have come that keep others away, since the service decided."""
        assert gang.job is not None
        requests = [role.request for role in gang.job.roles for _ in range(role.count)]
        nodes: dict[Request, set[str]] = {}
        for request, place in zip(requests, places, strict=True):
            if place.node not in self._survey.nodes:
                return f"node {place.node} is gone"
            nodes.setdefault(request, set()).add(place.node)
        rules = {(self._ask(pod), rule_of(pod, self._survey.index)) for pod in gang.unbound()}
        for request, rule in rules:
            for node in nodes.get(request, ()):
                if not self._survey.allows(rule, node):
                    return f"node {node} is no longer allowed for it"
        return ""

    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        assert rank.place is not None
        assert gang.job is not None
        if self.settings.dry_run:
            self.teller.assigned(gang, rank, pod)
        else:
            self._start(self._bind(gang, gang.attempt, rank.place, gang.job.id, pod))

    async def _bind(self, gang: PodGang, attempt: int, place: TaskLocation, job: str, pod: Object) -> None:
        def wanted() -> bool:
            return gang.placed and gang.attempt == attempt and not gang.stopping

        try:
            await actions.bind(self._api, pod, place, job, attempt, wanted)
            self._book.bound(gang, attempt, pod)
            self.teller.bound(gang, attempt, pod)
            now = self._book.worth_of(uid_of(pod))
            if now is not None and now[1] != place.sharing_params:  # another came while this one was on its way
                self._start(self._worths.tell([uid_of(pod)]))
        except actions.NotBound as error:
            self._book.not_bound(gang, attempt, pod, str(error), error.pod_is_gone)
        self._stir()

    def shut(self, rank: GangRank, pod: Object) -> str:
        assert rank.place is not None
        if self._survey.allows(rule_of(pod, self._survey.index), rank.place.node):
            return ""
        return f"node {rank.place.node} is gone or no longer allowed for it"

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        self.teller.goes(pod, why)
        if node_name(pod) not in self._survey.nodes:
            grace_s = 0  # no kubelet is there to say that it has ended
        if not self.settings.dry_run:
            self._start(self._delete(pod, why, grace_s))

    async def _delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        await actions.mark_disrupted(self._api, pod, why)
        await actions.delete(self._api, pod, grace_s)

    def delete_owner(self, gang: PodGang, why: str) -> None:
        owner = gang.owner
        if owner is not None and not self.settings.dry_run:
            _log.info("job %s is withdrawn: %s", gang.job.id if gang.job else "", why)
            if self._groups.remove(gang.member.key):
                return
            self._start(self._delete_owner(gang, owner))

    async def _delete_owner(self, gang: PodGang, owner: Object) -> None:
        found = await self._lookups.get(owner["apiVersion"], owner["kind"], gang.member.key.namespace, owner["name"])
        if found is not None and found["metadata"]["uid"] == owner["uid"]:
            await self._lookups.delete(owner["apiVersion"], owner["kind"], found)

    def ask_owner(self, gang: PodGang) -> None:
        if not gang.asking:
            gang.asking = True
            self._start(self._ask_owner(gang, gang.owner))

    async def _ask_owner(self, gang: PodGang, owner: Object | None) -> None:
        """Until it is over or new pods have come."""
        try:
            while gang.job is not None and not gang.live():
                self._book.owner_said(gang, await self._verdict(gang, owner))
                if gang.job is not None and not gang.live():
                    await asyncio.sleep(_ASK_AGAIN_S)
        finally:
            gang.asking = False

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
            _log.info("cannot ask %s %s: %s", owner["kind"], owner["name"], error)
            return "goes on"
        return actions.verdict_on(found, owner["uid"])

    def look_again(self, nodes: Iterable[str]) -> None:
        self._survey.look_again(nodes)

    def watch_start(self, gang: PodGang) -> None:
        attempt, after_s = gang.attempt, self.settings.start_timeout_s
        asyncio.get_running_loop().call_later(after_s, self._start_is_due, gang, attempt, after_s)

    def _start_is_due(self, gang: PodGang, attempt: int, after_s: float) -> None:
        self._book.start_timed_out(gang, attempt, after_s)
        self._stir()

    def lacks(self, gang: PodGang, what: str) -> None:
        self.teller.lacks(gang, what)


def _complain(done: Any) -> None:
    """Nobody waits for it, so nobody else would say that it failed."""
    if not done.cancelled() and done.exception() is not None:
        _log.error("a step failed", exc_info=done.exception())
