"""Waits for jobs to end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from gpusquad.cli import _exit
from gpusquad.cli._jobs import FINAL, cards, cause, ending, label, words
from gpusquad.cli._service import note
from gpusquad.client.errors import ApiError

if TYPE_CHECKING:
    from gpusquad.client.client import Client

POLL_INTERVAL_S = 15.0
"""Interval at which jobs are polled if no event arrives."""


def wait_for(
    client: Client, ids: Sequence[str], *, any_one: bool = False, timeout_s: float | None = None, verbose: bool = True
) -> list[dict[str, Any]]:
    """Wait for all jobs or any one. Returns the ended jobs in the order of ``ids``; prints state changes to stderr."""
    deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    waiting = _WatchedJobs(client, ids, verbose)
    if not waiting.is_over(any_one):
        try:
            for event in client.events.pulse(patience_s=lambda: min(POLL_INTERVAL_S, deadline_s - time.monotonic())):
                if event is None or event["job"] in waiting.ids:
                    waiting.refresh()
                if waiting.is_over(any_one):
                    break
                if time.monotonic() >= deadline_s:
                    note(f"Timed out after {timeout_s:g} s: {', '.join(waiting.unfinished())}")
                    raise typer.Exit(_exit.TIMED_OUT)
        except KeyboardInterrupt:
            note("Stopped waiting. The jobs continue.")
            raise
    return [view for view in waiting.views.values() if view["state"] in FINAL]


class _WatchedJobs:
    """Last known state of the jobs."""

    def __init__(self, client: Client, ids: Sequence[str], verbose: bool) -> None:
        self._client, self._verbose = client, verbose
        first: list[Any] = [client.jobs.get(job) for job in ids]
        self.ids = list(dict.fromkeys(view["id"] for view in first))
        self.views: dict[str, Any] = {}
        for view in first:
            self._update(view)

    def refresh(self) -> None:
        """Fetch unfinished jobs. Temporary errors are ignored until the next call."""
        for job in self.ids:
            if self.views[job]["state"] not in FINAL:
                try:
                    self._update(self._client.jobs.get(job))
                except ApiError as error:
                    if not error.may_pass:
                        raise

    def is_over(self, any_one: bool) -> bool:
        over = [view["state"] in FINAL for view in self.views.values()]
        return any(over) if any_one else all(over)

    def unfinished(self) -> list[str]:
        return [f"{label(view)} {words(view['state'])}" for view in self.views.values() if view["state"] not in FINAL]

    def _update(self, view: Any) -> None:
        before = self.views.get(view["id"])
        self.views[view["id"]] = view
        if self._verbose and (before is None or before["state"] != view["state"]):
            note(_state_line(view))


def follow_logs(client: Client, job: str, task: int | str = "all", tail: int | None = None, raw: bool = False) -> str:
    """Print logs until the job ends; return its final state."""
    from gpusquad.cli._log_lines import LogPrinter
    from gpusquad.client.logs import LogEnd

    view: Any = client.jobs.get(job)
    printer = LogPrinter.for_job(view, task, raw)
    for piece in client.logs.stream(view["id"], task, tail=tail):
        if isinstance(piece, LogEnd):
            printer.finish()
            return piece.state
        printer.show(piece)
    raise AssertionError("log stream ended without an end message")


def _state_line(view: Any) -> str:
    state = view["state"]
    where = cards(view["placement"]) if state == "running" else ""
    why = cause(view) or ending(view) if state in FINAL or state == "held" else ""
    more = f" on {where}" if where else f": {why}" if why else ""
    return f"{label(view)} {words(state)}{more}"
