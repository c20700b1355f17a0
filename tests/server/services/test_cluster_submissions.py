"""Jobs submitted to the service and created as objects on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpusquad.core.hang.hang import HangRules
from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.core.observed import ClusterObserved, GangFound, GangsResynced
from gpusquad.model.cluster import grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role, Slo
from gpusquad.model.sharing_params import SharingParams
from gpusquad.server.answers import JobChange
from gpusquad.server.errors import Conflict, Unavailable
from gpusquad.server.services.jobs import cluster_submissions
from gpusquad.server.submission import again
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, ScriptedEngine, VirtualClock, World, kinds


@dataclass
class FakeClusterEngine(ScriptedEngine):
    """A cluster engine that records its calls."""

    withdrawn: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    finished_ids: list[str] = field(default_factory=list)

    def resume(self, job: Job, attempt: int, places: Any, has_started: bool) -> None:
        self.resumed.append(job.id)

    def withdraw(self, job_id: str, cause: str) -> None:
        self.withdrawn.append(job_id)

    def begin_incarnation(self, job_id: str) -> None: ...

    def finished(self, job_id: str) -> None:
        self.finished_ids.append(job_id)


@dataclass
class FakeMaker:
    """Records requested objects; ``then`` is called for each of them."""

    made: list[JobObjectRequest] = field(default_factory=list)
    noted: list[tuple[str, Job]] = field(default_factory=list)
    then: Callable[[str, JobObjectRequest], None] = lambda job_id, wanted: None
    error: Exception | None = None

    def job_id(self, wanted: JobObjectRequest) -> str:
        return f"{wanted.mark:0<26}"[:26]

    def make(self, wanted: Sequence[JobObjectRequest]) -> None:
        if self.error is not None:
            raise self.error
        for request in wanted:
            self.made.append(request)
            self.then(self.job_id(request), request)

    def lacks(self, job_id: str) -> str:
        return "1 of 2 pods"

    def note(self, job_id: str, job: Job) -> None:
        self.noted.append((job_id, job))


class Cluster(World):
    """A service on a cluster that reports each gang as soon as its objects are created."""

    def __init__(self, folder: Path, **setup: Any) -> None:
        self.maker = FakeMaker()
        clock = VirtualClock()
        self.engine = FakeClusterEngine(clock)
        super().__init__(folder, clock=clock, engine=self.engine, on_cluster=True, maker=self.maker, **setup)
        self.maker.then = self.report_gang
        self.report(ClusterObserved())
        self.report(GangsResynced(frozenset()))

    def report_gang(self, job_id: str, wanted: JobObjectRequest) -> None:
        """Report the gang as the engine does, with no more than its pods contain."""
        roles = tuple(replace(role, request=replace(role.request, extras=(("pods", 1),))) for role in wanted.job.roles)
        self.report(GangFound(Job(job_id, roles, name=f"made-{wanted.mark[:4]}", tenant=wanted.job.tenant)))

    def set_weight(self, weight: float) -> None:
        with self.database.write() as c:
            people.put_tenant(c, TenantRow("default", weight=weight))
        self.scheduler.reload_tenants()

    def report(self, observation: Any) -> None:
        self.engine.report(observation)  # type: ignore[operator]
        self.settle()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    plain = grid("2x4")
    nodes = tuple(replace(node, extras=(("pods", 100),)) for node in plain.nodes)
    return Cluster(tmp_path, cluster=replace(plain, nodes=nodes))


def hang(cluster: Cluster, job: str, attempt: int) -> None:
    """Samples of a job that waits for itself, until the rules have stopped it."""
    for _ in range(30):
        if cluster.state(job) != "running":
            break
        cluster.at(cluster.clock.at_us + 5_000_000)
        run = {"job": job, "attempt": attempt, "cpu_ratio": 0.0, "gpu_ratio": 0.0, "waits": "stuck"}
        cards = [{"id": card.id, "utilisation_ratio": 0.0} for card in cluster.scheduler.node_service.cards()]
        cluster.scheduler.watcher.hear({"kind": "samples", "at_us": cluster.clock.at_us, "cards": cards, "runs": [run]})
        cluster.settle()


@pytest.mark.parametrize("retries", [0, 3])
def test_hung_job_is_tried_once_more_on_another_card(tmp_path: Path, retries: int):
    node = replace(grid("1x2").nodes[0], extras=(("pods", 100),))
    rules = HangRules(silent_s=60, stop_after_s=30)
    cluster = Cluster(tmp_path, cluster=replace(grid("1x2"), nodes=(node,)), rules=rules)
    job = cluster.submit(name="hung", gpus=1, estimate=10_000, image="x", retries=retries)
    first = cluster.engine.launched[-1][3]
    hang(cluster, job, 0)
    if retries:
        assert (cluster.state(job), cluster.engine.withdrawn) == ("held", []), "its owner creates its pods again"
        cluster.report_gang(job, cluster.maker.made[0])
        cluster.at(cluster.clock.at_us + 60_000_000)
        assert cluster.state(job) == "running"
        assert cluster.engine.launched[-1][3] != first
        hang(cluster, job, 1)
    assert (cluster.state(job), cluster.engine.withdrawn) == ("failed", [job])


def test_job_keeps_the_attributes_of_its_submission(cluster: Cluster):
    job = cluster.submit(name="My Train!", app="resnet", gpus=2, priority="high", env={"A": "1"}, image="x", retries=3)
    row = cluster.scheduler.row(job)
    assert (row.name, row.priority, row.user, row.retries_left) == ("My Train!", "high", "ada", 0)
    assert row.spec["env"] == {"A": "1"}
    known = cluster.scheduler._context.job(job)
    assert known.app == "resnet"
    assert dict(known.roles[0].request.extras) == {"pods": 1}, "added by the cluster"
    [made] = cluster.maker.made
    assert (made.image, made.retries, made.programs[0].command) == ("x", 3, ("true",))


def test_pods_start_with_their_own_command(cluster: Cluster):
    job = cluster.submit(gpus=4)
    assert cluster.state(job) == "running"
    [launch] = cluster.engine.running.values()
    assert all(not task.command for task in launch.tasks), "the pods contain the command"


def test_gang_starts_with_its_tenants_weight_and_its_slo(cluster: Cluster):
    cluster.set_weight(3.0)
    cluster.report(GangFound(Job("theirs", (Role("worker", 1, Request(gpus=1)),), slo=Slo(deadline_us=10**9))))
    job = cluster.submit(gpus=1, slo={"p99": "20ms"})
    assert cluster.engine.running["theirs", 0].sharing_params == SharingParams(3.0, slo=Slo(deadline_us=10**9))
    made = cluster.engine.running[job, 0].sharing_params
    assert (made.weight, made.slo) == (3.0, Slo(latency_us=20_000))


def test_secrets_are_passed_to_the_maker(cluster: Cluster):
    cluster.submit(secrets=["KEY"])
    assert dict(cluster.maker.made[0].secrets) == {"KEY": "x"}


def test_submission_leaves_no_job_when_its_objects_cannot_be_created(cluster: Cluster):
    cluster.maker.error = Invalid("tenant", "the cluster has no namespace default")
    with pytest.raises(Invalid):
        cluster.submit()
    cluster.maker.error = ConnectionError("no answer")
    with pytest.raises(Unavailable):
        cluster.submit()
    assert cluster.scheduler.queries.unfinished() == []
    assert not cluster.scheduler._submissions._expected  # type: ignore[union-attr]


def test_submission_returns_the_id_when_the_gang_is_not_found_in_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster_submissions, "FOUND_WITHIN_S", 0.0)
    cluster.maker.then = lambda job_id, wanted: None
    [row] = cluster.scheduler.submit(expand(check({"command": "x", "gpus": 1, "estimate": 1, "name": "late"})), ADA)
    assert "waits for 1 of 2 pods" in row.cause
    cluster.report_gang(row.id, cluster.maker.made[0])
    assert cluster.scheduler.row(row.id).name == "late"


def test_objects_are_created_once_for_the_same_key(cluster: Cluster):
    specs = expand(check({"command": "x", "gpus": 1, "estimate": 1}))
    [first] = cluster.scheduler.submit(specs, ADA, None, "key")
    [second] = cluster.scheduler.submit(specs, ADA, None, "key")
    assert first.id == second.id
    assert len(cluster.maker.made) == 1
    with pytest.raises(Conflict):
        cluster.scheduler.submit(expand(check({"command": "y", "gpus": 1, "estimate": 1})), ADA, None, "key")


def test_retried_submission_has_the_same_marks(cluster: Cluster):
    """If the first try was not answered, the second must find the objects that the first one created."""
    specs = expand(check({"command": "x", "gpus": 1, "estimate": 1, "sweep": [{"a": 1}, {"a": 2}]}))
    cluster.maker.error = ConnectionError("no answer")
    marks = []
    for _ in range(2):
        with pytest.raises(Unavailable):
            cluster.scheduler.submit(specs, ADA, None, "key")
        settled = cluster.scheduler._intake.advice.settle(
            specs, [cluster.scheduler._intake._job(spec, ADA, 0) for spec in specs]
        )
        marks.append([request.mark for request in cluster.scheduler._submissions.requests(settled, "group")])  # type: ignore[union-attr]
    assert marks[0] == marks[1]
    assert len({*marks[0]}) == 2


def test_job_is_held_until_its_dependency_succeeds(cluster: Cluster):
    first = cluster.submit(name="first")
    second = cluster.submit(name="second", after=["first"])
    assert cluster.state(second) == "held"
    cluster.engine.end(first, 0, "succeeded")
    cluster.settle()
    assert cluster.state(second) == "running"


def test_objects_of_a_job_are_withdrawn_when_its_dependency_fails(cluster: Cluster):
    first = cluster.submit(name="first")
    second = cluster.submit(name="second", after=["first"])
    cluster.engine.end(first, 0, "failed")
    cluster.settle()
    assert cluster.state(second) == "cancelled"
    assert cluster.engine.withdrawn == [second]


def test_cancel_withdraws_the_objects_of_a_job(cluster: Cluster):
    running, waiting = cluster.submit(gpus=4, count=2), cluster.submit(gpus=1)
    cluster.scheduler.cancel(waiting, ADA)
    cluster.scheduler.cancel(running, ADA)
    cluster.settle()
    assert cluster.engine.withdrawn == [waiting, running]
    assert (cluster.state(waiting), cluster.state(running)) == ("cancelled", "cancelled")


def test_objects_of_a_timed_out_job_are_withdrawn(cluster: Cluster):
    job = cluster.submit(limit=10)
    cluster.at(11_000_000)
    assert cluster.state(job) == "timed_out"
    assert job in cluster.engine.withdrawn


def test_update_is_noted_on_the_objects_of_a_job(cluster: Cluster):
    cluster.submit(gpus=4, count=2)
    job = cluster.submit(gpus=1)
    cluster.scheduler.update(job, JobChange(priority="high", estimate_us=5_000_000), ADA)
    [(noted, now)] = cluster.maker.noted
    assert (noted, now.priority, now.estimate_us) == (job, "high", 5_000_000)


def test_job_is_unchanged_when_its_gang_is_found_again(cluster: Cluster):
    """The pods contain less than the store."""
    cluster.submit(gpus=4, count=2)
    job = cluster.submit(gpus=1, name="mine", priority="high", app="resnet")
    before = cluster.scheduler._context.job(job)
    cluster.report_gang(job, cluster.maker.made[-1])
    assert cluster.scheduler._context.job(job) == before
    cluster.scheduler = cluster.make()
    for made in cluster.maker.made:
        cluster.report_gang(cluster.maker.job_id(made), made)
    assert cluster.scheduler._context.job(job) == before


def test_chosen_gpus_are_recorded_at_the_start_of_the_story(cluster: Cluster):
    job = cluster.submit(gpus="auto")
    assert kinds(cluster, job)[:2] == ["pending", "advised"]


def test_resubmission_is_refused_for_a_job_not_submitted_here(cluster: Cluster):
    cluster.report(GangFound(Job("0" * 26, (Role("worker", 1, Request(gpus=1)),))))
    with pytest.raises(Conflict, match="was not submitted here"):
        again(cluster.scheduler.row("0" * 26))


def test_image_only_gives_a_warning_on_one_machine(tmp_path: Path):
    world = World(tmp_path)
    job = world.submit(image="x")
    assert kinds(world, job)[:2] == ["pending", "warned"]
