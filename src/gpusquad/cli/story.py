"""``gpusquad story``: lists the events of a job."""

from __future__ import annotations

from typing import Any

from gpusquad.cli._service import AsJson, JobArgument, connect, print_json


def story(job: JobArgument, as_json: AsJson = False) -> None:
    """List the events of a job: what happened, when, why, and who caused it."""
    client = connect()
    events: Any = client.jobs.story(job)
    if as_json:
        print_json({"items": events})
        return
    from gpusquad.cli._answers import heading
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.story import evidence_lines, story_table

    out = console()
    out.print(heading(client.jobs.get(job), None, client.now_s()))
    out.print(story_table(events, out.width))
    for line in evidence_lines(events):
        out.print(line, markup=False, highlight=False)
