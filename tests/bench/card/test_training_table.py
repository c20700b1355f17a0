"""What two training jobs' steps say: by hand."""

from __future__ import annotations

import pytest

from bench.card.training import thinned
from bench.card.training_table import lost_ms, progress, shown, stp, training_tables


def steps(*parts: tuple[float, int], start_s: float = 0.0) -> list[float]:
    """So many seconds with so many steps each, evenly."""
    found, at_s = [], start_s
    for length_s, count in parts:
        found += [at_s + (index + 1) * length_s / count for index in range(count)]
        at_s += length_s
    return found


def test_progress_counts_the_step_under_way_by_its_part() -> None:
    done_s = [1.0, 2.0, 4.0]
    assert [progress(done_s, at_s) for at_s in (0.5, 1.0, 3.0, 9.0)] == [0.5, 1.0, 2.5, 3.0]


def test_stp_adds_both_speeds_while_both_run() -> None:
    done_s = {"first": steps((2.0, 60)), "second": steps((2.0, 40), (2.0, 80))}
    assert stp(done_s, {"first": 50.0, "second": 40.0}) == pytest.approx(30 / 50 + 20 / 40)


@pytest.mark.parametrize("late_s", [0.0, 0.02, 0.1])
def test_lost_is_how_long_the_second_stayed_slow(late_s: float) -> None:
    """At half its speed for a time after the end: half of that time was lost."""
    slow, fast = int(1000 * late_s), int(2000 * (2.0 - late_s))
    second = [*steps((1.0, 1000)), *(steps((late_s, slow), start_s=1.0) if slow else [])]
    second += steps((2.0 - late_s, fast), start_s=1.0 + late_s)
    found = lost_ms({"first": steps((1.0, 100)), "second": second})
    assert found == pytest.approx(500 * late_s, abs=1.0)


def test_lost_is_not_known_when_the_second_ends_soon() -> None:
    assert lost_ms({"first": [1.0], "second": steps((1.6, 160))}) is None


def test_the_table_takes_medians_and_tells_failures() -> None:
    head = {"bench": "training", "setup": "a + b"}
    run = {**head, "kind": "run", "condition": "MPS", "counters": {"counters": {"sm": 0.75}}}
    first, second = ([round(1e6 * one) for one in steps((length_s, 100))] for length_s in (2.0, 4.0))
    rows = [
        {**head, "kind": "alone", "per_s": {"first": 100.0, "second": 50.0}},
        {**run, "repeat": 0, "done_us": {"first": first, "second": second}},
        {**run, "repeat": 1, "failed": "it died"},
        {**head, "kind": "run", "condition": "never", "failed": "it died"},
    ]
    told, never = training_tables(rows)["a + b"]
    assert (told.runs, told.failed, told.mean_jct_s, told.last_end_s) == (1, 1, 3.0, 4.0)
    assert told.bubble_ratio == pytest.approx(0.25)
    assert told.stp == pytest.approx(50 / 100 + 25 / 50)
    assert never.runs == 0
    assert "| MPS | 1 (1 failed) | 3 | 4 | 1 | 0.25 |" in shown(training_tables(rows))


def test_of_many_steps_one_of_several_says_the_same() -> None:
    head = {"bench": "training", "setup": "a + b"}
    first, second = ([round(1e6 * one) for one in steps((length_s, 3001))] for length_s in (2.0, 4.0))
    alone = {**head, "kind": "alone", "per_s": {"first": 3000.0, "second": 1500.0}}
    run = {**head, "kind": "run", "condition": "MPS", "repeat": 0, "counters": {}}
    whole, few = (
        training_tables([alone, {**run, "every": every, "done_us": {
            "first": thinned(first, every["first"]), "second": thinned(second, every["second"])}}])["a + b"][0]
        for every in ({"first": 1, "second": 1}, {"first": 1, "second": 8})
    )  # fmt: skip
    assert few.stp == pytest.approx(whole.stp, rel=0.005)
    assert (few.mean_jct_s, few.last_end_s) == (whole.mean_jct_s, whole.last_end_s)
