"""SLOs as numbers: the attainment predicted at a given speed."""

from __future__ import annotations

from math import inf, log, log1p

from gpusquad.model.squad import GpuClient

_MAX_LOAD = 0.95
"""Queues are not predicted beyond this load: the formula diverges, and so does its error."""
_SMALL = 1e-6
_RARE = 0.01
DEFAULT_TARGET = 0.99
"""A latency target applies to the 99th percentile. 100 % could never be shown, and every miss would raise a weight
permanently."""


def predicted_attainment(client: GpuClient, speed: float) -> float:
    """SLO attainment at this speed: 1 is met, above 1 is the margin. Targets that cannot be predicted do not count.
    Infinite without an SLO."""
    if client.slo is None:
        return inf
    parts = []
    if client.slo.latency_us is not None:
        parts.append(_latency_attainment(client, client.slo.latency_us, speed))
    if client.slo.throughput_per_s:
        seen = client.requests
        solo = max(seen.solo_per_s, seen.active_per_s) if seen is not None else 0.0  # it is no slower alone
        parts.append(speed * solo / client.slo.throughput_per_s if solo > 0 else inf)
    if (needed := deadline_speed(client)) is not None:
        parts.append(speed / needed if needed > 0 else inf)
    return max(0.0, min(parts, default=inf))


def predicted_latency_us(client: GpuClient, speed: float) -> float:
    """99th percentile: the work of a request at that speed, plus the queue that one request in a hundred finds.

    For random arrivals of equal length, a queue of ``x`` times that length is found with a probability of about
    ``load * exp(-decay * x)``. Bursts make it longer, which weights compensate."""
    requests = client.requests
    if requests is None or requests.work_us <= 0:
        return 0.0
    work_us = requests.work_us / max(speed, _SMALL)
    load = min(requests.per_s * work_us / 1e6, _MAX_LOAD)
    return work_us * (1.0 + max(0.0, log(load / _RARE)) / _decay(load)) if load > _RARE else work_us


def deadline_speed(client: GpuClient) -> float | None:
    """Speed that meets the deadline. None: no deadline, or the remaining work is unknown."""
    if client.deadline_in_us is None or client.remaining_us is None:
        return None
    return client.remaining_us / max(client.deadline_in_us, 1)


def target(client: GpuClient) -> float:
    """Attainment to reach: the availability if the SLO has one."""
    if client.slo is not None and client.slo.availability_ratio is not None:
        return client.slo.availability_ratio
    return DEFAULT_TARGET


def misses(client: GpuClient, slack: float = 0.0) -> bool:
    """Whether the measured attainment is below the target by more than ``slack``. Unknown is no miss."""
    return client.attainment is not None and client.attainment < target(client) - slack


def _decay(load: float) -> float:
    """Root of ``load * (exp(x) - 1) = x`` by a few steps of ``x = log(1 + x / load)``, which converge from above."""
    x = 2.0 * (1.0 - load) / load
    for _ in range(8):
        x = log1p(x / load)
    return max(x, _SMALL)


def _latency_attainment(client: GpuClient, target_us: int, speed: float) -> float:
    latency_us = predicted_latency_us(client, speed)
    return target_us / latency_us if latency_us > 0 else inf
