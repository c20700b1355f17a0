"""What comes in the way of jobs that run or wait: others, faults, other policies; and what is answered meanwhile."""

from __future__ import annotations

import pytest

from gpusquad.core import driver
from gpusquad.core.hang.hang import HangRules
from gpusquad.model.errors import Invalid
from gpusquad.registry import create
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World, kinds


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


# -- preemption and faults -----------------------------------------------------------------------------------------


def test_a_preempted_job_comes_back_with_its_request_time(world: World) -> None:
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = world.submit(name="low", gpus=2, priority="low", checkpoint={"every": 1, "grace": 3}, estimate=100)
    world.settle()
    world.clock.at_us = 10 * SECOND_US
    high = world.submit(name="high", gpus=2, priority="high")
    world.settle()
    assert (world.state(low), world.state(high)) == ("pending", "running")
    row = world.scheduler.row(low)
    assert (row.attempt, row.preemptions, row.submitted_us, row.kept_us) == (1, 1, 0, 10 * SECOND_US)
    assert "high" in world.engine.stopped[0][3]
    world.engine.end(high, 0)
    world.settle()
    assert world.state(low) == "running"
    assert ("low", 1) in [(name, attempt) for _, name, attempt, _ in world.engine.launched]
    assert "preempting" in kinds(world, low)


def test_a_broken_card_sends_its_gang_back_and_spares_the_neighbour(world: World) -> None:
    one, two = world.submit(name="one", gpus=1), world.submit(name="two", gpus=1)
    world.settle()
    card = world.engine.launched[0][3][0]
    world.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": "Xid 79"})
    world.settle()
    assert (world.state(one), world.state(two)) == ("pending", "running")
    assert {c.id: c.state for c in world.scheduler.node_service.cards()}[card] == "cordoned"
    assert "lost" in kinds(world, one)
    world.scheduler.watcher.hear({"kind": "card_ok", "card": card})
    world.settle()
    assert world.state(one) == "running"
    assert world.scheduler.row(one).attempt == 1


def sample(world: World, at_us: int, processes=(), runs=(), **of_card) -> None:
    world.clock.at_us = at_us
    cards = [
        {"id": card.id, "utilisation_ratio": 0.0, "processes": list(processes) if i == 0 else []} | of_card
        for i, card in enumerate(world.scheduler.node_service.cards())
    ]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": at_us, "cards": cards, "runs": list(runs)})
    world.settle()


def test_cards_that_came_after_the_start_are_left_alone(world: World) -> None:
    for kind in ("card_fault", "card_ok"):
        world.scheduler.watcher.hear({"kind": kind, "card": "new", "cause": "Xid 79"})
    world.scheduler.node_service.taken_outside("new", "held by somebody")
    world.settle()
    assert [card.state for card in world.scheduler.node_service.cards()] == ["free", "free"]


def test_progress_is_the_same_in_memory_and_on_record(world: World) -> None:
    job_id = world.submit(gpus=1)
    world.settle()
    run = {"job": job_id, "attempt": 0, "step": 3, "total": 4, "progress_at_us": 1}
    sample(world, 20 * SECOND_US, runs=[run])
    assert world.scheduler.row(job_id).progress["ratio"] == 0.75
    assert world.scheduler.queries.unfinished() == [world.scheduler.row(job_id)]
    sample(world, 40 * SECOND_US, runs=[run | {"attempt": 1, "step": 4}])
    assert world.scheduler.row(job_id).progress["step"] == 3


def test_a_process_from_outside_takes_the_card_and_gives_it_back(world: World) -> None:
    stranger = {"pid": 4, "name": "python", "memory_bytes": 2**30, "job": None, "attempt": None}
    for i in range(4):
        sample(world, i * SECOND_US, [stranger])
    assert [card.state for card in world.scheduler.node_service.cards()] == ["taken_outside", "free"]
    assert world.scheduler.node_service.cluster().taken_outside == 1
    job_id = world.submit(gpus=2)
    world.settle()
    assert world.state(job_id) == "pending"
    for i in range(4, 9):
        sample(world, i * SECOND_US)
    assert world.state(job_id) == "running"


STRANGER = {"pid": 4, "name": "python", "memory_bytes": 2**30, "job": None, "attempt": None}
PART = {"share": {"sm": 0.25, "memory": "1GiB"}, "gpus": None}


def test_why_names_the_process_that_holds_the_card_and_how_to_get_it_back(world: World) -> None:
    for i in range(4):
        sample(world, i * SECOND_US, [STRANGER])
    job_id = world.submit(gpus=2)
    world.settle()
    [down] = [reason for reason in world.scheduler.queries.why(job_id).reasons if reason.code == "down"]
    assert "held by python (pid 4)" in down.message
    assert "end" in down.cure
    for i in range(4, 9):
        sample(world, i * SECOND_US, [STRANGER | {"pid": 5}])
    [down] = [reason for reason in world.scheduler.queries.why(job_id).reasons if reason.code == "down"]
    assert "pid 5" in down.message, "not one that has long ended"


def test_a_process_of_a_job_that_nothing_holds_bars_the_card_by_the_same_rule(tmp_path, database) -> None:
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: False)
    first = world.submit(name="first", **PART)
    world.settle()
    for i in range(4):
        sample(world, i * SECOND_US, [STRANGER | {"job": first, "attempt": 0, "unheld": True}])
    second = world.submit(name="second", **PART)
    world.settle()
    [down] = [reason for reason in world.scheduler.queries.why(second).reasons if reason.code == "down"]
    assert f"of job {first}, which runs without the shim" in down.message
    for i in range(4, 9):
        sample(world, i * SECOND_US, [STRANGER | {"job": first, "attempt": 0}])
    assert world.state(second) == "running"


def test_a_rule_that_changes_holds_for_strangers_that_are_known(tmp_path, database) -> None:
    rules = {"card": False}
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: rules["card"])
    world.submit(name="first", **PART)
    world.settle()
    seen = []
    for i, rules["card"] in enumerate([False] * 4 + [True] + [False]):
        sample(world, i * SECOND_US, [STRANGER])
        world.settle()
        seen.append(world.scheduler.node_service.cards()[0].state)
    assert seen[3:] == ["taken_outside", "shared", "taken_outside"]


@pytest.mark.parametrize("admits", [True, False])
def test_whether_others_join_a_shared_card_beside_a_stranger_is_a_rule(tmp_path, database, admits: bool) -> None:
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: admits)
    first = world.submit(name="first", **PART)
    world.settle()
    for i in range(4):
        sample(world, i * SECOND_US, [STRANGER])
    second = world.submit(name="second", **PART)
    world.settle()
    assert world.state(second) == ("running" if admits else "pending")
    assert [card.state for card in world.scheduler.node_service.cards()] == ["shared" if admits else "taken_outside"]
    whole = world.submit(name="whole", gpus=1)
    for job_id in (first, second):
        world.engine.end(job_id, 0)
    world.settle()
    assert world.state(whole) == "pending"
    assert [card.state for card in world.scheduler.node_service.cards()] == ["taken_outside"], (
        "it is not shared any more"
    )


def test_the_server_of_mps_takes_no_card(world: World) -> None:
    server = {"pid": 4, "name": "nvidia-cuda-mps", "memory_bytes": 2**26, "job": None, "attempt": None}
    for i in range(4):
        sample(world, i * SECOND_US, [server])
    assert [card.state for card in world.scheduler.node_service.cards()] == ["free", "free"]


def test_a_hung_job_is_warned_of_and_then_stopped_by_the_tenants_rule(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database, rules=HangRules(silent_s=60, stop_after_s=30))
    with database.write() as c:
        people.put_tenant(c, TenantRow("default", on_hang="stop"))
    world.scheduler.reload_tenants()
    job_id = world.submit(name="hung", gpus=1, estimate=10_000)
    world.settle()
    for at_s in range(0, 120, 5):
        run = {"job": job_id, "attempt": 0, "last_output_us": 0, "cpu_ratio": 0.0, "gpu_ratio": 0.0}
        sample(world, at_s * SECOND_US, runs=[run])
    row = world.scheduler.row(job_id)
    assert row.state == "failed"
    assert "silent" in row.cause
    assert kinds(world, job_id).count("hung") == 1
    assert kinds(world, job_id).index("hung") < kinds(world, job_id).index("stopping")


def test_drain_cordon_and_windows_are_kept_over_a_restart(world: World) -> None:
    scheduler = world.scheduler
    node = scheduler.node_service.nodes()[0].id
    scheduler.node_service.drain(node, ADA, "new disks")
    scheduler.node_service.cordon(scheduler.node_service.cards()[1].id, ADA, "fan")
    scheduler.node_service.add_window([node], 10**15, None, ADA, "firmware")
    again = world.make()
    assert [(n.drained, len(n.windows)) for n in again.node_service.nodes()] == [(True, 1)]
    assert [card.state for card in again.node_service.cards()] == ["drained", "cordoned"]
    again.node_service.undrain(node)
    again.node_service.uncordon(again.node_service.cards()[1].id)
    again.node_service.remove_window(again.node_service.windows()[0].id)
    assert [card.state for card in again.node_service.cards()] == ["free", "free"]


# -- policy --------------------------------------------------------------------------------------------------------


def test_a_policy_set_while_jobs_run_decides_next_and_survives(world: World) -> None:
    first = world.submit(gpus=2, estimate=5)
    long, short = world.submit(gpus=2, estimate=50), world.submit(gpus=2, estimate=1)
    world.settle()
    preview = world.scheduler.policy_service.preview({"order": "sjf"})
    assert {job for job, _, _ in preview.moved} == {long, short}
    status = world.scheduler.policy_service.set({"order": "sjf"}, ADA, "short ones first")
    assert (status.order, status.by, status.revision) == ("sjf", "ada", 1)
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(long), world.state(short)) == ("pending", "running")
    assert world.make().policy_service.status().order == "sjf"
    with pytest.raises(Invalid, match=r"is unknown.*put the file into.*name it without \.toml"):
        world.scheduler.policy_service.set({"mode": "./night.toml"}, ADA)
    with pytest.raises(Invalid, match="is unknown"):
        world.scheduler.policy_service.set({"mode": "../../etc/passwd"}, ADA)
    with pytest.raises(Invalid):
        world.scheduler.policy_service.set({"order": "nonsense"}, ADA)


def test_what_is_not_named_stays_part_by_part(world: World) -> None:
    world.scheduler.policy_service.set({"order": "sjf", "preemption": {"by": "priority"}}, ADA)
    status = world.scheduler.policy_service.set({"preemption": {"min_run_s": 7.0}}, ADA)
    assert (status.order, status.preemption["by"], status.preemption["min_run_s"]) == ("sjf", "priority", 7.0)


def test_a_policy_that_cannot_be_applied_is_not_on_record(world: World, monkeypatch) -> None:
    monkeypatch.setattr(driver, "with_policies", lambda state, policies: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    assert (world.scheduler.policy_service.status().order, world.scheduler.policy_service.status().revision) == (
        "fifo",
        0,
    )
    assert world.make().policy_service.status().order == "fifo"


def test_a_share_can_be_placed_beside_one_that_is_only_promised(tmp_path) -> None:
    world = World(tmp_path, "1x2", predictor=create("predictor", "recent"))
    world.scheduler.policy_service.set({"mode": "slo", "place": "standalone"}, ADA)
    share = {"gpus": None, "share": {"sm": 0.25}, "estimate": None}
    cards = [world.submit(estimate=None) for _ in range(2)]
    world.settle()
    first, _, last = world.submit(**share), world.submit(count=2, min=1, max=2, estimate=None), world.submit(**share)
    world.settle()
    for job_id in cards:
        world.engine.end(job_id, 0)
    world.at(SECOND_US)
    assert (world.state(first), world.state(last)) == ("running", "running")


# -- answers -------------------------------------------------------------------------------------------------------


def test_why_when_and_what_if(world: World) -> None:
    first, second = world.submit(gpus=2, estimate=60), world.submit(gpus=1, estimate=30)
    world.settle()
    why = world.scheduler.queries.why(second)
    assert why.position == 1
    assert why.reasons
    when = world.scheduler.queries.when(second)
    assert when.start_us == 60 * SECOND_US
    assert world.scheduler.queries.when(first).start_us == 0
    (spec,) = expand(check({"command": ["true"], "gpus": 1, "estimate": 5}))
    answer = world.scheduler.queries.what_if(spec, ADA)
    assert (answer.starts_now, answer.start_us) == (False, 60 * SECOND_US)
    assert [(one.code, one.numbers["needed"], one.numbers["idle"]) for one in answer.reasons] == [("no_cards", 1, 0)]
    (entry,) = world.scheduler.queries.queue(0, 10)
    assert (entry.job_id, entry.position, entry.promised_us) == (second, 1, 60 * SECOND_US)
    world.at(70 * SECOND_US)
    world.engine.end(first, 0)
    world.settle()
    third = world.submit(gpus=2, estimate=10)
    world.settle()
    accuracy = world.scheduler.queries.when(third).accuracy
    assert accuracy is not None
    assert accuracy.count >= 1


def test_answers_share_no_memory_with_the_scheduler(world: World) -> None:
    context = world.scheduler._context
    assert context.copy().space.fixed is not context.fixed  # by which places remember what they worked out
