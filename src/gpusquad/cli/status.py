"""``gpusquad status``: shows the state of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def status(as_json: AsJson = False) -> None:
    """Show whether the service is ready, its free GPUs, and your user. Exit code 5 if it is not ready."""
    from gpusquad.cli import _exit

    client = connect()
    answer = _ask(client)
    if as_json:
        print_json(answer)
    else:
        from gpusquad.cli._views.status import show_status

        show_status(answer, client.now_s())
    if not answer["ready"]:
        raise typer.Exit(_exit.UNAVAILABLE)


def _ask(client: Client) -> dict[str, Any]:
    ready = client.health.ready()
    return {
        "url": client.url,
        "ready": ready.ok,
        "reason": ready.reason,
        "me": client.people.me(),
        "cluster": client.cluster.summary(),
        "policy": client.policy.get(),
        "counts": client.cluster.queue(1)["counts"],
    }
