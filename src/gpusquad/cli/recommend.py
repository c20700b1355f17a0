"""``gpusquad recommend``: recommends resource requests."""

from __future__ import annotations

from typing import Any

import typer

from gpusquad.cli._job_options import JobOptions, WithWords, with_job_options, words_after_dashes
from gpusquad.cli._service import AsJson, connect, print_json

recommend = typer.Typer(add_completion=False)


@recommend.command("recommend", cls=WithWords)
@with_job_options
def _recommend(options: JobOptions, context: typer.Context, as_json: AsJson = False) -> None:
    """Recommend which resources a job should request, based on past similar runs. Nothing is submitted."""
    from gpusquad.cli._job_file import job_file
    from gpusquad.cli._option_errors import option_errors

    file, params = job_file(options, words_after_dashes(context))
    with option_errors(options, file):
        answer: Any = connect().jobs.recommend(file, params)
    if as_json:
        print_json(answer)
    else:
        from gpusquad.cli._views.recommend import show_recommendation

        show_recommendation(answer, file["name"])
