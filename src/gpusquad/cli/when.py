"""``gpusquad when``: when a job starts and ends, and how far to trust that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def when(job: JobArgument, as_json: AsJson = False) -> None:
    """Say when a job starts and ends: ranges, a promise where there is one, and how good such forecasts were."""
    tell_when(connect(), job, as_json)


def tell_when(client: Client, job: str, as_json: bool) -> None:
    """By the service that the client speaks to."""
    answer: Any = client.jobs.when(job)
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._answers import heading, plan_facts
    from gpusquad.cli._tables import console, facts

    out = console()
    view = client.jobs.get(job)
    out.print(heading(view, answer.get("position"), client.now_s()))
    out.print(facts(plan_facts(answer, view, client.now_s())))
