"""Modes: an order, a plan, a place and their surroundings under one name, in one readable file each."""

from gpusquad.modes.files import every_mode, load_lanes, load_mode, mode_names
from gpusquad.modes.mode import Mode

__all__ = ["Mode", "every_mode", "load_lanes", "load_mode", "mode_names"]
