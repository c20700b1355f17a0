"""``gpusquad why``: explains why a job has not started, or what hang detection says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def why(job: JobArgument, as_json: AsJson = False) -> None:
    """Explain why a job has not started: every reason, with numbers and what would help. Of a running job, explain
    warnings of hang detection."""
    show_why(connect(), job, as_json)


def show_why(client: Client, job: str, as_json: bool) -> None:
    """Print the reasons."""
    answer: Any = client.jobs.why(job)
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._answers import eligible, hangs_view, heading, passed_view, reasons_view
    from gpusquad.cli._tables import console

    out = console()
    view = client.jobs.get(job)
    out.print(heading(view, answer.get("position"), client.now_s()))
    if since := eligible(view, client.now_s()):
        out.print(f"  {since}")
    if answer["reasons"]:
        out.print(reasons_view(answer["reasons"]))
    if answer.get("passed"):
        out.print(passed_view(answer["passed"]))
    if answer.get("hang_warnings"):
        out.print(hangs_view(answer["hang_warnings"], client.now_s()))
    if not answer["reasons"] and answer["state"] == "pending":
        out.print("  No blocking reason. It is expected to start in the next scheduling cycle.")
