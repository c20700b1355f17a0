"""Converts a snapshot to metrics, at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpusquad.core.transitions import JobState
from gpusquad.server.answers import CardState, CardStatus
from gpusquad.server.metrics.cards import card_families
from gpusquad.server.metrics.labels import BoundedLabels
from gpusquad.server.metrics.snapshot import MetricsSnapshot, MetricsSource, TenantQueue


class SnapshotCollector(Collector):
    """Asks the source. If that fails, counters are still served, and one metric reports it."""

    def __init__(self, source: MetricsSource, tenants: BoundedLabels) -> None:
        self._source = source
        self._tenants = tenants

    def collect(self) -> Iterable[Metric]:
        try:
            snapshot = self._source.metrics_snapshot()
        except Exception:  # a scrape must not fail with the store or the scheduler
            yield _answers(0)
            return
        yield _answers(1)
        yield from _families(snapshot, self._tenants)


def _answers(value: int) -> Metric:
    text = "Whether queue and cards could be read for this scrape."
    return GaugeMetricFamily("gpusquad_snapshot_up", text, value=value)


def _families(snapshot: MetricsSnapshot, tenants: BoundedLabels) -> Iterable[Metric]:
    jobs = {str(state): snapshot.jobs.get(state, 0) for state in JobState}
    yield _gauge("gpusquad_jobs", "Stored jobs, by state.", "state", jobs)
    yield from _queues(_by_label(snapshot.queues, tenants))
    yield _gauge("gpusquad_gpus", "GPUs, by state.", "state", _card_states(snapshot.cards))
    text = "Free GPUs that gangs of this size on one node could use now; the rest is fragmented."
    usable = {str(size): size * gangs for size, gangs in sorted(snapshot.usable.items())}
    yield _gauge("gpusquad_usable_gang_gpus", text, "size", usable)
    yield from card_families(snapshot.cards)


def _queues(queues: Mapping[str, TenantQueue]) -> Iterable[Metric]:
    depths = {tenant: queue.depth for tenant, queue in queues.items()}
    yield _gauge("gpusquad_queue_depth", "Pending jobs, by tenant.", "tenant", depths)
    ages = {tenant: queue.oldest_s for tenant, queue in queues.items()}
    text = "Waiting time of the oldest pending job, by tenant."
    yield _gauge("gpusquad_oldest_pending_seconds", text, "tenant", ages)


def _card_states(cards: Iterable[CardStatus]) -> Mapping[str, int]:
    counts: dict[str, int] = dict.fromkeys(get_args(CardState), 0)
    for card in cards:
        counts[card.state] += 1
    return counts


def _by_label(queues: Mapping[str, TenantQueue], tenants: BoundedLabels) -> Mapping[str, TenantQueue]:
    result: dict[str, TenantQueue] = {}
    for tenant, queue in sorted(queues.items()):
        label = tenants.of(tenant)
        so_far = result.get(label, TenantQueue(0, 0.0))
        result[label] = TenantQueue(so_far.depth + queue.depth, max(so_far.oldest_s, queue.oldest_s))
    return result


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
