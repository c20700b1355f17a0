"""``gpusquad schema``: the JSON Schema of job files."""

from __future__ import annotations


def schema() -> None:
    """Print the JSON Schema of job files, for validation and completion in editors."""
    from gpusquad.cli._service import print_json
    from gpusquad.model.errors import Invalid

    try:
        from gpusquad.spec.schema import json_schema
    except ModuleNotFoundError as error:
        raise Invalid("schema", f"needs the package {error.name}", "install gpusquad[server]") from None
    print_json(json_schema())
