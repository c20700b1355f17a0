"""``gpusquad notify``: notices to mail and chat."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Send notices to mail and chat."
USUAL = ("finished", "failed", "hung")


def show(as_json: AsJson = False) -> None:
    """List your rules. Addresses are shown without their secrets."""
    client = connect()
    rules: Any = client.notices.rules()
    if as_json:
        print_json({"items": rules})
        return
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import relative

    out, now_s = console(), client.now_s()
    columns = (
        TableColumn("RULE", right=True), TableColumn("TELLS OF", wraps=True), TableColumn("TO", wraps=True),
        TableColumn("LABEL", most=24, from_width=70), TableColumn("MADE", from_width=90),
    )  # fmt: skip
    rows = [
        (str(one["id"]), " ".join(one["kinds"]), one["url"], one["label"], relative(one["created_s"], now_s))
        for one in rules
    ]
    out.print(table(columns, rows, out.width) if rows else "no rules; gpusquad notify add URL makes one")


notify = group(SUMMARY, show)
notify.command("list")(show)


@notify.command("add")
def _add(
    url: Annotated[str, typer.Argument(metavar="URL", help="An Apprise address: slack://…, mailto://…",
                                       show_default=False)],
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"queued, started, eta_moved, finished, failed, hung, preempted, lost or "
                     f"cancelled; may be repeated. Else {', '.join(USUAL)}."),
    ] = None,
    label: Annotated[str, typer.Option("--label", "-l", metavar="TEXT", help="What you call it.")] = "",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Tell me of what happens to my jobs."""
    made: Any = connect().notices.add(url, on or USUAL, label)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"rule {made['id']} tells of {', '.join(made['kinds'])}; gpusquad notify test {made['id']} tries it")


@notify.command("remove")
def _remove(rule: Annotated[int, typer.Argument(metavar="RULE", min=1, show_default=False)]) -> None:
    """Tell me no more."""
    connect().notices.remove(rule)
    typer.echo(f"rule {rule} is removed")


@notify.command("test")
def _test(
    target: Annotated[str, typer.Argument(metavar="RULE|URL", show_default=False)], as_json: AsJson = False
) -> None:
    """Send one notice now, to an address or as a rule would."""
    from gpusquad.cli import _exit
    from gpusquad.cli._errors import say

    answer: Any = connect().notices.test({"rule": int(target)} if target.isdigit() else {"url": target})
    if as_json:
        print_json(answer)
    elif answer["ok"]:
        typer.echo("sent")
    else:
        say(f"it could not be sent: {answer['error']}")
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
        TableColumn("NOTICE", right=True), TableColumn("RULE", right=True), TableColumn("WHAT", most=40, least=12),
        TableColumn("TRIES", right=True), TableColumn("MADE", from_width=80), TableColumn("WHY", wraps=True),
    )  # fmt: skip
    rows = [
        (str(one["id"]), str(one["rule"]), one["title"], str(one["tries"]), relative(one["created_s"], now_s),
         one["error"])
        for one in dead
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "every notice was delivered, or is on its way")


@notify.command("retry")
def _retry(notice: Annotated[int, typer.Argument(metavar="NOTICE", min=1, show_default=False)]) -> None:
    """Try a failed notice again."""
    connect().notices.retry(notice)
    typer.echo(f"notice {notice} is on its way again")
