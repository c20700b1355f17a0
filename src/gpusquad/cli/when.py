"""``gpusquad when``: forecasts start and end of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def when(job: JobArgument, as_json: AsJson = False) -> None:
    """Show when a job is expected to start and end, its reserved start, and how accurate past forecasts were."""
    show_when(connect(), job, as_json)


def show_when(client: Client, job: str, as_json: bool) -> None:
    """Print the forecast."""
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
