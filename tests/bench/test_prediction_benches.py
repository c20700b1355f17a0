"""Tests of the prediction benches on small synthetic logs: comparisons, bars, and no knowledge of the future."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench import _pages, gpu_traces, predictive, quantile_uses
from bench._logs import Log, other_logs, read_log, slowdown
from bench._play import play, play_mode
from bench.prediction_error import ErroneousPredictor
from gpusquad import registry
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun, QuantileLevels
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import exact, user
from gpusquad.sim.traces import TraceJob


def trace_jobs(count: int, seed: int = 1, has_estimates: bool = True) -> list[TraceJob]:
    rng = np.random.default_rng(seed)
    synthetic = []
    for i in range(count):
        role = Role("p", int(rng.integers(1, 5)), Request(gpus=1))
        run_us = int(rng.lognormal(5, 1)) * US_PER_S + US_PER_S
        job = Job(f"j{i}", (role,), submitted_us=i * 120 * US_PER_S, user=f"u{i % 3}",
                  estimate_us=4 * run_us if has_estimates else None)  # fmt: skip
        synthetic.append(TraceJob(job, run_us))
    return synthetic


def tiny_log() -> Log:
    synthetic = trace_jobs(60)
    waits = np.random.default_rng(2).random((4, 60)) * 900
    return Log(
        "KTH-SP2", 4, synthetic, dict(zip(("easy", *predictive.PUBLISHED, "easypp_clairvoyant"), waits, strict=True))
    )


@pytest.fixture(scope="module")
def runs() -> dict:
    log = tiny_log()
    found = {f"{mode} exact": play_mode(log, mode, exact) for mode in (predictive.FIFO, predictive.FREE)}
    found |= {f"{mode} online": play_mode(log, mode) for mode in (predictive.FIFO, predictive.FREE)}
    mode = load_mode("fifo")
    return found | {"easy user": play(log.cluster, log.jobs, mode.policies(), user)}


def test_slowdown_is_bounded_by_ten_seconds():
    assert slowdown(np.array([0.0, 9.0, 90.0]), np.array([1.0, 1.0, 30.0])).tolist() == [1.0, 1.0, 4.0]


def test_bars_are_computed_from_the_same_jobs(runs, monkeypatch):
    monkeypatch.delenv("GPUSQUAD_JOBS", raising=False)
    log = tiny_log()
    found = {claim["name"].split(" (")[0]: claim for claim in predictive.judged(log, runs)}
    published = min(log.slowdown(name).mean() for name in predictive.PUBLISHED)
    assert found["KTH-SP2 predictive-fifo: mean slowdown"]["bar"] == pytest.approx(published)
    assert found["KTH-SP2 predictive: mean slowdown"]["bar"] == 51.4
    longest = found["KTH-SP2 predictive: longest wait"]
    assert longest["bar"] == pytest.approx(1.2 * log.wait_s["easy"].max() / 3600)
    monkeypatch.setenv("GPUSQUAD_JOBS", "60")
    partial = {claim["name"].split(" (")[0]: claim for claim in predictive.judged(log, runs)}
    assert partial["KTH-SP2 predictive: mean slowdown"]["bar"] is None


def test_log_without_references_has_no_bars(runs):
    found = predictive.told(tiny_log(), runs)
    assert found
    assert all(claim["bar"] is None for claim in found)


def test_ratio_to_exact_run_times_is_one_for_exact_predictions(runs):
    same = runs | {f"{mode} online": runs[f"{mode} exact"] for mode in (predictive.FIFO, predictive.FREE)}
    ratios = [claim for claim in predictive.told(tiny_log(), same) if "exact run times" in claim["name"]]
    assert [claim["value"] for claim in ratios] == [1.0, 1.0]


def test_larger_sigma_widens_quantiles_and_zero_error_is_exact():
    trace_job = trace_jobs(1)[0]
    exact_error, wide_error = ErroneousPredictor(QuantileLevels(), 0.0), ErroneousPredictor(QuantileLevels(), 1.0)
    assert set(exact_error.quantiles(trace_job).values) == {trace_job.run_us}
    assert ErroneousPredictor(QuantileLevels(), 0.0, bias=2.0).quantiles(trace_job).values[0] == 2 * trace_job.run_us
    assert wide_error.quantiles(trace_job).values == wide_error.quantiles(trace_job).values
    assert wide_error(trace_job).high_us > wide_error(trace_job).mid_us


def test_quantiles_with_errors_are_still_calibrated():
    synthetic, wrong = trace_jobs(3000), ErroneousPredictor(QuantileLevels(), 1.5)
    covered = np.mean([trace_job.run_us <= wrong.quantiles(trace_job).at(0.9) for trace_job in synthetic])
    assert covered == pytest.approx(0.9, abs=0.02)


def test_settings_differ_in_one_value_each():
    uses = QuantileLevels(0.45, 0.45, 1.0, 0.95)
    found = quantile_uses.settings(uses)
    assert len(found) == len(set(found))
    assert found[0] == (0.45, 0.45, 1.0, 0.95, True)
    assert all(candidate >= shadow for shadow, candidate, *_ in found)
    assert {setting[-1] for setting in found} == {True, False}


def test_cluster_fits_the_largest_job_and_ignores_work_after_the_last_submission():
    synthetic = trace_jobs(50, has_estimates=False)
    endless = replace(synthetic[-1], run_us=10**15)
    assert gpu_traces.cluster_for([*synthetic[:-1], endless]).gpus == gpu_traces.cluster_for(synthetic).gpus
    large = replace(synthetic[0].job, roles=(Role("p", 5, Request(gpus=8)),))
    assert gpu_traces.cluster_for([replace(synthetic[0], job=large), *synthetic[1:]]).gpus == 40


def test_jobs_from_before_the_start_of_the_trace_are_left_out():
    synthetic = trace_jobs(20, has_estimates=False)
    old = [replace(synthetic[i], run_us=10**12) for i in range(5)]
    kept = gpu_traces.since_record_began([*old, *synthetic[5:]])
    assert not {trace_job.job.id for trace_job in kept} & {trace_job.job.id for trace_job in old}
    assert len(kept) >= 13


def test_causality_check_counts_runs_learned_too_early():
    check = gpu_traces.CausalityCheck(gpu_traces.RunningMedian())
    first, second = (trace_job.job for trace_job in trace_jobs(2, has_estimates=False))
    check.learn(PastRun(first, US_PER_S, second.submitted_us + 1))
    assert check.predict(second).values == (US_PER_S,)
    assert check.too_early == 1
    assert check.sources == {"history": 1}


@pytest.mark.parametrize("mode", [predictive.FIFO, predictive.FREE])
def test_predictions_without_estimates_use_only_past_runs(mode):
    """Run times after an instant change no prediction before it."""
    synthetic, chosen = trace_jobs(80, has_estimates=False), load_mode(mode)

    def predictions_of(log: list[TraceJob]) -> dict:
        check = gpu_traces.CausalityCheck(registry.create("predictor", chosen.predictor))
        predicting = PredictorFeed(check, chosen.uses)
        play(tiny_log().cluster, log, chosen.policies(), predicting)
        assert set(check.sources) <= gpu_traces.HONEST
        assert check.too_early == 0
        return {name: quantiles.values for name, quantiles in predicting.predictions.items()}

    longer = [*synthetic[:40], *(replace(trace_job, run_us=7 * trace_job.run_us) for trace_job in synthetic[40:])]
    before, after = predictions_of(synthetic), predictions_of(longer)
    assert before != after
    assert all(before.get(f"j{i}") == after.get(f"j{i}") for i in range(41))


def test_missing_estimates_of_a_log_stay_missing(tmp_path, monkeypatch):
    """The reader replaces a missing estimate with the run time, which would give predictors the actual value."""
    rows = [
        "; MaxProcs: 4",
        *(f"{i} {i * 10} 0 50 1 -1 -1 1 {requested_s} -1 1 7 1 1 1 1 -1 -1" for i, requested_s in ((1, 90), (2, -1))),
    ]
    path = tmp_path / "some.swf"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setenv("GPUSQUAD_LOGS", f"{path}:4")
    assert other_logs() == {"some": (path, 4)}
    read_log.cache_clear()
    assert [trace_job.job.estimate_us for trace_job in read_log("some").jobs] == [90 * US_PER_S, None]
    read_log.cache_clear()


def test_file_names_show_when_only_the_first_jobs_were_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr(_pages, "OUT", tmp_path / "out")
    monkeypatch.setenv("GPUSQUAD_JOBS", "300")
    partial = _pages.keep("figures", {"a": 1})
    monkeypatch.delenv("GPUSQUAD_JOBS")
    complete = _pages.keep("figures", {"a": 2})
    assert (partial.name, complete.name) == ("figures-first-300-jobs.json", "figures.json")
    assert json.loads(partial.read_text(encoding="utf-8")) == {"a": 1}


def test_plot_is_one_file_with_all_lines(tmp_path, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.setattr(_pages, "OUT", tmp_path)
    panel = {
        "title": "t",
        "x": "sigma",
        "y": "slowdown",
        "lines": {"ours": [(0, 1.0), (1, 2.0)]},
        "levels": {"bar": 1.5},
    }
    path = _pages.draw("plot", "A title", [panel, panel])
    assert path is not None
    text = path.read_text(encoding="utf-8")
    assert all(word in text for word in ("A title", "ours", "bar"))
