"""What groups remember of runs: the latest most, cut runs as far as they came, and no more than is allowed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict._bins import COUNT
from gpusquad.predict._groups import RunGroups
from gpusquad.predict._similarity import KINDS, SimilarityKey

EQUAL = SimilarityKey("equal", 0.9999, lambda f: f.owner)
FADING = SimilarityKey("fading", 0.5, lambda f: f.owner)
KEY = ("t", "u")
runs_of = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=15)


def tally(groups: RunGroups, key=KEY) -> tuple[np.ndarray, np.ndarray]:
    ended, reached = np.zeros(COUNT), np.zeros(COUNT)
    groups.tally(key, ended, reached)
    return ended, reached


def group_of(kind: SimilarityKey, runs, most: int = 10) -> RunGroups:
    groups = RunGroups(kind, most)
    for bin_, was_cut in runs:
        groups.learn(KEY, bin_, was_cut)
    return groups


def test_the_product_limit_by_hand():
    """Ends in bins 1, 3, 3 and 5, one cut in bin 3: two of three that went past bin 2 whole ended in 3."""
    ended, reached = tally(group_of(EQUAL, [(1, False), (3, False), (3, True), (5, False), (3, False)]))
    assert ended[:6].round(2).tolist() == [0, 1, 0, 2, 0, 1]
    assert reached[:7].round(2).tolist() == [5, 5, 4, 3, 1, 1, 0]
    surviving = np.cumprod(1 - ended[:6] / np.maximum(reached[:6], 1e-9))
    assert surviving.round(2).tolist() == [1, 0.8, 0.8, 0.27, 0.27, 0]


@given(runs_of)
def test_the_product_limit_counted_one_by_one(runs):
    ended, reached = tally(group_of(EQUAL, runs))
    for bin_ in range(8):
        assert ended[bin_] == pytest.approx(sum(b == bin_ and not cut for b, cut in runs), abs=0.02)
        assert reached[bin_] == pytest.approx(sum(b > bin_ or (b == bin_ and not cut) for b, cut in runs), abs=0.02)


@given(runs_of)
def test_never_more_end_than_come_so_far(runs):
    for kind in (EQUAL, FADING):
        ended, reached = tally(group_of(kind, runs))
        assert (ended <= reached + 1e-9).all()
        assert (reached >= -1e-9).all()


def test_the_latest_weighs_most():
    ended, _ = tally(group_of(FADING, [(1, False), (2, False), (3, False)]))
    assert ended[1:4].tolist() == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_long_stream_is_cut_without_a_jump(kind: SimilarityKey):
    """Old runs are dropped now and then; what is left must weigh about as much as all of them would."""
    groups = RunGroups(kind, 10)
    whole = 1 / (1 - kind.keeps)
    for _ in range(7000):
        groups.learn(KEY, 5, was_cut=False)
    _, reached = tally(groups)
    assert 0.97 * whole <= reached[0] <= whole * 1.001
    assert len(groups.runs[KEY]) < 5000
    assert groups.count(KEY) < 2500


def test_who_was_not_seen_longest_is_forgotten_first():
    groups = RunGroups(FADING, 2)
    for key in ("a", "b", "a", "c"):
        groups.learn((key,), 1, was_cut=False)
    assert list(groups.runs) == [("a",), ("c",)]


def test_nothing_is_known_of_strangers():
    groups = group_of(FADING, [(1, False)])
    assert not any(array.any() for key in (None, ("x",)) for array in tally(groups, key))
    assert (groups.count(None), groups.count(("x",)), groups.count(KEY)) == (0, 0, 1)


@given(runs_of)
def test_kept_as_text_it_says_the_same(runs):
    groups, other = group_of(FADING, runs), RunGroups(FADING, 10)
    other.load(json.loads(json.dumps(groups.dump())))
    assert all((one == two).all() for one, two in zip(tally(groups), tally(other), strict=True))


@pytest.mark.parametrize("runs", [[COUNT], [-COUNT - 1], [10**9], [0] * 10_000, ["x"], [None]])
def test_what_is_no_run_is_not_loaded(runs):
    with pytest.raises((ValueError, TypeError)):
        RunGroups(FADING, 10).load([[["t", "u"], runs]])
