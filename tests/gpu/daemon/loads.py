"""GPU clients for a simulated card."""

from __future__ import annotations

import random

from gpusquad.gpu.daemon.client import GpuClientSpec
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.model.job import Slo
from gpusquad.model.squad import ShareableCard
from tests.gpu.daemon.card_sim import Load, with_remaining

CARD = ShareableCard(groups=15, sms_per_group=8, sms=132)


def curve(needs: float) -> tuple[tuple[int, float], ...]:
    """Speed by share of the SMs: linear up to ``needs``, full speed above."""
    return tuple((milli, min(1.0, milli / 1000 / needs)) for milli in (125, 250, 375, 500, 750, 1000))


def batch(name: str, needs: float = 0.9, kernel_us: float = 100.0, **rest) -> Load:
    return Load(GpuClientSpec(name, curve=curve(needs)), kernel_us=kernel_us, **rest)


def mix(seed: int, count: int = 5) -> tuple[list[Load], TableRates]:
    """Jobs of very different lengths that arrive within 50 ms, and their interference."""
    dice = random.Random(seed)
    loads = [
        with_remaining(
            batch(
                f"t{index}",
                dice.uniform(0.3, 1.0),
                dice.uniform(30.0, 300.0),
                work_us=5000 * 60 ** dice.random(),
                start_us=dice.randrange(50_000),
            )
        )
        for index in range(count)
    ]
    names = [load.facts.id for load in loads]
    return loads, TableRates({(a, b): dice.uniform(0.05, 0.6) for a in names for b in names if a != b})


def poisson(per_s: float, until_us: int, seed: int) -> tuple[int, ...]:
    dice, at_us, arrivals = random.Random(seed), 0.0, []
    while (at_us := at_us + dice.expovariate(per_s / 1e6)) < until_us:
        arrivals.append(int(at_us))
    return tuple(arrivals)


def inference(until_us: int, target_us: int, per_s: float = 60.0, seed: int = 3) -> Load:
    """A service with requests of 100 kernels, each 3 ms alone."""
    facts = GpuClientSpec("infer", slo=Slo(latency_us=target_us), curve=curve(0.4), work_us=3000.0)
    return Load(facts, kernel_us=30.0, request_kernels=100, arrivals_us=poisson(per_s, until_us, seed), gap_us=5.0)


TRAIN = ("train", "train more")
BESIDE = TableRates({pair: rho for name in TRAIN for pair, rho in ((("infer", name), 0.5), ((name, "infer"), 0.3))})
