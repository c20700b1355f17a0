"""Contract tests of engines: a test module subclasses `EngineContract` and defines how its engine is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Engine, Report
from gpusquad.model.errors import Invalid
from tests.engines.harness import Bench, Reports, launch, lines, saver

FOREVER = "while :; do sleep 60; done"


class EngineContract:
    """Tests of the guarantees of `core.ports.Engine`, using only its calls and reports."""

    @pytest.fixture
    def make_engine(self, tmp_path: Path) -> Callable[[Callable[[Report], None]], Engine]:
        """Creates an engine with a fixed home; a second call acts as the same service after a restart."""
        raise NotImplementedError

    @pytest.fixture
    def bench(self, make_engine: Callable, tmp_path: Path) -> Iterator[Bench]:
        created = Bench(make_engine, tmp_path)
        yield created
        created.close()

    def test_gang_starts_and_succeeds(self, bench: Bench) -> None:
        bench.launch("job", "true", "true")
        assert len(bench.reports.started("job").pids) == 2
        end = bench.reports.ended("job")
        assert (end.how, end.first, end.never_started) == ("succeeded", None, False)
        assert [type(report) for report in bench.reports.all] == [AttemptStarted, AttemptEnded]

    def test_failed_task_is_reported(self, bench: Bench) -> None:
        bench.launch("job", FOREVER, "exit 7", FOREVER)
        end = bench.reports.ended("job")
        assert end.how == "failed"
        assert end.first is not None
        assert (end.first.task, end.first.exit_code, end.first.signal) == (1, 7, None)

    def test_no_task_runs_when_one_cannot_start(self, bench: Bench) -> None:
        ran = bench.folder / "ran"
        bench.launch("job", f"echo ran >> {ran}", ["no-such-command"], f"echo ran >> {ran}")
        end = bench.reports.ended("job")
        assert (end.how, end.never_started) == ("failed", True)
        assert end.first is not None
        assert end.first.task == 1
        assert "no-such-command" in end.cause
        assert lines(ran) == []

    def test_stop_ends_a_gang_with_its_cause(self, bench: Bench) -> None:
        bench.launch("job", FOREVER, FOREVER)
        bench.reports.started("job")
        bench.engine.stop("job", 0, "preempted by another", 10.0)
        end = bench.reports.ended("job")
        assert (end.how, end.cause, end.never_started) == ("stopped", "preempted by another", False)

    def test_stop_ends_a_gang_that_has_not_started(self, bench: Bench) -> None:
        for number in range(20):
            bench.launch(f"job{number}", FOREVER)
            bench.engine.stop(f"job{number}", 0, "changed my mind", 10.0)
        for number in range(20):
            assert bench.reports.ended(f"job{number}").how == "stopped"

    def test_second_stop_keeps_the_first_cause(self, bench: Bench) -> None:
        bench.launch("job", FOREVER)
        bench.reports.started("job")
        bench.engine.stop("job", 0, "first", 10.0)
        bench.engine.stop("job", 0, "second", 10.0)
        assert bench.reports.ended("job").cause == "first"

    def test_stop_of_an_unknown_attempt_is_reported_lost(self, bench: Bench) -> None:
        bench.engine.stop("job", 3, "who are you", 10.0)
        end = bench.reports.ended("job", 3)
        assert (end.how, end.never_started) == ("lost", True)

    def test_stop_after_the_end_reports_the_end_again(self, bench: Bench) -> None:
        bench.launch("job", "exit 7")
        first = bench.reports.ended("job")
        bench.engine.stop("job", 0, "too late", 10.0)
        bench.reports.wait(lambda _: len(bench.reports.ends("job")) == 2)
        assert bench.reports.ends("job") == [first, first]

    def test_repeated_launch_of_an_attempt_runs_it_once(self, bench: Bench) -> None:
        ran = bench.folder / "ran"
        gang = launch("job", f"echo ran >> {ran}")
        bench.engine.launch(gang)
        bench.engine.launch(gang)
        bench.reports.ended("job")
        bench.engine.launch(gang)
        bench.launch("next", "true")
        bench.reports.ended("next")
        assert lines(ran) == ["ran"]
        assert {end.how for end in bench.reports.ends("job")} == {"succeeded"}

    def test_next_attempt_of_a_job_runs(self, bench: Bench) -> None:
        ran = bench.folder / "ran"
        for attempt in range(3):
            bench.launch("job", f"echo {attempt} >> {ran}", attempt=attempt)
            assert bench.reports.ended("job", attempt).how == "succeeded"
        assert lines(ran) == ["0", "1", "2"]

    def test_many_gangs_run_at_once(self, bench: Bench) -> None:
        for number in range(60):
            bench.launch(f"job{number}", "true", "true")
        for number in range(60):
            assert bench.reports.ended(f"job{number}").how == "succeeded"
        assert len(bench.reports.all) == 120

    def test_tasks_survive_a_restart_of_the_service(self, bench: Bench) -> None:
        bench.launch("job", FOREVER, FOREVER, attempt=2)
        pids = bench.reports.started("job", 2).pids
        reports = bench.restart()
        bench.engine.recover([("job", 2)])
        assert reports.started("job", 2).pids == pids
        bench.engine.stop("job", 2, "enough", 0.0)
        assert reports.ended("job", 2).how == "stopped"

    def test_end_during_downtime_is_reported_after_recovery(self, bench: Bench) -> None:
        pipe = bench.pipe()
        bench.launch("job", f"echo ready > {pipe.path}; exit 7")
        pipe.next()
        reports = bench.restart()
        bench.engine.recover([("job", 0)])
        end = reports.ended("job")
        assert end.how == "failed"
        assert end.first is not None
        assert end.first.exit_code == 7

    def test_attempt_that_was_never_launched_is_lost_and_cannot_start_later(self, bench: Bench) -> None:
        ran = bench.folder / "ran"
        bench.engine.recover([("job", 0)])
        end = bench.reports.ended("job")
        assert (end.how, end.never_started) == ("lost", True)
        bench.launch("job", f"echo ran >> {ran}")
        bench.reports.wait(lambda _: len(bench.reports.ends("job")) == 2)
        assert bench.reports.ends("job") == [end, end]
        assert lines(ran) == []

    def test_gang_that_the_store_does_not_know_is_stopped(self, bench: Bench) -> None:
        pipe = bench.pipe()
        bench.launch("forgotten", saver(pipe))
        bench.launch("known", FOREVER)
        bench.reports.started("known")
        assert pipe.next() == "ready"
        reports = bench.restart()
        bench.engine.recover([("known", 0)])
        reports.started("known")
        assert pipe.next() == "saved"
        bench.engine.stop("known", 0, "enough", 0.0)
        reports.ended("known")
        assert {report.job_id for report in reports.all} == {"known"}

    def test_report_is_repeated_when_the_receiver_fails(self, make_engine: Callable) -> None:
        reports = Reports()
        refused: list[Report] = []

        def refuse_first(report: Report) -> None:
            if report not in refused:
                refused.append(report)
                raise RuntimeError("the store is away")
            reports(report)

        engine = make_engine(refuse_first)
        engine.launch(launch("job", "true"))
        reports.ended("job")
        engine.close()
        assert [type(report) for report in reports.all] == [AttemptStarted, AttemptEnded]

    @pytest.mark.parametrize("job_id", ["", ".", "..", "../up", "a/b", "/etc", "a\0b", "-x", "a\n", "é", "x" * 200])
    def test_job_id_that_is_not_a_plain_name_is_refused(self, bench: Bench, job_id: str) -> None:
        with pytest.raises(Invalid):
            bench.launch(job_id, "true")
        with pytest.raises(Invalid):
            bench.engine.stop(job_id, 0, "", 0.0)
        bench.engine.recover([(job_id, 0)])
        assert bench.reports.ended(job_id).how == "lost"

    @pytest.mark.parametrize("attempt", [-1, True, "0", "../0", 1.5])
    def test_invalid_attempt_number_is_refused(self, bench: Bench, attempt: int) -> None:
        with pytest.raises(Invalid):
            bench.launch("job", "true", attempt=attempt)
