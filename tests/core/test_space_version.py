"""The version of a space: equal versions mean equal contents, so caches that compare it are never stale."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.core.planning.session import CycleSession
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Cluster, ForeignUsage, grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.placement import Placement
from gpusquad.sim.simulator import user
from gpusquad.sim.traces import TraceJob
from tests.core.states import job, state_of, submit
from tests.strategies import TICK_US, Load, clusters, examples, traces

ARRAYS = ("card_ok", "card_broken", "card_foreign", "card_memory_free", "card_sm_free", "card_slots_free", "card_idle",
          "card_load", "card_neighbours_key", "node_up", "node_idle", "node_cpu_free", "node_memory_free",
          "node_extra_free")  # fmt: skip
FREE = ("card_idle", "card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_memory_free")
CHANGES = ("place", "place", "trial", "trial", "trial", "finish", "finish", "node", "card", "foreign", "allow", "merge")


def contents(space: Space, asked: list[Request]) -> tuple:
    """All that a cache can depend on. The order of the sharers of a card does not count."""
    return (
        [getattr(space, name).tolist() for name in ARRAYS],
        (space.idle_total, space.all_well),
        {card: Counter(sharer.id for sharer in sharers) for card, sharers in space.sharers.items()},
        dict(space.expected_sharers),
        {name: nodes.tolist() for name, nodes in space.allowed.items()},
        {node: foreign for node, foreign in space.foreign.items() if foreign != ForeignUsage()},
        [space.room(request).tolist() for request in asked],
    )


class VersionLog:
    """Contents of a space by version."""

    def __init__(self, space: Space, asked: list[Request]) -> None:
        self._space, self._asked = space, asked
        self._contents: dict[int, tuple] = {}
        self.check()

    def check(self) -> None:
        now = contents(self._space, self._asked)
        assert self._contents.setdefault(self._space.version, now) == now, "two contents have the same version"


@st.composite
def gangs(draw: st.DrawFn, number: int) -> Job:
    """A gang of any shapes, also with a maximum number of tasks per node and a set of allowed nodes."""
    gang = draw(traces(number, roles=3)).job
    most, where = draw(st.sampled_from([0, 0, 1, 2])), draw(st.sampled_from(["", "", "some"]))
    roles = tuple(replace(r, request=replace(r.request, most_per_node=most, where=where)) for r in gang.roles)
    return replace(gang, roles=roles)


def run_trial(space: Space, gang: Job, log: VersionLog, data: st.DataObject) -> Placement | None:
    """Put the groups one after another, perhaps undo them, and start again or give up."""
    trial, before = SpaceTrial(space, gang), space.version
    for _ in range(data.draw(st.integers(1, 2))):
        filled = True
        for group in trial.groups:
            filled = filled and trial.fill(group, np.flatnonzero(space.room(group.request)))
            log.check()
        if filled and data.draw(st.booleans()):
            return trial.done()
        trial.undo()
        assert space.version == before
        log.check()
    return None


def change(space: Space, cluster: Cluster, kind: str, data: st.DataObject) -> None:
    """Change something other than what gangs hold."""
    node = data.draw(st.integers(0, len(cluster.nodes) - 1))
    if kind == "node":
        space.set_node_up(node, data.draw(st.booleans()))
    elif kind == "card" and cluster.gpus:
        space.set_card_ok(data.draw(st.integers(0, cluster.gpus - 1)), data.draw(st.booleans()))
    elif kind == "foreign":
        cards = tuple(card.id for card in cluster.nodes[node].cards[:1])
        space.set_foreign(node, data.draw(st.sampled_from([ForeignUsage(), ForeignUsage(1000, cards=cards)])))
    elif kind == "allow":
        space.set_allowed({"some": np.arange(len(cluster.nodes)) <= node})
    elif kind == "merge":
        other = space.copy()
        other.hide(np.array([node]))
        space.keep_least(other)


@pytest.mark.parametrize("place", ["binpack", "topology", "balance"])
@examples(60)
@given(cluster=clusters(), data=st.data())
def test_version_differs_whenever_contents_differ(place: str, cluster: Cluster, data: st.DataObject):
    state = SchedulerState(cluster, make_policies(place=place))
    space, held = state.space, []
    pending = [data.draw(gangs(number)) for number in range(data.draw(st.integers(1, 4)))]
    log = VersionLog(space, [request for gang in pending for request, _ in gang.groups])
    for _ in range(data.draw(st.integers(1, 10))):
        kind, before = data.draw(st.sampled_from(CHANGES)), space.version
        if kind in ("place", "trial") and pending:
            gang = pending[-1]
            placement = state.try_place(space, gang) if kind == "place" else run_trial(space, gang, log, data)
            if isinstance(placement, Placement):
                held.append((pending.pop(), placement))
            else:
                assert space.version == before
        elif kind == "finish" and held:
            gang, placement = held.pop(data.draw(st.integers(0, len(held) - 1)))
            space.release(gang, placement)
            pending.append(gang)
        else:
            change(space, cluster, kind, data)
        log.check()


def test_undo_restores_the_version_before_the_first_task_was_put():
    state = state_of(grid("1x4"))
    gang = job("gang", Request(gpus=1))
    trial, idle_trial = SpaceTrial(state.space, gang), SpaceTrial(state.space, gang)
    state.try_place(state.space, job("other", Request(gpus=1)))
    before = state.space.version
    trial.fill(trial.groups[0], np.array([0]))
    assert state.space.version > before
    trial.undo()
    assert state.space.version == before
    idle_trial.undo()
    assert state.space.version == before


@examples(30)
@given(cluster=clusters(), data=st.data())
def test_future_release_changes_the_version(cluster: Cluster, data: st.DataObject):
    state = SchedulerState(cluster, make_policies())
    gang = data.draw(traces(0)).job
    state.enqueue(gang, state.prediction(gang))
    placement = state.try_place(state.space, gang)
    if isinstance(placement, Placement):
        run = state.begin(state.queue[gang.id], placement)
        future = state.space.copy()
        log = VersionLog(future, [request for request, _ in gang.groups])
        state.runs.release_until(future, run.end_us)
        log.check()


def full_queue(seed: int) -> Load:
    """Many gangs that arrive nearly together. Some need CPU, so reservations name cards and windows are needed."""
    chance, jobs = Random(seed), []
    for number in range(60):
        run_us = chance.choice([1, 2, 3, 5, 8, 13, 20, 40]) * TICK_US
        request = Request(gpus=chance.randint(1, 4), cpu_milli=chance.choice([0, 1]))
        gang = job(f"j{number}", request, chance.choice([1, 1, 1, 2, 3]), submitted_us=chance.randint(0, 20) * TICK_US,
                   estimate_us=run_us * chance.choice([1, 1, 2]))  # fmt: skip
        jobs.append(TraceJob(gang, run_us))
    return Load(grid("4x4"), tuple(jobs))


@pytest.mark.parametrize("plan", ["easy", "easy:backfill=shortest", "easy:reservations=3"])
def test_cached_window_equals_a_recomputed_one(plan: str):
    current = CycleSession._current_windows

    def checked(session: CycleSession) -> dict[tuple[str, ...], Space]:
        windows = current(session)
        for key, window in windows.items():
            if session.state.timeline.reservations.keys() >= set(key):
                same_free(window, recomputed(session.state, key))
        return windows

    with patch.object(CycleSession, "_current_windows", checked):
        for seed in range(15):
            full_queue(seed).run(plan, forecast=user)


def recomputed(state: SchedulerState, key: tuple[str, ...]) -> Space:
    """What is free now and at the start of each of these reservations."""
    timeline = state.timeline
    own = [timeline.reservations[job_id] for job_id in key]
    return timeline.available(state.now_us, max(p.start_us for p in own) + 1, state.now_us, own)


def same_free(one: Space, other: Space) -> None:
    for name in FREE:
        assert np.array_equal(getattr(one, name), getattr(other, name)), f"stale {name}"


def test_window_is_computed_once_for_a_refused_gang_and_two_starts():
    """The refused gang puts its first role on the free cards before its second role is refused."""
    state = state_of(grid("1x8"))
    submit(state, job("running", Request(gpus=5, cpu_milli=1)))
    submit(state, job("head", Request(gpus=1), 4))
    mixed = Job("mixed", (Role("a", 2, Request(gpus=1)), Role("b", 2, Request(gpus=1, memory_bytes=1))))
    with patch.object(Space, "keep_least", autospec=True, side_effect=Space.keep_least) as keep_least:
        submit(state, mixed, job("two", Request(gpus=2)), job("one", Request(gpus=1)), hours=2)
    assert (set(state.runs.by_id), keep_least.call_count) == ({"running", "two", "one"}, 1)
