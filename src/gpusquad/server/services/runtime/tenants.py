"""Tenants for the scheduler: read at start, and again when they change."""

from __future__ import annotations

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.store import people
from gpusquad.store.database import Database
from gpusquad.store.people import TenantRow


class TenantCache:
    """Cache of the tenants table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tenants: dict[str, TenantRow] = {}
        self.version = 0
        """Number of reloads."""

    def reload(self) -> None:
        with self._database.read() as connection:
            self._tenants = {row.name: row for row in people.tenants(connection)}
        self.version += 1

    def get(self, tenant: str) -> TenantRow | None:
        return self._tenants.get(tenant)

    def known(self, tenant: str) -> bool:
        return tenant in self._tenants

    def names(self) -> list[str]:
        return sorted(self._tenants)

    def most_unfinished(self, tenant: str) -> int | None:
        row = self._tenants.get(tenant)
        return row.max_pending if row else None

    def stops_hung(self, tenant: str) -> bool:
        row = self._tenants.get(tenant)
        return row is None or row.on_hang == "stop"

    def urgent_budgets(self) -> dict[str, float]:
        """Urgent GPU-hours by tenant, of those with a budget."""
        tenants = self._tenants.values()
        return {row.name: row.urgent_gpu_hours for row in tenants if row.urgent_gpu_hours is not None}

    def weight(self, tenant: str) -> float:
        row = self._tenants.get(tenant)
        return row.weight if row is not None else 1.0

    def run_as(self, tenant: str) -> tuple[int, int] | None:
        row = self._tenants.get(tenant)
        if row is None or not row.run_as:
            return None
        user, _, group = row.run_as.partition(":")
        return int(user), int(group or user)

    def for_core(self) -> tuple[TenantQuota, ...]:
        return tuple(
            TenantQuota(row.name, row.weight, row.guaranteed_gpus, row.limit_gpus, row.reclaim_s)
            for row in self._tenants.values()
        )
