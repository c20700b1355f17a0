"""``gpusquad release``: lets held jobs start."""

from __future__ import annotations

from typing import Any

from gpusquad.cli._service import AsJson, JobsArgument, connect


def release(job: JobsArgument, as_json: AsJson = False) -> None:
    """Release held jobs, so that they can start. Jobs that wait for their next attempt are tried now."""
    from gpusquad.cli._batch import for_each

    client = connect()
    for_each(job, client.jobs.release, lambda _, answer: _released(answer), as_json)


def _released(job: Any) -> str:
    """Its new state, and what it still waits for."""
    from gpusquad.cli._jobs import label, words

    waits = [f"the {one['on']} of {one['job']}" for one in job["after"]] if job["state"] == "held" else []
    return f"{label(job)}: {words(job['state'])}" + (f", waits for {', '.join(waits)}" if waits else "")
