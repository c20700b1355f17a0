"""What the scheduler lets others count. Metrics implement it; by default nobody listens."""

from __future__ import annotations


class Observer:
    """Counts nothing."""

    def cycled(self, seconds: float) -> None: ...

    def decided(self, kind: str) -> None: ...

    def started(self, tenant: str, waited_s: float) -> None: ...

    def hung(self, rule: str) -> None: ...

    def forecast_settled(self, error_s: float) -> None: ...
