"""``gpusquad update``: changes a pending or running job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, JobArgument, connect, print_json
from gpusquad.cli._sizes import size

Text = str | None


def update(
    job: JobArgument,
    priority: Annotated[
        Text,
        typer.Option(
            "--priority",
            "-p",
            metavar="CLASS|INTEGER",
            help="New priority: low, normal, high, urgent or an integer.",
            autocompletion=_complete.priorities,
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GOAL=VALUE",
            help="New service level objective: p99=20ms (latency), throughput=100/s, availability=99.9% or "
            "deadline=6h (after submission); none removes all. Can be repeated.",
        ),
    ] = None,
    estimate: Annotated[
        Text,
        typer.Option(
            metavar="TIME", help="New expected run time, for example 90s or 2h. It never stops the job (see --limit)."
        ),
    ] = None,
    limit: Annotated[
        Text, typer.Option(metavar="TIME", help="New run time after which the job is stopped, for example 4h.")
    ] = None,
    memory: Annotated[
        Text,
        typer.Option(
            metavar="SIZE",
            help="New GPU memory quota per task of a job that shares a GPU: 6GiB, 30%, or peak (the highest use so "
            "far plus 10 %).",
        ),
    ] = None,
    queue: Annotated[
        Text, typer.Option(metavar="NAME", help="New label for your own use. It does not affect scheduling.")
    ] = None,
    lane: Annotated[Text, typer.Option(metavar="NAME", help="New lane of the job.")] = None,
    name: Annotated[Text, typer.Option("--name", "-n", metavar="NAME", help="New name of the job.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a pending or running job. Omitted options keep their values."""
    from gpusquad.cli._jobs import label
    from gpusquad.model.errors import Invalid

    given = {
        "priority": priority, "estimate": estimate, "limit": limit, "memory": memory, "queue": queue,
        "lane": lane, "name": name, "slo": _goal(slo),
    }  # fmt: skip
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise Invalid("update", "changes nothing", "use for example --priority high")
    answer: Any = connect().jobs.update(job, changes)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{label(answer)}: changed {', '.join(_changed(name, answer) for name in changes)}")


def _changed(name: str, answer: Any) -> str:
    """The changed field, with the amount if the service chose it."""
    memory = answer.get("memory") if name == "memory" else None
    return name if memory is None else f"memory to {size(memory) if isinstance(memory, int) else memory}"


def _goal(texts: list[str] | None) -> dict[str, Any] | None:
    if not texts:
        return None
    if texts == ["none"]:
        return {}
    from gpusquad.model.slo_text import goals_in

    return goals_in(",".join(texts))
