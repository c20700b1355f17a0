"""``gpusquad policy``: what decides who runs where."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Show and change what decides who runs where."

Mode = Annotated[str | None, typer.Argument(metavar="MODE", help="A bundle of all.", autocompletion=_complete.modes)]
Order = Annotated[str | None, typer.Option(metavar="NAME", help="Who is next: instead of the mode's.")]
Plan = Annotated[str | None, typer.Option(metavar="NAME", help="Who may go first: easy:backfill=shortest.")]
Place = Annotated[str | None, typer.Option(metavar="NAME", help="On which cards.")]
Preempt = Annotated[Literal["none", "priority", "order"] | None, typer.Option(help="Who may push a running job off.")]
MinRun = Annotated[str | None, typer.Option(metavar="TIME", help="No job is preempted before it ran so long.")]
MostPerJob = Annotated[int | None, typer.Option(min=0, metavar="N", help="No job is preempted more often.")]


def show(as_json: AsJson = False) -> None:
    """Show what decides now, and since when."""
    client = connect()
    answer: Any = client.policy.get()
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._policy_view import show_policy

    show_policy(answer, client.now_s())


policy = group(SUMMARY, show)
policy.command("show")(show)


@policy.command("set")
def _set(
    mode: Mode = None,
    order: Order = None,
    plan: Plan = None,
    place: Place = None,
    preempt: Preempt = None,
    min_run: MinRun = None,
    most_per_job: MostPerJob = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Why; kept with the revision.")] = "",
    as_json: AsJson = False,
) -> None:
    """Decide otherwise from now on. What runs, runs on."""
    client = connect()
    changes = _changes(mode, order, plan, place, preempt, min_run, most_per_job)
    answer: Any = client.policy.set(changes | ({"note": note} if note else {}))
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._policy_view import show_policy

    show_policy(answer, client.now_s())


@policy.command("preview")
def _preview(
    mode: Mode = None,
    order: Order = None,
    plan: Plan = None,
    place: Place = None,
    preempt: Preempt = None,
    min_run: MinRun = None,
    most_per_job: MostPerJob = None,
    as_json: AsJson = False,
) -> None:
    """Show what other policies would do to the queue as it is. Nothing changes."""
    client = connect()
    answer: Any = client.policy.preview(_changes(mode, order, plan, place, preempt, min_run, most_per_job))
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._policy_view import show_preview

    show_preview(answer, client.now_s())


@policy.command("history")
def _history(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List every change of the policies."""
    client = connect()
    revisions: Any = client.policy.revisions(limit)
    if as_json:
        print_json({"items": revisions})
        return
    from gpusquad.cli._policy_view import show_revisions

    show_revisions(revisions, client.now_s())


def _changes(
    mode: str | None,
    order: str | None,
    plan: str | None,
    place: str | None,
    preempt: str | None,
    min_run: str | None,
    most_per_job: int | None,
) -> dict[str, Any]:
    from gpusquad.model.errors import Invalid
    from gpusquad.model.units import US_PER_S, parse_us

    min_run_s = None if min_run is None else parse_us(min_run, "min-run") / US_PER_S
    preemption = _given({"by": preempt, "min_run_s": min_run_s, "most_per_job": most_per_job})
    changes = _given({"mode": mode, "order": order, "plan": plan, "place": place, "preemption": preemption or None})
    if not changes:
        raise Invalid("policy", "nothing is chosen", "name a mode, or give --order, --plan, --place or --preempt")
    return changes


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
