"""Tests for stored run-time predictions, their actual values and the past runs for training."""

from dataclasses import replace

from gpusquad.store import attempts, jobs, run_forecasts
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.run_forecasts import BEFORE_ALL, RunForecastRow, Truth
from gpusquad.store.trim import trim
from tests.store.examples import job

LEVELS, VALUES = [0.5, 0.9], [100, 2**60]


def forecast(number: int, attempt: int = 0, **columns) -> RunForecastRow:
    row = RunForecastRow(job(number).id, attempt, number, "physics", "ada", "history", 0.5, None, levels=LEVELS,
                          values_us=VALUES)  # fmt: skip
    return replace(row, **columns)


def actual_value(number: int, settled_us: int, how: str = "succeeded", attempt: int = 0) -> Truth:
    return Truth(job(number).id, attempt, 120, how, settled_us, 7, 900)


def test_settle_keeps_the_first_actual_value(database):
    with database.write() as c:
        run_forecasts.add(c, [forecast(1), forecast(1, 1)])
        assert run_forecasts.settle(c, actual_value(1, 50))
        assert not run_forecasts.settle(c, actual_value(1, 60, "failed"))
        assert not run_forecasts.settle(c, actual_value(2, 60))
        settled = forecast(1, truth_us=120, how="succeeded", settled_us=50, peak_memory_bytes=7, cpu_milli=900)
        assert run_forecasts.of_job(c, job(1).id) == [settled, forecast(1, 1)]


def test_new_prediction_replaces_the_open_one_of_the_attempt(database):
    with database.write() as c:
        run_forecasts.add(c, [forecast(1)])
        run_forecasts.add(c, [forecast(1, source="user", levels=[], values_us=[])])
        assert [row.source for row in run_forecasts.of_job(c, job(1).id)] == ["user"]


def test_settled_predictions_are_listed_newest_first_with_filters(database):
    with database.write() as c:
        run_forecasts.add(c, [forecast(n, tenant="ab"[n % 2], source="xyz"[n % 3]) for n in range(6)])
        run_forecasts.add(c, [forecast(9)])
        for n in range(6):
            run_forecasts.settle(c, actual_value(n, 100 + n, "cancelled" if n == 5 else "failed"))

        def settled_numbers(*args, **kwargs):
            return [int(row.job_id[3:]) for row in run_forecasts.settled(c, *args, **kwargs)]

        assert settled_numbers(0) == [5, 4, 3, 2, 1, 0]
        assert settled_numbers(103) == [5, 4, 3]
        assert settled_numbers(0, "a") == [4, 2, 0]
        assert settled_numbers(0, "b", "x") == [3]
        assert settled_numbers(0, limit=2) == [5, 4]
        assert settled_numbers(0, with_cut=False) == [4, 3, 2, 1, 0]


def add_attempt(c, number: int, attempt: int, ended_us: int | None, how: str = "succeeded") -> None:
    attempts.open(c, AttemptRow(job(number).id, attempt, "physics", "ada", 5))
    if ended_us is not None:
        attempts.close(c, job(number).id, attempt, ended_us, how)


def test_past_runs_are_paged_in_order_of_their_ends(database):
    with database.write() as c:
        jobs.insert(c, [job(n, kept_us=3, attempt=1 if n == 2 else 0) for n in (1, 2, 3, 4)])
        add_attempt(c, 3, 0, 20)
        add_attempt(c, 2, 0, 20, "preempted")
        add_attempt(c, 2, 1, 40)
        add_attempt(c, 1, 0, 30, "held")
        add_attempt(c, 4, 0, None)
        run_forecasts.add(c, [forecast(1)])
        run_forecasts.settle(c, actual_value(1, 31))
        seen, after = [], BEFORE_ALL
        while page := run_forecasts.past_runs(c, after, 2):
            seen += page
            after = page[-1].key
        assert [(row.key, row.how, row.is_last) for row in seen] == [
            ((20, job(2).id, 0), "preempted", False),
            ((20, job(3).id, 0), "succeeded", True),
            ((30, job(1).id, 0), "held", True),
            ((40, job(2).id, 1), "succeeded", True),
        ]
        assert [row.peak_memory_bytes for row in seen] == [None, None, 7, None]
        assert seen[0].core == job(2).core
        assert run_forecasts.is_known(c, seen[0].key)
        assert not run_forecasts.is_known(c, (21, *seen[0].key[1:]))
        assert run_forecasts.first_to_learn(c, 4) == BEFORE_ALL
        assert run_forecasts.first_to_learn(c, 2) == seen[1].key
        assert len(run_forecasts.past_runs(c, run_forecasts.first_to_learn(c, 2), 9)) == 2


def test_trim_removes_old_settled_predictions_and_open_ones_of_ended_jobs(database):
    with database.write() as c:
        jobs.insert(c, [job(1, ended_us=50), job(2), job(3, ended_us=200)])
        run_forecasts.add(c, [forecast(n) for n in (1, 2, 3)])
        run_forecasts.settle(c, actual_value(3, 200))
        run_forecasts.add(c, [forecast(3, 1, made_us=201)])
        assert trim(c, 100, 100).forecasts == 1
        assert [len(run_forecasts.of_job(c, job(n).id)) for n in (1, 2, 3)] == [0, 1, 2]
        assert trim(c, 201, 100).forecasts == 1
        assert [row.attempt for row in run_forecasts.of_job(c, job(3).id)] == [1]
