"""Ranges that parameters of several divide policies have in common."""

from __future__ import annotations

from gpusquad.model.squad import LONGEST_SQUAD_US, SHORTEST_SQUAD_US
from gpusquad.policies._bounds import Range

PART: Range = (0, 1)
COUNT: Range = (1, 1_000_000)
"""Of squads or requests: more is for ever."""
SQUAD_US: Range = (SHORTEST_SQUAD_US, LONGEST_SQUAD_US)
