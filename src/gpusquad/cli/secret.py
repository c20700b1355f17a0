"""``gpusquad secret``: stores values that only jobs can read."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Store secrets for jobs. Without a subcommand, list their names."
MAX_CHARS = 65_536

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the secret, as in the job file.",
        autocompletion=_complete.secrets,
        show_default=False,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Tenant of the secret. Default: yours.", autocompletion=_complete.tenants),
]


def show(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List the names of secrets. Their values are never shown."""
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
    """Store a secret. The value is read from stdin or prompted for, because other users can see arguments."""
    client = connect()
    client.secrets.set(name, _value(name), tenant)
    typer.echo(f"Saved secret {name}.")


@secret.command("remove")
def _remove(name: Name, tenant: Tenant = None) -> None:
    """Delete a secret."""
    connect().secrets.remove(name, tenant)
    typer.echo(f"Deleted secret {name}.")


def _value(name: str) -> str:
    from gpusquad.model.errors import Invalid

    if sys.stdin.isatty():
        return typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True)
    value = sys.stdin.read(MAX_CHARS + 1)
    if len(value) > MAX_CHARS:
        raise Invalid("value", f"is longer than {MAX_CHARS} characters", "put a longer value into a file")
    value = value.removesuffix("\n")  # echo adds one
    if not value:
        raise Invalid("value", "is empty", f"pipe it in: gpusquad secret set {name} < file")
    return value
