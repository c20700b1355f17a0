"""Reasons of many pending jobs in one call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.explain.explain import copy_state, why, whys
from gpusquad.core.snapshot.dump import dump_snapshot
from gpusquad.core.state.state import SchedulerState
from tests.strategies import Load, loads

plans = st.sampled_from(["easy", "conservative", "none"])


@given(loads(most=7, roles=2, windows=True, incidents=True), plans)
def test_reasons_of_many_jobs_equal_the_reasons_of_each(load: Load, plan: str) -> None:
    def compare(state: SchedulerState, now_us: int) -> None:
        before = dump_snapshot(state)
        pending = [entry.job.id for entry in state.queue]
        assert dict(whys(state, pending)) == {job_id: why(state, job_id) for job_id in pending}
        assert dump_snapshot(state) == before
        assert dict(whys(copy_state(state), pending, spend=True)) == dict(whys(state, pending))

    load.run(plan, on_cycle=compare)
