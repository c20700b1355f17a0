"""Free capacity."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class FreeView(ApiView):
    """Every card is counted once, except ``usable``, which is part of ``free``."""

    gpus: int = Field(description="Size of the requested gang")
    total: int
    free: int
    usable: int = Field(description="Free cards that gangs of this size can use, each gang on one node")
    gangs: int = Field(description="Number of such gangs that fit now, each on one node")
    gangs_across: int = Field(description="Number that would fit if a gang could use any cards")
    largest_block: int = Field(description="Largest number of free cards on one node")
    busy: int
    shared: int
    unhealthy: int = Field(description="Faulty, until healthy again or cleared by an administrator")
    cordoned: int = Field(description="Cordoned by an administrator")
    drained: int = Field(description="Idle, on a drained node")
    taken_outside: int
