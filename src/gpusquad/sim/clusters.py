"""Clusters by text: NODESxGPUS, or a file."""

from __future__ import annotations

import json
import tomllib
import zlib
from pathlib import Path

from gpusquad.model.cluster import Cluster, MaintenanceWindow, grid
from gpusquad.model.codec import cluster_from_dict
from gpusquad.model.errors import Invalid
from gpusquad.sim.traces._base import open_text
from gpusquad.sim.traces.openb import is_openb_nodes, read_openb_nodes


def load_cluster(text: str) -> tuple[Cluster, tuple[MaintenanceWindow, ...]]:
    """``4x8``; a .toml or .json file; or a node list of the openb trace (.csv)."""
    path = Path(text)
    try:
        if not path.is_file():
            return grid(text), ()
        kind = Path(path.name.removesuffix(".gz")).suffix.lower()
        if kind == ".csv":
            return _openb(path), ()
        if kind not in (".toml", ".json"):
            raise Invalid("cluster", f"{path.name} has no ending we know", "use .toml, .json or openb's .csv")
        with open_text(path) as file:
            return cluster_from_dict(_plain_data(file.read(), kind, path.name))
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid("cluster", f"cannot read {text!r}: {error}") from None


def _plain_data(text: str, kind: str, name: str) -> dict:
    try:
        return tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("cluster", f"{name} is not {kind[1:].upper()}: {error}") from None


def _openb(path: Path) -> Cluster:
    with open_text(path) as file:
        first = file.readline()
    if not is_openb_nodes([first.rstrip("\n")]):
        raise Invalid("cluster", f"{path.name} is no openb node list", "columns: sn,cpu_milli,memory_mib,gpu,model")
    return read_openb_nodes(path)
