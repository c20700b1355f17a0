"""Refuses a changed number of virtual cards while jobs run on the old ones.

To the scheduler, changed virtual cards are different cards: jobs on the old ones would be lost although they run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpusquad.core.transitions import JobState
from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.model.units import show_count
from gpusquad.model.virtual import part_named, physical
from gpusquad.server.services.jobs.outcomes import ON_CARDS
from gpusquad.server.services.runtime.records import cards_of
from gpusquad.store.jobs import JobRow

_MAX_NAMED = 5


def check_unchanged(rows: Iterable[JobRow], cluster: Cluster) -> None:
    """Refuse to start if a job runs on a virtual card that no longer exists although its physical card does."""
    shown = {card.id for node in cluster.nodes for card in node.cards}
    here = {physical(card) for card in shown}
    running = [(row, _elsewhere(row, shown, here)) for row in rows if JobState(row.state) in ON_CARDS]
    stranded = [(row, cards) for row, cards in running if cards]
    if stranded:
        before = _parts(stranded[0][1][0])
        raise Invalid(
            "cluster.virtual",
            f"was {before}, and these jobs still run on their cards: {_names([row for row, _ in stranded])}",
            f"set virtual = {before} again; to change it, drain the node with `gpusquad drain` and wait for them",
        )  # fmt: skip


def _elsewhere(row: JobRow, shown: Collection[str], here: Collection[str]) -> list[str]:
    return [card for card in cards_of(row) if card not in shown and physical(card) in here]


def _parts(card: str) -> int:
    part = part_named(card)
    return 1 if part is None else part.count


def _names(rows: list[JobRow]) -> str:
    named = ", ".join(f"{row.name} ({row.id})" if row.name else row.id for row in rows[:_MAX_NAMED])
    return named + (f" and {show_count(len(rows) - _MAX_NAMED, 'other')}" if len(rows) > _MAX_NAMED else "")
