"""Metrics as Prometheus reads them: families by name, with their samples."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpusquad.server.answers import CardStatus, CardUser
from gpusquad.server.metrics import Meters, MetricsSnapshot, TenantQueue

NOW_US = 1_700_000_000_000_000
MIB = 2**20


def card(index: int = 0, state="busy", jobs=(), sample=None, cause="") -> CardStatus:
    """Create a card, by default without a sample."""
    return CardStatus(f"GPU-{index}", "node1", index, "NVIDIA H200", 1000 * MIB, state, cause, jobs, sample)


SAMPLE = {
    "utilisation_ratio": 0.5, "memory_used_bytes": 250 * MIB, "power_w": 321.5, "temperature_c": 60.0,
    "sm_clock_mhz": 1980, "memory_clock_mhz": 3201,
}  # fmt: skip
ANN = CardUser("01J0", "train", "ann", "vision")


def full_snapshot() -> MetricsSnapshot:
    """Create a snapshot with a value for every metric."""
    return MetricsSnapshot(
        {"pending": 3, "running": 1}, {"vision": TenantQueue(3, 90.0)}, [card(jobs=(ANN,), sample=SAMPLE)], {1: 7, 4: 1}
    )


class Source:
    """Returns a snapshot, or raises an error."""

    def __init__(self, answer: MetricsSnapshot | Exception) -> None:
        self.answer = answer

    def metrics_snapshot(self) -> MetricsSnapshot:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def used_meters(answer: MetricsSnapshot | Exception | None = None) -> Meters:
    """Create meters with a value for every metric."""
    meters = Meters(lambda: NOW_US, Source(full_snapshot() if answer is None else answer))
    meters.cycled(0.02)
    meters.decided("start")
    meters.decided("preempt")
    meters.started("vision", 42.0)
    meters.mode_chosen("slo")
    meters.hung("silent")
    meters.forecast_settled(-30.0)
    meters.head_started(12.0)
    meters.notice("dead")
    meters.request("GET", "/api/v1/jobs/{id}", 200, 0.01)
    return meters


def families(meters: Meters) -> dict[str, list[Sample]]:
    """Return the samples by family name."""
    text = meters.render()[0].decode()
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def values(meters: Meters, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of one name by their label values."""
    found = [sample for samples in families(meters).values() for sample in samples if sample.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in found}
