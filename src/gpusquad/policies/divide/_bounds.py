"""Ranges that parameters of several divide policies share."""

from __future__ import annotations

from gpusquad.model.squad import MAX_SQUAD_US, MIN_SQUAD_US
from gpusquad.policies._bounds import Range

PART: Range = (0, 1)
COUNT: Range = (1, 1_000_000)
"""Number of squads or requests. The maximum stands for "never"."""
SQUAD_US: Range = (MIN_SQUAD_US, MAX_SQUAD_US)
