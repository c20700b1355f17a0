"""Jobs that start in one cycle: their cards do not depend on the order of their submission.

The four applications of a 2020 paper (KNOM Review 23-1), two of each on four cards of 12 GB, and the placements of its
Figure 4.
"""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.simulator import user
from tests.audit import audit
from tests.strategies import Load, examples, loads

GB = 10**9
APPLICATIONS = {"LAMMPS": (8.3, 0.23), "GROMACS": (0.6, 0.72), "TensorFlow": (3.5, 0.88), "QMCPACK": (5.3, 0.467)}
"""GB of card memory, and utilisation: Table 3 of the paper."""
L, G, T, Q = APPLICATIONS
FIGURE_4 = {
    "balance": [[L, T], [L, T], [G, Q], [G, Q]],
    "standalone:overcommit=true": [[L, L], [G, G], [T, T], [Q, Q]],
    "binpack": [[L, T], [L, T], [G, G, Q, Q], []],
    "measured": [[L, T], [L, T], [G, G, Q, Q], []],
}


def paper_cluster() -> Cluster:
    return Cluster((Node("n0", tuple(Card(f"n0/{c}", memory_bytes=12 * GB) for c in range(4)), 16_000, 64 * GB),))


def paper_job(name: str, copy: int) -> Job:
    memory_gb, utilisation = APPLICATIONS[name]
    share = Share(memory_bytes=round(memory_gb * GB))
    return Job(f"{name}-{copy}", (Role("main", 1, Request(share=share)),), app=name,
               profile=Profile(utilisation, share.memory_bytes))  # fmt: skip


def cards_after_one_cycle(place: str, jobs: list[Job]) -> list[list[str]]:
    state = SchedulerState(paper_cluster(), make_policies("fifo", "easy", place))
    for job in jobs:
        state.enqueue(job, RunTimePrediction(US_PER_S, US_PER_S))
    started = cycle(state, 0)
    assert [decision.job_id for decision in started] == [job.id for job in jobs], "not in the order of the queue"
    if not state.policies.place.overcommits():
        audit(state, 0)
    return [sorted(job.app for job in state.space.sharers.get(card, ())) for card in range(4)]


@pytest.mark.parametrize("place", FIGURE_4)
@pytest.mark.parametrize("kinds", list(permutations(APPLICATIONS)), ids="-".join)
def test_figure_4_comes_out_in_every_order_of_submission(place: str, kinds: tuple[str, ...]):
    in_pairs = [paper_job(name, copy) for name in kinds for copy in (1, 2)]
    in_turn = [paper_job(name, copy) for copy in (1, 2) for name in kinds]
    expected = sorted(FIGURE_4[place])
    assert sorted(cards_after_one_cycle(place, in_pairs)) == expected
    assert sorted(cards_after_one_cycle(place, in_turn)) == expected


def test_first_jobs_of_a_batch_that_does_not_fit_as_a_whole_start():
    jobs = [paper_job(L, copy) for copy in range(6)]
    state = SchedulerState(paper_cluster(), make_policies())
    for job in jobs:
        state.enqueue(job, RunTimePrediction(US_PER_S, US_PER_S))
    cycle(state, 0)
    assert sorted(state.runs.by_id) == [job.id for job in jobs[:4]]


def test_job_with_whole_cards_keeps_its_place_before_a_batch():
    state = SchedulerState(grid("1x1"), make_policies())
    small = Request(share=Share(GIB, 100))
    first = Job("first", (Role("main", 1, Request(gpus=1)),))
    rest = [Job(f"share{i}", (Role("main", 1, small),)) for i in range(3)]
    for job in (first, *rest):
        state.enqueue(job, RunTimePrediction(US_PER_S, US_PER_S))
    cycle(state, 0)
    assert list(state.runs.by_id) == ["first"]


@examples(60)
@given(load=loads(st.just(grid("2x2")), st.builds(lambda gib, sm: Request(share=Share(gib * GIB, sm)),
                                                  st.integers(1, 60), st.sampled_from([0, 250, 600])), most=14),
       place=st.sampled_from(["binpack", "balance", "standalone", "interference", "measured"]))  # fmt: skip
def test_accounting_is_consistent_with_batches(load: Load, place: str):
    result = load.run(place=place, forecast=user, on_cycle=audit)
    assert not [o.job.id for o in result.outcomes if o.end is None]
