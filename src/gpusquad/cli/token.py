"""``gpusquad token``: API tokens of users and programs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, note, print_json

SUMMARY = "Create and revoke API tokens. Without a subcommand, list them."


def show(as_json: AsJson = False) -> None:
    """List tokens without their values."""
    client = connect()
    tokens: Any = client.people.tokens()
    if as_json:
        print_json({"items": tokens})
        return
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import relative

    out, now_s = console(), client.now_s()
    columns = (
        TableColumn("TOKEN"),
        TableColumn("USER", max_width=16),
        TableColumn("LABEL", max_width=24, min_width=8),
        TableColumn("SCOPES"),
        TableColumn("STATE"),
        TableColumn("LAST USED", from_width=90),
        TableColumn("CREATED", from_width=100),
    )
    rows = [
        (one["id"], one["user"], one["label"], " ".join(one["scopes"]), _state(one, now_s),
         relative(one["last_used_s"], now_s) if one["last_used_s"] is not None else "never",
         relative(one["created_s"], now_s))
        for one in tokens
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no tokens")


token = group(SUMMARY, show)
token.command("list")(show)


@token.command("create")
def _create(
    label: Annotated[str, typer.Option("--label", "-l", metavar="TEXT", help="Label of the token.")] = "",
    user: Annotated[str, typer.Option(metavar="NAME", help="User of the token. Default: you.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="read|submit|admin",
            help="Scope of the token. Can be repeated. Default: all that both you and the user have.",
        ),
    ] = None,
    expires: Annotated[str, typer.Option(metavar="TIME", help="Lifetime, for example 30d. Default: unlimited.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a token and print it to stdout. It is shown only once."""
    from gpusquad.cli._times import read_time

    client = connect()
    expires_s = read_time(expires, "expires", client.now_s(), "future") if expires else None
    made: Any = client.people.create_token(user=user or None, label=label, scopes=scope, expires_s=expires_s)
    if as_json:
        print_json(made)
        return
    note(
        f"Created token {made['id']} for {made['user']} ({', '.join(made['scopes'])}). Save it; it is shown only once:"
    )
    typer.echo(made["token"])


@token.command("revoke")
def _revoke(token_id: Annotated[str, typer.Argument(metavar="TOKEN", help="Token ID.", show_default=False)]) -> None:
    """Revoke a token."""
    connect().people.revoke_token(token_id)
    typer.echo(f"Revoked token {token_id}.")


def _state(one: dict[str, Any], now_s: float) -> str:
    from gpusquad.cli._times import relative

    if one["revoked_s"] is not None:
        return "revoked"
    if one["expires_s"] is None:
        return "valid"
    return f"expires {relative(one['expires_s'], now_s)}" if one["expires_s"] > now_s else "expired"
