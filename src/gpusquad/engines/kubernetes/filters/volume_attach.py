"""Limits of attached volumes per node and driver, and nodes without a driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.storage import Storage
from gpusquad.kube.objects import Object

Handle = tuple[str, str]
"""A driver and its handle of a volume."""
Handles = tuple[Handle, ...]


def drivers_missing(columns: NodeColumns, storage: Storage, handles: Handles) -> Mask:
    """Nodes without a driver that is required for scheduling."""
    missing = np.zeros(len(columns), np.bool_)
    strict = {driver for driver, _ in handles if _is_strict(storage.csi_drivers.get(driver))}
    if strict:
        for position, name in enumerate(columns.names):
            missing[position] = not strict <= {driver["name"] for driver in _drivers(storage.csi_nodes.get(name))}
    return missing


def too_many_attached(columns: NodeColumns, storage: Storage, index: PodIndex, handles: Handles) -> Mask:
    full = np.zeros(len(columns), np.bool_)
    drivers = {driver for driver, _ in handles}
    limits = {
        position: limit
        for name, csi_node in storage.csi_nodes.items()
        if (position := columns.position_of.get(name)) is not None and (limit := _limits(csi_node, drivers))
    }
    if limits:
        mounted, attached = _mounted(storage, index), _attached(storage)
        for position, limit in limits.items():
            name = columns.names[position]
            here = mounted.get(index.slot(name), set())
            full[position] = _is_full(limit, set(handles), here, attached.get(name, set()))
    return full


def _is_full(limit: dict[str, int], wanted: set[Handle], mounted: set[Handle], attached: set[Handle]) -> bool:
    """A volume that a pod there mounts already takes no further slot. A volume that is only attached counts twice, as
    in kube-scheduler."""
    more = Counter(driver for driver, _ in wanted - mounted)
    held = Counter(driver for driver, _ in mounted | attached)
    return any(held[driver] + number > limit[driver] for driver, number in more.items() if driver in limit)


def _mounted(storage: Storage, index: PodIndex) -> dict[int, set[Handle]]:
    """By slot: the volumes of pods that are placed there."""
    found: dict[int, set[Handle]] = {}
    for kind, where in index.kinds():
        handles = {handle for claim in kind.claims if (handle := storage.handle_of(claim)) is not None}
        if handles:
            for slot in where:
                found.setdefault(slot, set()).update(handles)
    return found


def _attached(storage: Storage) -> dict[str, set[Handle]]:
    """By node: attached volumes, including those being detached."""
    found: dict[str, set[Handle]] = {}
    for item in storage.attachments.values():
        volume = storage.volumes.get(item["spec"].get("source", {}).get("persistentVolumeName", ""), {})
        csi = volume.get("spec", {}).get("csi")
        if csi:
            found.setdefault(item["spec"]["nodeName"], set()).add((item["spec"]["attacher"], csi["volumeHandle"]))
    return found


def _is_strict(driver: Object | None) -> bool:
    return driver is not None and bool(driver["spec"].get("preventPodSchedulingIfMissing"))


def _drivers(csi_node: Object | None) -> Iterator[Object]:
    yield from (csi_node or {}).get("spec", {}).get("drivers") or ()


def _limits(csi_node: Object, drivers: set[str]) -> dict[str, int]:
    return {
        driver["name"]: driver["allocatable"]["count"]
        for driver in _drivers(csi_node)
        if driver["name"] in drivers and (driver.get("allocatable") or {}).get("count") is not None
    }
