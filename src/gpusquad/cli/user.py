"""``gpusquad user``: users of the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Show, add and change users. Without a subcommand, list them."
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="User name.", show_default=False)],
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Tenant of the user.", autocompletion=_complete.tenants)
    ] = "default",
    role: Annotated[Role, typer.Option(help="Role of the user.")] = "member",
    as_json: AsJson = False,
) -> None:
    """Add a user. Then create a token for them with gpusquad token create --user NAME."""
    answer: Any = connect().people.add_user(name, tenant, role)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


@user.command("set")
def _set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="User name.", show_default=False)],
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tenant of the user.", autocompletion=_complete.tenants)
    ] = None,
    role: Annotated[Role | None, typer.Option(help="Role of the user.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Disable or enable the user.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a user. Omitted options keep their values."""
    from gpusquad.model.errors import Invalid

    given = {"tenant": tenant, "role": role, "disabled": disabled}
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise Invalid("user", "is not changed", "use for example --role viewer")
    answer: Any = connect().people.change_user(name, changes)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


def _print(users: list[dict[str, Any]]) -> None:
    from gpusquad.cli._tables import TableColumn, console, table

    out = console()
    columns = (
        TableColumn("USER", max_width=32, min_width=10),
        TableColumn("TENANT", max_width=32, min_width=8),
        TableColumn("ROLE"),
        TableColumn("STATE"),
    )
    rows = [(one["name"], one["tenant"], one["role"], "disabled" if one["disabled"] else "active") for one in users]
    out.print(table(columns, rows, out.width) if rows else "no users")
