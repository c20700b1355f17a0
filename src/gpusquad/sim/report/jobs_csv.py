"""One row per job, for other programs."""

from __future__ import annotations

import csv
from pathlib import Path

from gpusquad.model.units import US_PER_S
from gpusquad.sim.outcome import Outcome, SimulationResult

HEADER = ("job_id", "submitted_s", "started_s", "ended_s", "cards")


def write_jobs(result: SimulationResult, path: str | Path) -> None:
    """Rows in trace order. ``started_s`` is the first start, ``cards`` those of the last attempt.

    What never happened is blank: all three for a job that never started, ``ended_s`` for one that still runs.
    """
    card_ids = [card.id for node in result.cluster.nodes for card in node.cards]
    # backslashreplace: half a character in an id (JSON allows it) must not stop the file from being written.
    with Path(path).open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(_row(outcome, card_ids) for outcome in result.outcomes)


def _row(outcome: Outcome, card_ids: list[str]) -> tuple[str, ...]:
    job = outcome.job
    if not outcome.spans:
        return (job.id, exact_seconds(job.submitted_us), "", "", "")
    # A gang may have two tasks on one card; the card is named once.
    cards = " ".join(card_ids[card] for card in dict.fromkeys(outcome.spans[-1].cards))
    started = exact_seconds(outcome.spans[0].started_us)
    ended = "" if outcome.ended_us is None else exact_seconds(outcome.ended_us)
    return (job.id, exact_seconds(job.submitted_us), started, ended, cards)


def exact_seconds(value_us: int) -> str:
    """``12`` or ``12.000001``: exact to the microsecond, no more digits than needed, never through a float."""
    sign = "-" if value_us < 0 else ""
    whole, rest = divmod(abs(value_us), US_PER_S)
    return f"{sign}{whole}.{rest:06d}".rstrip("0") if rest else f"{sign}{whole}"
