"""A cluster in a few lines: an API server's pods, who makes them and who runs them, and a service that decides.

Everything that takes time is a queue: whoever plays chooses what happens next.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusquad.core.ports import EngineEnded, EngineStarted
from gpusquad.core.sightings import Found, Place, Refound, Withdrawn
from gpusquad.engines.kubernetes.actions import binding_of, verdict_on
from gpusquad.engines.kubernetes.book import Book
from gpusquad.engines.kubernetes.gang import ATTEMPT, Gang, Rank, is_over, node_name, phase_of
from gpusquad.engines.kubernetes.objects import (
    JOB,
    Object,
    annotations_of,
    controller_of,
    is_leaving,
    name_of,
    uid_of,
)
from gpusquad.engines.kubernetes.reading.asks import ask_of
from gpusquad.engines.kubernetes.reading.membership import membership_of
from gpusquad.model.job import Job
from tests.engines.kubernetes.reading import making

WAITS, ON_CARDS = ("pending",), ("starting", "running", "preempting", "stopping")
Key = tuple[str, int]


@dataclass
class Row:
    """A job as the service remembers it."""

    job: Job
    state: str = "pending"
    attempt: int = 0
    places: tuple[Place, ...] = ()


@dataclass
class Bind:
    gang: Gang
    attempt: int
    place: Place
    job: str
    pod: Object
    refused: str = ""
    landed: bool = False


@dataclass
class World:
    """Truth is in ``pods`` and ``jobs``; ``events`` are on their way to the book, ``said`` to the service, ``calls``
    back."""

    pods: dict[str, Object] = field(default_factory=dict)
    jobs: dict[str, Object] = field(default_factory=dict)
    store: dict[str, Row] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    events: deque[tuple[str, Object]] = field(default_factory=deque)
    said: deque[Any] = field(default_factory=deque)
    calls: deque[Callable[[], None]] = field(default_factory=deque)
    binds: list[Bind] = field(default_factory=list)
    deletes: list[Object] = field(default_factory=list)
    owner_deletes: list[str] = field(default_factory=list)
    asked: list[Gang] = field(default_factory=list)
    timers: list[tuple[Gang, int]] = field(default_factory=list)
    obstacle_is: str = ""
    made: int = 0
    bound_ever: set[str] = field(default_factory=set)
    ran: dict[Key, set[str]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """Jobs that the book has told of or was told of."""
    ends: Counter[Key] = field(default_factory=Counter)
    may_end_again: Counter[Key] = field(default_factory=Counter)
    withdrawn: Counter[str] = field(default_factory=Counter)
    may_withdraw_again: Counter[str] = field(default_factory=Counter)
    told_to_go: set[str] = field(default_factory=set)
    lacking: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.book = self._new_book()
        self.book.open()
        self.said.clear()

    def _new_book(self) -> Book:
        return Book(lambda pod: membership_of(pod, self._find), ask_of, lambda formed: None, Hand(self))

    def _find(self, group: str, kind: str, namespace: str, name: str) -> Object | None:
        return self.jobs.get(name) if kind == "Job" else None

    # -- users and controllers ---------------------------------------------------------------------------------------

    def make(self, name: str, *, owner: Object | None = None, gpus: int = 1, **annotations: str) -> Object:
        self.made += 1
        said = {f"gpusquad.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
        pod = making.pod(name, making.container(gpus=gpus), annotations=said, owner=owner)
        pod["metadata"]["uid"] = f"uid-{self.made}"
        self.pods[name] = pod
        self._tell("seen", pod)
        return pod

    def make_bare(self, group: str, size: int, number: int) -> None:
        name = f"{group}-{number}"
        if name not in self.pods:
            self.make(name, group=group, group_size=str(size))

    def make_job(self, name: str, size: int) -> None:
        if name in self.jobs:
            return
        self.made += 1
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        self.jobs[name] = {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "team", "uid": f"job-{self.made}"},
            "spec": {"completions": size, "parallelism": size, "completionMode": "Indexed",
                     "podFailurePolicy": {"rules": rules}, "backoffLimit": 3},
            "status": {},
        }  # fmt: skip

    def control(self, name: str) -> None:
        """What the Job controller does: counts, makes what is missing, and ends."""
        job = self.jobs.get(name)
        if job is None or _is_finished(job):
            return
        size = job["spec"]["completions"]
        mine = [pod for pod in self.pods.values() if _is_of(pod, job)]
        counted = job["status"].setdefault("counted", {})
        for pod in mine:
            if is_over(pod):
                counted[uid_of(pod)] = (phase_of(pod), pod["metadata"]["labels"]["index"])
        done = {index for phase, index in counted.values() if phase == "Succeeded"}
        failed = sum(phase == "Failed" for phase, _ in counted.values())
        before = dict(job["status"])
        job["status"].update(succeeded=len(done), failed=failed)
        if len(done) == size or failed > job["spec"]["backoffLimit"]:
            kind = "Complete" if len(done) == size else "Failed"
            job["status"]["conditions"] = [{"type": kind, "status": "True"}]
            for pod in mine:
                if not is_over(pod):
                    self._begin_deletion(pod)
        else:
            busy = {pod["metadata"]["labels"]["index"] for pod in mine if not is_over(pod) and not is_leaving(pod)}
            for index in map(str, range(size)):
                if index not in busy and index not in done:
                    self._make_index(job, index)
        if before != job["status"]:
            self._look_again(job)

    def _make_index(self, job: Object, index: str) -> None:
        name = f"{job['metadata']['name']}-{index}"
        while name in self.pods:
            name += "x"
        self.made += 1
        pod = making.pod(name, owner=job, labels={"index": index})
        pod["metadata"]["uid"] = f"uid-{self.made}"
        self.pods[name] = pod
        self._tell("seen", pod)

    def delete_job(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            self._look_again(job)
            for pod in [pod for pod in self.pods.values() if _is_of(pod, job)]:
                self._begin_deletion(pod)

    def _look_again(self, job: Object) -> None:
        for pod in self.pods.values():
            if _is_of(pod, job):
                self.events.append(("again", pod))

    # -- the server and the kubelets -----------------------------------------------------------------------------------

    def _tell(self, what: str, pod: Object) -> None:
        self.events.append((what, copy.deepcopy(pod)))

    def delete_pod(self, name: str) -> None:
        if name in self.pods:
            self._begin_deletion(self.pods[name])

    def _begin_deletion(self, pod: Object) -> None:
        if not node_name(pod) or is_over(pod):
            self._remove(pod)
        elif not is_leaving(pod):
            pod["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
            self._tell("seen", pod)

    def _remove(self, pod: Object) -> None:
        del self.pods[name_of(pod)]
        self._tell("gone", pod)

    def run_pod(self, name: str, phase: str) -> None:
        """A kubelet goes on with a pod: to running, or to its end."""
        pod = self.pods.get(name)
        if pod is None or not node_name(pod) or is_over(pod):
            return
        if is_leaving(pod) and phase == "gone":
            self._remove(pod)
        elif phase in ("Running", "Succeeded", "Failed") and phase != phase_of(pod):
            pod["status"]["phase"] = phase
            said = annotations_of(pod)
            if phase != "Failed" and JOB in said:
                self.ran.setdefault((said[JOB], int(said[ATTEMPT])), set()).add(uid_of(pod))
            self._tell("seen", pod)
            if is_leaving(pod) and is_over(pod):
                self._remove(pod)

    def relabel(self, name: str, group: str) -> None:
        """A user edits the annotation that says which group a pod is of."""
        pod = self.pods.get(name)
        if pod is not None and "gpusquad.io/group" in annotations_of(pod):
            pod["metadata"]["annotations"]["gpusquad.io/group"] = group
            self._tell("seen", pod)

    def land(self, index: int) -> None:
        """The server takes a binding, or refuses it."""
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
            self._tell("seen", pod)

    def refuse(self, index: int) -> None:
        bind = self.binds[index]
        if not bind.landed and not bind.refused:
            bind.refused = "forbidden"

    def answer(self, index: int) -> None:
        """The book hears of a binding for certain."""
        bind = self.binds[index]
        wanted = bind.gang.placed and bind.gang.attempt == bind.attempt and not bind.gang.stopping
        if not (bind.landed or bind.refused) and wanted:
            return
        del self.binds[index]
        if bind.landed:
            self.book.bound(bind.gang, bind.attempt, bind.pod)
        else:
            self.book.not_bound(bind.gang, bind.attempt, bind.pod, bind.refused, bind.refused == "gone")

    def carry_out_deletion(self, index: int) -> None:
        pod = self.deletes.pop(index)
        now = self.pods.get(name_of(pod))
        if now is not None and uid_of(now) == uid_of(pod):
            self._begin_deletion(now)

    def answer_owner(self, index: int) -> None:
        gang = self.asked[index]
        if gang.job is not None and not gang.live():
            owner = gang.owner
            found = self.jobs.get(owner["name"]) if owner is not None else None
            self.book.owner_said(gang, verdict_on(found, owner["uid"]) if owner is not None else "gone")
        if gang.job is None or gang.live():
            self.asked.remove(gang)
            gang.asking = False

    def deliver(self) -> None:
        what, pod = self.events.popleft()
        if what == "seen":
            self.book.seen(pod)
        elif what == "gone":
            self.book.gone(pod)
        else:
            gang = self.book._gang_of(uid_of(pod))
            if gang is not None:
                self.book.seen(gang.pods[uid_of(pod)])

    def time_out(self, index: int) -> None:
        gang, attempt = self.timers.pop(index)
        self.book.start_timed_out(gang, attempt, 600)

    # -- the service ---------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """The service handles what was said first."""
        said = self.said.popleft()
        handle = {Found: self._found, Withdrawn: self._withdrawn, Refound: self._refound,
                  EngineStarted: self._started, EngineEnded: self._ended}[type(said)]  # fmt: skip
        handle(said)

    def _found(self, found: Found) -> None:
        job = found.job
        if job.id in self.over:
            self.calls.append(lambda: self.book.another_life(job.id))
            return
        row = self.store.setdefault(job.id, Row(job))
        if row.state == "pending":
            row.job = job
            if found.places:
                row.state, row.places = "running", found.places
                attempt = row.attempt
                self._call("resume", job.id, attempt, lambda: self.book.resume(job, attempt, found.places, True))

    def _withdrawn(self, gone: Withdrawn) -> None:
        row = self.store.get(gone.job_id)
        if row is not None and row.state in WAITS:
            self._finish(gone.job_id)

    def _refound(self, everybody: Refound) -> None:
        for job in [job for job in self.store if job not in everybody.job_ids]:
            self._finish(job)

    def _started(self, said: EngineStarted) -> None:
        row = self.store.get(said.job_id)
        if row is not None and row.attempt == said.attempt and row.state == "starting":
            row.state = "running"

    def _ended(self, said: EngineEnded) -> None:
        row = self.store.get(said.job_id)
        if row is None or row.attempt != said.attempt or row.state not in ON_CARDS:
            return
        if said.how == "succeeded" or row.state == "stopping":
            self._finish(said.job_id)
        elif row.state == "preempting" or said.how in ("lost", "stopped"):
            row.state, row.attempt, row.places = "pending", row.attempt + 1, ()
        else:
            self._finish(said.job_id)

    def _finish(self, job: str) -> None:
        del self.store[job]
        self.over.add(job)
        self.told_to_go.add(job)
        self.calls.append(lambda: self.book.finished(job))

    def _call(self, what: str, job: str, attempt: int, call: Callable[[], None]) -> None:
        def do() -> None:
            self.known.add(job)
            gang = self.book.by_job.get(job)
            if what == "stop" or self.ends[job, attempt]:
                self.may_end_again[job, attempt] += 1
            if gang is None:
                self.may_withdraw_again[job] += 1
            call()

        self.calls.append(do)

    def launch(self, job: str) -> None:
        row = self.store[job]
        if row.state == "pending":
            row.places = tuple(
                Place(f"node{number % 3}", tuple(f"GPU-{self.made}-{number}-{n}" for n in range(request.cards)))
                for number, request in enumerate(_requests(row.job))
            )
            self.made += 1
            row.state = "starting"
            attempt, places = row.attempt, row.places
            self._call("launch", job, attempt, lambda: self.book.launch(job, attempt, places))

    def preempt(self, job: str) -> None:
        self._tell_to_go(job, "preempting")

    def cancel(self, job: str) -> None:
        row = self.store[job]
        if row.state == "stopping":
            return
        self.told_to_go.add(job)
        self.calls.append(lambda: self.book.withdraw(job, "cancelled"))
        if row.state == "pending":
            self._finish(job)
        else:
            self._tell_to_go(job, "stopping")

    def _tell_to_go(self, job: str, state: str) -> None:
        row = self.store[job]
        if row.state in ("starting", "running") or (row.state == "preempting" and state == "stopping"):
            row.state = state
            self.told_to_go.add(job)
            attempt = row.attempt
            self._call("stop", job, attempt, lambda: self.book.stop(job, attempt, state, None))

    def restart(self, landing: Callable[[], bool]) -> None:
        """The scheduler's process ends and another begins: all that was on its way is lost, or done just before."""
        for index, _ in enumerate(self.binds):
            if landing():
                self.land(index)
        for mine in (self.events, self.said, self.calls, self.binds, self.deletes, self.asked, self.timers):
            mine.clear()
        self.owner_deletes.clear()
        self.book = self._new_book()
        self.known = set(self.store)
        self.withdrawn.clear()
        self.bound_ever = {uid_of(pod) for pod in self.pods.values() if node_name(pod)}
        for pod in self.pods.values():
            self.book.seen(copy.deepcopy(pod))
        for job, row in list(self.store.items()):
            if row.state in ON_CARDS:
                self.may_end_again[job, row.attempt] += self.ends[job, row.attempt]
                self.book.resume(row.job, row.attempt, row.places, row.state != "starting")
                if row.state in ("preempting", "stopping"):
                    self.may_end_again[job, row.attempt] += 1
                    self.may_withdraw_again[job] += 1
                    self.book.stop(job, row.attempt, row.state, None)
        self.book.open()

    # -- until nothing happens any more --------------------------------------------------------------------------------

    def settle(self) -> None:
        for _ in range(400):
            self._settle_once()
            if not self._step_world():
                late = [i for i, (gang, attempt) in enumerate(self.timers) if _is_starting(gang, attempt)]
                if not late:
                    return
                self.time_out(late[0])
        raise AssertionError("it never comes to rest")

    def _settle_once(self) -> None:
        for _ in range(2000):
            if self.events:
                self.deliver()
            elif self.calls:
                self.calls.popleft()()
            elif self.said:
                self.hear()
            elif self.binds:
                self.land(0)
                self.answer(0)
            elif self.deletes:
                self.carry_out_deletion(0)
            elif self.owner_deletes:
                self.delete_job(self.owner_deletes.pop())
            else:
                return
        raise AssertionError("it never comes to rest")

    def _step_world(self) -> bool:
        """Whether anything was left to do."""
        self.obstacle_is = ""
        for job in [job for job, row in self.store.items() if row.state == "pending"]:
            self.launch(job)
        for name in list(self.jobs):
            self.control(name)
        for name in list(self.pods):
            pod = self.pods.get(name)
            if pod is not None and not is_over(pod):
                self.run_pod(name, "gone" if is_leaving(pod) else "Running")
        for gang in list(self.asked):
            self.answer_owner(self.asked.index(gang))
        return bool(self.events or self.calls or self.said or self.binds or self.deletes or self.owner_deletes)


class Hand:
    """The book's hands, and the first to notice what must not be."""

    def __init__(self, world: World) -> None:
        self._world = world

    def report(self, said: Any) -> None:
        world = self._world
        if isinstance(said, Found):
            world.known.add(said.job.id)
        elif isinstance(said, Withdrawn):
            assert said.job_id in world.known
            world.withdrawn[said.job_id] += 1
            assert world.withdrawn[said.job_id] <= 1 + world.may_withdraw_again[said.job_id], "withdrawn twice"
        elif isinstance(said, EngineStarted):
            assert said.job_id in world.known
            gang = world.book.by_job[said.job_id]
            assert gang.job is not None
            assert len(world.ran.get((said.job_id, said.attempt), ())) >= gang.job.tasks, "not all have run"
        elif isinstance(said, EngineEnded):
            self._ended(said)
        world.said.append(said)

    def _ended(self, said: EngineEnded) -> None:
        world, key = self._world, (said.job_id, said.attempt)
        assert said.job_id in world.known
        world.ends[key] += 1
        assert world.ends[key] <= 1 + world.may_end_again[key], "ended twice"
        for pod in world.pods.values():
            note = annotations_of(pod)
            its = (note.get(JOB), int(note.get(ATTEMPT, -1)))
            assert its != key or not node_name(pod) or is_over(pod), f"{name_of(pod)} still has its cards"
        there = {uid_of(pod) for pod in world.pods.values() if not is_over(pod)}
        on_their_way = [bind for bind in world.binds if not bind.refused and uid_of(bind.pod) in there]
        assert not any((bind.job, bind.attempt) == key for bind in on_their_way), "being bound"

    def bind(self, gang: Gang, rank: Rank, pod: Object) -> None:
        assert gang.job is not None
        assert rank.place is not None
        assert uid_of(pod) not in self._world.bound_ever, "bound twice"
        assert not any(uid_of(bind.pod) == uid_of(pod) for bind in self._world.binds)
        self._world.binds.append(Bind(gang, gang.attempt, rank.place, gang.job.id, pod))

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None:
        world = self._world
        if controller_of(pod) is None:
            gang = world.book._gang_of(uid_of(pod))
            jobs = {annotations_of(pod).get(JOB, ""), gang.job.id if gang is not None and gang.job is not None else ""}
            failed = (gang is not None and gang.failed_start) or why.startswith("its gang was released")
            assert failed or jobs & world.told_to_go, f"{name_of(pod)} is deleted and nobody makes it again: {why}"
        world.deletes.append(pod)

    def delete_owner(self, gang: Gang, why: str) -> None:
        if gang.owner is not None:
            self._world.owner_deletes.append(gang.owner["name"])

    def ask_owner(self, gang: Gang) -> None:
        if not gang.asking:
            gang.asking = True
            self._world.asked.append(gang)

    def obstacle(self, gang: Gang, places: Sequence[Place]) -> str:
        return self._world.obstacle_is

    def shut(self, rank: Rank, pod: Object) -> str:
        return self._world.obstacle_is

    def watch_start(self, gang: Gang) -> None:
        self._world.timers.append((gang, gang.attempt))

    def look_again(self, nodes: Iterable[str]) -> None:
        pass

    def lacks(self, gang: Gang, what: str) -> None:
        self._world.lacking.append(what)


def _requests(job: Job) -> list[Any]:
    return [role.request for role in job.roles for _ in range(role.count)]


def _is_of(pod: Object, job: Object) -> bool:
    reference = controller_of(pod)
    return reference is not None and reference["uid"] == job["metadata"]["uid"]


def _is_finished(job: Object) -> bool:
    return bool(job["status"].get("conditions"))


def _is_starting(gang: Gang, attempt: int) -> bool:
    return gang.placed and gang.attempt == attempt and not gang.started and not gang.stopping
