"""``gpusquad queue``: shows running and pending jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

INTERVAL_S = 2.0


def queue(
    mine: Annotated[
        bool, typer.Option("--mine/--all", help="Show only your own jobs, or the jobs of all users.")
    ] = False,
    tenant: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Show only jobs of this tenant. Default: all.", autocompletion=_complete.tenants
        ),
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Show only jobs in this state, for example held. Default: all. Can be repeated.",
            autocompletion=_complete.states,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N pending jobs.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every two seconds until interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show running and pending jobs, and jobs that the service holds: where they run or why they wait, and when they
    are expected to end or start."""
    client = connect()
    selection = _QueueSelection(client, mine, tenant, state or [], limit)
    if watch:
        from gpusquad.cli._watch import watch_json, watch_screen

        if as_json:
            watch_json(selection.answer, INTERVAL_S)
        else:
            watch_screen(client, selection.answer, _view, INTERVAL_S)
        return
    show_queue(client, selection.answer(), as_json)


def show_queue(client: Client, answer: dict[str, Any], as_json: bool) -> None:
    """Print the queue once."""
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._tables import console

    out = console()
    out.print(_view(answer, client.now_s(), out.width))


def _view(answer: dict[str, Any], now_s: float, width: int):
    from gpusquad.cli._views.queue import queue_view

    return queue_view(answer, now_s, width)


class _QueueSelection:
    """The part of the queue that the options select."""

    def __init__(self, client: Client, mine: bool, tenant: str, states: list[str], limit: int) -> None:
        from gpusquad.cli._jobs import check_states

        check_states(states)
        self._client = client
        self._user = client.people.me()["user"] if mine else ""
        self._tenant, self._states, self._limit = tenant, states, limit

    def answer(self) -> dict[str, Any]:
        from gpusquad.cli._jobs import FINAL

        everything = self._user or self._states
        answer: Any = self._client.cluster.queue(None if everything else self._limit, self._tenant or None)
        waiting = [job for job in answer["items"] if self._is_selected(job)]
        running = [job for job in answer["running"] if self._is_selected(job)]
        held = [job for job in answer["held"] if self._is_selected(job)]
        # The queue has no finished jobs, and of held ones only those that the service holds.
        missing = [state for state in self._states if state in FINAL or state == "held"]
        if missing:
            reasons = {job["id"]: job for job in held}
            known = {job["id"] for job in waiting}
            found = self._client.jobs.find(
                state=missing, user=self._user or None, tenant=self._tenant or None, limit=self._limit
            )
            waiting += [reasons.get(job["id"], job) for job in found["items"] if job["id"] not in known]
        return answer | {"items": waiting[: self._limit], "running": running, "held": held}

    def _is_selected(self, job: dict[str, Any]) -> bool:
        return (
            (not self._user or job["user"] == self._user)
            and (not self._tenant or job["tenant"] == self._tenant)
            and (not self._states or job["state"] in self._states)
        )
