"""Advice: recommended requests from past runs, `auto` values and warnings in the job's story."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.core.ports import AttemptEnded, TaskEnd
from gpusquad.model.cluster import GIB
from gpusquad.model.prediction import certain
from gpusquad.server.answers import Who
from gpusquad.server.errors import Conflict
from gpusquad.server.services.jobs.advice import Advice
from gpusquad.server.services.jobs.eligible_nodes import room_of
from gpusquad.server.submission import again
from gpusquad.spec.check import check
from gpusquad.spec.convert import to_job
from gpusquad.spec.expand import expand
from gpusquad.store import events, people
from gpusquad.store.events import EventRow
from gpusquad.store.people import TenantRow
from tests.server.services.sampled_runs import EIGHT, run
from tests.server.services.world import ADA, SECOND_US, World

OPEN = {"gpus": "auto", "gpu_memory": "auto"}


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, EIGHT, database)


def story(world: World, job_id: str, *kinds: str) -> list[EventRow]:
    with world.database.read() as c:
        return [event for event in events.of_job(c, job_id) if event.kind in kinds]


def advise(world: World, advice: Advice | None = None, *, is_open: bool = False, **file):
    advice = advice or Advice(world.database, lambda: room_of(EIGHT))
    spec = expand(check({"command": ["true"], "gpus": 1} | file))[0]
    job = to_job(spec, "-", world.clock.at_us, "default", "ada")
    return advice.recommend(job, certain(50 * SECOND_US, "user"), is_open=is_open)


# -- what is learned -----------------------------------------------------------------------------------------------


def test_measured_memory_and_cpu_peaks_are_advised(world: World) -> None:
    for number in range(4):
        run(world, f"resnet50-run{number}", peak_gib=10, cores=3.1)
    found = advise(world, name="resnet50-run99")
    assert found.advised.memory is not None
    assert 10 * GIB < found.advised.memory.value <= 14 * GIB
    assert "4 runs of resnet50 by ada" in found.advised.memory.why
    assert found.advised.cpu_milli is not None
    assert found.advised.cpu_milli.value == 4000


def test_fewer_gpus_are_advised_when_cards_were_idle(world: World) -> None:
    for number in range(3):
        run(world, f"vgg-run{number}", 8, busy=(0.9, 0.8, *[0.0] * 6))
    found = advise(world, name="vgg", gpus=8)
    assert found.advised.gpus is not None
    assert (found.advised.gpus.value, found.advised.gpus.why) == (2, "6 of the 8 cards were idle in the last 3 runs")


def test_card_use_of_a_short_run_is_ignored(world: World) -> None:
    run(world, "brief", 2, seconds=40, busy=(0.9, 0.0))
    assert advise(world, name="brief", gpus=2).known.uses == ()


def test_gpus_are_advised_by_run_times_of_each_size(world: World) -> None:
    for gpus, seconds in ((1, 200), (2, 180), (4, 170)):
        for number in range(3):
            run(world, f"bert-run{number}{gpus}", gpus, seconds=seconds)
    found = advise(world, name="bert", gpus=4)
    assert found.advised.gpus is not None
    assert found.advised.gpus.value == 1
    times = {time.gpus: time.run for time in found.advised.times}
    assert [round(times[gpus].at(0.5) / SECOND_US) for gpus in (1, 2, 4)] == [200, 180, 170]


def test_advice_includes_runs_that_end_later(world: World) -> None:
    advice = Advice(world.database, lambda: room_of(EIGHT))
    assert advise(world, advice, name="a").known.group is None
    run(world, "a")
    assert len(advise(world, advice, name="a").known.runs) == 1
    run(world, "a")
    assert len(advise(world, advice, name="a").known.runs) == 2


def test_runs_of_another_tenant_are_not_used(world: World) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("other"))
    world.scheduler.reload_tenants()
    run(world, "secret-net", peak_gib=10)
    job_id = world.submit(Who("eve", "other", "member"), name="secret-net", **OPEN)
    assert all("no data" in line.cause for line in story(world, job_id, "advised"))


# -- auto ----------------------------------------------------------------------------------------------------------


def test_auto_is_one_card_of_any_size_with_a_reason_when_nothing_is_known(world: World) -> None:
    job_id = world.submit(name="new", **OPEN)
    row = world.scheduler.row(job_id)
    assert (row.gpus, row.spec["gpus"], "gpu_memory" in row.spec) == (1, 1, False)
    assert [line.cause for line in story(world, job_id, "advised")] == [
        "gpus: 1 (no data on such jobs)",
        "gpu_memory: any card (no data on such jobs)",
    ]


def test_auto_is_chosen_by_past_runs(world: World) -> None:
    for number in range(3):
        run(world, f"vgg-run{number}", 8, busy=(0.9, 0.8, *[0.0] * 6), peak_gib=20)
    job_id = world.submit(name="vgg", **OPEN)
    row = world.scheduler.row(job_id)
    assert (row.gpus, row.spec["gpus"], row.core["gpus"]) == (2, 2, 2)
    assert 20 < int(row.spec["gpu_memory"].removesuffix("GiB")) <= 30
    gpus, memory = story(world, job_id, "advised")
    assert gpus.data == {"gpus": 2, "source": "history"}
    assert gpus.cause == "gpus: 2 (6 of the 8 cards were idle in the last 3 runs)"
    assert memory.data == {"gpu_memory": row.spec["gpu_memory"], "source": "history"}
    assert "3 runs of vgg by ada" in memory.cause


ROLES = [
    {"name": "learner", "gpus": 2, "cpu": "auto", "memory": "auto"},
    {"name": "actor", "count": 2, "cpu": "auto", "memory": "auto"},
]


def test_each_role_gets_its_own_choices(world: World) -> None:
    row = world.scheduler.row(world.submit(name="rl", gpus=None, roles=ROLES))
    assert [(role["cpu"], role["memory"]) for role in row.spec["roles"]] == [(16, "128GiB"), (1, "8GiB")]
    assert row.resolved is not None
    assert [one["field"] for one in row.resolved["choices"]] == [
        f"roles[{role}].{name}" for role in (0, 1) for name in ("cpu", "memory")
    ]
    world.settle()
    learner, actor = (role.request for role in world.scheduler.context.job(row.id).roles)
    assert (learner.cpu_milli, actor.cpu_milli) == (16_000, 1000)
    assert "roles[0].cpu: 16 (" in story(world, row.id, "advised")[0].cause


def test_choices_for_roles_from_past_runs_count_their_largest_task(world: World) -> None:
    for _ in range(3):
        run(world, "rl", cores=3.1)
    row = world.scheduler.row(world.submit(name="rl", gpus=None, roles=ROLES))
    assert [role["cpu"] for role in row.spec["roles"]] == [4, 4]
    assert "by the largest task of each" in story(world, row.id, "advised")[0].cause


@pytest.mark.parametrize(("task", "memory"), [(0, ["256GiB", "8GiB"]), (2, ["128GiB", "16GiB"])])
def test_retry_after_running_out_of_memory_raises_that_of_the_role(world: World, task: int, memory: list[str]) -> None:
    job_id = world.submit(name="rl", gpus=None, roles=ROLES, retries=1)
    world.settle()
    world.engine.running.clear()
    end = TaskEnd(task, signal=9, out_of_memory=True)
    world.engine.report(AttemptEnded(job_id, 0, "failed", "ran out of memory", end))  # type: ignore[operator]
    world.settle()
    row = world.scheduler.row(job_id)
    assert [role["memory"] for role in row.spec["roles"]] == memory
    assert f"requests {memory[min(task, 1)]} of memory" in row.cause
    requested = [role.request.memory_bytes for role in world.scheduler.context.job(job_id).roles]
    assert requested == [int(size.removesuffix("GiB")) * GIB for size in memory]
    assert "the next attempt" in row.cause
    world.at(world.clock.at_us + 60 * SECOND_US)
    assert world.state(job_id) == "running"


def killed_for_memory(world: World, job_id: str) -> None:
    world.settle()
    world.engine.running.clear()
    end = TaskEnd(0, signal=9, out_of_memory=True)
    world.engine.report(AttemptEnded(job_id, 0, "failed", "ran out of memory", end))  # type: ignore[operator]
    world.settle()
    world.at(world.clock.at_us + SECOND_US)


def test_memory_is_doubled_after_each_kill_whatever_the_estimate(world: World) -> None:
    asks: dict[str, Any] = {"name": "grower", "memory": "auto", "expect": {"host_memory": "100MiB"}}
    seen = []
    for _ in range(3):
        job_id = world.submit(**asks)
        killed_for_memory(world, job_id)
        assert world.state(job_id) == "failed"
        seen.append(world.scheduler.row(job_id).spec["memory"])
    assert seen == ["128MiB", "256MiB", "512MiB"]
    other = world.scheduler.row(world.submit(**(asks | {"name": "other"})))
    assert other.spec["memory"] == "128MiB"


def test_killed_job_that_is_submitted_again_gets_a_new_choice_of_memory(world: World) -> None:
    asks: dict[str, Any] = {
        "name": "grower",
        "cpu": "auto",
        "memory": "auto",
        "expect": {"host_memory": "100MiB", "cpu": 2},
    }
    job_id = world.submit(**asks)
    world.settle()
    assert again(world.scheduler.row(job_id)).memory == "128MiB"
    killed_for_memory(world, job_id)
    spec = again(world.scheduler.row(job_id))
    assert (spec.memory, spec.cpu) == ("auto", 2)
    written = world.submit(name="grower", memory="1GiB")
    killed_for_memory(world, written)
    assert again(world.scheduler.row(written)).memory == "1GiB"


def test_auto_choice_is_kept_through_a_retry_and_a_restart(world: World) -> None:
    """A later submission of the same job gets a new choice."""
    job_id = world.submit(name="vgg", retries={"count": 1, "backoff": 1}, **OPEN)
    for number in range(3):
        run(world, f"vgg-run{number}", 4, busy=(0.9,) * 4, peak_gib=20)
    world.settle()
    world.engine.end(job_id, 0, "failed", "exit code 1")
    world.settle()
    world.at(world.clock.at_us + 60 * SECOND_US)
    again = world.scheduler.row(job_id)
    assert (again.attempt, again.gpus) == (1, 1)
    world.scheduler = world.make()
    assert world.scheduler._context.job(job_id).gpus == 1
    assert world.scheduler.row(world.submit(name="vgg", **OPEN)).gpus == 4


def test_auto_is_capped_by_the_tenants_limit(world: World) -> None:
    run(world, "vgg-run1", 4)
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", limit_gpus=2))
    world.scheduler.reload_tenants()
    job_id = world.submit(name="vgg", gpus="auto")
    assert world.scheduler.row(job_id).gpus == 2
    assert story(world, job_id, "advised")[0].cause.endswith("; tenant default has a limit of 2)")
    world.settle()
    assert world.state(job_id) == "running"


def test_same_key_is_the_same_submission_when_the_advice_changed(world: World) -> None:
    specs = expand(check({"command": ["true"], "estimate": 1, "name": "vgg", "gpus": "auto"}))
    first = world.scheduler.submit(specs, ADA, None, "k")
    run(world, "vgg-run1", 4)
    assert [row.id for row in world.scheduler.submit(specs, ADA, None, "k")] == [row.id for row in first]
    other = expand(check({"command": ["true"], "estimate": 1, "name": "vgg", "gpus": 3}))
    with pytest.raises(Conflict):
        world.scheduler.submit(other, ADA, None, "k")


def test_what_if_uses_the_number_of_gpus_that_auto_would_choose(world: World) -> None:
    run(world, "vgg-run1", 4)
    (spec,) = expand(check({"command": ["true"], "estimate": 1, "name": "vgg", "gpus": "auto"}))
    answer = world.scheduler.queries.what_if(spec, ADA)
    assert [len(task.cards) for task in answer.placement] == [4]


def test_sweep_reads_past_runs_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run(world, "vgg-run1", 4)
    advice = world.scheduler._intake.advice
    calls: list[None] = []
    catch_up = advice._catch_up
    monkeypatch.setattr(advice, "_catch_up", lambda: calls.append(catch_up()))
    file = {"command": ["true"], "estimate": 1, "name": "vgg-${i}", "gpus": "auto", "sweep": {"i": list(range(50))}}
    rows = world.scheduler.submit(expand(check(file)), ADA)
    assert ({row.gpus for row in rows}, len(calls)) == ({4}, 1)


# -- warnings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_fields", [{"gpus": None, "share": {"memory": "4GiB"}}, {"gpus": 1, "gpu_memory": "8GiB"}]
)
def test_job_with_too_little_memory_is_accepted_with_a_warning(world: World, request_fields: dict) -> None:
    for number in range(4):
        run(world, f"resnet50-run{number}", peak_gib=10)
    job_id = world.submit(name="resnet50", **request_fields)
    (line,) = story(world, job_id, "warned")
    assert "is less than the" in line.cause
    assert "4 runs of resnet50 by ada" in line.cause
    world.settle()
    assert world.state(job_id) == "running"


def test_job_with_enough_memory_gets_no_warning(world: World) -> None:
    for number in range(4):
        run(world, f"resnet50-run{number}", peak_gib=10)
    for request_fields in ({"gpus": None, "share": {"memory": "20GiB"}}, {"gpu_memory": "40GiB"}, {}):
        assert story(world, world.submit(name="resnet50", **request_fields), "warned") == []


def test_offline_estimate_in_the_job_file_is_enough_for_a_warning(world: World) -> None:
    job_id = world.submit(name="new", gpu_memory="8GiB", expect={"memory": "20GiB"})
    assert "the estimate in the job file" in story(world, job_id, "warned")[0].cause


def test_advice_is_recorded_in_the_transaction_of_the_submission(world: World) -> None:
    job_id = world.submit(name="new", **OPEN)
    with world.database.read() as c:
        assert [event.kind for event in events.of_job(c, job_id)] == ["pending", "advised", "advised"]
