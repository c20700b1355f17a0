"""``gpusquad update``: change a job that waits or runs."""

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
        Text, typer.Option("--priority", "-p", metavar="CLASS", help="low, normal, high or urgent.",
                           autocompletion=_complete.priorities)
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="GOAL=VALUE", help="p99=20ms, deadline=6h, throughput=100/s; none removes the goal."),
    ] = None,
    estimate: Annotated[Text, typer.Option(metavar="TIME", help="How long it may run: 2h.")] = None,
    limit: Annotated[Text, typer.Option(metavar="TIME", help="It is stopped after this.")] = None,
    memory: Annotated[
        Text,
        typer.Option(
            metavar="SIZE", help="Of its card, for each task with a share: 6GiB, 30%; peak: what it held at most."
        ),
    ] = None,
    queue: Annotated[Text, typer.Option(metavar="NAME", help="Another queue of its tenant.")] = None,
    lane: Annotated[Text, typer.Option(metavar="NAME", help="Another lane.")] = None,
    name: Annotated[Text, typer.Option("--name", "-n", metavar="NAME", help="Another name.")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change a job's priority, goal, estimate, limit or part of a card's memory while it waits or runs."""
    from gpusquad.cli._jobs import label
    from gpusquad.model.errors import Invalid

    given = {
        "priority": priority, "estimate": estimate, "limit": limit, "memory": memory, "queue": queue,
        "lane": lane, "name": name, "slo": _goal(slo),
    }  # fmt: skip
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise Invalid("update", "changes nothing", "give for example --priority high")
    answer: Any = connect().jobs.update(job, changes)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{label(answer)}: changed {', '.join(_changed(name, answer) for name in changes)}")


def _changed(name: str, answer: Any) -> str:
    """An amount that the service has chosen is told."""
    memory = answer.get("memory") if name == "memory" else None
    return name if memory is None else f"memory to {size(memory) if isinstance(memory, int) else memory}"


def _goal(texts: list[str] | None) -> dict[str, Any] | None:
    if not texts:
        return None
    if texts == ["none"]:
        return {}
    from gpusquad.model.slo_text import goals_in

    return goals_in(",".join(texts))
