"""``gpusquad user``: who may use the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Show, add and change users."
Role = Literal["admin", "member", "viewer"]


def show(as_json: AsJson = False) -> None:
    """List users."""
    users: Any = connect().people.users()
    if as_json:
        print_json({"items": users})
        return
    _print(users)


user = group(SUMMARY, show)
user.command("list")(show)


@user.command("add")
def _add(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Where they belong.", autocompletion=_complete.tenants)
    ] = "default",
    role: Annotated[Role, typer.Option(help="What they may do.")] = "member",
    as_json: AsJson = False,
) -> None:
    """Add a user. `gpusquad token create --user NAME` then lets them in."""
    answer: Any = connect().people.add_user(name, tenant, role)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


@user.command("set")
def _set(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where they belong.", autocompletion=_complete.tenants)
    ] = None,
    role: Annotated[Role | None, typer.Option(help="What they may do.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Shut out, or let in again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a user. What is left out stays."""
    from gpusquad.model.errors import Invalid

    given = {"tenant": tenant, "role": role, "disabled": disabled}
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise Invalid("user", "nothing is changed", "give for example --role viewer")
    answer: Any = connect().people.change_user(name, changes)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


def _print(users: list[dict[str, Any]]) -> None:
    from gpusquad.cli._tables import TableColumn, console, table

    out = console()
    columns = (
        TableColumn("USER", most=32, least=10),
        TableColumn("TENANT", most=32, least=8),
        TableColumn("ROLE"),
        TableColumn("STATE"),
    )
    rows = [(one["name"], one["tenant"], one["role"], "disabled" if one["disabled"] else "active") for one in users]
    out.print(table(columns, rows, out.width) if rows else "no users")
