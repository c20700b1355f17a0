"""Which claims a pod mounts. What they mean for nodes is known only when they are bound: see storage.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

OLD_SOURCES = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "iscsi", "portworxVolume", "rbd",
    "vsphereVolume",
)  # fmt: skip
"""Disks named directly. Two pods may not mount some of them on one node, and others count towards limits of drivers
that they were moved to: rules of their own, for kinds of volume that have been on their way out for years."""


@dataclass(frozen=True, slots=True, order=True)
class VolumeClaim:
    """A PersistentVolumeClaim that a pod mounts."""

    namespace: str
    name: str
    owner_uid: str = ""
    """For an ephemeral volume, whose claim must belong to this very pod. Empty: anybody's."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def claims_of(pod: Object) -> tuple[VolumeClaim, ...]:
    """Raises Unsupported for volumes with rules of their own."""
    return tuple(sorted(set(_claims(pod))))


def claims_mounted(pod: Object) -> tuple[str, ...]:
    """The keys of the claims of a pod that is placed already, whatever else it mounts."""
    namespace = namespace_of(pod)
    names = {_claim_name(pod, volume) for volume in pod["spec"].get("volumes") or ()}
    return tuple(sorted(f"{namespace}/{name}" for name in names if name))


def _claims(pod: Object) -> Iterator[VolumeClaim]:
    for volume in pod["spec"].get("volumes") or ():
        old = next((source for source in OLD_SOURCES if volume.get(source) is not None), None)
        if old is not None:
            raise UnsupportedRule(
                f"spec.volumes {volume['name']}", f"a {old} volume named by the pod itself is not supported",
                "use a PersistentVolumeClaim",
            )  # fmt: skip
        name = _claim_name(pod, volume)
        if name:
            yield VolumeClaim(namespace_of(pod), name, uid_of(pod) if volume.get("ephemeral") is not None else "")


def _claim_name(pod: Object, volume: Object) -> str | None:
    if volume.get("persistentVolumeClaim"):
        return volume["persistentVolumeClaim"]["claimName"]
    return f"{name_of(pod)}-{volume['name']}" if volume.get("ephemeral") is not None else None
