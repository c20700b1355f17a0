"""Builders of pods and their owners as an API server returns them, from arguments or YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from gpusquad.engines.kubernetes.parse.lookups import Find, NotFetched, group_of
from gpusquad.kube.names import GPU
from gpusquad.kube.objects import Object

CREATED = "2026-03-01T10:00:00Z"
CREATED_US = 1_772_359_200_000_000


def container(name: str = "main", *, gpus: object = 0, init: bool = False, **resources: object) -> Object:
    """``resources`` are both requests and limits; names of extended resources cannot be given as keywords."""
    amounts = {key: str(value) for key, value in resources.items()} | ({GPU: str(gpus)} if gpus else {})
    return {"name": name, "image": "train:1", "resources": {"requests": amounts, "limits": amounts}}


def requesting(name: str = "main", **kinds: Mapping[str, str]) -> Object:
    """A container with ``requests`` and ``limits`` as given."""
    return {"name": name, "image": "train:1", "resources": dict(kinds)}


def pod(
    name: str = "one",
    *containers: Object,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Object | None = None,
    phase: str = "Pending",
    created: str = CREATED,
    **spec: Any,
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-of-{name}",
        "creationTimestamp": created,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    body = {"schedulerName": "gpusquad", "containers": list(containers or [container(gpus=1)]), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": {"phase": phase}}


def reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def read(text: str) -> Object:
    """One object from YAML, with the fields that the API server adds."""
    item: Object = yaml.safe_load(text)
    metadata = item["metadata"]
    metadata.setdefault("namespace", "team")
    metadata.setdefault("uid", f"uid-of-{item['kind']}-{metadata['name']}")
    metadata.setdefault("creationTimestamp", CREATED)
    return item


def finder(*items: Object) -> Find:
    """Finds these objects and no others."""
    known = {
        (group_of(item["apiVersion"]), item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]): item
        for item in items
    }
    return lambda group, kind, namespace, name: known.get((group, kind, namespace, name))


def nothing_known(group: str, kind: str, namespace: str, name: str) -> NotFetched:
    return NotFetched.UNKNOWN


def nothing_exists(group: str, kind: str, namespace: str, name: str) -> None:
    return None
