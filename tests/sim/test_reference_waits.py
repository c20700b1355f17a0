"""EASY as a reference implementation does it: the same wait for every job."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.sim.simulator import Scenario, exact, simulate, user
from gpusquad.sim.traces import TraceJob, read
from tests.strategies import gang


def waits_s(jobs, cards: int, plan: str, forecast, event_order: str = "reference") -> dict[str, float]:
    policies = make_policies("fifo", plan, "binpack")
    result = simulate(Scenario(grid(f"{cards}x1"), jobs, policies, forecast, event_order=event_order))
    return {o.job.id: o.wait_us / 1e6 for o in result.outcomes}


# -- by hand: one rule of the event order each, four cards ---------------------------------------------------------


def test_who_is_predicted_to_end_now_counts_as_gone_when_somebody_comes():
    """At 10 the cards of "done" are free before "next" is looked at: it does not wait."""
    jobs = [gang("done", 4, 10), gang("next", 4, 5, 10)]
    assert waits_s(jobs, 4, "easy", user) == {"done": 0, "next": 0}


def test_who_ends_early_is_gone_only_after_those_who_come_at_that_instant():
    """At 10 "early" ends before its time. "small" comes at that instant and is decided first, while the head cannot
    start yet: it slips in on the free card, for its time ends before the head's promise. Then "early" ends; the head
    needs the card that "small" has now."""
    jobs = [gang("early", 3, 10, estimate=100), gang("head", 4, 5, 1), gang("small", 1, 7, 10)]
    assert waits_s(jobs, 4, "easy", user) == {"early": 0, "head": 16, "small": 0}
    # In one cycle for the whole instant the head goes first.
    assert waits_s(jobs, 4, "easy", user, "batch") == {"early": 0, "head": 9, "small": 5}


def test_those_who_come_at_one_instant_are_decided_one_by_one_in_file_order():
    """Shortest first is among those who wait; "mid" is alone when it comes, so it starts before "short"."""
    jobs = [gang("long", 3, 100), gang("head", 4, 5, 1), gang("mid", 1, 60, 2), gang("short", 1, 50, 2)]
    assert waits_s(jobs, 4, "easy:backfill=shortest", exact) == {"long": 0, "head": 99, "mid": 0, "short": 103}
    assert waits_s(jobs, 4, "easy:backfill=shortest", exact, "batch")["short"] == 0


def test_ends_at_one_instant_are_decided_one_by_one_in_the_order_of_starts():
    """Both end early at 10. After the first, two cards are free and "head" (3) still cannot start; "small" (2) can and
    keeps its cards beyond; when the second ends the head has only two."""
    jobs = [
        gang("one", 2, 10, estimate=50), gang("two", 2, 10, estimate=50),
        gang("head", 3, 5, 1, estimate=5), gang("small", 2, 30, 2, estimate=30),
    ]  # fmt: skip
    assert waits_s(jobs, 4, "easy", user) == {"one": 0, "two": 0, "head": 39, "small": 8}
    assert waits_s(jobs, 4, "easy", user, "batch")["head"] == 9


def test_backfill_is_by_estimates_not_by_the_truth():
    jobs = [gang("long", 3, 50, estimate=60), gang("head", 4, 5, 1), gang("small", 1, 10, 2, estimate=59)]
    assert waits_s(jobs, 4, "easy", user)["small"] == 53
    assert waits_s(jobs, 4, "easy", exact)["small"] == 0


# -- the public logs -----------------------------------------------------------------------------------------------

CARDS = {"KTH-SP2": 100}
COLUMNS = {"wait_easy": ("easy", user), "wait_easypp_clairvoyant": ("easy:backfill=shortest", exact)}


def reference(folder: Path, log: str) -> tuple[list[TraceJob], list[dict[str, str]]]:
    path = folder / "swf-backfill" / f"{log}_jobs_and_reference_waits.csv.gz"
    if not path.is_file():
        pytest.skip(f"no reference waits at {path}")
    with gzip.open(path, "rt") as file:
        return read(path).jobs, list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("log", CARDS)
def test_every_job_of_the_log_waits_as_in_the_reference(shared_data: Path, log: str, column: str):
    jobs, rows = reference(shared_data, log)
    ours = waits_s(jobs, CARDS[log], *COLUMNS[column])
    differ = {row["job_id"]: (float(row[column]), ours[row["job_id"]])
              for row in rows if ours[row["job_id"]] != float(row[column])}  # fmt: skip
    assert len(ours) == len(rows)
    assert not differ, f"{len(differ)} of {len(rows)} differ, first {list(differ.items())[:3]}"
