"""Prometheus metrics at /metrics: queue, cards, decisions, and cards under the names of DCGM.

``Meters`` counts events. A ``MetricsSource`` gives a ``MetricsSnapshot`` at each scrape.
"""

from gpusquad.server.metrics.http import CountRequests
from gpusquad.server.metrics.meters import Meters
from gpusquad.server.metrics.snapshot import MetricsSnapshot, MetricsSource, TenantQueue, snapshot_of

__all__ = ["CountRequests", "Meters", "MetricsSnapshot", "MetricsSource", "TenantQueue", "snapshot_of"]
