"""``gpusquad dashboard``: where the service's page is, and a link that logs in."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gpusquad.cli._service import AsJson, connect, note, print_json

BUILD_IT = "in a checkout of gpusquad: `make web` (needs Node.js), then reload; packages bring the page with them"
READ_S = 5.0
"""How long a browser has to read the file that sends it on."""


def dashboard(
    opens: Annotated[bool, typer.Option("--open", help="Open it in a browser, logged in.")] = False,
    prints: Annotated[bool, typer.Option("--print", help="Print the link also where no terminal reads it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say where the dashboard is, with a link that logs in as you. Whoever has the link is you: do not pass it on."""
    from gpusquad.cli import _exit

    client, token = connect(), _token()
    client.people.me()  # a token that is not valid is better told of here
    is_built = client.health.has_dashboard()
    address = f"{client.url}/"
    link = _link(address, token)
    shown = link if prints or sys.stdout.isatty() else None
    if as_json:
        print_json({"url": address, "link": shown, "built": is_built})
    else:
        typer.echo(shown or address)
        if not shown:
            note("The link that logs in goes only to a terminal, or with --print.")
    if not is_built:
        note(f"The service does not have the page: {BUILD_IT}.")
        raise typer.Exit(_exit.UNAVAILABLE)
    if opens and not _open(link):
        note("No browser could be opened here: open the link yourself.")


def _token() -> str:
    """The one that every verb uses."""
    from gpusquad.client.connect import locate

    return locate(os.environ).token


def _link(address: str, token: str) -> str:
    """What stands behind the # stays in the browser, and the page takes it out of the address."""
    from urllib.parse import quote

    return f"{address}#token={quote(token, safe='')}"


def _open(link: str) -> bool:
    """By a file that only its owner can read: the words of a command can be seen by everybody on the machine."""
    import time
    import webbrowser
    from pathlib import Path
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", prefix="gpusquad-", suffix=".html", encoding="utf-8") as file:
        file.write(_sends_on(link))
        file.flush()
        opened = webbrowser.open(Path(file.name).as_uri())
        if opened:
            time.sleep(READ_S)
    return opened


def _sends_on(link: str) -> str:
    from html import escape

    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>gpusquad</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(link)}"><p>Opening gpusquad …</p></html>\n'
    )
