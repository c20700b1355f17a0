"""Reservations bind: a reserved job is late by at most one guest's overrun, however many jobs come after it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.planning.commitments import LATE_RATIO, guests
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Checkpoint, Job, Request, Role, Share
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import user
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.strategies import Load, examples, gang, loads, make_trace, plain_clusters, single_cards, starts_s

S = 1_000_000
PLANS = ["easy", "easy:backfill=shortest", "easy:reservations=3", "conservative"]
ORDERS = ["fifo", "fairshare"]
ESTIMATE_S, RUN_S = 300, 1200
OVERRUN_S = RUN_S - ESTIMATE_S
FIRST_S = 600
"""When the run ahead of the reserved job ends, as predicted."""


def liars(number: int, **rest) -> list[TraceJob]:
    """Two-card jobs that are estimated at 5 minutes and run for 20, submitted one per second after the head."""
    return [gang(f"liar{i:04}", 2, RUN_S, 2 + i, estimate=ESTIMATE_S, **rest) for i in range(number)]


def scenario(later: list[TraceJob]) -> Load:
    """Six of eight cards are in use for 10 minutes, and the head needs all of them."""
    return Load(grid("1x8"), (gang("ahead", 6, FIRST_S), gang("head", 8, 100, 1), *later))


def started_s(result: SimulationResult, name: str = "head") -> float:
    start_s = starts_s(result)[name]
    assert start_s is not None, f"{name} never started"
    return start_s


def passed(result: SimulationResult, name: str = "head") -> list[str]:
    """Jobs that started before this one although they were submitted after it."""
    start_us = round(started_s(result, name) * S)
    later = [o for o in result.outcomes if o.started_us is not None and o.started_us < start_us]
    submitted_us = next(o.job.submitted_us for o in result.outcomes if o.job.id == name)
    return [o.job.id for o in later if o.job.submitted_us > submitted_us]


# -- liars ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("plan", ["easy", "easy:backfill=merit,patience_s=36000", "easy:reservations=3"])
def test_head_is_late_by_one_overrun_when_hundreds_of_guests_lie(plan: str, order: str):
    result = scenario(liars(200)).run(plan, order, forecast=user)
    assert FIRST_S < started_s(result) <= FIRST_S + OVERRUN_S
    assert passed(result) == ["liar0000"]


@pytest.mark.parametrize("plan", PLANS)
def test_head_is_late_by_one_overrun_when_guests_of_several_tenants_lie(plan: str):
    later = [gang(f"l{i}", 2, RUN_S, 2 + i, estimate=ESTIMATE_S, tenant=f"t{i}", user=f"u{i}") for i in range(30)]
    result = scenario(later).run(plan, forecast=user)
    assert started_s(result) <= FIRST_S + OVERRUN_S


@pytest.mark.parametrize("plan", PLANS)
def test_no_guest_follows_one_that_never_ends(plan: str):
    later = [gang("endless", 2, 1e6, 2, estimate=ESTIMATE_S), *liars(30)]
    result = scenario(later).run(plan, forecast=user)
    assert passed(result) == ["endless"]


@pytest.mark.parametrize("plan", PLANS)
def test_elastic_liars_delay_the_head_by_one_overrun(plan: str):
    roles = (Role("worker", 2, Request(gpus=1), 1, 2),)
    later = [make_trace(f"l{i}", roles, RUN_S, 2 + i, estimate=ESTIMATE_S) for i in range(30)]
    result = scenario(later).run(plan, forecast=user, on_cycle=audit)
    assert started_s(result) <= FIRST_S + 2 * RUN_S - ESTIMATE_S  # half of its tasks need twice the time


@pytest.mark.parametrize("plan", PLANS)
def test_liars_on_shared_cards_delay_the_head_by_one_overrun(plan: str):
    half = Request(share=Share(4 * GIB, 500))
    later = [make_trace(f"l{i}", half, RUN_S, 2 + i, estimate=ESTIMATE_S) for i in range(40)]
    result = scenario(later).run(plan, forecast=user, on_cycle=audit)
    assert started_s(result) <= FIRST_S + OVERRUN_S
    assert len(passed(result)) <= 4


def test_small_jobs_use_cards_that_a_late_head_does_not_need():
    """The head needs 4 of 8 cards. Only those are kept for it."""
    later = [gang("liar", 2, RUN_S, 2, estimate=100), gang("beside", 2, 5000, 700)]
    jobs = (gang("ahead", 4, 600), gang("other", 2, 3000), gang("head", 6, 100, 1), *later)
    result = Load(grid("1x8"), jobs).run("easy", forecast=user)
    assert started_s(result) == 2 + RUN_S
    assert started_s(result, "beside") == 2 + RUN_S + 100


def node_job(name: str, cards: int, run: float, at: float = 0, *, cpu: float = 0, **rest) -> TraceJob:
    """One task, so that its cards are on one node."""
    return make_trace(name, Request(gpus=cards, cpu_milli=round(cpu * 1000)), run, at, **rest)


def test_pin_that_moves_opens_no_cards_to_further_guests():
    """The head needs a whole node of two. Cards of the node that its pin left went to further guests."""
    ahead = [node_job("a0", 4, 60), node_job("b0", 2, 100), node_job("a1", 4, 80), node_job("b1", 2, 120)]
    later = [
        node_job(f"liar{i:03}", 1 + i % 2, 300 + 30 * (i % 2), 2 + i // 10, estimate=1 + i % 10) for i in range(200)
    ]
    result = Load(grid("2x8"), (*ahead, node_job("head", 8, 60, 1), *later)).run(forecast=user, on_cycle=audit)
    promised_s = next(o.promised_us or 0 for o in result.outcomes if o.job.id == "head") / S
    assert started_s(result) <= promised_s + 330


@pytest.mark.parametrize("checkpoint", [Checkpoint(), Checkpoint(S)])
def test_guest_takes_no_cpu_that_a_pinned_job_needs(checkpoint: Checkpoint):
    """One of the runs on the node is predicted to free CPU before the guest on the pinned cards ends, and does not.
    When the guest is stopped, the head must find its CPU free."""
    cluster = Cluster((Node("n0", tuple(Card(f"n0/{c}") for c in range(8)), 2000, 24 * GIB),))
    jobs = (
        node_job("long", 1, 1000, cpu=0.5), node_job("longer", 1, 60, cpu=0.5, estimate=22),
        node_job("short", 1, 20, cpu=1),
        node_job("head", 4, 60, 1, cpu=1), node_job("guest", 3, 500, 2, estimate=5, checkpoint=checkpoint),
        node_job("next", 1, 300, 3, cpu=0.5, estimate=3),
    )  # fmt: skip
    result = Load(cluster, jobs).run(forecast=user, on_cycle=audit)
    assert started_s(result) <= 2 + 500
    assert started_s(result, "next") >= started_s(result)


@pytest.mark.parametrize(("estimate", "submitted"), [(100, 1), (20, 60)])
def test_late_head_gathers_cards_while_the_run_ahead_overruns(estimate: float, submitted: float):
    """Its cards are planned where a run ahead is predicted to end, which does not. Jobs behind started on all others
    meanwhile, although the other half of the cluster is free for the head at 200 s."""
    later = [gang(f"long{i}", 1, 3000, 150 + i) for i in range(10)]
    jobs = (gang("ahead", 8, 5000, estimate=estimate), gang("short", 4, 200), gang("head", 8, 100, submitted), *later)
    result = Load(grid("2x8"), jobs).run("easy", forecast=user, on_cycle=audit)
    assert started_s(result) == 200
    assert not passed(result)


def test_gathered_cards_are_not_reserved_for_jobs_behind():
    """Each pending job has a reservation. When one gathers cards, those behind it are planned again: ``audit`` checks
    that all fit together."""
    jobs = (gang("ahead", 1, 100, estimate=10), gang("beside", 2, 30), gang("head", 3, 2000, 20, estimate=20),
            gang("last", 1, 30, 20, estimate=60))  # fmt: skip
    starts = starts_s(Load(grid("1x3"), jobs).run("conservative", forecast=user, on_cycle=audit))
    assert (starts["head"], starts["last"]) == (100, 2100)


def test_late_node_job_gathers_the_cards_of_one_node():
    """Other nodes stay open to jobs behind."""
    later = [node_job(f"long{i:02}", 1, 3000, 150 + i) for i in range(30)]
    jobs = (
        node_job("ahead", 8, 5000, estimate=100), *(node_job(f"short{i}", 4, 200 + i) for i in range(3)),
        node_job("last", 3, 5000), node_job("head", 8, 100, 1), *later,
    )  # fmt: skip
    result = Load(grid("3x8"), jobs).run("easy", forecast=user, on_cycle=audit)
    assert started_s(result) <= 202
    assert passed(result)


# -- guests that give way ------------------------------------------------------------------------------------------


def run_with(overstay: str, checkpoint: Checkpoint) -> SimulationResult:
    policies = make_policies(preemption=PreemptionConfig(overstay=overstay))  # type: ignore[arg-type]
    later = [gang("guest", 2, 1e5, 2, estimate=ESTIMATE_S, checkpoint=checkpoint)]
    return scenario(later).run(forecast=user, policies=policies)


@pytest.mark.parametrize("overstay", ["checkpointed", "always"])
def test_guest_with_checkpoints_is_preempted_when_it_keeps_the_head_waiting(overstay: str):
    result = run_with(overstay, Checkpoint(60 * S))
    assert started_s(result) == FIRST_S
    guest = next(o for o in result.outcomes if o.job.id == "guest")
    assert guest.end == "succeeded"
    assert len(guest.spans) == 2


def test_guest_without_checkpoints_is_preempted_only_if_always_is_set():
    assert started_s(run_with("checkpointed", Checkpoint())) == 2 + 1e5
    assert started_s(run_with("never", Checkpoint(60 * S))) == 2 + 1e5
    assert started_s(run_with("always", Checkpoint())) == FIRST_S


def test_run_ahead_of_the_late_job_is_not_preempted():
    """The guest has no checkpoints, and the run ahead has. The head waits for either, and stops none."""
    jobs = (
        gang("ahead", 4, 600, estimate=60, checkpoint=Checkpoint(600 * S)), gang("short", 2, 30),
        gang("head", 4, 600, 1), gang("guest", 2, 5000, 2, estimate=20),
    )  # fmt: skip
    result = Load(grid("1x8"), jobs).run(forecast=user)
    assert started_s(result) == 600
    assert [len(o.spans) for o in result.outcomes] == [1, 1, 1, 1]


def test_guest_that_may_not_be_preempted_stays():
    assert started_s(run_with("always", Checkpoint(60 * S, preemptible=False))) == 2 + 1e5


def test_guest_gives_way_when_it_outlives_its_time_after_the_head_could_start():
    """The head could start at 600 s. The guest may stay until 900 s, as predicted, and is stopped then."""
    jobs = (gang("ahead", 6, 600, estimate=2000), gang("head", 8, 100, 1),
            gang("guest", 2, 1e5, 2, estimate=898, checkpoint=Checkpoint(60 * S)))  # fmt: skip
    starts = starts_s(Load(grid("1x8"), jobs).run(forecast=user))
    assert starts["head"] == pytest.approx(900, abs=0.001)


def test_pin_prefers_guests_that_can_be_stopped():
    """Either guest's cards would do. The one with checkpoints is predicted to end last, but has outlived its time."""
    jobs = (
        gang("ahead", 4, 600), gang("head", 6, 100, 1),
        gang("plain", 2, 5000, 2, estimate=500), gang("saved", 2, 1e5, 3, estimate=90, checkpoint=Checkpoint(60 * S)),
    )  # fmt: skip
    result = Load(grid("1x8"), jobs).run(forecast=user)
    assert started_s(result) == FIRST_S
    assert [len(o.spans) for o in result.outcomes] == [1, 1, 1, 2]


def test_head_starts_as_if_alone_where_guests_are_suspended():
    """The run ahead ends early. The guest keeps its word, and is suspended all the same."""
    jobs = (gang("ahead", 6, 60, estimate=600), gang("head", 8, 100, 1), gang("guest", 2, 400, 2))
    result = Load(grid("1x8"), jobs).run(forecast=user, suspends=True)
    assert started_s(result) == 60
    guest = result.outcomes[2]
    assert (len(guest.spans), guest.lost_us, guest.ended_us) == (2, 0, round((400 + 2 + 100) * S))


# -- a late run ahead ----------------------------------------------------------------------------------------------


def test_guests_of_a_late_head_are_short():
    """The run ahead overruns by 1,000 s. A guest may then stay for an eighth of the lateness."""
    later = [gang(f"long{i}", 2, 400, 700 + i) for i in range(5)]
    later += [gang(f"short{i}", 2, 20, 900 + i) for i in range(3)]
    jobs = (gang("ahead", 6, 1600, estimate=600), gang("head", 8, 100, 1), *later)
    result = Load(grid("1x8"), jobs).run(forecast=user)
    assert started_s(result) <= 1600 + 1000 / LATE_RATIO
    assert passed(result) == ["short0", "short1", "short2"]


# -- properties ----------------------------------------------------------------------------------------------------


def overruns_us(result: SimulationResult) -> int:
    """The longest time by which a run outlived its estimate."""
    return max((o.run_us - o.job.estimate_us for o in result.outcomes if o.job.estimate_us), default=0)


@pytest.mark.parametrize("plan", ["easy", "easy:backfill=shortest", "easy:backfill=merit", "conservative"])
@examples(100)
@given(load=loads(plain_clusters(), single_cards, estimates="any", mixed=False, most=14))
def test_no_head_is_delayed_by_more_than_one_overrun(plan: str, load: Load):
    """Beyond its undelayed and its promised start. A guest on cards that were spare by the predicted end of another run
    may stay for the whole time for which it was admitted."""
    result = load.run(plan, forecast=user, on_cycle=audit)
    bound_us = max(0, overruns_us(result))
    outcomes = {o.job.id: o for o in result.outcomes}
    for job_id, delay_us in result.head_delay_us.items():
        start_us, promised_us = outcomes[job_id].started_us or 0, outcomes[job_id].promised_us or 0
        undelayed_us = start_us - delay_us
        admitted_us = [
            o.started_us + (o.job.estimate_us or 0) for o in result.outcomes
            if o.started_us is not None and o.started_us < start_us
        ]  # fmt: skip
        late_us = max(0, undelayed_us - promised_us) // LATE_RATIO
        assert start_us <= max(undelayed_us + late_us, promised_us, *admitted_us, 0) + bound_us + 2, job_id


class HeadStarts:
    """For ``on_cycle``: the last start of each job as the head of the queue, and the start promised before it. A job
    that is suspended waits again, with another promise."""

    def __init__(self) -> None:
        self.starts: dict[str, tuple[int, int]] = {}
        """Job -> (start, promised start)."""
        self._head: tuple[str, int] | None = None

    def __call__(self, state: SchedulerState, now_us: int) -> None:
        audit(state, now_us)
        if self._head is not None and self._head[0] not in state.queue:
            self.starts[self._head[0]] = (now_us, self._head[1])
        head = next((waiting.job.id for waiting in state.queue if not waiting.blocked), None)
        self._head = None if head is None else (head, state.committed_us.get(head, 0))


@pytest.mark.parametrize("plan", [*PLANS, "easy:backfill=merit"])
@examples(100)
@given(load=loads(plain_clusters(), single_cards, estimates="any", mixed=False, most=14))
def test_no_head_is_delayed_where_guests_are_suspended(plan: str, load: Load):
    """With several reservations, one of a job behind may keep a job from a start earlier than promised."""
    heads = HeadStarts()
    result = load.run(plan, forecast=user, on_cycle=heads, suspends=True)
    is_single = plan.startswith("easy") and "reservations" not in plan
    for job_id, delay_us in result.head_delay_us.items():
        if delay_us > 2:
            start_us, promised_us = heads.starts[job_id]
            assert not is_single, job_id
            assert start_us <= promised_us + 2, job_id
    for o in result.outcomes:
        assert o.lost_us <= o.job.checkpoint.restart_us * len(o.spans), o.job.id


def test_reservation_behind_keeps_no_job_from_cards_that_became_free_early():
    """Three runs end at one instant, two of them sooner than predicted. The reservation of the last job was made when
    fewer cards were expected to be free."""
    short = [gang(f"j{i}", 1, 1e-3, 0, estimate=3e-4) for i in range(5)]
    jobs = (*short, gang("long", 1, 2e-3), gang("a", 1, 1e-3, estimate=3e-4), gang("b", 1, 1e-3, estimate=3e-4),
            gang("wide", 2, 1e-3, estimate=3e-4), gang("last", 1, 1e-3, 1e-3, estimate=3e-4))  # fmt: skip
    result = Load(grid("3x1"), jobs).run("conservative", forecast=user)
    assert started_s(result, "wide") == pytest.approx(3e-3)


def test_reservation_behind_keeps_no_job_from_its_promised_start():
    """A guest overruns, so the reservation moves past the promised start. The guest ends just then, but the last job
    has reserved a card meanwhile."""
    jobs = (gang("long", 3, 12e-3), gang("first", 2, 1e-3, estimate=3e-4), gang("second", 2, 1e-3, 1e-3, estimate=3e-4),
            gang("guest", 1, 6e-3, 6e-3, estimate=1.8e-3), gang("last", 1, 1e-3, 7e-3, estimate=3e-4))  # fmt: skip
    result = Load(grid("4x1"), jobs).run("conservative", forecast=user, on_cycle=audit)
    assert started_s(result, "second") == pytest.approx(12e-3)


def test_reservation_behind_does_not_move_a_job_past_its_promised_start():
    """The head has room before its promised start, but beside the reservation of the last job only after it."""
    jobs = (gang("a", 2, 10e-3, 0, estimate=1e-3), gang("b", 2, 11e-3, 0, estimate=8e-3), gang("c", 1, 5e-3, 1e-3),
            gang("d", 2, 3e-3, 1e-3, estimate=4.5e-3), gang("e", 2, 1e-3, 2e-3), gang("head", 3, 1e-3, 2e-3),
            gang("last", 2, 1e-3, 2e-3))  # fmt: skip
    result = Load(grid("2x3"), jobs).run("easy:reservations=3", forecast=user, on_cycle=audit, suspends=True)
    assert started_s(result, "head") == pytest.approx(10e-3)


def test_reservation_behind_is_planned_again_when_a_pinned_start_moves():
    """The guest on the pinned cards is predicted to end at 10.1 s. A cycle at that instant expects it to end at the
    next one, and so moves the pinned job, and with it the last one."""
    ahead = [
        make_trace("a", Request(gpus=1, card="n0/0"), 9.5, estimate=1),
        make_trace("long", Request(gpus=1, card="n1/0"), 20),
        make_trace("short", Request(gpus=1, card="n1/1"), 10.1),
    ]
    jobs = (*ahead, node_job("head", 2, 5), node_job("guest", 1, 3, 9.1, estimate=1), node_job("last", 2, 1, 9.7))
    result = Load(grid("2x2"), tuple(jobs)).run("conservative", forecast=user, on_cycle=audit)
    assert (started_s(result, "head"), started_s(result, "last")) == (12.1, 17.1)


def test_reserved_stay_of_an_elastic_gang_is_rounded_like_its_run():
    """It gets two of its three tasks. The next job's reservation starts when it ends."""
    elastic = make_trace("elastic", (Role("worker", 3, Request(gpus=1), 2, 3),), 1e-3 + 1e-6, 1e-3)
    jobs = (gang("first", 1, 2e-3), elastic, gang("last", 2, 1e-3, 1e-3))
    Load(grid("1x2"), jobs).run("conservative", forecast=user, on_cycle=audit)


def test_reservation_behind_keeps_no_job_from_its_pinned_cards():
    """A guest has one card and can be suspended, and the others are idle, before the promised start of the wide job.
    The last job has a reservation around that of the wide one. Both waited indefinitely, on idle cards."""
    first = [gang(f"a{i}", 1, 12e-3, 2e-3, estimate=3.6e-3) for i in range(2)]
    jobs = (gang("early", 1, 2e-3, 2e-3, estimate=6e-4), *first, gang("b", 2, 2e-3, 3e-3),
            gang("c", 1, 10e-3, 3e-3, estimate=14e-3), gang("d", 2, 2e-3, 3e-3, estimate=6e-4),
            gang("wide", 3, 1e-3, 3e-3), gang("guest", 1, 2e-3, 4e-3),
            gang("last", 2, 1e-3, 4e-3, estimate=3e-4))  # fmt: skip
    result = Load(grid("4x1"), jobs).run("conservative", forecast=user, on_cycle=audit, suspends=True)
    assert started_s(result, "wide") == pytest.approx(16e-3)
    assert started_s(result, "last") == pytest.approx(17e-3)


@pytest.mark.parametrize("plan", PLANS)
@examples(60)
@given(
    load=loads(estimates="any", elastic=True, incidents=True, windows=True, priorities=True),
    overstay=st.sampled_from(["never", "always"]),
)
def test_accounting_is_consistent_with_lies(plan: str, load: Load, overstay):
    policies = make_policies("fifo", plan, preemption=PreemptionConfig(by="priority", overstay=overstay))
    result = load.run(policies=policies, forecast=user, on_cycle=audit)
    assert not [o.job.id for o in result.outcomes if o.end is None]


@examples(60)
@given(load=loads(estimates="over", elastic=False), plan=st.sampled_from(PLANS))
def test_honest_estimates_pin_nothing(load: Load, plan: str):
    def check(state, now_us: int) -> None:
        assert not state.pins

    honest = replace(load, jobs=tuple(t for t in load.jobs if t.run_us <= (t.job.estimate_us or 0)))
    honest.run(plan, forecast=user, on_cycle=check)


@pytest.mark.parametrize(("binds", "passes"), [("always", 1), ("overstayed", 1), ("never", 30)])
def test_plan_says_when_reservations_bind(binds: str, passes: int):
    result = scenario(liars(30)).run(f"easy:binds={binds}", forecast=user)
    assert len(passed(result)) == passes


def test_guests_that_end_in_time_may_delay_a_head_that_binds_only_those_that_overstay():
    """The run ahead is 1,000 s late. Its predicted end moves on, and honest guests may use the time."""
    honest = [gang(f"honest{i}", 2, 190, 610 + 200 * i) for i in range(3)]
    last = [gang(f"last{i}", 2, 10, 1300 + i) for i in range(5)]
    liar = gang("liar", 2, 900, 1250, estimate=20)
    jobs = (gang("ahead", 6, 1600, estimate=600), gang("head", 8, 100, 1), *honest, liar, *last)
    result = Load(grid("1x8"), jobs).run("easy:binds=overstayed", forecast=user)
    assert passed(result) == ["honest0", "honest1", "honest2", "liar"]
    assert started_s(result) == pytest.approx(started_s(result, "liar") + 900)


def test_overdue_run_of_unknown_length_ends_at_the_unknown_instant():
    """Its last quantile is unknown. The end of another run that waits for it must not lie before its own."""
    unknown_after_a_second = RunTimePrediction(S, NEVER_US)
    state = SchedulerState(grid("1x2"), make_policies())
    state.enqueue(gang("run", 2, 100).job, unknown_after_a_second)
    cycle(state, 1)
    cycle(state, 2 * S)
    assert state.runs["run"].end_us == NEVER_US


# -- held jobs -----------------------------------------------------------------------------------------------------


def test_released_job_has_no_guests_from_before_its_release():
    state = SchedulerState(grid("1x8"), make_policies("fifo", "easy", "binpack"), ())
    run = Role("task", 1, Request(4))
    for name, at_s in (("before", 50), ("after", 150)):
        state.now_us = at_s * S
        state.enqueue(Job(name, (run,), submitted_us=at_s * S), RunTimePrediction(1000 * S, 1000 * S))
        cycle(state, state.now_us)
    held = Job("held", (Role("task", 1, Request(8)),), submitted_us=10 * S, held_until_us=100 * S)
    waiting = state.enqueue(held, RunTimePrediction(S, S))
    assert [run.job.id for run in guests(state, waiting, list(state.runs.by_id.values()))] == ["after"]
