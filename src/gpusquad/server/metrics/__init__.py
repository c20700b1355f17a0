"""What Prometheus reads at /metrics: the queue, the cards, the decisions, and the cards again under the names of DCGM.

``Meters`` counts what happens as it happens. A ``MetricsSource`` is asked for a ``Snapshot`` at each scrape.
"""

from gpusquad.server.metrics.http import CountRequests
from gpusquad.server.metrics.meters import Meters
from gpusquad.server.metrics.snapshot import MetricsSnapshot, MetricsSource, TenantQueue, snapshot_of

__all__ = ["CountRequests", "Meters", "MetricsSnapshot", "MetricsSource", "TenantQueue", "snapshot_of"]
