"""``gpusquad show``: shows one job with its requests and what it used."""

from __future__ import annotations

from typing import Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json


def show(job: JobArgument, as_json: AsJson = False) -> None:
    """Show a job: its goals, its requests, what auto chose and why, its estimator's answer, and what it used."""
    client = connect()
    view: Any = client.jobs.get(job)
    if as_json:
        print_json(view)
        return
    from gpusquad.cli._answers import hangs_view, heading
    from gpusquad.cli._tables import console, facts
    from gpusquad.cli._views.job import auto_table, job_facts

    out = console()
    out.print(heading(view, None, client.now_s()))
    out.print(facts(job_facts(view, client.now_s())))
    if view["hang_warnings"]:
        out.print(hangs_view(view["hang_warnings"], client.now_s()))
    if view["auto"]:
        out.print(auto_table(view, out.width))
