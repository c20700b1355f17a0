"""``gpusquad secret``: values that jobs get and nobody sees."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Keep secrets for jobs."
MOST_CHARS = 65_536

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="As jobs ask for it.", autocompletion=_complete.secrets, show_default=False),
]
Tenant = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose; else your tenant's.", autocompletion=_complete.tenants)
]


def show(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List the names of secrets. Values are never shown."""
    names: Any = connect().secrets.names(tenant)
    if as_json:
        print_json({"items": names})
        return
    from gpusquad.cli._sanitize import one_line

    typer.echo("\n".join(one_line(one["name"]) for one in names) or "no secrets")


secret = group(SUMMARY, show)
secret.command("list")(show)


@secret.command("set")
def _set(name: Name, tenant: Tenant = None) -> None:
    """Keep a value, read from stdin or asked for. It is not an argument: those can be seen by others."""
    client = connect()
    client.secrets.set(name, _value(name), tenant)
    typer.echo(f"secret {name} is kept")


@secret.command("remove")
def _remove(name: Name, tenant: Tenant = None) -> None:
    """Forget a value."""
    connect().secrets.remove(name, tenant)
    typer.echo(f"secret {name} is removed")


def _value(name: str) -> str:
    from gpusquad.model.errors import Invalid

    if sys.stdin.isatty():
        return typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True)
    value = sys.stdin.read(MOST_CHARS + 1)
    if len(value) > MOST_CHARS:
        raise Invalid("value", f"is longer than {MOST_CHARS} characters", "put long ones into a file")
    value = value.removesuffix("\n")  # echo adds one
    if not value:
        raise Invalid("value", "is empty", f"pipe it in: gpusquad secret set {name} < file")
    return value
