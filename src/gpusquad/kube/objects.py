"""API objects as plain JSON. Model classes would cost more time than all decisions together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def name_of(item: Object) -> str:
    return item["metadata"]["name"]


def namespace_of(item: Object) -> str:
    return item["metadata"].get("namespace", "")


def uid_of(item: Object) -> str:
    return item["metadata"]["uid"]


def key_of(item: Object) -> str:
    """Unique among the existing objects of one kind."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def labels_of(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def annotations_of(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def is_leaving(item: Object) -> bool:
    """Its deletion was requested."""
    return "deletionTimestamp" in item["metadata"]


def controller_of(item: Object) -> Object | None:
    """Owner reference of the controller that recreates it."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None
