"""Use of GPU-hours."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class GpuHours(ApiView):
    """All GPU-hours, each counted once."""

    busy: float = Field(description="Allocated, and a kernel ran: mean of samples, at most what was allocated")
    reserved_idle: float = Field(description="Allocated, and no kernel ran")
    fragmented: float = Field(
        description="Free while jobs were pending, but useless for the smallest pending gang: left over on a node, "
        "or all of it if the gang did not fit as a whole"
    )
    idle_waiting: float = Field(description="Free while jobs were pending, and the smallest gang would have fitted")
    idle: float = Field(description="Free, with no pending jobs")
    unhealthy: float = Field(
        description="Cordoned or drained, by the audit log; or faulty, since a run was lost there. Repaired faults "
        "are not recorded"
    )
    taken_outside: float = Field(description="Free, but kernels ran: mean of samples beyond what was allocated")
    unknown: float = Field(description="No samples of the card in that slot")


class NodeHours(ApiView):
    node: str
    hours: GpuHours


class EfficiencyView(ApiView):
    since_s: float
    until_s: float
    slot_s: float = Field(description="Span over which samples are averaged")
    total: GpuHours
    nodes: list[NodeHours]
    truncated: bool = Field(description="There are more attempts or jobs than were read: the numbers cover a part")
