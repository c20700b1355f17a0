"""Peaks: peak memory and CPU of runs, from the agent's samples."""

from __future__ import annotations

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.services.runtime.peaks import MINUTE_US, Peaks
from gpusquad.store import run_forecasts
from tests.server.services.world import SECOND_US, World


def card(*processes: tuple[str, int | None], attempt: int = 0) -> dict:
    return {"processes": [{"pid": 1, "job": job, "attempt": attempt, "memory_bytes": used} for job, used in processes]}


def run(cpu_ratio: float | None = None) -> dict:
    return {"job": "a", "attempt": 0, "cpu_ratio": cpu_ratio}


def test_peak_memory_is_the_highest_sample_of_any_card() -> None:
    peaks = Peaks()
    for cards in (
        {"0": card(("a", 5), ("a", 6), ("b", 99)), "1": card(("a", 7))},
        {"0": card(("a", 3), ("a", None)), "1": card(("a", 9)), "2": {"processes": None}},
        {"0": card(("a", 77), attempt=1)},
    ):
        peaks.see(run(), cards, 0, 1)
    peak = peaks.take("a", 0)
    assert (peak.memory_bytes, peak.cpu_milli) == (11, None)
    assert peaks.take("a", 0).memory_bytes is None


def test_peak_cpu_is_the_mean_of_the_busiest_minute_per_task() -> None:
    peaks = Peaks()
    for minute, ratios in enumerate([(1.0, 3.0), (8.0, 0.0), (2.0, 2.0)]):
        for ratio in ratios:
            peaks.see(run(ratio), {}, minute * MINUTE_US, tasks=2)
    peaks.see(run(None), {}, 3 * MINUTE_US, tasks=2)
    assert peaks.take("a", 0).cpu_milli == 2000


def test_peaks_of_removed_jobs_are_dropped() -> None:
    peaks = Peaks()
    peaks.see(run(1.0), {}, 0, 1)
    peaks.forget({"b"})
    assert peaks.take("a", 0).cpu_milli is None


class LastRunPredictor(OnlinePredictor):
    run: PastRun | None = None

    def predict(self, job: Job) -> Quantiles:
        return certain(10, "user")

    def learn(self, run: PastRun) -> None:
        self.run = run


def test_peaks_of_a_run_are_learned_and_stored(tmp_path) -> None:
    predictor = LastRunPredictor()
    world = World(tmp_path, "1x2", predictor=predictor)
    job_id = world.submit(gpus=1)
    world.settle()
    world.clock.at_us = SECOND_US
    sample = {"job": job_id, "attempt": 0, "cpu_ratio": 1.5}
    cards = [{"id": "n0/0"} | card((job_id, 2**30))]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": SECOND_US, "cards": cards, "runs": [sample]})
    world.engine.end(job_id, 0)
    world.settle()
    assert predictor.run is not None
    assert (predictor.run.peak_memory_bytes, predictor.run.cpu_milli) == (2**30, 1500)
    with world.database.read() as c:
        (row,) = run_forecasts.of_job(c, job_id)
    assert (row.peak_memory_bytes, row.cpu_milli) == (2**30, 1500)
    again = LastRunPredictor()
    world.setup["predictor"] = again
    world.make()
    assert again.run == predictor.run
