"""What the API server speaks: plain JSON objects. Model classes would cost more than all decisions together."""

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
    """Unique among objects of one kind that exist now."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def labels_of(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def annotations_of(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def is_leaving(item: Object) -> bool:
    """Its deletion has begun."""
    return "deletionTimestamp" in item["metadata"]


def controller_of(item: Object) -> Object | None:
    """The owner reference of whoever makes it anew."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None
