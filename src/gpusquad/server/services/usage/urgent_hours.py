"""Urgent GPU-hours: what runs with priorities above high used in the last 30 days."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from sqlalchemy import Connection

from gpusquad.model.units import US_PER_S
from gpusquad.store import attempts

WINDOW_DAYS = 30
_S_PER_HOUR = 3600
_HOUR_US = _S_PER_HOUR * US_PER_S
_WINDOW_HOURS = 24 * WINDOW_DAYS


def used_hours(c: Connection, now_us: int, tenants: Collection[str] | None = None) -> dict[str, float]:
    """Hours by tenant; 0 for tenants left out. Running attempts count up to now."""
    return _used(c, now_us - _WINDOW_HOURS * _HOUR_US, now_us, tenants)


def falls_below_us(c: Connection, tenant: str, hours: float, now_us: int) -> int | None:
    """Time, in whole hours from now, at which the tenant has used less than ``hours`` if no urgent job runs until then.
    None: never."""

    def is_below(wait_hours: int) -> bool:
        since_us = now_us + (wait_hours - _WINDOW_HOURS) * _HOUR_US
        return _used(c, since_us, now_us, (tenant,)).get(tenant, 0.0) < hours

    wait_hours = bisect_left(range(_WINDOW_HOURS + 1), True, key=is_below)
    return None if wait_hours > _WINDOW_HOURS else now_us + wait_hours * _HOUR_US


def _used(c: Connection, since_us: int, now_us: int, tenants: Collection[str] | None) -> dict[str, float]:
    rows = attempts.usage(c, "tenant", since_us, now_us, now_us, tenants, urgent=True)
    return {row.key: row.gpu_s / _S_PER_HOUR for row in rows}
