"""Claims that a pod mounts. ``storage`` knows what they mean for nodes once they are bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

OLD_SOURCES = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "iscsi", "portworxVolume", "rbd",
    "vsphereVolume",
)  # fmt: skip
"""In-tree volumes named directly in a pod. They have rules of their own (exclusive mounts, limits of the drivers that
replace them) and have been deprecated for years, so they are not supported."""


@dataclass(frozen=True, slots=True, order=True)
class VolumeClaim:
    """A PersistentVolumeClaim that a pod mounts."""

    namespace: str
    name: str
    owner_uid: str = ""
    """For an ephemeral volume, whose claim must belong to this pod. Empty: any owner."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def claims_of(pod: Object) -> tuple[VolumeClaim, ...]:
    """Raises ``UnsupportedRule`` for in-tree volumes."""
    return tuple(sorted(set(_claims(pod))))


def claims_mounted(pod: Object) -> tuple[str, ...]:
    """Keys of the claims of a placed pod, whatever else it mounts."""
    namespace = namespace_of(pod)
    names = {_claim_name(pod, volume) for volume in pod["spec"].get("volumes") or ()}
    return tuple(sorted(f"{namespace}/{name}" for name in names if name))


def _claims(pod: Object) -> Iterator[VolumeClaim]:
    for volume in pod["spec"].get("volumes") or ():
        old = next((source for source in OLD_SOURCES if volume.get(source) is not None), None)
        if old is not None:
            raise UnsupportedRule(
                f"spec.volumes {volume['name']}", f"an in-tree volume ({old}) in the pod is not supported",
                "use a PersistentVolumeClaim",
            )  # fmt: skip
        name = _claim_name(pod, volume)
        if name:
            yield VolumeClaim(namespace_of(pod), name, uid_of(pod) if volume.get("ephemeral") is not None else "")


def _claim_name(pod: Object, volume: Object) -> str | None:
    if volume.get("persistentVolumeClaim"):
        return volume["persistentVolumeClaim"]["claimName"]
    return f"{name_of(pod)}-{volume['name']}" if volume.get("ephemeral") is not None else None
