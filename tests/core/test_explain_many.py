"""Asking for many at once says what asking for each says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.explain.explain import copy_state, why, whys
from gpusquad.core.snapshot.dump import dump_snapshot
from gpusquad.core.state.state import SchedulerState
from tests.strategies import Load, loads

plans = st.sampled_from(["easy", "conservative", "none"])


@given(loads(most=7, roles=2, windows=True, incidents=True), plans)
def test_many_are_told_what_each_is_told(load: Load, plan: str) -> None:
    def compare(state: SchedulerState, now_us: int) -> None:
        before = dump_snapshot(state)
        waiting = [one.job.id for one in state.queue]
        assert dict(whys(state, waiting)) == {job_id: why(state, job_id) for job_id in waiting}
        assert dump_snapshot(state) == before
        assert dict(whys(copy_state(state), waiting, spend=True)) == dict(whys(state, waiting))

    load.run(plan, on_cycle=compare)
