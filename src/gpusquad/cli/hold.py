"""``gpusquad hold``: keeps pending jobs from starting."""

from __future__ import annotations

from gpusquad.cli._service import AsJson, JobsArgument, connect


def hold(job: JobsArgument, as_json: AsJson = False) -> None:
    """Keep pending jobs from starting until they are released."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._jobs import label, words

    client = connect()
    for_each(job, client.jobs.hold, lambda _, answer: f"{label(answer)}: {words(answer['state'])}", as_json)
