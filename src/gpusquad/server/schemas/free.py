"""What is free now."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class FreeView(ApiView):
    """Every card is counted once, but for ``usable``, which are among those free."""

    gpus: int = Field(description="Of the gang that is asked for")
    total: int
    free: int
    usable: int = Field(description="Free cards that gangs of this size can have, each gang on one node")
    gangs: int = Field(description="How many such gangs fit now, each on one node")
    gangs_across: int = Field(description="How many would fit if a gang could lie on any cards")
    largest_block: int = Field(description="Most free cards on one node")
    busy: int
    shared: int
    unhealthy: int = Field(description="A fault, until it is mended or an administrator has looked")
    cordoned: int = Field(description="By an administrator")
    drained: int = Field(description="Idle, on a node that takes nothing new")
    taken_outside: int
