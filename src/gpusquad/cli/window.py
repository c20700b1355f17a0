"""``gpusquad window``: maintenance windows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, Cause, connect, print_json

SUMMARY = "Manage maintenance windows. No job starts that would run into one. Without a subcommand, list them."


def show(as_json: AsJson = False) -> None:
    """List maintenance windows."""
    client = connect()
    windows: Any = client.windows.all()
    if as_json:
        print_json({"items": windows})
        return
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import clock, relative

    out, now_s = console(), client.now_s()
    columns = (
        TableColumn("WINDOW"),
        TableColumn("NODES", wraps=True),
        TableColumn("FROM"),
        TableColumn("TO"),
        TableColumn("STARTS"),
        TableColumn("BY", max_width=14, from_width=80),
        TableColumn("WHY", wraps=True, from_width=70),
    )
    rows = [
        (one["id"], " ".join(one["nodes"]), clock(one["start_s"], now_s),
         clock(one["end_s"], now_s) if one["end_s"] is not None else "until removed",
         relative(one["start_s"], now_s), one["by"], one["cause"])
        for one in windows
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no maintenance windows")


window = group(SUMMARY, show)
window.command("list")(show)


@window.command("add")
def _add(
    node: Annotated[
        list[str],
        typer.Argument(metavar="NODE…", help="Node names.", autocompletion=_complete.nodes, show_default=False),
    ],
    start: Annotated[
        str, typer.Option(metavar="TIME", help="Start, for example 2h (from now) or 2026-03-01T22:00.")
    ] = "now",
    end: Annotated[str, typer.Option(metavar="TIME", help="End. Default: until the window is removed.")] = "",
    lasting: Annotated[str, typer.Option("--for", metavar="TIME", help="Length, instead of --end.")] = "",
    cause: Cause = "",
    as_json: AsJson = False,
) -> None:
    """Add a maintenance window for nodes."""
    from gpusquad.cli._times import read_time
    from gpusquad.model.errors import Invalid

    if end and lasting:
        raise Invalid("end", "cannot be combined with --for", "leave out one of them")
    client = connect()
    start_s = read_time(start, "start", client.now_s(), "future")
    end_s = read_time(end, "end", client.now_s(), "future") if end else None
    if lasting:
        end_s = read_time(lasting, "for", start_s, "future")
    made: Any = client.windows.add(node, start_s, end_s, cause)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"Added maintenance window {made['id']}.")


@window.command("remove")
def _remove(
    window_id: Annotated[str, typer.Argument(metavar="WINDOW", help="ID of the window.", show_default=False)],
) -> None:
    """Remove a maintenance window."""
    connect().windows.remove(window_id)
    typer.echo(f"Removed maintenance window {window_id}.")
