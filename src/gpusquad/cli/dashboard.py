"""``gpusquad dashboard``: prints the address of the dashboard and a login link."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpusquad.cli._service import AsJson, connect, note, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

BUILD_IT = "in a checkout of gpusquad run `make web` (needs Node.js), then reload; packages include it"
READ_S = 5.0
"""Time for the browser to read the redirect file."""


def dashboard(
    opens: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser, logged in.")] = False,
    prints: Annotated[
        bool, typer.Option("--print", help="Print the login link even if stdout is not a terminal.")
    ] = False,
    expires: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Create a token for the link that is valid for this time, for example 12h. Default: use your token.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Print the address of the dashboard, with a link that logs in as you. Do not share the link."""
    from gpusquad.cli import _exit

    client, token = connect(), _token()
    client.people.me()  # report an invalid token here, not in the browser
    is_built = client.health.has_dashboard()
    address = f"{client.url}/"
    shows = opens or prints or sys.stdout.isatty()
    if expires and shows and is_built:
        token = _short_lived(client, expires)
    link = _link(address, token)
    shown = link if prints or sys.stdout.isatty() else None
    if as_json:
        print_json({"url": address, "link": shown, "built": is_built})
    else:
        typer.echo(shown or address)
        if not shown:
            note("The login link is printed only on a terminal or with --print.")
    if not is_built:
        note(f"The dashboard is not built: {BUILD_IT}.")
        raise typer.Exit(_exit.UNAVAILABLE)
    if opens and not _open(link):
        note("Could not open a browser. Open the link yourself.")


def _short_lived(client: Client, expires: str) -> str:
    """A token of its own for the link."""
    from gpusquad.cli._times import read_time

    expires_s = read_time(expires, "expires", client.now_s(), "future")
    return client.people.create_token(label="dashboard link", expires_s=expires_s)["token"]


def _token() -> str:
    """The token that all verbs use."""
    from gpusquad.client.connect import locate

    return locate(os.environ).token


def _link(address: str, token: str) -> str:
    """The part after # is not sent to the server, and the page removes it from the address."""
    from urllib.parse import quote

    return f"{address}#token={quote(token, safe='')}"


def _open(link: str) -> bool:
    """Open through a file that only its owner can read, because all users can see command arguments."""
    import time
    import webbrowser
    from pathlib import Path
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", prefix="gpusquad-", suffix=".html", encoding="utf-8") as file:
        file.write(_redirect_page(link))
        file.flush()
        opened = webbrowser.open(Path(file.name).as_uri())
        if opened:
            time.sleep(READ_S)
    return opened


def _redirect_page(link: str) -> str:
    from html import escape

    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>gpusquad</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(link)}"><p>Opening gpusquad …</p></html>\n'
    )
