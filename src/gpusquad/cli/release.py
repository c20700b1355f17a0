"""``gpusquad release``: lets held jobs start."""

from __future__ import annotations

from gpusquad.cli._service import AsJson, JobsArgument, connect


def release(job: JobsArgument, as_json: AsJson = False) -> None:
    """Release held jobs, so that they can start."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._jobs import label, words

    client = connect()
    for_each(job, client.jobs.release, lambda _, answer: f"{label(answer)}: {words(answer['state'])}", as_json)
