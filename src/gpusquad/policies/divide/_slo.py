"""Goals as numbers: how far a speed would meet them."""

from __future__ import annotations

from math import inf, log, log1p

from gpusquad.model.squad import GpuClient

_BUSY = 0.95
"""Queues are not foretold beyond this load: the formula runs to infinity and so does its error."""
_SOME = 1e-6
_RARE = 0.01
USUAL_TARGET = 0.99
"""A latency target is one of the 99th percentile. All requests in time could never be shown, and every miss would raise
a weight for good."""


def predicted_attainment(client: GpuClient, speed: float) -> float:
    """How far the goals would be met at this speed: 1 fully, above it with that much to spare. What nothing is known of
    does not count; without goals there is no end to spare."""
    if client.slo is None:
        return inf
    parts = []
    if client.slo.latency_us is not None:
        parts.append(_latency_part(client, client.slo.latency_us, speed))
    if client.slo.throughput_per_s:
        seen = client.requests
        solo = max(seen.solo_per_s, seen.active_per_s) if seen is not None else 0.0  # it does no less alone
        parts.append(speed * solo / client.slo.throughput_per_s if solo > 0 else inf)
    if (needed := deadline_speed(client)) is not None:
        parts.append(speed / needed if needed > 0 else inf)
    return max(0.0, min(parts, default=inf))


def predicted_latency_us(client: GpuClient, speed: float) -> float:
    """The 99th percentile: the work of a request at that speed, and the queue in front of it that one in a hundred
    finds. For requests that come at random and take the same time, a queue of ``x`` times that is found with
    probability ``load * exp(-decay * x)`` nearly; bursts make it longer, which weights have to make good."""
    requests = client.requests
    if requests is None or requests.work_us <= 0:
        return 0.0
    work_us = requests.work_us / max(speed, _SOME)
    load = min(requests.per_s * work_us / 1e6, _BUSY)
    return work_us * (1.0 + max(0.0, log(load / _RARE)) / _decay(load)) if load > _RARE else work_us


def deadline_speed(client: GpuClient) -> float | None:
    if client.deadline_in_us is None or client.remaining_us is None:
        return None
    return client.remaining_us / max(client.deadline_in_us, 1)


def target(client: GpuClient) -> float:
    """Which attainment is asked for: the availability where one is named."""
    if client.slo is not None and client.slo.availability_ratio is not None:
        return client.slo.availability_ratio
    return USUAL_TARGET


def _decay(load: float) -> float:
    """Where ``load * (exp(x) - 1) = x``: a few steps of ``x = log(1 + x / load)``, which close in from above."""
    x = 2.0 * (1.0 - load) / load
    for _ in range(8):
        x = log1p(x / load)
    return max(x, _SOME)


def _latency_part(client: GpuClient, target_us: int, speed: float) -> float:
    latency_us = predicted_latency_us(client, speed)
    return target_us / latency_us if latency_us > 0 else inf
