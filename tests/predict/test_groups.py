"""Tests for groups of past runs: weights by age, cut runs and bounds."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict._bins import COUNT
from gpusquad.predict._groups import RunGroups
from gpusquad.predict._groups import tally as tally_all
from gpusquad.predict._similarity import KINDS, SimilarityKey

EQUAL = SimilarityKey("equal", 0.9999, lambda f: f.owner)
FADING = SimilarityKey("fading", 0.5, lambda f: f.owner)
KEY = ("t", "u")
run_lists = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=15)


def tally(groups: RunGroups, key=KEY) -> tuple[np.ndarray, np.ndarray]:
    ended, reached = np.zeros((1, COUNT)), np.zeros((1, COUNT))
    tally_all([(groups, key)], ended, reached)
    return ended[0], reached[0]


def group_of(kind: SimilarityKey, runs, most: int = 10) -> RunGroups:
    groups = RunGroups(kind, most)
    for bin_, was_cut in runs:
        groups.learn(KEY, bin_, was_cut)
    return groups


def test_product_limit_of_five_runs():
    """Runs end in bins 1, 3, 3 and 5; one is cut in bin 3. Two of the three uncut runs beyond bin 2 end in bin 3."""
    ended, reached = tally(group_of(EQUAL, [(1, False), (3, False), (3, True), (5, False), (3, False)]))
    assert ended[:6].round(2).tolist() == [0, 1, 0, 2, 0, 1]
    assert reached[:7].round(2).tolist() == [5, 5, 4, 3, 1, 1, 0]
    surviving = np.cumprod(1 - ended[:6] / np.maximum(reached[:6], 1e-9))
    assert surviving.round(2).tolist() == [1, 0.8, 0.8, 0.27, 0.27, 0]


@given(run_lists)
def test_product_limit_equals_a_direct_count(runs):
    ended, reached = tally(group_of(EQUAL, runs))
    for bin_ in range(8):
        assert ended[bin_] == pytest.approx(sum(b == bin_ and not cut for b, cut in runs), abs=0.02)
        assert reached[bin_] == pytest.approx(sum(b > bin_ or (b == bin_ and not cut) for b, cut in runs), abs=0.02)


@given(run_lists)
def test_ended_runs_never_exceed_runs_that_reached_the_bin(runs):
    for kind in (EQUAL, FADING):
        ended, reached = tally(group_of(kind, runs))
        assert (ended <= reached + 1e-9).all()
        assert (reached >= -1e-9).all()


def test_latest_run_has_the_largest_weight():
    ended, _ = tally(group_of(FADING, [(1, False), (2, False), (3, False)]))
    assert ended[1:4].tolist() == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_trimming_many_runs_keeps_their_total_weight(kind: SimilarityKey):
    """Old runs are dropped from time to time. The remaining runs must weigh about as much as all runs would."""
    groups = RunGroups(kind, 10)
    full_weight = 1 / (1 - kind.keeps)
    for _ in range(7000):
        groups.learn(KEY, 5, was_cut=False)
    _, reached = tally(groups)
    assert 0.97 * full_weight <= reached[0] <= full_weight * 1.001
    assert len(groups.runs[KEY]) < 5000
    assert groups.count(KEY) < 2500


def test_least_recently_used_group_is_dropped_first():
    groups = RunGroups(FADING, 2)
    for key in ("a", "b", "a", "c"):
        groups.learn((key,), 1, was_cut=False)
    assert list(groups.runs) == [("a",), ("c",)]


def test_unknown_key_has_no_runs():
    groups = group_of(FADING, [(1, False)])
    assert not any(array.any() for key in (None, ("x",)) for array in tally(groups, key))
    assert (groups.count(None), groups.count(("x",)), groups.count(KEY)) == (0, 0, 1)


@given(run_lists)
def test_groups_round_trip_through_json(runs):
    groups, restored = group_of(FADING, runs), RunGroups(FADING, 10)
    restored.load(json.loads(json.dumps(groups.dump())))
    assert all((before == after).all() for before, after in zip(tally(groups), tally(restored), strict=True))


@pytest.mark.parametrize("runs", [[COUNT], [-COUNT - 1], [10**9], [0] * 10_000, ["x"], [None]])
def test_invalid_runs_are_not_loaded(runs):
    with pytest.raises((ValueError, TypeError)):
        RunGroups(FADING, 10).load([[["t", "u"], runs]])


@given(st.lists(st.tuples(st.sampled_from([EQUAL, FADING]), run_lists, st.booleans()), max_size=5))
def test_groups_counted_at_once_are_those_counted_one_by_one(drawn) -> None:
    asked = [(group_of(kind, runs), KEY if is_known else ("other",)) for kind, runs, is_known in drawn]
    ended, reached = np.zeros((len(asked), COUNT)), np.zeros((len(asked), COUNT))
    tally_all([*asked], ended, reached)
    for row, (group, key) in enumerate(asked):
        alone = tally(group, key)
        assert (ended[row] == alone[0]).all()
        assert (reached[row] == alone[1]).all()
