"""``gpusquad notify``: rules for notices by mail and chat."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Manage notices by mail and chat. Without a subcommand, list your rules."
USUAL = ("finished", "failed", "held", "hung", "overrun")


def show(as_json: AsJson = False) -> None:
    """List your rules. Secrets in addresses are not shown."""
    client = connect()
    rules: Any = client.notices.rules()
    if as_json:
        print_json({"items": rules})
        return
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import relative

    out, now_s = console(), client.now_s()
    columns = (
        TableColumn("RULE", right=True), TableColumn("EVENTS", wraps=True), TableColumn("TO", wraps=True),
        TableColumn("LABEL", max_width=24, from_width=70), TableColumn("CREATED", from_width=90),
    )  # fmt: skip
    rows = [
        (str(one["id"]), " ".join(one["kinds"]), one["url"], one["label"], relative(one["created_s"], now_s))
        for one in rules
    ]
    out.print(table(columns, rows, out.width) if rows else "no rules; add one with gpusquad notify add URL")


notify = group(SUMMARY, show)
notify.command("list")(show)


@notify.command("add")
def _add(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="Apprise address, for example slack://… or mailto://…", show_default=False),
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help=f"Event: queued, started, eta_moved, start_late, finished, failed, held, retried, hung, overrun, "
            f"preempted, lost or cancelled. Can be repeated. Default: {', '.join(USUAL)}.",
        ),
    ] = None,
    label: Annotated[str, typer.Option("--label", "-l", metavar="TEXT", help="Label of the rule.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a rule that sends notices about your jobs to an address."""
    made: Any = connect().notices.add(url, on or USUAL, label)
    if as_json:
        print_json(made)
    else:
        typer.echo(
            f"Added rule {made['id']} for {', '.join(made['kinds'])}. Test it with: gpusquad notify test {made['id']}"
        )


@notify.command("remove")
def _remove(
    rule: Annotated[int, typer.Argument(metavar="RULE", help="Rule number.", min=1, show_default=False)],
) -> None:
    """Remove a rule."""
    connect().notices.remove(rule)
    typer.echo(f"Removed rule {rule}.")


@notify.command("test")
def _test(
    target: Annotated[str, typer.Argument(metavar="RULE|URL", help="Rule number or address.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Send a test notice to an address or by a rule."""
    from gpusquad.cli import _exit
    from gpusquad.cli._errors import print_error

    answer: Any = connect().notices.test({"rule": int(target)} if target.isdigit() else {"url": target})
    if as_json:
        print_json(answer)
    elif answer["ok"]:
        typer.echo("Sent the test notice.")
    else:
        print_error(f"could not send the test notice: {answer['error']}")
    if not answer["ok"]:
        raise typer.Exit(_exit.UNAVAILABLE)


@notify.command("failed")
def _failed(as_json: AsJson = False) -> None:
    """List notices that could not be delivered."""
    client = connect()
    dead: Any = client.notices.outbox("dead")
    if as_json:
        print_json({"items": dead})
        return
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import relative

    out, now_s = console(), client.now_s()
    columns = (
        TableColumn("NOTICE", right=True), TableColumn("RULE", right=True),
        TableColumn("TITLE", max_width=40, min_width=12),
        TableColumn("TRIES", right=True), TableColumn("CREATED", from_width=80), TableColumn("ERROR", wraps=True),
    )  # fmt: skip
    rows = [
        (str(one["id"]), str(one["rule"]), one["title"], str(one["tries"]), relative(one["created_s"], now_s),
         one["error"])
        for one in dead
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no failed notices")


@notify.command("retry")
def _retry(
    notice: Annotated[int, typer.Argument(metavar="NOTICE", help="Notice number.", min=1, show_default=False)],
) -> None:
    """Send a failed notice again."""
    connect().notices.retry(notice)
    typer.echo(f"Queued notice {notice} again.")
