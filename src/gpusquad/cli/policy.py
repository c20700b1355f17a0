"""``gpusquad policy``: scheduling policies of the service and divide policies of cards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

SUMMARY = "Show and change the scheduling policies, and how jobs share a card. Without a subcommand, show the policies."
ALL = "all"
"""Stands for all cards in ``--card``."""

Mode = Annotated[
    str | None,
    typer.Argument(
        metavar="MODE", help="Mode, a named set of policies (see gpusquad policies).", autocompletion=_complete.modes
    ),
]
Chosen = Annotated[
    str | None,
    typer.Argument(
        metavar="MODE|DIVIDE",
        help="Mode, a named set of policies (see gpusquad policies). "
        "With --card: divide policy, for example slo or hybrid:alpha=0.5.",
        autocompletion=_complete.modes_or_divides,
    ),
]
Cards = Annotated[
    list[str] | None,
    typer.Option(
        "--card", "-c", metavar="CARD", autocompletion=_complete.cards,
        help="Card: its ID or UUID, the start of one, NODE/INDEX, INDEX if there is only one node, or all. "
        "Can be repeated.",
    ),
]  # fmt: skip
Order = Annotated[
    str | None, typer.Option(metavar="NAME", help="Order policy: which job is next. Replaces the mode's.")
]
Plan = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Plan policy: reservations and backfill, for example easy:backfill=shortest. Replaces the mode's.",
    ),
]
Place = Annotated[str | None, typer.Option(metavar="NAME", help="Place policy: on which cards. Replaces the mode's.")]
Preempt = Annotated[
    Literal["none", "priority", "order"] | None,
    typer.Option(
        help="Which jobs may preempt running ones: none, those of a higher priority class, or also those first in "
        "order. Replaces the mode's."
    ),
]
MinRun = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Minimum run time before a job can be preempted, for example 10m. Replaces the mode's."
    ),
]
MostPerJob = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Maximum number of preemptions per job. Replaces the mode's.")
]

Overstay = Annotated[
    Literal["never", "checkpointed", "always"] | None,
    typer.Option(
        help="Which backfilled jobs are preempted when they outlive the time for which they were admitted and a job "
        "ahead of them could start otherwise. Replaces the mode's."
    ),
]
Lanes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with the rules that assign jobs to lanes, as in a mode file. Replaces the mode's rules.",
    ),
]
Preemptible = Annotated[
    str | None,
    typer.Option(
        metavar="LANE,…|none",
        help="Lanes whose running jobs may be preempted; those of other lanes may not. Replaces the mode's.",
    ),
]


def show(card: Cards = None, as_json: AsJson = False) -> None:
    """Show the current policies. With --card: show how a card is divided among its jobs."""
    client = connect()
    if card:
        _show_cards(client, card, as_json)
        return
    answer: Any = client.policy.get()
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._views.card import show_own
    from gpusquad.cli._views.policy import show_policy

    show_policy(answer, client.now_s())
    show_own(client.cards.all(), client.now_s())


policy = group(SUMMARY, show)
policy.command("show")(show)


@policy.command("set")
def _set(
    chosen: Chosen = None,
    card: Cards = None,
    reset: Annotated[bool, typer.Option("--reset", help="With --card: use the mode's divide policy again.")] = False,
    order: Order = None,
    plan: Plan = None,
    place: Place = None,
    preempt: Preempt = None,
    min_run: MinRun = None,
    most_per_job: MostPerJob = None,
    overstay: Overstay = None,
    lanes: Lanes = None,
    preemptible: Preemptible = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason for the change, shown by gpusquad policy history.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Change the scheduling policies, or with --card the divide policy of cards. Running jobs continue.

    Without MODE, omitted options keep their values. With MODE, they are those of the mode.
    """
    if card or reset:
        others = (order, plan, place, preempt, min_run, most_per_job, overstay, lanes, preemptible)
        _divide(card or [], chosen, reset, note, as_json, no_other_options=all(value is None for value in others))
        return
    client = connect()
    preemption = _preemption(preempt, min_run, most_per_job, overstay)
    changes = _changes(chosen, order, plan, place, preemption, lanes, preemptible)
    answer: Any = client.policy.set(changes | ({"note": note} if note else {}))
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._views.policy import show_policy

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
    overstay: Overstay = None,
    lanes: Lanes = None,
    preemptible: Preemptible = None,
    as_json: AsJson = False,
) -> None:
    """Show how other policies would affect the current queue, without changing them."""
    client = connect()
    preemption = _preemption(preempt, min_run, most_per_job, overstay)
    answer: Any = client.policy.preview(_changes(mode, order, plan, place, preemption, lanes, preemptible))
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._views.policy import show_preview

    show_preview(answer, client.now_s())


@policy.command("history")
def _history(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="Show at most N changes.")
    ] = 20,
    card: Annotated[
        str | None,
        typer.Option(
            "--card",
            "-c",
            metavar="CARD",
            autocompletion=_complete.cards,
            help="Show the changes of this card's divide policy, or with all, of all cards.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the changes of the scheduling policies, or with --card of a card's divide policy."""
    client = connect()
    if card is not None:
        divides: Any = _revisions(client, card, limit)
        if as_json:
            print_json({"items": divides})
            return
        from gpusquad.cli._views.card import show_divides

        show_divides(divides, client.now_s(), of_several=card == ALL)
        return
    revisions: Any = client.policy.revisions(limit)
    if as_json:
        print_json({"items": revisions})
        return
    from gpusquad.cli._views.policy import show_revisions

    show_revisions(revisions, client.now_s())


def _revisions(client: Client, ref: str, limit: int) -> list[Any]:
    """Revisions, newest first. Virtual cards share those of their card, so each is listed once."""
    found = {one["revision"]: one for name in _card_ids(client, [ref]) for one in client.cards.revisions(name, limit)}
    return [found[number] for number in sorted(found, reverse=True)][:limit]


def _show_cards(client: Client, refs: list[str], as_json: bool) -> None:
    found: Any = [client.cards.get(name) for name in _card_ids(client, refs)]
    if as_json:
        print_json(found[0] if len(found) == 1 and ALL not in refs else {"items": found})
        return
    from gpusquad.cli._views.card import show_card

    for at, card in enumerate(found):
        if at:
            typer.echo()
        show_card(card, client.now_s())


def _divide(refs: list[str], chosen: str | None, reset: bool, note: str, as_json: bool, no_other_options: bool) -> None:
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._notes import show_notes
    from gpusquad.cli._views.card import set_line
    from gpusquad.model.errors import Invalid

    if not refs:
        raise Invalid("card", "is missing", "add --card 0, or --card all")
    if not no_other_options:
        raise Invalid(
            "card",
            "cannot be combined with order, plan, place or preemption options",
            "leave out --card or those options",
        )
    if reset == (chosen is not None):
        problem = "cannot be combined with --reset" if reset else "is missing"
        raise Invalid("policy", problem, "name one listed by `gpusquad policies divide`, or use --reset")
    client = connect()
    warned: set[str] = set()

    def divide(name: str) -> Any:
        card: Any = client.cards.divide(name, chosen, note)
        warning = _renamed(chosen or "", card["divide"]["policy"])
        if warning and warning not in warned:
            warned.add(warning)
            show_notes({"warnings": [warning]})
        return card

    for_each(_card_ids(client, refs), divide, lambda _, card: set_line(card), as_json)


def _renamed(chosen: str, stored: str) -> str:
    """A warning if the service stored the policy under another name. Empty: it did not."""
    old, new = (spec.partition(":")[0].strip() for spec in (chosen, stored))
    return f"divide policy {old} is deprecated and was stored as {new}; use {new}" if old not in ("", new) else ""


def _card_ids(client: Client, refs: list[str]) -> list[str]:
    _check_not_empty(refs)
    return [card["id"] for card in client.cards.all()] if ALL in refs else list(dict.fromkeys(refs))


def _check_not_empty(refs: list[str]) -> None:
    from gpusquad.model.errors import Invalid

    if not all(name.strip() for name in refs):
        raise Invalid("card", "is empty", "name a card, for example 0, or all")


def _changes(
    mode: str | None,
    order: str | None,
    plan: str | None,
    place: str | None,
    preemption: dict[str, Any],
    lanes: Path | None,
    preemptible: str | None,
) -> dict[str, Any]:
    from gpusquad.model.errors import Invalid

    changes = _without_none(
        {"mode": mode, "order": order, "plan": plan, "place": place, "preemption": preemption or None,
         "lanes": None if lanes is None else _rows(lanes),
         "preemptible": None if preemptible is None else _names(preemptible)}
    )  # fmt: skip
    if not changes:
        raise Invalid("policy", "is not changed", "name a mode, or use --order, --plan, --place, --preempt or --lanes")
    return changes


def _preemption(by: str | None, min_run: str | None, most_per_job: int | None, overstay: str | None) -> dict[str, Any]:
    from gpusquad.model.units import US_PER_S, parse_us

    min_run_s = None if min_run is None else parse_us(min_run, "min-run") / US_PER_S
    return _without_none({"by": by, "min_run_s": min_run_s, "most_per_job": most_per_job, "overstay": overstay})


def _rows(path: Path) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from gpusquad.modes import load_lanes

    return [asdict(lane) for lane in load_lanes(path)]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
