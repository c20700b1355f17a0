"""How the engine behaves on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusquad.engines.kubernetes.status.settings import StatusSettings
from gpusquad.kube.objects import SCHEDULER


@dataclass(frozen=True)
class KubernetesSettings:
    """All with a default that suits most clusters."""

    scheduler: str = SCHEDULER
    """Pods that name it are ours."""
    start_timeout_s: float = 600.0
    """A gang of which not all pods run after this long is released, and queued again."""
    settle_s: float = 0.02
    """Changes of nodes and of others' pods are gathered for so long before the service hears of them."""
    in_flight: int = 64
    """Requests at a time."""
    per_second: float | None = None
    """Requests a second; None: as many as the server takes."""
    sync_timeout_s: float = 120.0
    dry_run: bool = False
    """Nothing is bound or deleted: what would be done is only told, as events."""
    telling: StatusSettings = field(default_factory=StatusSettings)
    """What users see on their pods."""
