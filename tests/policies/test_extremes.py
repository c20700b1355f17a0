"""Extreme parameter values of policies are refused, or the scheduler works with them.

A policy is stored before it decides, so a value that breaks the cycle would break it again after every restart.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpusquad import registry
from gpusquad.core.driver import Driver
from gpusquad.core.ports import JobSubmitted
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from tests.core.test_dump import make_policies

HOUR_US = 3600 * US_PER_S
GIB = 1 << 30
KINDS = ("order", "plan", "place")
EXTREMES = {"float": ("inf", "1e308", "1e-308", "0", "-1"), "int": ("0", "-1", str(10**15))}
REQUESTS = (Request(gpus=1, cpu_milli=1000), Request(gpus=2), Request(share=Share(4 * GIB, 300), cpu_milli=500))


def _cases() -> list[tuple[str, str]]:
    return [
        (kind, f"{plugin.name}:{parameter.name}={text}")
        for kind in KINDS
        for plugin in registry.describe(kind)
        for parameter in plugin.parameters
        for text in EXTREMES.get(parameter.type, ())
    ]


def _refusal(kind: str, spec: str) -> Invalid | None:
    try:
        registry.create(kind, spec)
    except Invalid as error:
        return error
    return None


def _rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
    return 1.0 / (1 + len(others))


def _submission(number: int) -> JobSubmitted:
    run_us = (1 + number % 3) * HOUR_US
    role = Role("worker", 1 + number % 2, REQUESTS[number % len(REQUESTS)])
    return JobSubmitted(
        Job(f"{number:02}", (role,), app=f"app{number % 2}"), RunTimePrediction(run_us, 2 * run_us, "test")
    )


def _cluster() -> Cluster:
    return Cluster(
        tuple(
            Node(name, tuple(Card(f"{name}/{i}", memory_bytes=16 * GIB) for i in range(2)), 8000, 64 * GIB)
            for name in ("a", "b")
        )
    )


def _schedule(order: str = "fifo", plan: str = "easy", place: str = "binpack") -> None:
    driver = Driver(
        SchedulerState(_cluster(), make_policies(order, plan, place), rate=_rate), lambda now_us, decisions: None
    )
    for number in range(9):
        driver.apply(number, _submission(number))
    for now_us in (10, HOUR_US, 50 * HOUR_US):
        driver.decide(now_us)


def test_every_policy_kind_has_numeric_parameters() -> None:
    assert {kind for kind, _ in _cases()} == set(KINDS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kind", "spec"), _cases())
def test_extreme_parameter_is_refused_or_the_scheduler_works(kind: str, spec: str) -> None:
    refusal = _refusal(kind, spec)
    if refusal is None:
        _schedule(**{kind: spec})
    else:
        assert refusal.field.startswith(f"{kind}.")
        assert refusal.cure
