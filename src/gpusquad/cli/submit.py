"""``gpusquad submit``: submits a job file or a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._job_options import JobOptions, WithWords, with_job_options, words_after_dashes
from gpusquad.cli._notes import show_notes
from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

submit = typer.Typer(add_completion=False)
_AFTER = "After submission"


@submit.command("submit", cls=WithWords)
@with_job_options
def _submit(
    options: JobOptions,
    context: typer.Context,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until the job ends. Exit with code 0 if it succeeded, otherwise with 1.",
            rich_help_panel=_AFTER,
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Wait as with --wait, and print the output of the job.", rich_help_panel=_AFTER
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing. Show the same plan as gpusquad whatif.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only job IDs.", rich_help_panel=_AFTER)] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job file or a command, and show when and where it is expected to run.

    Options override the fields of the job file.

    gpusquad submit train.yaml --set lr=0.1

    gpusquad submit --gpus 2 --name vgg -- python train.py --epochs 90
    """
    from gpusquad.cli._job_file import job_file
    from gpusquad.cli._option_errors import option_errors

    file, params = job_file(options, words_after_dashes(context))
    client = connect()
    with option_errors(options, file):
        if dry_run:
            from gpusquad.cli.whatif import ask_what_if

            return ask_what_if(client, file, params, as_json)
        accepted: Any = client.jobs.submit(file, params)
    show_notes(accepted)
    if quiet:
        typer.echo("\n".join(job["id"] for job in accepted["jobs"]))
    elif as_json and not (wait or follow):
        print_json(accepted)
    elif not as_json:
        from gpusquad.cli._views.plan import show_plan

        show_plan(client, accepted)
    if wait or follow:
        _wait(client, accepted, follow, as_json)


def _wait(client: Client, accepted: dict[str, Any], follow: bool, as_json: bool) -> None:
    from gpusquad.cli import _exit
    from gpusquad.cli._wait_jobs import follow_logs, wait_for

    ids = [job["id"] for job in accepted["jobs"]]
    if follow and len(ids) == 1 and not as_json:
        follow_logs(client, ids[0])
    ended = wait_for(client, ids, verbose=not as_json)
    if as_json:
        print_json(accepted | {"jobs": ended})
    raise typer.Exit(_exit.of_states([job["state"] for job in ended]))
