"""Prints the OpenAPI description of the service, and a hash of the names that the dashboard's types depend on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpusquad.server.app import bare_app


def description() -> dict[str, Any]:
    return bare_app().openapi()


def mark(described: dict[str, Any]) -> str:
    """Hash of names only, so that another library version with other wording does not make the types stale."""
    return hashlib.sha256("\n".join(sorted(_names(described))).encode()).hexdigest()[:16]


def _names(described: dict[str, Any]) -> list[str]:
    routes = [
        f"{method} {path} {sorted(parameter['name'] for parameter in operation.get('parameters', ()))}"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    fields = [
        f"{name}.{field} {definition.get('enum', '')}"
        for name, schema in described["components"]["schemas"].items()
        for field, definition in schema.get("properties", {}).items()
    ]
    return routes + fields


if __name__ == "__main__":
    openapi = description()
    print(json.dumps({"mark": mark(openapi), "schema": openapi}))
