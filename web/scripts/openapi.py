"""Prints the API's description, and a short mark of what in it matters to the page's types."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpusquad.server.app import bare_app


def description() -> dict[str, Any]:
    return bare_app().openapi()


def mark(described: dict[str, Any]) -> str:
    """Names only: how a version of a library words the same schema does not make the types stale."""
    return hashlib.sha256("\n".join(sorted(_names(described))).encode()).hexdigest()[:16]


def _names(described: dict[str, Any]) -> list[str]:
    routes = [
        f"{method} {path} {sorted(one['name'] for one in operation.get('parameters', ()))}"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    fields = [
        f"{name}.{field} {of.get('enum', '')}"
        for name, schema in described["components"]["schemas"].items()
        for field, of in schema.get("properties", {}).items()
    ]
    return routes + fields


if __name__ == "__main__":
    found = description()
    print(json.dumps({"mark": mark(found), "schema": found}))
