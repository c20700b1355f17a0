"""Whoever runs many jobs that end at once, so that long ones look short, must not gain by it.

In virtual time on a small cluster: honest users, and one whose long jobs come with or without short ones before them.
Everything else is the same to the microsecond, so what differs is what the short ones bought.
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
LEARNED = 4
"""After so many long jobs the predictor has seen what is going on."""


def trace(at_s: float, tenant: str, user: str, run_s: float, cards: int, estimate_s: float | None, kind: str) -> tuple:
    return at_s, tenant, user, run_s, cards, estimate_s, kind


def honest(seed: int, estimates: bool) -> list[tuple]:
    """Twelve users of four tenants, each with a usual length; the cards are busy four fifths of the time."""
    dice = random.Random(seed)
    users = [(f"t{n % 4}", f"u{n}", exp(dice.gauss(7.3, 1.0))) for n in range(12)]
    work_s = mean(_length_s(dice, usual) * dice.choice(CARDS) for _, _, usual in users * 50)
    rows, at_s = [], 0.0
    while at_s < DAYS * 24 * HOUR_S:
        at_s += dice.expovariate(16 * 0.8 / work_s)
        tenant, user, usual = dice.choice(users)
        run_s, cards = _length_s(dice, usual), dice.choice(CARDS)
        said_s = min(24 * HOUR_S, HOUR_S * max(1, round(run_s * dice.uniform(1.5, 6) / HOUR_S)))
        rows.append(trace(at_s, tenant, user, run_s, cards, said_s if estimates else None, "honest"))
    return rows


def _length_s(dice: random.Random, usual_s: float) -> float:
    return min(18 * HOUR_S, usual_s * exp(dice.gauss(0, 1.2)))


def attacker(seed: int, estimates: bool, poisons: bool) -> list[tuple]:
    """Six hours on four cards every ten hours or so; ten runs of less than a minute in the hours before each."""
    dice, other_dice = random.Random(seed + 100), random.Random(seed + 200)
    said_s = 12 * HOUR_S if estimates else None
    rows, at_s = [], 24 * HOUR_S
    while at_s < DAYS * 24 * HOUR_S:
        at_s += dice.expovariate(1 / (10 * HOUR_S))
        rows.append(trace(at_s, "evil", "mal", 6 * HOUR_S * dice.uniform(0.8, 1.2), 4, said_s, "long"))
        for _ in range(10 if poisons else 0):
            before_s = other_dice.uniform(600, 4 * HOUR_S)
            rows.append(trace(at_s - before_s, "evil", "mal", other_dice.uniform(20, 60), 4, said_s, "short"))
    return rows


def waits_h(mode_name: str, rows: list[tuple], predictor: str) -> dict[str, list[float]]:
    """By kind, in the order they came."""
    jobs = [
        TraceJob(
            Job(f"j{n}", (Role("w", cards, Request(gpus=1)),), round(at_s * S), name="train", tenant=tenant, user=user,
                estimate_us=None if estimate_s is None else round(estimate_s * S)),
            round(run_s * S), workload=kind,
        )
        for n, (at_s, tenant, user, run_s, cards, estimate_s, kind) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]  # fmt: skip
    mode = load_mode(mode_name)
    predicting = PredictorFeed(predictor, mode.uses)
    result = simulate(Scenario(grid("4x4"), jobs, mode.policies(), **predicting.parts()))
    waits: dict[str, list[float]] = {"long": [], "short": [], "honest": []}
    for row, outcome in zip(jobs, result.outcomes, strict=True):
        assert outcome.wait_us is not None
        waits[row.workload].append(outcome.wait_us / S / HOUR_S)
    return waits


def compared(mode: str, estimates: bool, predictor: str = "combined") -> dict[str, float]:
    """Mean waits over the seeds, with the short jobs in parts of without them."""
    clean, poisoned = (
        [waits_h(mode, honest(seed, estimates) + attacker(seed, estimates, poisons), predictor) for seed in SEEDS]
        for poisons in (False, True)
    )
    return {
        "long": _mean(poisoned, "long", LEARNED) / _mean(clean, "long", LEARNED),
        "honest": _mean(poisoned, "honest") / _mean(clean, "honest"),
    }


def _mean(results: list[dict[str, list[float]]], kind: str, skip: int = 0) -> float:
    return mean(wait for result in results for wait in result[kind][skip:])


CASES = [(mode, estimates) for mode in ("predictive", "predictive-fifo") for estimates in (True, False)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def ratios(request: pytest.FixtureRequest) -> dict[str, float]:
    """Of one case. Tests of one case run one after the other, so that it is simulated once."""
    return compared(*request.param)


def test_the_attacker_gains_nothing(ratios: dict[str, float]):
    assert ratios["long"] > 0.85


def test_the_others_do_not_pay(ratios: dict[str, float]):
    assert ratios["honest"] < 1.15


def test_without_the_measure_it_would_pay():
    """Else the tests above would show nothing."""
    assert compared("predictive", False, "combined:honest=false")["long"] < 0.5
