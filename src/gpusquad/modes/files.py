"""Search paths of mode files and lane rules.

A name is searched in the directories of ``$GPUSQUAD_MODES`` (separated by colons), then in
``~/.config/gpusquad/modes``, then among the built-in modes, so that a user's ``fair.toml`` overrides the built-in one.
A name that ends in ``.toml`` is a path.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from gpusquad.core.state.lanes import Lane
from gpusquad.model.errors import Invalid
from gpusquad.modes.mode import Mode
from gpusquad.modes.read import lanes_from_dict, mode_from_dict, with_preemptible

_BUILTIN = Path(__file__).parent
DEFAULT_RULES = _BUILTIN / "lanes" / "default.toml"


def load_mode(name_or_path: str | Path) -> Mode:
    """Load a mode by name or from a file. An automatic mode gets the policies of its ``otherwise``."""
    mode = _load(name_or_path)
    if mode.rules is None:
        return mode
    modes = choosable(mode)
    return replace(modes[mode.rules.otherwise], name=mode.name, summary=mode.summary, rules=mode.rules)


def choosable(mode: Mode) -> dict[str, Mode]:
    """The modes among which an automatic mode chooses, by name."""
    modes = {name: _load(name) for name in mode.rules.modes} if mode.rules is not None else {}
    for name, one in modes.items():
        if one.rules is not None:
            raise Invalid(f"mode {mode.name}.choose", f"{name!r} is an automatic mode itself", "name another mode")
    return modes


def _load(name_or_path: str | Path) -> Mode:
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = _find(str(name_or_path))
    return mode_from_dict(_read(path, "mode"), path.stem)


def mode_names() -> list[str]:
    """Names of all modes on the search path."""
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.toml") if path.is_file()})


def every_mode() -> tuple[list[Mode], list[tuple[Path, Invalid]]]:
    """All valid modes, and the files of the others with their errors."""
    read, broken = [], []
    for path in map(_find, mode_names()):
        try:
            read.append(load_mode(path))
        except Invalid as error:
            broken.append((path, error))
    return read, broken


def load_lanes(path: str | Path | None = None, preemptible: Collection[str] | None = None) -> tuple[Lane, ...]:
    """Lane rules from a file (default: the built-in one). ``preemptible``: the lanes that may be preempted, overriding
    the file."""
    path = DEFAULT_RULES if path is None else Path(path)
    lanes = lanes_from_dict(_read(path, "lanes"), path.name)
    return lanes if preemptible is None else with_preemptible(lanes, preemptible, "preemptible")


def _folders() -> list[Path]:
    named = [Path(part).expanduser() for part in os.environ.get("GPUSQUAD_MODES", "").split(":") if part]
    return [folder for folder in (*named, _config() / "gpusquad" / "modes", _BUILTIN) if folder.is_dir()]


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())


def _find(name: str) -> Path:
    for folder in _folders():
        path = folder / f"{name}.toml"
        if path.is_file() and path.parent == folder:
            return path
    close = get_close_matches(name[:64].lower(), mode_names(), 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    raise Invalid(
        "mode", f"{name!r} does not exist", f"{meant}choose from {', '.join(mode_names())}, or give a .toml file"
    )


def _read(path: Path, field: str) -> dict:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Invalid(field, f"file {str(path)!r} does not exist") from None
    except OSError as error:
        raise Invalid(field, f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(field, f"{path.name} is not TOML: {error}") from None
