"""``gpusquad whatif``: forecasts a job without submitting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from gpusquad.cli._job_options import JobOptions, WithWords, with_job_options, words_after_dashes
from gpusquad.cli._notes import show_notes
from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

whatif = typer.Typer(add_completion=False)


@whatif.command("whatif", cls=WithWords)
@with_job_options
def _whatif(options: JobOptions, context: typer.Context, as_json: AsJson = False) -> None:
    """Show when and where a job would start, and which jobs it would delay. Nothing is submitted."""
    from gpusquad.cli._job_file import job_file
    from gpusquad.cli._option_errors import option_errors

    file, params = job_file(options, words_after_dashes(context))
    with option_errors(options, file):
        ask_what_if(connect(), file, params, as_json)


def ask_what_if(client: Client, file: dict[str, Any], params: dict[str, Any], as_json: bool) -> None:
    """Print the forecast. Exits like ``submit`` if the job would be refused."""
    from gpusquad.cli import _exit

    answer: Any = client.jobs.what_if(file, params)
    show_notes(answer)
    if as_json:
        print_json(answer)
    else:
        from gpusquad.cli._views.whatif import show_what_if

        show_what_if(answer, file["name"], client.now_s())
    if answer["refused"]:
        raise typer.Exit(_exit.REFUSED)
