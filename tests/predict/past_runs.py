"""Jobs and runs of the past for the predictors: ordinary ones by hand, and the strangest that the model allows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any, get_args

from hypothesis import strategies as st

from gpusquad.model.job import Job, OfflineEstimate, Request, Role, Share
from gpusquad.model.prediction import How, PastRun, Quantiles

S = 1_000_000
HOUR = 3600 * S
_numbers = count()


def job(user: str = "ana", *, gpus: int = 1, estimate_s: float | None = None, at_s: float = 0, **rest: Any) -> Job:
    """A new one each time."""
    estimate_us = None if estimate_s is None else round(estimate_s * S)
    roles = (Role("w", gpus, Request(gpus=1)),)
    return Job(f"j{next(_numbers)}", roles, round(at_s * S), user=user, estimate_us=estimate_us, **rest)


def ran(one: Job, run_s: float, how: How = "succeeded", ended_s: float = 0) -> PastRun:
    return PastRun(one, round(run_s * S), round(ended_s * S), how)


def learned(predictor: Any, lengths_s: Iterable[float], **of_job: Any) -> Any:
    """The predictor, after such runs, each foretold before."""
    for run_s in lengths_s:
        one = job(**of_job)
        predictor.predict(one)
        predictor.learn(ran(one, run_s))
    return predictor


def is_sound(found: Quantiles) -> None:
    """Levels grow, values never fall and are above zero: what every user of a prediction relies on."""
    assert list(found.levels) == sorted(set(found.levels))
    assert list(found.values) == sorted(found.values)
    assert found.values[0] >= 1
    assert all(isinstance(value, int) for value in found.values)
    assert 0 <= found.confidence <= 1


def kept(predictor: Any, other: Any) -> Any:
    """Put away and taken out again, by way of text."""
    other.load(json.loads(json.dumps(predictor.dump(), allow_nan=False)))
    return other


# -- whatever the model allows ---------------------------------------------------------------------------------------

times_us = st.one_of(st.integers(0, 100), st.integers(0, 10**11), st.integers(0, 1 << 62))
texts = st.text(max_size=12) | st.sampled_from(
    ["", "train-lr0.1-run7", "TRAIN-LR0.2-RUN8", "9" * 300, "İıß\u0000\ud800", "日本"]
)
requests = st.sampled_from([Request(gpus=1), Request(gpus=8), Request(cpu_milli=1000), Request(share=Share(1, 0))])
expectations = st.one_of(
    st.none(),
    st.builds(OfflineEstimate, run_us=times_us),
    st.builds(OfflineEstimate, by_gpus=st.just(((1, 5 * S), (8, 0)))),
    st.builds(OfflineEstimate, memory_bytes=st.just(1)),
)


@st.composite
def strange_jobs(draw: st.DrawFn) -> Job:
    return Job(
        f"j{draw(st.integers(0, 5))}",
        (Role("w", draw(st.integers(1, 3)), draw(requests)),),
        draw(times_us),
        name=draw(texts),
        tenant=draw(st.sampled_from(["a", "b", ""])),
        user=draw(st.sampled_from(["", "x", "y\ud800"])),
        app=draw(texts),
        command=draw(texts),
        estimate_us=draw(st.none() | times_us),
        limit_us=draw(st.none() | times_us),
        expected=draw(expectations),
    )


strange_runs = st.builds(PastRun, strange_jobs(), times_us, times_us, st.sampled_from(get_args(How)))
happenings = st.lists(
    st.one_of(
        strange_runs,
        strange_jobs(),
        st.tuples(strange_jobs(), times_us),
    ),
    max_size=12,
)


def live_through(predictor: Any, things: Iterable[Any]) -> None:
    """Asked of a job, told of a start, told of an end: in any order."""
    for thing in things:
        if isinstance(thing, PastRun):
            predictor.learn(thing)
        elif isinstance(thing, Job):
            is_sound(predictor.predict(thing))
        else:
            predictor.begin(*thing)
