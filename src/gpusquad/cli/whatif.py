"""``gpusquad whatif``: what a job would meet."""

from __future__ import annotations

from typing import Any

import typer

from gpusquad.cli._job_options import JobOptions, WithWords, with_job_options, words_after_dashes
from gpusquad.cli._service import AsJson, connect, print_json

whatif = typer.Typer(add_completion=False)


@whatif.command("whatif", cls=WithWords)
@with_job_options
def _whatif(options: JobOptions, context: typer.Context, as_json: AsJson = False) -> None:
    """See what a job would meet: when it would start, where, and whom it would delay. Nothing is submitted."""
    from gpusquad.cli import _exit
    from gpusquad.cli._job_file import job_file

    file, params = job_file(options, words_after_dashes(context))
    client = connect()
    answer: Any = client.jobs.what_if(file, params)
    if as_json:
        print_json(answer)
    else:
        from gpusquad.cli._whatif_view import show_what_if

        show_what_if(answer, file["name"], client.now_s())
    if answer["refused"]:
        raise typer.Exit(_exit.REFUSED)
