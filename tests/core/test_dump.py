"""Snapshots: a state that was dumped and loaded decides like the original."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.driver import Driver
from gpusquad.core.snapshot.dump import dump_snapshot, load_snapshot
from gpusquad.core.snapshot.schema import SavedPendingJob, SavedReservation, SavedRun
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import Policies, PreemptionConfig, make_policies
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.cluster import GIB, grid
from gpusquad.model.decision import Decision, Preempt, Resize, Start
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Profile, Request, Role, Share, Slo
from gpusquad.model.views import RunTimePrediction
from gpusquad.policies.order.fifo import Fifo
from gpusquad.policies.place.standalone import Standalone
from gpusquad.policies.plan.easy import Easy
from gpusquad.registry import create
from gpusquad.sim import simulator
from gpusquad.sim.simulator import user
from tests.strategies import Load, loads

US = 1_000_000


def through_json(state: SchedulerState) -> SchedulerState:
    return load_snapshot(json.loads(json.dumps(dump_snapshot(state), allow_nan=False)))


def as_data(decisions: Sequence[Decision]) -> list[tuple]:
    """Decisions with their placements as lists, so that they can be compared."""
    return [
        (type(d).__name__, d.job_id, d.placement.as_lists() if isinstance(d, (Start, Resize)) else None,
         getattr(d, "cause", ""), d.for_job if isinstance(d, Preempt) else "")
        for d in decisions
    ]  # fmt: skip


orders = st.sampled_from(["fifo", "fifo:ties=work", "sjf", "srpt", "las:quantum_s=0.002", "drf",
                          "fairshare:step_gpu_s=0.001", "slo", "urgent"])  # fmt: skip
PLAN_WITH_PATIENCE = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"
plans = st.sampled_from(
    ["none", "easy", "easy:backfill=shortest", "easy:reservations=3", "conservative", PLAN_WITH_PATIENCE]
)
places = st.sampled_from(["binpack", "balance", "standalone", "standalone:overcommit=true", "spread", "topology",
                          "fragmentation", "random:seed=7"])  # fmt: skip
other_settings = st.fixed_dictionaries(
    {
        "preemption": st.sampled_from(
            [PreemptionConfig(), PreemptionConfig("priority", 0.0), PreemptionConfig("order", 0.001)]
        ),
        "tenants": st.sampled_from(
            [(), (TenantQuota("red", 2.0, 1, 3, 0.004), TenantQuota("blue", 1.0, 2, reclaim_s=0.0))]
        ),
        "demand": st.just(((Request(gpus=1), 0.7), (Request(share=Share(GIB, 250)), 0.3))),
    }
)
mixed_loads = loads(most=7, windows=True, incidents=True, elastic=True, fates=True, priorities=True, estimates="any")


def driver_of(state: SchedulerState) -> Driver:
    return Driver(state, lambda now_us, decisions: None)


class DriverWithCopy(Driver):
    """Applies each event to a copy too, checks that both decide alike, and copies the state again after each cycle."""

    make_copy: Callable[[SchedulerState], SchedulerState]

    def __init__(self, state: SchedulerState, carry_out) -> None:
        super().__init__(state, carry_out)
        self.copy = driver_of(type(self).make_copy(state))

    def apply(self, now_us, event):
        super().apply(now_us, event)
        self.copy.apply(now_us, event)

    def decide(self, now_us):
        decisions = super().decide(now_us)
        assert as_data(self.copy.decide(now_us)) == as_data(decisions)
        snapshot = dump_snapshot(self.state)
        assert snapshot == dump_snapshot(self.copy.state)
        new_copy = type(self).make_copy(self.state)
        assert dump_snapshot(new_copy) == snapshot
        self.copy.state = new_copy
        return decisions


@pytest.mark.parametrize("make_copy", [through_json, copy_state])
@given(mixed_loads, orders, plans, places, other_settings)
def test_copied_state_decides_like_the_original_at_any_time(
    make_copy, load: Load, order, plan, place, other_settings
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DriverWithCopy, "make_copy", staticmethod(make_copy), raising=False)
        patch.setattr(simulator, "Driver", DriverWithCopy)
        load.run(policies=make_policies(order, plan, place, **other_settings), forecast=user)


@given(mixed_loads, st.sampled_from(["fifo", "sjf", "drf"]), plans, places)
def test_second_cycle_at_the_same_instant_starts_no_job(load: Load, order, plan, place) -> None:
    """After a cycle no job can start, even if the state does not record that all pending jobs were tried."""

    def decide_again(state: SchedulerState, now_us: int) -> None:
        uncached = through_json(state)
        uncached.capacity_unchanged = False
        started = [d.job_id for d in cycle(uncached, now_us) if isinstance(d, Start)]
        assert started == []

    load.run(plan, order, place, on_cycle=decide_again)


# -- content of a snapshot -----------------------------------------------------------------------------------------


def test_snapshot_covers_every_attribute_that_affects_decisions() -> None:
    """A new attribute must be dumped and copied, or be listed here as derived from others."""
    state = SchedulerState(grid("1x1"), make_policies())
    dumped = {"policies", "space", "runs", "queue", "timeline", "accounts", "now_us", "sequence",
             "capacity_unchanged", "reservations_may_advance", "new_jobs", "claims", "outages", "first_reserved_us",
             "replan_cause", "resizes", "careful", "due_until_us", "decided_us", "committed_us",
                 "pins", "places_us", "startless_us", "suspends"}  # fmt: skip
    derived = {"rate", "delayed_starts", "later_ends", "last_replan_cause", "shapes", "shape_jobs",
                  "shape_waiting", "has_limits", "limit_heads", "_configured", "_possible"}  # fmt: skip
    assert set(vars(state)) == dumped | derived
    runs = {"by_id", "ends", "limits", "admissions", "checkpointed", "sharing", "elastic", "any_node_rows", "_rows"}
    assert set(vars(state.runs)) == runs | {"_kinds", "_amounts", "_levels"}
    assert set(vars(state.timeline)) == {"space", "runs", "windows", "reservations"}
    assert {f.name for f in fields(Run)} - {f.name for f in fields(SavedRun)} == {
        "rows",
        "has_shares",
        "lane",
        "prediction",
    }
    assert {f.name for f in fields(PendingJob)} - {f.name for f in fields(SavedPendingJob)} == {
        "shape",
        "rank",
        "lane",
        "must_place",  # set only while the place policy runs
        "is_new",  # "fresh" in the file
        "prediction",  # "forecast" in the file
        "stay_us",
        "due_us",
    }
    assert {f.name for f in fields(Reservation)} - {f.name for f in fields(SavedReservation)} == {
        "job",
        "wall",
        "open_until_us",  # derived from the commitment and the pins
        "pin",
    }


def busy_state() -> SchedulerState:
    """A state with a running job, reservations and a pending job."""
    state = SchedulerState(grid("2x2"), make_policies("fifo", "easy:reservations=2", "binpack", lanes=(Lane("all"),)))
    share = Request(share=Share(3 * GIB + 1, 333), cpu_milli=1)
    profile, slo = Profile(0.1 + 0.2, GIB + 1, 1 / 3, "measured"), Slo(123_456_789, 1, 0.1, 0.999)
    jobs = [
        Job("a", (Role("r", 1, share),), 1, profile=profile, app="x" * 999),
        Job("b", (Role("r", 2, Request(gpus=2)),), 2, slo=slo, estimate_us=2**60),
        Job("c", (Role("m", 1, Request(gpus=2, min_card_memory_bytes=7)), Role("w", 1, Request(gpus=1), 1, 2)), 3),
    ]
    for job in jobs:
        state.enqueue(job, RunTimePrediction(1234567, 7654321, "history"))
    state.enqueue(Job("d", (Role("r", 1, Request(gpus=2)),), 4), UNKNOWN)
    cycle(state, 17)
    state.enqueue(Job("e", (Role("r", 1, Request()),), 5), UNKNOWN)
    return state


def test_snapshot_restores_every_field_exactly() -> None:
    state, loaded = busy_state(), through_json(busy_state())
    assert [w.job for w in loaded.queue] == [w.job for w in state.queue]
    assert [w.prediction for w in loaded.queue] == [w.prediction for w in state.queue]
    assert loaded.runs["a"].job == state.runs["a"].job
    assert loaded.queue["e"].prediction is UNKNOWN
    assert [w.job.id for w in loaded.new_jobs] == ["e"]
    assert list(loaded.timeline.reservations) == list(state.timeline.reservations)
    for name in ("card_memory_free", "card_sm_free", "card_slots_free", "card_idle", "node_cpu_free", "card_load"):
        assert getattr(loaded.space, name).tolist() == getattr(state.space, name).tolist()


def test_policy_objects_are_dumped_by_name_and_parameters() -> None:
    policies = Policies(Fifo("work"), Easy(2, "shortest"), Standalone(True))
    data = dump_snapshot(SchedulerState(grid("1x1"), policies))["policies"]
    assert data["plan"].startswith("easy:reservations=2,backfill=shortest,patience_s=inf")
    loaded = through_json(SchedulerState(grid("1x1"), policies)).policies
    assert (loaded.order, loaded.plan, loaded.place) == (policies.order, policies.plan, policies.place)


def test_infinite_policy_parameters_are_restored() -> None:
    policies = make_policies("sjf:max_wait_s=inf")
    assert through_json(SchedulerState(grid("1x1"), policies)).policies.order == policies.order


def test_unregistered_policy_cannot_be_dumped() -> None:
    @dataclass(frozen=True)
    class Mine(Fifo):
        pass

    with pytest.raises(Invalid, match=r"policies\.order"):
        dump_snapshot(SchedulerState(grid("1x1"), Policies(Mine(), create("plan", "easy"), create("place", "binpack"))))


# -- invalid snapshots ---------------------------------------------------------------------------------------------


def without(data: dict, *path) -> dict:
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return data


def put(data: dict, value, *path) -> dict:
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(("change", "field"), [
    (lambda d: without(d, "version"), "snapshot.version"),
    (lambda d: put(d, 2, "version"), "snapshot.version"),
    (lambda d: without(d, "now_us"), "snapshot.now_us"),
    (lambda d: without(d, "pending", 0, "forecast", "mid_us"), r"snapshot.pending\[0\].forecast.mid_us"),
    (lambda d: put(d, "soon", "now_us"), "snapshot.now_us"),
    (lambda d: put(d, True, "sequence"), "snapshot.sequence"),
    (lambda d: put(d, 1, "surprise"), "snapshot.surprise"),
    (lambda d: put(d, -1, "running", 0, "job", "submitted_us"), r"snapshot.running\[0\].job.submitted_us"),
    (lambda d: put(d, "a", "pending", 0, "job", "id"), r"snapshot.pending\[0\].job.id"),
    (lambda d: put(d, "c", "pending", 0, "job", "id"), r"snapshot.pending\[1\].job.id"),
    (lambda d: put(d, "zzz", "promises", 0, "job_id"), r"snapshot.promises\[0\].job_id"),
    (lambda d: put(d, [[99]], "running", 0, "placement", "parts", 0, "cards"), r"snapshot.running\[0\].placement"),
    (lambda d: put(d, [[3]], "running", 0, "placement", "parts", 0, "cards"), r"snapshot.running\[0\].placement"),
    (lambda d: put(d, 5, "running", 0, "placement", "parts", 0, "group"), r"running\[0\].placement.parts\[0\].group"),
    (lambda d: put(d, ["nowhere"], "nodes_drained"), "snapshot.nodes_drained"),
    (lambda d: put(d, {"n0/0": ["b"]}, "sharers"), "snapshot.sharers"),
    (lambda d: put(d, {"zzz": "priority"}, "claims"), "snapshot.claims"),
    (lambda d: put(d, "best", "policies", "order"), "order"),
    (lambda d: put(d, [1], "cluster"), "snapshot.cluster"),
])  # fmt: skip
def test_invalid_snapshot_is_refused_with_the_field(change, field: str) -> None:
    data = json.loads(json.dumps(dump_snapshot(busy_state())))
    load_snapshot(json.loads(json.dumps(data)))
    with pytest.raises(Invalid, match=field):
        load_snapshot(change(data))


def test_snapshot_with_a_card_held_twice_is_refused() -> None:
    state = SchedulerState(grid("1x2"), make_policies())
    for name in "ab":
        state.enqueue(Job(name, (Role("r", 1, Request(gpus=1)),)), UNKNOWN)
    cycle(state, 0)
    data = dump_snapshot(state)
    data["running"][1]["placement"] = data["running"][0]["placement"]
    with pytest.raises(Invalid, match=r"running\[1\].placement"):
        load_snapshot(data)


@pytest.mark.parametrize("data", [None, [], "x", {}, {"version": "1"}])
def test_data_that_is_no_snapshot_is_refused(data) -> None:
    with pytest.raises(Invalid):
        load_snapshot(data)
