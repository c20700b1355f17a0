"""Jobs and past runs for predictor tests: plain ones, and Hypothesis strategies for any that the model allows."""

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
    """A job with a new ID."""
    estimate_us = None if estimate_s is None else round(estimate_s * S)
    roles = (Role("w", gpus, Request(gpus=1)),)
    return Job(f"j{next(_numbers)}", roles, round(at_s * S), user=user, estimate_us=estimate_us, **rest)


def past_run(of_job: Job, run_s: float, how: How = "succeeded", ended_s: float = 0) -> PastRun:
    return PastRun(of_job, round(run_s * S), round(ended_s * S), how)


def trained_on(predictor: Any, lengths_s: Iterable[float], **job_fields: Any) -> Any:
    """The predictor after it has predicted and then learned a run of each length."""
    for run_s in lengths_s:
        new_job = job(**job_fields)
        predictor.predict(new_job)
        predictor.learn(past_run(new_job, run_s))
    return predictor


def assert_valid(quantiles: Quantiles) -> None:
    """Checks what users of a prediction rely on: ascending levels, and positive values that never decrease."""
    assert list(quantiles.levels) == sorted(set(quantiles.levels))
    assert list(quantiles.values) == sorted(quantiles.values)
    assert quantiles.values[0] >= 1
    assert all(isinstance(value, int) for value in quantiles.values)
    assert 0 <= quantiles.confidence <= 1


def reloaded(predictor: Any, other: Any) -> Any:
    """``other`` after it has loaded the state of ``predictor`` from JSON text."""
    other.load(json.loads(json.dumps(predictor.dump(), allow_nan=False)))
    return other


# -- anything the model allows ---------------------------------------------------------------------------------------

times_us = st.one_of(st.integers(0, 100), st.integers(0, 10**11), st.integers(0, 1 << 62))
texts = st.text(max_size=12) | st.sampled_from(
    ["", "train-lr0.1-run7", "TRAIN-LR0.2-RUN8", "9" * 300, "İıß\u0000\ud800", "日本"]
)
requests = st.sampled_from([Request(gpus=1), Request(gpus=8), Request(cpu_milli=1000), Request(share=Share(1, 0))])
offline_estimates = st.one_of(
    st.none(),
    st.builds(OfflineEstimate, run_us=times_us),
    st.builds(OfflineEstimate, by_gpus=st.just(((1, 5 * S), (8, 0)))),
    st.builds(OfflineEstimate, memory_bytes=st.just(1)),
)


@st.composite
def arbitrary_jobs(draw: st.DrawFn) -> Job:
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
        expected=draw(offline_estimates),
    )


arbitrary_runs = st.builds(PastRun, arbitrary_jobs(), times_us, times_us, st.sampled_from(get_args(How)))
predictor_events = st.lists(
    st.one_of(
        arbitrary_runs,
        arbitrary_jobs(),
        st.tuples(arbitrary_jobs(), times_us),
    ),
    max_size=12,
)


def feed_events(predictor: Any, events: Iterable[Any]) -> None:
    """Predicts jobs and reports starts and ends to the predictor, in any order."""
    for event in events:
        if isinstance(event, PastRun):
            predictor.learn(event)
        elif isinstance(event, Job):
            assert_valid(predictor.predict(event))
        else:
            predictor.begin(*event)
