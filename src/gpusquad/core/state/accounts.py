"""Quotas of tenants, what they hold now, and their decayed usage."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderTenant


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """Quota of a tenant. GPUs are counted as cards used."""

    name: str
    weight: float = 1.0
    guaranteed_gpus: int | None = None
    """GPUs it can always get back: others return what they borrowed within ``reclaim_s``. None: no guarantee."""
    limit_gpus: int | None = None
    """GPUs it may hold at most, borrowed ones included. None: no limit."""
    reclaim_s: float = 300.0

    def __post_init__(self) -> None:
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise Invalid(f"tenant.{self.name}.weight", f"{self.weight!r} is not greater than zero")
        for name in ("guaranteed_gpus", "limit_gpus"):
            if (getattr(self, name) or 0) < 0:
                raise Invalid(f"tenant.{self.name}.{name}", f"{getattr(self, name)} is negative")
        if not self.reclaim_s >= 0:
            raise Invalid(f"tenant.{self.name}.reclaim_s", f"{self.reclaim_s!r} is not a non-negative time")


@dataclass(slots=True)
class TenantUsage:
    """What a tenant holds now and has used."""

    gpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    decayed_gpu_us: float = 0.0
    at_us: int = 0
    """Instant for which ``decayed_gpu_us`` holds."""


class Accounts:
    """Usage of all tenants and lanes."""

    def __init__(self, tenants: dict[str, TenantQuota], gpus: int, cpu_milli: int, memory_bytes: int,
                 half_life_us: int = 7 * 86_400 * US_PER_S) -> None:  # fmt: skip
        self.tenants = tenants
        self.held: dict[str, TenantUsage] = {}
        self.lane_gpus: dict[str, int] = {}
        self._capacity = (gpus, cpu_milli, memory_bytes)
        self.half_life_us = half_life_us

    def tenant(self, name: str) -> TenantQuota:
        if name not in self.tenants:
            self.tenants[name] = TenantQuota(name)
        return self.tenants[name]

    def of(self, name: str) -> TenantUsage:
        if name not in self.held:
            self.held[name] = TenantUsage()
        return self.held[name]

    def change(self, job: Job, gpus: int, lane: str, now_us: int, sign: int) -> None:
        """Account for a gang that starts (+1) or has ended (-1)."""
        held = self.of(job.tenant)
        self._bring_up(held, now_us)
        held.gpus += sign * gpus
        held.cpu_milli += sign * job.cpu_milli
        held.memory_bytes += sign * job.memory_bytes
        self.lane_gpus[lane] = self.lane_gpus.get(lane, 0) + sign * gpus

    def add_past(self, name: str, gpu_us: float, used_us: int, now_us: int) -> None:
        """Add GPU time that the tenant used around an earlier time."""
        held = self.of(name)
        self._bring_up(held, now_us)
        held.decayed_gpu_us += gpu_us * 0.5 ** (max(0, now_us - used_us) / self.half_life_us)

    def view(self, name: str, now_us: int) -> OrderTenant:
        held = self.of(name)
        self._bring_up(held, now_us)
        amounts = (held.gpus, held.cpu_milli, held.memory_bytes)
        dominant = max((a / c for a, c in zip(amounts, self._capacity, strict=True) if c), default=0.0)
        return OrderTenant(name, self.tenant(name).weight, dominant, held.decayed_gpu_us / US_PER_S)

    def under_guarantee(self, job: Job) -> bool:
        """Whether the tenant would still be within its guarantee with this job."""
        guaranteed = self.tenant(job.tenant).guaranteed_gpus
        return guaranteed is not None and self.of(job.tenant).gpus + job.gpus <= guaranteed

    def borrowed(self, name: str) -> int:
        """GPUs held beyond the guarantee (a tenant without one borrows everything)."""
        return max(0, self.of(name).gpus - (self.tenant(name).guaranteed_gpus or 0))

    def _bring_up(self, held: TenantUsage, now_us: int) -> None:
        """Decay the usage and add what was held since ``at_us``, both continuously."""
        passed = now_us - held.at_us
        if passed <= 0:
            return
        left = 0.5 ** (passed / self.half_life_us)
        held.decayed_gpu_us = held.decayed_gpu_us * left + held.gpus * self.half_life_us / math.log(2) * (1 - left)
        held.at_us = now_us
