"""The pairs that a place policy chooses for eight jobs on four cards, given measured rates on virtual cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from bench.card.rows import Row
from bench.card.virtual import CARDS, KINDS, Pairing, job_name
from gpusquad.core.cycle import cycle
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.colocation import pairs_of
from gpusquad.sim.slowdown import by_pairs

_T_US = 3600 * 10**6
_NODE_BYTES = 1 << 42
_LEAST_RATE = 0.01


def pairing_by(spec: str, known: Row, by_pairing: Mapping[Pairing, Sequence[Row]]) -> Pairing:
    """Jobs come in the order in which the place ranks those that arrive together."""
    kinds = KINDS[: len(known["workloads"])]
    measured = measured_of(known, by_pairing)
    rate = by_pairs(pairs_of(measured))
    policies = make_policies("fifo", "easy", spec)
    jobs = [_job(workload, copy, measured) for workload in kinds for copy in range(2)]
    told = (rate, measured.setting.gpu) if spec.startswith("interference") else ()
    bytes_of = {solo.workload: solo.memory_bytes for solo in measured.solos}
    cards = tuple(Card(f"gpu{i}", measured.setting.gpu, 2 * max(*bytes_of.values(), 1)) for i in range(CARDS))
    state = SchedulerState(Cluster((Node("card", cards, 64_000, _NODE_BYTES),)), policies, rate=rate)
    for job in policies.place.rank(jobs, *told):
        state.enqueue(job, RunTimePrediction(_T_US, _T_US, "exact"))
    cycle(state, 0)
    shared = [sorted(kinds.index(job.app) for job in sharers) for sharers in state.space.sharers.values()]
    if sorted(map(len, shared)) != [2] * CARDS:
        raise ValueError(f"{spec} did not make four pairs: {shared}")
    return tuple(sorted((one, other) for one, other in shared))


def measured_of(known: Row, by_pairing: Mapping[Pairing, Sequence[Row]]) -> MeasurementSeries:
    """Rate of a job beside another on its virtual card, from all runs in which they shared one.

    Both run from the start until the first has ended; the other then has the card alone. The first one's rate is its
    solo time over its time, and the other's follows from its remaining work.
    """
    kinds = KINDS[: len(known["workloads"])]
    seen: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for rows in by_pairing.values():
        for row in rows:
            for pair, rates in _rates(row):
                seen.setdefault(pair, []).append(rates)
    solos = tuple(
        SoloMeasurement(workload, _exactly(known["per_s"][job_name(kind, 0)]), memory_bytes=_bytes(known, kind),
             utilisation_ratio=_busy(known, kind), bandwidth_ratio=_counted(known, kind).get("dram", 0.0))
        for kind, workload in enumerate(kinds)
    )  # fmt: skip
    runs = tuple(
        CoRun((kinds[one], kinds[other]), (1000, 1000),
              (_exactly(mean(rates[0] for rates in of_it)), _exactly(mean(rates[1] for rates in of_it))))
        for (one, other), of_it in seen.items()
    )  # fmt: skip
    return MeasurementSeries(MeasurementSetting("virtual", "", "mps", None), 0, solos, runs)


def _rates(row: Row) -> list[tuple[tuple[int, int], tuple[float, float]]]:
    by_card: dict[int, list[str]] = {}
    for name, card in row["cards"].items():
        by_card.setdefault(card, []).append(name)
    found = []
    for names in by_card.values():
        one, other = sorted(names)
        rates = pair_rates(
            [row["ends_s"][name] for name in (one, other)], [row["alone_s"][name] for name in (one, other)]
        )
        found.append(((KINDS.index(one[0]), KINDS.index(other[0])), rates))
    return found


def pair_rates(ends_s: Sequence[float], alone_s: Sequence[float]) -> tuple[float, float]:
    """Speeds while both ran."""
    first = 0 if ends_s[0] <= ends_s[1] else 1
    last = 1 - first
    rates = [0.0, 0.0]
    rates[first] = alone_s[first] / ends_s[first]
    left_s = ends_s[last] - ends_s[first]
    rates[last] = max(_LEAST_RATE, (alone_s[last] - left_s) / ends_s[first])
    return rates[0], rates[1]


def _exactly(value: float) -> ConfidenceInterval:
    return ConfidenceInterval(value, value, value)


def _bytes(known: Row, kind: int) -> int:
    return int(known["memory_bytes"].get(job_name(kind, 0)) or 0) or 10**9


def _counted(known: Row, kind: int) -> dict[str, float]:
    return known.get("counters", {}).get(job_name(kind, 0)) or {}


def _busy(known: Row, kind: int) -> float:
    """Utilisation of a virtual card's SMs, while the physical card counts all SMs. Without counters, one half for every
    job."""
    sm = _counted(known, kind).get("sm")
    return min(1.0, sm / known["part"]) if sm else 0.5


def _job(workload: str, copy: int, measured: MeasurementSeries) -> Job:
    solo = next(one for one in measured.solos if one.workload == workload)
    profile = Profile(solo.utilisation_ratio, solo.memory_bytes, solo.bandwidth_ratio, "measured")
    request = Request(share=Share(solo.memory_bytes, 500))
    return Job(f"{workload}-{copy}", (Role("main", 1, request),), app=workload, profile=profile, estimate_us=_T_US)
