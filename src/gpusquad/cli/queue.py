"""``gpusquad queue``: who runs and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

EVERY_S = 2.0


def queue(
    mine: Annotated[bool, typer.Option("--mine/--all", help="Only my jobs, or everybody's.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Only this tenant's.", autocompletion=_complete.tenants)
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only in this state; may be repeated.", autocompletion=_complete.states),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many that wait.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show who runs and who waits, with reason and forecast."""
    client = connect()
    wanted = _Wanted(client, mine, tenant, state or [], limit)
    if watch:
        from gpusquad.cli._watch import watch_json, watch_screen

        if as_json:
            watch_json(wanted.answer, EVERY_S)
        else:
            watch_screen(client, wanted.answer, _shown, EVERY_S)
        return
    show_queue(client, wanted.answer(), as_json)


def show_queue(client: Client, answer: dict[str, Any], as_json: bool) -> None:
    """Once."""
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._tables import console

    out = console()
    out.print(_shown(answer, client.now_s(), out.width))


def _shown(answer: dict[str, Any], now_s: float, width: int):
    from gpusquad.cli._views.queue import queue_view

    return queue_view(answer, now_s, width)


class _Wanted:
    """Which part of the queue is asked for."""

    def __init__(self, client: Client, mine: bool, tenant: str, states: list[str], limit: int) -> None:
        from gpusquad.cli._jobs import STATES
        from gpusquad.model.errors import Invalid

        for state in states:
            if state not in STATES:
                raise Invalid("state", f"{state!r} is not a state", f"known: {', '.join(STATES)}")
        self._client = client
        self._user = client.people.me()["user"] if mine else ""
        self._tenant, self._states, self._limit = tenant, states, limit

    def answer(self) -> dict[str, Any]:
        from gpusquad.cli._jobs import FINAL

        everything = self._user or self._states
        answer: Any = self._client.cluster.queue(None if everything else self._limit, self._tenant or None)
        waiting = [job for job in answer["items"] if self._is_wanted(job)]
        running = [job for job in answer["running"] if self._is_wanted(job)]
        # Those that are held or over are not in the queue.
        missing = [state for state in self._states if state in FINAL or state == "held"]
        if missing:
            known = {job["id"] for job in waiting}
            found = self._client.jobs.find(
                state=missing, user=self._user or None, tenant=self._tenant or None, limit=self._limit
            )
            waiting += [job for job in found["items"] if job["id"] not in known]
        return answer | {"items": waiting[: self._limit], "running": running}

    def _is_wanted(self, job: dict[str, Any]) -> bool:
        return (
            (not self._user or job["user"] == self._user)
            and (not self._tenant or job["tenant"] == self._tenant)
            and (not self._states or job["state"] in self._states)
        )
