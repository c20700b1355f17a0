"""``gpusquad why``: everything that keeps a job from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def why(job: JobArgument, as_json: AsJson = False) -> None:
    """Say everything that keeps a job from starting, with numbers and cures."""
    tell_why(connect(), job, as_json)


def tell_why(client: Client, job: str, as_json: bool) -> None:
    """By the service that the client speaks to."""
    answer: Any = client.jobs.why(job)
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._answers import heading, reasons_view
    from gpusquad.cli._tables import console

    out = console()
    view = client.jobs.get(job)
    out.print(heading(view, answer.get("position"), client.now_s()))
    if answer["reasons"]:
        out.print(reasons_view(answer["reasons"]))
    elif answer["state"] == "pending":
        out.print("  Nothing stands in its way: it starts as soon as the scheduler gets to it.")
