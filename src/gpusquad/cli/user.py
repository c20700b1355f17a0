"""``gpusquad user``: users of the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Show, add and change users. Without a subcommand, list them."
NONE = "none"
Role = Literal["admin", "member", "viewer"]
YesNo = Literal["yes", "no", "none"]
MaxPriority = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS|INTEGER|none",
        autocompletion=_complete.priorities,
        help="Highest priority of the user's jobs: low, normal, high, urgent or an integer. none: that of the "
        "tenant, which a new user has. Administrators have no maximum.",
    ),
]
MayChooseLane = Annotated[
    YesNo | None,
    typer.Option(
        help="Whether the user may choose the lane of a job (submit --lane). none: as the tenant, which a new user "
        "has. Administrators always may."
    ),
]


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
    max_priority: MaxPriority = None,
    may_choose_lane: MayChooseLane = None,
    as_json: AsJson = False,
) -> None:
    """Add a user. Then create a token for them with gpusquad token create --user NAME."""
    answer: Any = connect().people.add_user(name, tenant, role, _rights(max_priority, may_choose_lane))
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
    max_priority: MaxPriority = None,
    may_choose_lane: MayChooseLane = None,
    as_json: AsJson = False,
) -> None:
    """Change a user. Omitted options keep their values."""
    from gpusquad.model.errors import Invalid

    given = {"tenant": tenant, "role": role, "disabled": disabled}
    changes = {key: value for key, value in given.items() if value is not None}
    changes |= _rights(max_priority, may_choose_lane)
    if not changes:
        raise Invalid("user", "is not changed", "use for example --role viewer")
    answer: Any = connect().people.change_user(name, changes)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


def _rights(max_priority: str | None, may_choose_lane: YesNo | None) -> dict[str, Any]:
    """Given rights as the API takes them: null for those of the tenant."""
    from gpusquad.model.priority import priority_text

    rights: dict[str, Any] = {}
    if max_priority is not None:
        rights["max_priority"] = None if max_priority == NONE else priority_text(max_priority, "max-priority")
    if may_choose_lane is not None:
        rights["may_choose_lane"] = None if may_choose_lane == NONE else may_choose_lane == "yes"
    return rights


def _max_priority(user: dict[str, Any]) -> str:
    return "any" if user["role"] == "admin" else user["max_priority"] or "as tenant"


def _lanes(user: dict[str, Any]) -> str:
    if user["role"] == "admin":
        return "any"
    granted = user["may_choose_lane"]
    return "as tenant" if granted is None else "any" if granted else "by rule"


def _print(users: list[dict[str, Any]]) -> None:
    from gpusquad.cli._tables import TableColumn, console, table

    out = console()
    columns = (
        TableColumn("USER", max_width=32, min_width=10),
        TableColumn("TENANT", max_width=32, min_width=8),
        TableColumn("ROLE"),
        TableColumn("MAX PRIORITY"),
        TableColumn("LANES", from_width=80),
        TableColumn("STATE"),
    )
    rows = [
        (one["name"], one["tenant"], one["role"], _max_priority(one), _lanes(one),
         "disabled" if one["disabled"] else "active")
        for one in users
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no users")
