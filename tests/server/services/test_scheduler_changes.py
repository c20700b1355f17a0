"""Preemption, faults, unmanaged processes and policy changes, and the answers to queries."""

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


def test_preempted_job_is_requeued_with_its_submit_time(world: World) -> None:
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


def test_time_of_a_restart_is_no_work_that_a_checkpoint_keeps(world: World) -> None:
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = world.submit(name="low", gpus=2, priority="low", checkpoint={"every": 10, "restart": 5}, estimate=100)
    world.settle()
    for at_s, name in ((15, "first"), (28, "second")):
        world.clock.at_us = at_s * SECOND_US
        high = world.submit(name=name, gpus=2, priority="high")
        world.settle()
        world.engine.end(high, 0)
        world.settle()
    row = world.scheduler.row(low)  # 15 s keep 10; of the next 13 s, 5 are the restart
    assert (row.attempt, row.kept_us) == (2, 10 * SECOND_US)


def test_gang_on_a_faulty_card_is_requeued_and_others_continue(world: World) -> None:
    first, second = world.submit(name="one", gpus=1), world.submit(name="two", gpus=1)
    world.settle()
    card = world.engine.launched[0][3][0]
    world.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": "Xid 79"})
    world.settle()
    assert (world.state(first), world.state(second)) == ("pending", "running")
    assert {c.id: c.state for c in world.scheduler.node_service.cards()}[card] == "cordoned"
    assert "lost" in kinds(world, first)
    world.scheduler.watcher.hear({"kind": "card_ok", "card": card})
    world.settle()
    assert world.state(first) == "running"
    assert world.scheduler.row(first).attempt == 1


def send_sample(world: World, at_us: int, processes=(), runs=(), **of_card) -> None:
    world.clock.at_us = at_us
    cards = [
        {"id": card.id, "utilisation_ratio": 0.0, "processes": list(processes) if i == 0 else []} | of_card
        for i, card in enumerate(world.scheduler.node_service.cards())
    ]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": at_us, "cards": cards, "runs": list(runs)})
    world.settle()


def test_reports_about_unknown_cards_are_ignored(world: World) -> None:
    for kind in ("card_fault", "card_ok"):
        world.scheduler.watcher.hear({"kind": kind, "card": "new", "cause": "Xid 79"})
    world.scheduler.node_service.taken_outside("new", "held by somebody")
    world.settle()
    assert [card.state for card in world.scheduler.node_service.cards()] == ["free", "free"]


def test_progress_is_equal_in_memory_and_in_the_store(world: World) -> None:
    job_id = world.submit(gpus=1)
    world.settle()
    run = {"job": job_id, "attempt": 0, "step": 3, "total": 4, "progress_at_us": 1}
    send_sample(world, 20 * SECOND_US, runs=[run])
    assert world.scheduler.row(job_id).progress["ratio"] == 0.75
    assert world.scheduler.queries.unfinished() == [world.scheduler.row(job_id)]
    send_sample(world, 40 * SECOND_US, runs=[run | {"attempt": 1, "step": 4}])
    assert world.scheduler.row(job_id).progress["step"] == 3


def test_unmanaged_process_makes_its_card_unavailable_until_it_ends(world: World) -> None:
    process = {"pid": 4, "name": "python", "memory_bytes": 2**30, "job": None, "attempt": None}
    for i in range(4):
        send_sample(world, i * SECOND_US, [process])
    assert [card.state for card in world.scheduler.node_service.cards()] == ["taken_outside", "free"]
    assert world.scheduler.node_service.cluster().taken_outside == 1
    job_id = world.submit(gpus=2)
    world.settle()
    assert world.state(job_id) == "pending"
    for i in range(4, 9):
        send_sample(world, i * SECOND_US)
    assert world.state(job_id) == "running"


UNMANAGED = {"pid": 4, "name": "python", "memory_bytes": 2**30, "job": None, "attempt": None}
SHARE = {"share": {"sm": 0.25, "memory": "1GiB"}, "gpus": None}


def test_why_names_the_unmanaged_process_and_the_cure(world: World) -> None:
    for i in range(4):
        send_sample(world, i * SECOND_US, [UNMANAGED])
    job_id = world.submit(gpus=2)
    world.settle()
    [down] = [reason for reason in world.scheduler.queries.why(job_id).reasons if reason.code == "down"]
    assert "held by python (pid 4)" in down.message
    assert "end" in down.cure
    for i in range(4, 9):
        send_sample(world, i * SECOND_US, [UNMANAGED | {"pid": 5}])
    [down] = [reason for reason in world.scheduler.queries.why(job_id).reasons if reason.code == "down"]
    assert "pid 5" in down.message, "not the process that has ended"


def test_unheld_process_of_a_job_makes_the_card_unavailable_for_others(tmp_path, database) -> None:
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: False)
    first = world.submit(name="first", **SHARE)
    world.settle()
    for i in range(4):
        send_sample(world, i * SECOND_US, [UNMANAGED | {"job": first, "attempt": 0, "unheld": True}])
    second = world.submit(name="second", **SHARE)
    world.settle()
    [down] = [reason for reason in world.scheduler.queries.why(second).reasons if reason.code == "down"]
    assert f"of job {first}, which runs without the shim" in down.message
    for i in range(4, 9):
        send_sample(world, i * SECOND_US, [UNMANAGED | {"job": first, "attempt": 0}])
    assert world.state(second) == "running"


def test_changed_rule_applies_to_known_unmanaged_processes(tmp_path, database) -> None:
    rules = {"card": False}
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: rules["card"])
    world.submit(name="first", **SHARE)
    world.settle()
    seen = []
    for i, rules["card"] in enumerate([False] * 4 + [True] + [False]):
        send_sample(world, i * SECOND_US, [UNMANAGED])
        world.settle()
        seen.append(world.scheduler.node_service.cards()[0].state)
    assert seen[3:] == ["taken_outside", "shared", "taken_outside"]


@pytest.mark.parametrize("allowed", [True, False])
def test_rule_decides_whether_a_card_with_an_unmanaged_process_is_shared(tmp_path, database, allowed: bool) -> None:
    world = World(tmp_path, "1x1", database, allows_unmanaged=lambda card: allowed)
    first = world.submit(name="first", **SHARE)
    world.settle()
    for i in range(4):
        send_sample(world, i * SECOND_US, [UNMANAGED])
    second = world.submit(name="second", **SHARE)
    world.settle()
    assert world.state(second) == ("running" if allowed else "pending")
    assert [card.state for card in world.scheduler.node_service.cards()] == ["shared" if allowed else "taken_outside"]
    whole = world.submit(name="whole", gpus=1)
    for job_id in (first, second):
        world.engine.end(job_id, 0)
    world.settle()
    assert world.state(whole) == "pending"
    assert [card.state for card in world.scheduler.node_service.cards()] == ["taken_outside"], "it is no longer shared"


def test_mps_server_is_not_an_unmanaged_process(world: World) -> None:
    server = {"pid": 4, "name": "nvidia-cuda-mps", "memory_bytes": 2**26, "job": None, "attempt": None}
    for i in range(4):
        send_sample(world, i * SECOND_US, [server])
    assert [card.state for card in world.scheduler.node_service.cards()] == ["free", "free"]


def test_hung_job_is_reported_and_then_stopped_by_the_tenants_rule(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database, rules=HangRules(silent_s=60, stop_after_s=30))
    with database.write() as c:
        people.put_tenant(c, TenantRow("default", on_hang="stop"))
    world.scheduler.reload_tenants()
    job_id = world.submit(name="hung", gpus=1, estimate=10_000)
    world.settle()
    for at_s in range(0, 120, 5):
        run = {"job": job_id, "attempt": 0, "last_output_us": 0, "cpu_ratio": 0.0, "gpu_ratio": 0.0, "waits": "stuck"}
        send_sample(world, at_s * SECOND_US, runs=[run])
    row = world.scheduler.row(job_id)
    assert row.state == "failed"
    assert "silent" in row.cause
    assert kinds(world, job_id).count("hung") == 2, "the warning and the stop"
    assert kinds(world, job_id).index("hung") < kinds(world, job_id).index("stopping")


@pytest.mark.parametrize("on_hang", ["stop", "warn"])
def test_warning_of_a_running_job_says_when_it_is_stopped(tmp_path, database, on_hang) -> None:
    world = World(tmp_path, "1x2", database, rules=HangRules(silent_s=60, stop_after_s=30))
    with database.write() as c:
        people.put_tenant(c, TenantRow("default", on_hang=on_hang))
    world.scheduler.reload_tenants()
    job_id = world.submit(name="hung", gpus=1, estimate=10_000)
    world.settle()
    run = {"job": job_id, "attempt": 0, "last_output_us": 0, "cpu_ratio": 0.0, "gpu_ratio": 0.0, "waits": "stuck"}
    seen = []
    for at_s in range(0, 80, 5):
        send_sample(world, at_s * SECOND_US, runs=[run])
        seen.append(world.scheduler.hangs.warnings(world.scheduler.row(job_id)))
    assert seen[:12] == [[]] * 12
    (warning,) = seen[-1]
    assert (warning.rule, warning.warned_us) == ("silent", 60 * SECOND_US)
    assert "no sign of life for 1m" in warning.message
    assert warning.stops_us == (90 * SECOND_US if on_hang == "stop" else None)
    send_sample(world, 80 * SECOND_US, runs=[run | {"last_output_us": 79 * SECOND_US}])
    assert world.scheduler.hangs.warnings(world.scheduler.row(job_id)) == []


def hang(world: World, job_id: str, attempt: int = 0) -> None:
    """Samples of a job that waits for itself, until the rules have stopped it."""
    start_s = world.clock.at_us // SECOND_US
    for at_s in range(start_s, start_s + 120, 5):
        if world.state(job_id) != "running":
            break
        run = {"job": job_id, "attempt": attempt, "cpu_ratio": 0.0, "gpu_ratio": 0.0, "waits": "stuck"}
        send_sample(world, at_s * SECOND_US, runs=[run])


def test_hung_job_with_retries_is_tried_once_more_on_another_card(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database, rules=HangRules(silent_s=60, stop_after_s=30))
    job_id = world.submit(name="hung", gpus=1, estimate=10_000, retries={"count": 3})
    world.settle()
    first = cards_on(world, job_id)
    hang(world, job_id)
    assert world.state(job_id) == "held"
    world.at(world.clock.at_us + 60 * SECOND_US)
    assert world.state(job_id) == "running"
    assert cards_on(world, job_id) != first
    hang(world, job_id, attempt=1)
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("failed", 1)


def test_card_on_which_two_jobs_hung_is_tested(tmp_path, database) -> None:
    world = World(tmp_path, "1x1", database, rules=HangRules(silent_s=60, stop_after_s=30))
    for name in ("first", "second"):
        assert world.scheduler.suspects.wanted() == []
        job_id = world.submit(name=name, gpus=1, estimate=10_000)
        world.settle()
        hang(world, job_id)
        assert world.state(job_id) == "failed"
    assert world.scheduler.suspects.wanted() == ["n0/0"]
    waiting = world.submit(name="third", gpus=1)
    world.settle()
    assert world.state(waiting) == "pending"


def cards_on(world: World, job_id: str) -> list[str]:
    return [card for task in world.scheduler.row(job_id).placement["tasks"] for card in task["cards"]]


def test_drain_cordon_and_windows_survive_a_restart(world: World) -> None:
    scheduler = world.scheduler
    node = scheduler.node_service.nodes()[0].id
    scheduler.node_service.drain(node, ADA, "new disks")
    scheduler.node_service.cordon(scheduler.node_service.cards()[1].id, ADA, "fan")
    scheduler.node_service.add_window([node], 10**15, None, ADA, "firmware")
    again = world.make()
    assert [(n.drained, len(n.windows)) for n in again.node_service.nodes()] == [(True, 1)]
    assert [card.state for card in again.node_service.cards()] == ["drained", "cordoned"]
    assert [card.cause for card in again.node_service.cards()] == ["new disks, by ada", "fan, by ada"]
    again.node_service.undrain(node)
    again.node_service.uncordon(again.node_service.cards()[1].id)
    again.node_service.remove_window(again.node_service.windows()[0].id)
    assert [card.state for card in again.node_service.cards()] == ["free", "free"]


def test_cordon_names_its_administrator_with_and_without_a_cause_and_after_a_restart(world: World) -> None:
    one, other = (card.id for card in world.scheduler.node_service.cards())
    world.scheduler.node_service.cordon(one, ADA)
    world.scheduler.node_service.cordon(other, ADA, "fan")
    for scheduler in (world.scheduler, world.make()):
        assert [card.cause for card in scheduler.node_service.cards()] == ["by ada", "fan, by ada"]


# -- policy --------------------------------------------------------------------------------------------------------


def test_policy_set_while_jobs_run_applies_and_survives_a_restart(world: World) -> None:
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


@pytest.mark.parametrize("name", ["priority", "hybrid:alpha=0.5"])
def test_divide_policy_is_refused_as_a_mode_with_the_option_that_sets_it(world: World, name: str) -> None:
    for change in (lambda: world.scheduler.policy_service.set({"mode": name}, ADA),
                   lambda: world.scheduler.policy_service.preview({"mode": name})):  # fmt: skip
        with pytest.raises(Invalid) as refused:
            change()
        assert refused.value.problem == f"{name!r} is a divide policy, not a mode"
        assert f"gpusquad policy set {name} --card 0" in refused.value.cure


def test_lane_and_preemption_rules_survive_a_restart(world: World) -> None:
    rows = [{"name": "night", "priorities": ["low"]}, {"name": "day", "limit_ratio": 0.5}]
    world.scheduler.policy_service.set({"lanes": rows, "preemptible": ["night"]}, ADA)
    world.scheduler.policy_service.set({"preemption": {"overstay": "always"}}, ADA)
    status = world.make().policy_service.status()
    assert [(lane.name, lane.preemptible, lane.limit_ratio) for lane in status.lanes] == [
        ("night", True, 1.0), ("day", False, 0.5),
    ]  # fmt: skip
    assert (status.preemption["overstay"], status.revision) == ("always", 2)


def test_policy_fields_that_are_not_given_stay_unchanged(world: World) -> None:
    world.scheduler.policy_service.set({"order": "sjf", "preemption": {"by": "priority"}}, ADA)
    status = world.scheduler.policy_service.set({"preemption": {"min_run_s": 7.0}}, ADA)
    assert (status.order, status.preemption["by"], status.preemption["min_run_s"]) == ("sjf", "priority", 7.0)


def test_policy_that_cannot_be_applied_is_not_stored(world: World, monkeypatch) -> None:
    monkeypatch.setattr(driver, "with_policies", lambda state, policies, why: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    assert (world.scheduler.policy_service.status().order, world.scheduler.policy_service.status().revision) == (
        "fifo",
        0,
    )
    assert world.make().policy_service.status().order == "fifo"


def test_share_can_be_placed_beside_a_reserved_one(tmp_path) -> None:
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


def test_why_when_and_what_if_answer_for_running_and_pending_jobs(world: World) -> None:
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
    assert [(reason.code, reason.numbers["needed"], reason.numbers["idle"]) for reason in answer.reasons] == [
        ("no_cards", 1, 0)
    ]
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


def test_copied_state_shares_no_memory_with_the_scheduler(world: World) -> None:
    context = world.scheduler._context
    assert context.copy().space.fixed is not context.fixed  # place policies cache results in it
