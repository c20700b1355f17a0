"""Tests that a user does not gain by running many short jobs so that long ones are predicted to be short.

The simulated small cluster has honest users and an attacker, whose long jobs follow short ones or not. Everything else
is equal to the microsecond, so the short jobs cause any difference in waiting times.
"""

from __future__ import annotations

import random
from math import exp
from statistics import mean

import pytest

from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate
from gpusquad.sim.traces import TraceJob

S = 1_000_000
HOUR_S = 3600.0
DAYS = 7
SEEDS = range(5)
CARDS = (1, 1, 2, 4, 8)
LEARNING_JOBS = 4
"""Number of long jobs after which the predictor has learned the pattern."""


def trace_row(
    at_s: float, tenant: str, user: str, run_s: float, cards: int, estimate_s: float | None, kind: str
) -> tuple:
    return at_s, tenant, user, run_s, cards, estimate_s, kind


def honest_jobs(seed: int, estimates: bool) -> list[tuple]:
    """Jobs of twelve users of four tenants, each with a usual run time. The cards are busy 80 % of the time."""
    rng = random.Random(seed)
    users = [(f"t{n % 4}", f"u{n}", exp(rng.gauss(7.3, 1.0))) for n in range(12)]
    work_s = mean(_run_time_s(rng, usual) * rng.choice(CARDS) for _, _, usual in users * 50)
    rows, at_s = [], 0.0
    while at_s < DAYS * 24 * HOUR_S:
        at_s += rng.expovariate(16 * 0.8 / work_s)
        tenant, user, usual = rng.choice(users)
        run_s, cards = _run_time_s(rng, usual), rng.choice(CARDS)
        estimate_s = min(24 * HOUR_S, HOUR_S * max(1, round(run_s * rng.uniform(1.5, 6) / HOUR_S)))
        rows.append(trace_row(at_s, tenant, user, run_s, cards, estimate_s if estimates else None, "honest"))
    return rows


def _run_time_s(rng: random.Random, usual_s: float) -> float:
    return min(18 * HOUR_S, usual_s * exp(rng.gauss(0, 1.2)))


def attacker_jobs(seed: int, estimates: bool, poisons: bool) -> list[tuple]:
    """Six hours on four cards about every ten hours. ``poisons``: with ten runs of at most a minute before each."""
    rng, short_rng = random.Random(seed + 100), random.Random(seed + 200)
    estimate_s = 12 * HOUR_S if estimates else None
    rows, at_s = [], 24 * HOUR_S
    while at_s < DAYS * 24 * HOUR_S:
        at_s += rng.expovariate(1 / (10 * HOUR_S))
        rows.append(trace_row(at_s, "evil", "mal", 6 * HOUR_S * rng.uniform(0.8, 1.2), 4, estimate_s, "long"))
        for _ in range(10 if poisons else 0):
            before_s = short_rng.uniform(600, 4 * HOUR_S)
            rows.append(trace_row(at_s - before_s, "evil", "mal", short_rng.uniform(20, 60), 4, estimate_s, "short"))
    return rows


def waits_h(mode_name: str, rows: list[tuple], predictor: str) -> dict[str, list[float]]:
    """Waiting times in hours by kind of job, in order of submission."""
    jobs = [
        TraceJob(
            Job(f"j{n}", (Role("w", cards, Request(gpus=1)),), round(at_s * S), name="train", tenant=tenant, user=user,
                estimate_us=None if estimate_s is None else round(estimate_s * S)),
            round(run_s * S), workload=kind,
        )
        for n, (at_s, tenant, user, run_s, cards, estimate_s, kind) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]  # fmt: skip
    mode = load_mode(mode_name)
    feed = PredictorFeed(predictor, mode.uses)
    result = simulate(Scenario(grid("4x4"), jobs, mode.policies(), **feed.parts()))
    waits: dict[str, list[float]] = {"long": [], "short": [], "honest": []}
    for row, outcome in zip(jobs, result.outcomes, strict=True):
        assert outcome.wait_us is not None
        waits[row.workload].append(outcome.wait_us / S / HOUR_S)
    return waits


def wait_ratios(mode: str, estimates: bool, predictor: str = "combined") -> dict[str, float]:
    """Mean waiting time with the short jobs over that without them, for all seeds."""
    clean, poisoned = (
        [
            waits_h(mode, honest_jobs(seed, estimates) + attacker_jobs(seed, estimates, poisons), predictor)
            for seed in SEEDS
        ]
        for poisons in (False, True)
    )
    return {
        "long": _mean(poisoned, "long", LEARNING_JOBS) / _mean(clean, "long", LEARNING_JOBS),
        "honest": _mean(poisoned, "honest") / _mean(clean, "honest"),
    }


def _mean(results: list[dict[str, list[float]]], kind: str, skip: int = 0) -> float:
    return mean(wait for result in results for wait in result[kind][skip:])


CASES = [(mode, estimates) for mode in ("predictive", "predictive-fifo") for estimates in (True, False)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def ratios(request: pytest.FixtureRequest) -> dict[str, float]:
    """Ratios of one case. The tests of a case run one after the other, so that it is simulated once."""
    return wait_ratios(*request.param)


def test_attacker_gains_nothing_from_short_jobs(ratios: dict[str, float]):
    assert ratios["long"] > 0.85


def test_other_users_do_not_wait_longer(ratios: dict[str, float]):
    assert ratios["honest"] < 1.15


def test_attacker_would_gain_without_the_overrun_correction():
    """Otherwise the tests above would prove nothing."""
    assert wait_ratios("predictive", False, "combined:honest=false")["long"] < 0.5
