"""Where the GPU-hours went."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class GpuHours(ApiView):
    """All that there were, each of them once."""

    busy: float = Field(description="Given to jobs, and a kernel ran: means of samples, no more than was given")
    reserved_idle: float = Field(description="Given to jobs, and no kernel ran")
    fragmented: float = Field(
        description="Free while work waited, and of no use to the smallest gang that did: left over on a node, or all "
        "of it where the gang does not fit as a whole"
    )
    idle_waiting: float = Field(description="Free while work waited, and the smallest gang would have fitted")
    idle: float = Field(description="Free, and nobody waited")
    unhealthy: float = Field(
        description="Cordoned or drained, by the audit; and broken, since a run was lost there. Faults that are mended "
        "are not on record"
    )
    taken_outside: float = Field(
        description="Free, and kernels ran all the same: means of samples beyond what was given"
    )
    unknown: float = Field(description="Nobody looked at the card in that slot")


class NodeHours(ApiView):
    node: str
    hours: GpuHours


class EfficiencyView(ApiView):
    since_s: float
    until_s: float
    slot_s: float = Field(description="What samples are averaged over")
    total: GpuHours
    nodes: list[NodeHours]
    truncated: bool = Field(description="More attempts or jobs than are looked at: the figures are of a part of them")
