"""``gpusquad resubmit``: submits a job again."""

from __future__ import annotations

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json


def resubmit(job: JobArgument, as_json: AsJson = False) -> None:
    """Submit a job again, unchanged, and print the plan."""
    client = connect()
    accepted = client.jobs.resubmit(job)
    if as_json:
        print_json(accepted)
        return
    from gpusquad.cli._views.plan import show_plan

    show_plan(client, accepted)
