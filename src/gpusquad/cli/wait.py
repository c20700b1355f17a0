"""``gpusquad wait``: waits for jobs to end."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli._service import AsJson, JobsArgument, connect, print_json


def wait(
    job: JobsArgument,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Stop waiting after this time, for example 90s or 2h. Exit code 124. Default: no limit.",
        ),
    ] = "",
    any_one: Annotated[bool, typer.Option("--any", help="Return when the first job ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Wait for jobs to end. Exit code: 0 if all succeeded, 1 if not, 124 after the timeout."""
    from gpusquad.cli import _exit
    from gpusquad.cli._wait_jobs import wait_for
    from gpusquad.model.units import US_PER_S, parse_us

    timeout_s = parse_us(timeout, "timeout") / US_PER_S if timeout else None
    ended = wait_for(connect(), job, any_one=any_one, timeout_s=timeout_s, verbose=not as_json)
    if as_json:
        print_json({"items": ended})
    raise typer.Exit(_exit.of_states([one["state"] for one in ended]))
