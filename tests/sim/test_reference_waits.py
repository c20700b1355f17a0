"""EASY compared with a reference implementation: the same wait for every job."""

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


# -- rules of the event order, on four cards -----------------------------------------------------------------------


def test_run_at_its_predicted_end_has_released_its_cards_at_a_submission():
    """At 10 the cards of "done" are free before "next" is decided, so "next" does not wait."""
    jobs = [gang("done", 4, 10), gang("next", 4, 5, 10)]
    assert waits_s(jobs, 4, "easy", user) == {"done": 0, "next": 0}


def test_early_end_counts_only_after_submissions_at_the_same_instant():
    """At 10 "early" ends before its estimate. "small" is submitted at that instant and decided first, while the head
    cannot start: it is backfilled on the free card, because it ends before the reservation of the head. Then "early"
    ends, and the head needs the card that "small" holds."""
    jobs = [gang("early", 3, 10, estimate=100), gang("head", 4, 5, 1), gang("small", 1, 7, 10)]
    assert waits_s(jobs, 4, "easy", user) == {"early": 0, "head": 16, "small": 0}
    # With one cycle for all events of the instant, the head starts first.
    assert waits_s(jobs, 4, "easy", user, "batch") == {"early": 0, "head": 9, "small": 5}


def test_jobs_submitted_at_one_instant_are_decided_one_by_one_in_file_order():
    """Shortest first applies to pending jobs only. "mid" is the only one when it is submitted, so it starts first."""
    jobs = [gang("long", 3, 100), gang("head", 4, 5, 1), gang("mid", 1, 60, 2), gang("short", 1, 50, 2)]
    assert waits_s(jobs, 4, "easy:backfill=shortest", exact) == {"long": 0, "head": 99, "mid": 0, "short": 103}
    assert waits_s(jobs, 4, "easy:backfill=shortest", exact, "batch")["short"] == 0


def test_ends_at_one_instant_are_decided_one_by_one_in_the_order_of_starts():
    """Both end early at 10. After the first end, two cards are free: "head" (3) cannot start, "small" (2) starts and
    keeps them. After the second end, only two cards are free for the head."""
    jobs = [
        gang("one", 2, 10, estimate=50), gang("two", 2, 10, estimate=50),
        gang("head", 3, 5, 1, estimate=5), gang("small", 2, 30, 2, estimate=30),
    ]  # fmt: skip
    assert waits_s(jobs, 4, "easy", user) == {"one": 0, "two": 0, "head": 39, "small": 8}
    assert waits_s(jobs, 4, "easy", user, "batch")["head"] == 9


def test_backfill_uses_estimates_and_not_actual_run_times():
    jobs = [gang("long", 3, 50, estimate=60), gang("head", 4, 5, 1), gang("small", 1, 10, 2, estimate=59)]
    assert waits_s(jobs, 4, "easy", user)["small"] == 53
    assert waits_s(jobs, 4, "easy", exact)["small"] == 0


# -- public logs ---------------------------------------------------------------------------------------------------

CARDS = {"KTH-SP2": 100}
COLUMNS = {"wait_easy": ("easy", user), "wait_easypp_clairvoyant": ("easy:backfill=shortest", exact)}


def read_reference(folder: Path, log: str) -> tuple[list[TraceJob], list[dict[str, str]]]:
    path = folder / "swf-backfill" / f"{log}_jobs_and_reference_waits.csv.gz"
    if not path.is_file():
        pytest.skip(f"no reference waits at {path}")
    with gzip.open(path, "rt") as file:
        return read(path).jobs, list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("log", CARDS)
def test_every_wait_of_the_log_equals_the_reference(shared_data: Path, log: str, column: str):
    jobs, rows = read_reference(shared_data, log)
    ours = waits_s(jobs, CARDS[log], *COLUMNS[column])
    differences = {row["job_id"]: (float(row[column]), ours[row["job_id"]])
              for row in rows if ours[row["job_id"]] != float(row[column])}  # fmt: skip
    assert len(ours) == len(rows)
    assert not differences, f"{len(differences)} of {len(rows)} differ, first {list(differences.items())[:3]}"
