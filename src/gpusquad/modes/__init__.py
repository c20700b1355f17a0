"""Modes: named bundles of policies and their settings, one file each."""

from gpusquad.modes.files import every_mode, load_lanes, load_mode, mode_names
from gpusquad.modes.mode import Mode

__all__ = ["Mode", "every_mode", "load_lanes", "load_mode", "mode_names"]
