"""Property tests for the progress predictor with arbitrary reports."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.predict.progress import ProgressPredictor

S = 1_000_000
ANY = st.integers(-(2**70), 2**70)
SENSIBLE = st.integers(0, 10**6)
REPORTS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.one_of(SENSIBLE.map(lambda s: s * S), ANY), st.one_of(SENSIBLE, ANY),
                  st.one_of(st.none(), SENSIBLE, ANY)),
        st.tuples(st.just("slowed"), st.one_of(SENSIBLE.map(lambda s: s * S), ANY), st.floats(), st.none()),
    ),
    max_size=60,
)  # fmt: skip
STEADY = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 600)), min_size=6, max_size=80)
"""Steps and seconds between consecutive reports."""


@st.composite
def priors(draw) -> Quantiles | None:
    if draw(st.booleans()):
        return None
    values = sorted(draw(st.lists(st.integers(0, 2**70), min_size=len(LEVELS), max_size=len(LEVELS))))
    return Quantiles(LEVELS, tuple(values), "history", draw(st.floats(0, 1)))


def predictor_after(reports) -> ProgressPredictor:
    progress = ProgressPredictor()
    for kind, at_us, value, total in reports:
        if kind == "see":
            progress.see(at_us, value, total)
        else:
            progress.slowed(at_us, value)
    return progress


def predictor_after_steps(steps) -> tuple[ProgressPredictor, int, int]:
    progress, at_s, done = ProgressPredictor(), 0, 0
    total = 2 * sum(count for count, _ in steps)
    for count, seconds in steps:
        at_s, done = at_s + seconds, done + count
        progress.see(at_s * S, done, total)
    return progress, at_s * S, total


@given(REPORTS, priors(), ANY, ANY)
def test_answer_is_none_or_has_ascending_non_negative_integers(reports, prior, now_us, started_us):
    answer = predictor_after(reports).remaining(now_us, prior, started_us)
    if answer is None:
        return
    assert answer.levels == LEVELS
    assert all(isinstance(value, int) and value >= 0 for value in answer.values)
    assert all(low <= high for low, high in pairwise(answer.values))
    assert 0 <= answer.confidence <= 1
    assert answer.source == "progress"


@given(REPORTS, priors(), SENSIBLE)
def test_reloaded_predictor_answers_the_same(reports, prior, now_s):
    progress = predictor_after(reports)
    restored = ProgressPredictor.load(json.loads(json.dumps(progress.dump())))
    assert restored.remaining(now_s * S, prior, 0) == progress.remaining(now_s * S, prior, 0)


@given(STEADY, priors())
def test_steady_run_gets_an_answer(steps, prior):
    progress, now_us, _ = predictor_after_steps(steps)
    answer = progress.remaining(now_us, prior, 0)
    assert answer is not None
    assert answer.values[-1] > 0


@given(STEADY)
def test_remaining_does_not_change_the_state(steps):
    progress, now_us, _ = predictor_after_steps(steps)
    before = progress.dump()
    progress.remaining(now_us, None, 0)
    progress.remaining(now_us + 5 * S, None, 0)
    assert progress.dump() == before


@given(STEADY, st.integers(2, 50))
def test_remaining_time_is_proportional_to_the_step_time(steps, factor):
    """Except for parts of constant length: the end of the process and the first seconds."""
    (quick, now_us, _), (slow, late_us, _) = (
        predictor_after_steps(steps),
        predictor_after_steps([(count, factor * s) for count, s in steps]),
    )
    quick_left, slow_left = quick.remaining(now_us, None, 0), slow.remaining(late_us, None, 0)
    assert quick_left is not None
    assert slow_left is not None
    assert abs(slow_left.at(0.5) - factor * quick_left.at(0.5)) <= factor * 2 * S + 0.1 * factor * quick_left.at(0.5)
