"""Tests of the training table with steps that can be computed by hand."""

from __future__ import annotations

import pytest

from bench.card.training import thinned
from bench.card.training_ends import lost_ms, progress, settled_ms, stp
from bench.card.training_table import CoupleTable, plain, shown, training_tables


def steps(*parts: tuple[float, int], start_s: float = 0.0) -> list[float]:
    """Return end times of evenly spaced steps: each part has a length in seconds and a number of steps."""
    found, at_s = [], start_s
    for length_s, count in parts:
        found += [at_s + (index + 1) * length_s / count for index in range(count)]
        at_s += length_s
    return found


def test_progress_counts_a_started_step_by_its_fraction() -> None:
    done_s = [1.0, 2.0, 4.0]
    assert [progress(done_s, at_s) for at_s in (0.5, 1.0, 3.0, 9.0)] == [0.5, 1.0, 2.5, 3.0]


def test_stp_adds_both_speeds_while_both_run() -> None:
    done_s = {"first": steps((2.0, 60)), "second": steps((2.0, 40), (2.0, 80))}
    assert stp(done_s, {"first": 50.0, "second": 40.0}) == pytest.approx(30 / 50 + 20 / 40)


@pytest.mark.parametrize("late_s", [0.0, 0.02, 0.1])
def test_lost_time_is_how_long_the_second_job_stayed_slow(late_s: float) -> None:
    """A job at half its speed for a time after the other's end loses half of that time."""
    slow, fast = int(1000 * late_s), int(2000 * (2.0 - late_s))
    second = [*steps((1.0, 1000)), *(steps((late_s, slow), start_s=1.0) if slow else [])]
    second += steps((2.0 - late_s, fast), start_s=1.0 + late_s)
    found = lost_ms({"first": steps((1.0, 100)), "second": second})
    assert found == pytest.approx(500 * late_s, abs=1.0)


def test_lost_time_is_unknown_when_the_second_job_ends_soon() -> None:
    assert lost_ms({"first": [1.0], "second": steps((1.6, 160))}) is None


def test_lost_time_is_that_of_the_job_that_ends_last() -> None:
    """Under some conditions the job that is shorter alone ends last."""
    short, long = steps((1.0, 100)), [*steps((1.0, 1000)), *steps((0.1, 100), start_s=1.0)]
    long += steps((1.9, 3800), start_s=1.1)
    assert lost_ms({"first": long, "second": short}) == pytest.approx(50, abs=1.0)


@pytest.mark.parametrize("late_s", [0.0, 0.02, 0.1])
def test_settling_time_is_when_steps_reach_their_later_length(late_s: float) -> None:
    second = [*steps((1.0, 500)), *(steps((late_s, int(500 * late_s)), start_s=1.0) if late_s else [])]
    second += steps((2.0 - late_s, int(2000 * (2.0 - late_s))), start_s=1.0 + late_s)
    found = settled_ms({"first": steps((1.0, 100)), "second": second})
    assert found == pytest.approx(1000 * late_s, abs=0.5)


def test_falling_clock_gives_negative_lost_time_and_no_settling_time() -> None:
    """The card is faster for some time after the end of a job than later."""
    second = [*steps((1.0, 500)), *steps((0.4, 840), start_s=1.0), *steps((1.6, 3200), start_s=1.4)]
    done_s = {"first": steps((1.0, 100)), "second": second}
    assert lost_ms(done_s) == pytest.approx(-20, abs=1.0)
    assert settled_ms(done_s) == pytest.approx(0, abs=0.5)


def test_settling_time_is_unknown_when_the_second_job_ends_soon() -> None:
    assert settled_ms({"first": [1.0], "second": steps((1.6, 160))}) is None


HEAD = {"bench": "training", "setup": "a + b", "sitting": "s"}
ALONE = {**HEAD, "kind": "alone", "per_s": {"first": 100.0, "second": 50.0}}


def run(condition: str, factor: float, repeat: int = 0, **more: object) -> dict:
    """Return a run of two jobs that take 2 s and 4 s, multiplied by a factor."""
    done = {name: [round(1e6 * step_s) for step_s in steps((factor * length_s, 100))]
            for name, length_s in (("first", 2.0), ("second", 4.0))}  # fmt: skip
    return {**HEAD, "kind": "run", "condition": condition, "repeat": repeat, "counters": {"counters": {"sm": 0.75}},
            "done_us": done, **more}  # fmt: skip


FACTORS = {"time slicing": 1.0, "MPS": 0.9, "MPS 50/50 %": 1.1, "MPS priority": 0.85, "green 8/7": 1.2}


def couple(jct: float, repeats: int = 2, jitter: float = 0.0) -> CoupleTable:
    """``jct``: factor of gpusquad's times. ``jitter``: relative change, alternating between repeats and conditions."""
    rows: list[dict] = [ALONE]
    for repeat in range(repeats):
        for index, (name, factor) in enumerate({**FACTORS, "gpusquad jct": jct}.items()):
            rows.append(run(name, factor * (1 + jitter * (-1) ** (index + repeat)), repeat))
    return training_tables(rows)["a + b"]


def test_gpusquad_is_compared_with_time_slicing_and_mps() -> None:
    words = couple(0.8, jitter=0.001).words["gpusquad jct"]
    assert words.startswith("against time slicing mean JCT 0.80")
    assert words.count("(sooner, beyond noise)") == words.count("(more, beyond noise)") == 2
    assert couple(0.8).words["gpusquad hybrid"] == "no verdict: it was not measured"
    later = couple(1.3, jitter=0.001).words["gpusquad jct"]
    assert later.count("(later, beyond noise)") == later.count("(less, beyond noise)") == 2


def test_difference_within_noise_is_no_difference() -> None:
    table = couple(0.98, jitter=0.02)
    assert 0.02 < table.jct_noise < 0.1
    assert table.words["gpusquad jct"].startswith("against time slicing mean JCT 0.98")
    assert table.words["gpusquad jct"].split(";")[0].count("no difference beyond noise") == 2
    assert couple(0.98).words["gpusquad jct"].split(";")[0].count("(sooner, beyond noise)") == 1


def test_one_run_has_ratios_but_no_verdict() -> None:
    table = couple(0.8, repeats=1)
    summaries = {summary.condition: summary for summary in table.told}
    assert summaries["gpusquad jct"].jct_to["time slicing"].value == pytest.approx(0.8)
    assert summaries["gpusquad jct"].stp_to["MPS"].value == pytest.approx(0.9 / 0.8)
    assert table.words["gpusquad jct"].startswith("against time slicing no verdict: 1 of 2 runs")
    assert "- gpusquad jct: against time slicing no verdict" in shown({"a + b": table})


def test_table_shows_calls_versions_and_separate_rounds() -> None:
    rows = [
        {"bench": "training", "kind": "sitting", "sitting": "s", "at": "2026-01-02T03:04:05Z", "library": "0123abcd",
         "policies": "4567cdef"},
        ALONE, *(run(name, 1.0, repeat) for repeat in range(2) for name in FACTORS),
        {**ALONE, "sitting": "t", "per_s": {"first": 200.0, "second": 100.0}},
        *(run("gpusquad jct", 1.0, repeat, sitting="t") for repeat in range(2)),
    ]  # fmt: skip
    tables = training_tables(rows)
    summaries = {summary.condition: summary for summary in tables["a + b"].told}
    text = shown(tables)
    assert "2 sittings: s (2026-01-02, library 0123abcd, policies 4567cdef), t (no day, library unknown)" in text
    assert "Not all in the same rounds: time slicing, MPS, MPS 50/50 %, MPS priority, green 8/7 in 2 rounds; " in text
    assert "read 2 times" in text
    assert summaries["MPS"].stps == pytest.approx((1.0, 1.0))  # relative to the solo run of its own call
    assert summaries["gpusquad jct"].stps == pytest.approx((0.5, 0.5))
    assert plain(tables)["a + b"]["words"].keys() == {"gpusquad jct", "gpusquad hybrid"}


def test_failed_run_does_not_shift_other_runs_to_other_rounds() -> None:
    rows = [
        ALONE, run("time slicing", 1.0, 0), run("time slicing", 2.0, 1), run("time slicing", 4.0, 2),
        run("MPS", 0.5, 0, failed="it died"), run("MPS", 1.0, 1), run("MPS", 2.0, 2),
    ]  # fmt: skip
    _, under_mps = training_tables(rows)["a + b"].told
    found = under_mps.jct_to["time slicing"]
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_runs_are_shown_with_their_range() -> None:
    text = shown(training_tables([ALONE, run("MPS", 1.0), run("MPS", 1.1, 1)]))
    assert "| MPS | 2 | 3.15 (3 to 3.3) | – | – | 4.2 | 0.955 (0.909 to 1) |" in text


def test_table_has_means_and_failures() -> None:
    head = {"bench": "training", "setup": "a + b", "sitting": "s", "repeat": 0}
    run = {**head, "kind": "run", "condition": "MPS", "counters": {"counters": {"sm": 0.75}}}
    first, second = ([round(1e6 * step_s) for step_s in steps((length_s, 100))] for length_s in (2.0, 4.0))
    rows = [
        {**head, "kind": "alone", "per_s": {"first": 100.0, "second": 50.0}},
        {**run, "repeat": 0, "done_us": {"first": first, "second": second}},
        {**run, "repeat": 1, "failed": "it died"},
        {**head, "kind": "run", "condition": "never", "failed": "it died"},
    ]
    told, never = training_tables(rows)["a + b"].told
    assert (told.runs, told.failed, told.jcts_s, told.last_ends_s) == (1, 1, (3.0,), (4.0,))
    assert told.bubble_ratios == pytest.approx((0.25,))
    assert told.stps == pytest.approx((50 / 100 + 25 / 50,))
    assert never.runs == 0
    assert "| MPS | 1 (1 failed) | 3 | – | – | 4 | 1 | – | – | 0.25 | 0.5 |" in shown(training_tables(rows))


def test_thinned_steps_give_the_same_results() -> None:
    head = {"bench": "training", "setup": "a + b", "sitting": "s"}
    first, second = ([round(1e6 * step_s) for step_s in steps((length_s, 3001))] for length_s in (2.0, 4.0))
    alone = {**head, "kind": "alone", "per_s": {"first": 3000.0, "second": 1500.0}}
    run = {**head, "kind": "run", "condition": "MPS", "repeat": 0, "counters": {}}
    whole, few = (
        training_tables([alone, {**run, "every": every, "done_us": {
            "first": thinned(first, every["first"]), "second": thinned(second, every["second"])}}])["a + b"].told[0]
        for every in ({"first": 1, "second": 1}, {"first": 1, "second": 8})
    )  # fmt: skip
    assert few.stps == pytest.approx(whole.stps, rel=0.005)
    assert (few.jcts_s, few.last_ends_s) == (whole.jcts_s, whole.last_ends_s)
    assert few.known_to_ms == pytest.approx(8 * whole.known_to_ms, rel=0.005)  # lost time has a lower resolution
    assert whole.known_to_ms == pytest.approx(1000 * 4.0 / 3001 / 2, rel=0.005)
