"""Modes: named bundles of policies and their settings, one file each."""

from gpusquad.modes.automatic import AutomaticMode
from gpusquad.modes.files import choosable, every_mode, load_lanes, load_mode, mode_names
from gpusquad.modes.mode import Mode

__all__ = ["AutomaticMode", "Mode", "choosable", "every_mode", "load_lanes", "load_mode", "mode_names"]
