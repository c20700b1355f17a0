"""Claims, volumes and drivers of the cluster, and what they mean for a pod that mounts claims.

Only bound claims can be mounted. A claim with WaitForFirstConsumer is bound when a scheduler chooses a node for its
first pod and informs the provisioner. gpusquad does not support that, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpusquad.engines.kubernetes.filters.node_affinity import NodeChoice, choice_of_volume
from gpusquad.engines.kubernetes.filters.selectors import Labels
from gpusquad.engines.kubernetes.filters.volumes import OLD_SOURCES, VolumeClaim
from gpusquad.kube.objects import Object, annotations_of, controller_of, is_leaving, key_of, labels_of

Section = Literal["claims", "volumes", "classes", "csi_nodes", "csi_drivers", "attachments"]

_BOUND = "pv.kubernetes.io/bind-completed"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_ZONE_KEYS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that bind volumes to a zone or region, with the newer name of each."""
_ZONE_SEPARATOR = "__"


@dataclass(frozen=True, slots=True, order=True)
class Zone:
    """A volume's label with the zones or regions that it is accessible from."""

    key: str
    values: tuple[str, ...]

    def allows(self, labels: Labels) -> bool:
        """A node without any such label is assumed to be in a cluster of one zone."""
        if not any(key in labels for key in _ZONE_KEYS):
            return True
        return labels.get(self.key, labels.get(_ZONE_KEYS[self.key])) in self.values

    @staticmethod
    def keys() -> tuple[str, ...]:
        """All labels of a node that the result may depend on."""
        return tuple(_ZONE_KEYS)


@dataclass(frozen=True, slots=True)
class Mounts:
    """Result for the claims of a pod: why it cannot be placed yet, or where its volumes are."""

    waits_for: str = ""
    choices: tuple[NodeChoice, ...] = ()
    zones: tuple[Zone, ...] = ()
    handles: tuple[tuple[str, str], ...] = ()
    """Driver and handle of each volume that is attached by a driver."""


@dataclass
class Storage:
    """By key or name. Change it with ``put`` and ``drop``, which increment ``version``."""

    claims: dict[str, Object] = field(default_factory=dict)
    volumes: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)
    csi_nodes: dict[str, Object] = field(default_factory=dict)
    csi_drivers: dict[str, Object] = field(default_factory=dict)
    attachments: dict[str, Object] = field(default_factory=dict)
    version: int = 0

    def put(self, section: Section, item: Object) -> None:
        getattr(self, section)[_key(section, item)] = item
        self.version += 1

    def drop(self, section: Section, item: Object) -> None:
        getattr(self, section).pop(_key(section, item), None)
        self.version += 1

    def mounts(self, claims: Iterable[VolumeClaim]) -> Mounts:
        found = [self._volume(claim) for claim in claims]
        reason = next((text for text in found if isinstance(text, str)), "")
        if reason:
            return Mounts(waits_for=reason)
        volumes = [volume for volume in found if not isinstance(volume, str)]
        return Mounts(
            choices=tuple(choice for choice in map(choice_of_volume, volumes) if not choice.is_open),
            zones=tuple(sorted({zone for volume in volumes for zone in _zones(volume)})),
            handles=tuple(sorted({handle for volume in volumes for handle in _handle(volume)})),
        )

    def exclusive(self, claims: Iterable[VolumeClaim]) -> Iterator[VolumeClaim]:
        """Claims that only one pod may mount (ReadWriteOncePod)."""
        for claim in claims:
            if "ReadWriteOncePod" in (self.claims.get(claim.key, {}).get("spec", {}).get("accessModes") or ()):
                yield claim

    def handle_of(self, claim_key: str) -> tuple[str, str] | None:
        """Driver and handle of a placed pod's claim on its node. An unbound claim counts by its class."""
        claim = self.claims.get(claim_key)
        if claim is None:
            return None
        volume = self.volumes.get(claim["spec"].get("volumeName", ""))
        if volume is not None:
            return next(_handle(volume), None)
        driver = self.classes.get(_class_name(claim), {}).get("provisioner")
        return None if driver is None else (driver, f"unbound {claim_key}")

    def _volume(self, mounted: VolumeClaim) -> Object | str:
        """The volume, or why there is none."""
        claim = self.claims.get(mounted.key)
        if claim is None:
            return f"waiting for PersistentVolumeClaim {mounted.key}, which does not exist"
        if is_leaving(claim):
            return f"PersistentVolumeClaim {mounted.key} is being deleted"
        if claim.get("status", {}).get("phase") == "Lost":
            return f"PersistentVolumeClaim {mounted.key} has lost its volume"
        if mounted.owner_uid and (controller_of(claim) or {}).get("uid") != mounted.owner_uid:
            return f"PersistentVolumeClaim {mounted.key} has the name of this pod's ephemeral volume but not its owner"
        return self._bound_volume(claim, mounted)

    def _bound_volume(self, claim: Object, mounted: VolumeClaim) -> Object | str:
        name = claim["spec"].get("volumeName", "")
        if not name and self._binds_late(claim):
            return (
                f"PersistentVolumeClaim {mounted.key} is bound only when a pod that mounts it is placed "
                "(WaitForFirstConsumer), which is not supported: use a storage class that binds immediately"
            )
        if not name or _BOUND not in annotations_of(claim):
            return f"waiting until PersistentVolumeClaim {mounted.key} is bound to a volume"
        volume = self.volumes.get(name)
        if volume is None:
            return f"PersistentVolumeClaim {mounted.key} is bound to {name}, which does not exist"
        old = next((source for source in OLD_SOURCES if source in volume["spec"]), None)
        if old not in (None, "iscsi", "rbd"):  # those two have no CSI driver that replaces them
            return f"PersistentVolume {name} is of the in-tree type {old}, which is not supported: use a CSI driver"
        return volume

    def _binds_late(self, claim: Object) -> bool:
        return self.classes.get(_class_name(claim), {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def _key(section: Section, item: Object) -> str:
    return key_of(item) if section == "claims" else item["metadata"]["name"]


def _class_name(claim: Object) -> str:
    return annotations_of(claim).get(_OLD_CLASS) or claim["spec"].get("storageClassName") or ""


def _zones(volume: Object) -> Iterator[Zone]:
    labels = labels_of(volume)
    for key in _ZONE_KEYS:
        values = [part.strip() for part in labels[key].split(_ZONE_SEPARATOR)] if key in labels else []
        if values and all(values):
            yield Zone(key, tuple(sorted(set(values))))


def _handle(volume: Object) -> Iterator[tuple[str, str]]:
    csi = volume["spec"].get("csi")
    if csi:
        yield csi["driver"], csi["volumeHandle"]
