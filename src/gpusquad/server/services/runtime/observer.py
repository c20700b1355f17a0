"""Counts and times that the scheduler reports. Metrics implement it."""

from __future__ import annotations


class Observer:
    """Ignores everything."""

    def cycled(self, seconds: float) -> None: ...

    def decided(self, kind: str) -> None: ...

    def started(self, tenant: str, waited_s: float) -> None: ...

    def hung(self, rule: str) -> None: ...

    def forecast_settled(self, error_s: float) -> None: ...
