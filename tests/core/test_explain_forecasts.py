"""Forecasts compared with the simulated outcome: start times, and the effect of one more job."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import copy_state, what_if, when
from gpusquad.core.snapshot.dump import dump_snapshot
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import GIB, grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Request, Share
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.simulator import exact
from tests.core.states import HOUR, job, plans, state_of, submit
from tests.strategies import Load, loads


@settings(max_examples=60)
@given(loads(most=8, roles=2, windows=True), plans)
def test_forecast_is_exact_with_exact_run_times_and_no_later_jobs(load: Load, plan: str) -> None:
    last_us = max(t.job.submitted_us for t in load.jobs)
    forecasts: dict[str, int | None] = {}

    def query(state: SchedulerState, now_us: int) -> None:
        if now_us >= last_us and not forecasts:
            before = dump_snapshot(state)
            for pending in list(state.queue):
                eta = when(state, pending.job.id)
                assert eta.high_us == eta.start_us
                forecasts[pending.job.id] = eta.start_us
            assert dump_snapshot(state) == before

    result = load.run(plan, on_cycle=query)
    started = {o.job.id: o.started_us for o in result.outcomes}
    assert forecasts == {job_id: started[job_id] for job_id in forecasts}


@settings(max_examples=60)
@given(loads(most=7, roles=2), plans)
def test_what_if_answer_is_exact_with_exact_run_times(load: Load, plan: str) -> None:
    """The first run asks what would happen with the last job; the second run submits it."""
    *others, extra = sorted(load.jobs, key=lambda t: t.job.submitted_us)
    last_us = extra.job.submitted_us
    answers = []

    def query(state: SchedulerState, now_us: int) -> None:
        if now_us == last_us and not answers:
            before = dump_snapshot(state)
            answers.append((what_if(state, extra.job, exact(extra)), [w.job.id for w in state.queue]))
            assert dump_snapshot(state) == before

    if not any(t.job.submitted_us == last_us for t in others):
        return
    without = replace(load, jobs=tuple(others)).run(plan, on_cycle=query)
    answer, pending_ids = answers[0]
    outcomes = replace(load, jobs=(*others, extra)).run(plan, event_order="batch").outcomes
    then: dict[str, Any] = {o.job.id: o.started_us for o in outcomes}
    if answer.refused is not None:
        assert next(o for o in outcomes if o.job.id == extra.job.id).end == "refused"
        return
    if answer.starts_now:
        assert answer.placement is not None
        assert answer.eta.start_us == last_us
    if any(t.job.id not in pending_ids and then[t.job.id] != o for t, o in _start_times(others, without)):
        return  # submitted with the others it changed their starts, which a later question cannot do
    assert answer.eta.start_us == then[extra.job.id]
    delays = {t.job.id: then[t.job.id] - o for t, o in _start_times(others, without) if o is not None}
    assert dict(answer.delayed) == {job_id: by for job_id, by in delays.items() if by > 0}


def _start_times(traces, result):
    started = {o.job.id: o.started_us for o in result.outcomes}
    return [(t, started[t.job.id]) for t in traces]


def test_forecast_has_a_range_and_the_reserved_start() -> None:
    state = state_of(grid("1x1"))
    state.enqueue(job("a", Request(gpus=1)), RunTimePrediction(HOUR, 2 * HOUR))
    state.enqueue(job("b", Request(gpus=1)), RunTimePrediction(HOUR, 3 * HOUR))
    state.enqueue(job("c", Request(gpus=1)), RunTimePrediction(HOUR, HOUR))
    cycle(state, 0)
    eta = when(state, "b")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (HOUR, 2 * HOUR, 2 * HOUR)
    eta = when(state, "c")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (2 * HOUR, 5 * HOUR, None)


def test_forecast_is_unknown_behind_a_job_without_estimate() -> None:
    state = state_of(grid("1x1"))
    state.enqueue(job("a", Request(gpus=1)), UNKNOWN)
    state.enqueue(job("b", Request(gpus=1)), RunTimePrediction(HOUR, HOUR))
    cycle(state, 0)
    eta = when(state, "b")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (None, None, None)


def test_what_if_reports_delayed_and_preempted_jobs() -> None:
    policies = make_policies("urgent", "easy", "binpack", preemption=PreemptionConfig("priority", 0.0))
    state = SchedulerState(grid("1x2"), policies)
    submit(state, job("a", Request(gpus=2)), job("b", Request(gpus=2)))
    state.now_us = 1  # a job is not preempted at the instant of its start
    answer = what_if(state, job("now", Request(gpus=2), priority="urgent"), RunTimePrediction(HOUR, HOUR))
    assert not answer.starts_now
    assert answer.preempted == ("a",)
    assert answer.eta.start_us == 1
    assert dict(answer.delayed) == {"b": HOUR + 1}
    with pytest.raises(Invalid):
        what_if(state, job("a", Request(gpus=1)), RunTimePrediction(HOUR, HOUR))


def test_copied_state_is_equal_and_independent() -> None:
    state = state_of(grid("2x2"))
    submit(state, job("a", Request(gpus=2)), job("b", Request(gpus=2), 2), job("c", Request(share=Share(GIB, 100))))
    before = json.dumps(dump_snapshot(state))
    other = copy_state(state)
    assert json.dumps(dump_snapshot(other)) == before
    other.finish("a")
    submit(other, job("d", Request(gpus=1)))
    cycle(other, HOUR)
    assert json.dumps(dump_snapshot(state)) == before
