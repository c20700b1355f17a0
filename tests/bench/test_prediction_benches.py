"""The prediction benches on tiny logs made up here: what they compare, and that nothing leaks."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench import _pages, gpu_traces, predictive, quantile_uses
from bench._logs import Log, other_logs, read_log, slowdown
from bench._play import play, play_mode
from bench.prediction_error import Wrong
from gpusquad import registry
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun, QuantileLevels
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import exact, user
from gpusquad.sim.traces import TraceJob


def jobs(count: int, seed: int = 1, said: bool = True) -> list[TraceJob]:
    dice = np.random.default_rng(seed)
    made = []
    for i in range(count):
        role = Role("p", int(dice.integers(1, 5)), Request(gpus=1))
        run_us = int(dice.lognormal(5, 1)) * US_PER_S + US_PER_S
        job = Job(f"j{i}", (role,), submitted_us=i * 120 * US_PER_S, user=f"u{i % 3}",
                  estimate_us=4 * run_us if said else None)  # fmt: skip
        made.append(TraceJob(job, run_us))
    return made


def tiny() -> Log:
    made = jobs(60)
    waits = np.random.default_rng(2).random((4, 60)) * 900
    return Log("KTH-SP2", 4, made, dict(zip(("easy", *predictive.PUBLISHED, "easypp_clairvoyant"), waits, strict=True)))


@pytest.fixture(scope="module")
def runs() -> dict:
    log = tiny()
    found = {f"{mode} exact": play_mode(log, mode, exact) for mode in (predictive.FIFO, predictive.FREE)}
    found |= {f"{mode} online": play_mode(log, mode) for mode in (predictive.FIFO, predictive.FREE)}
    mode = load_mode("fifo")
    return found | {"easy user": play(log.cluster, log.jobs, mode.policies(), user, watch_heads=True)}


def test_slowdown_is_bounded_by_ten_seconds():
    assert slowdown(np.array([0.0, 9.0, 90.0]), np.array([1.0, 1.0, 30.0])).tolist() == [1.0, 1.0, 4.0]


def test_bars_come_from_the_same_jobs(runs, monkeypatch):
    monkeypatch.delenv("GPUSQUAD_JOBS", raising=False)
    log = tiny()
    found = {one["name"].split(" (")[0]: one for one in predictive.judged(log, runs)}
    published = min(log.slowdown(name).mean() for name in predictive.PUBLISHED)
    assert found["KTH-SP2 predictive-fifo: mean slowdown"]["bar"] == pytest.approx(published)
    assert found["KTH-SP2 predictive: mean slowdown"]["bar"] == 51.4
    longest = found["KTH-SP2 predictive: longest wait"]
    assert longest["bar"] == pytest.approx(1.2 * log.wait_s["easy"].max() / 3600)
    monkeypatch.setenv("GPUSQUAD_JOBS", "60")
    part = {one["name"].split(" (")[0]: one for one in predictive.judged(log, runs)}
    assert part["KTH-SP2 predictive: mean slowdown"]["bar"] is None


def test_a_log_without_references_has_no_bars(runs):
    found = predictive.told(tiny(), runs)
    assert found
    assert all(one["bar"] is None for one in found)


def test_a_run_with_exact_times_is_the_measure_of_itself(runs):
    same = runs | {f"{mode} online": runs[f"{mode} exact"] for mode in (predictive.FIFO, predictive.FREE)}
    ratios = [one for one in predictive.told(tiny(), same) if "exact run times" in one["name"]]
    assert [one["value"] for one in ratios] == [1.0, 1.0]


def test_no_error_is_the_truth_and_more_sigma_is_a_wider_spread():
    one = jobs(1)[0]
    sure, wide = Wrong(QuantileLevels(), 0.0), Wrong(QuantileLevels(), 1.0)
    assert set(sure.quantiles(one).values) == {one.run_us}
    assert Wrong(QuantileLevels(), 0.0, bias=2.0).quantiles(one).values[0] == 2 * one.run_us
    assert wide.quantiles(one).values == wide.quantiles(one).values
    assert wide(one).high_us > wide(one).mid_us


def test_spoiled_quantiles_say_honestly_how_wrong_they_are():
    made, wrong = jobs(3000), Wrong(QuantileLevels(), 1.5)
    covered = np.mean([one.run_us <= wrong.quantiles(one).at(0.9) for one in made])
    assert covered == pytest.approx(0.9, abs=0.02)


def test_settings_change_one_thing_at_a_time():
    uses = QuantileLevels(0.45, 0.45, 1.0, 0.95)
    found = quantile_uses.settings(uses)
    assert len(found) == len(set(found))
    assert found[0] == (0.45, 0.45, 1.0, 0.95, True)
    assert all(candidate >= shadow for shadow, candidate, *_ in found)
    assert {setting[-1] for setting in found} == {True, False}


def test_the_machine_holds_the_largest_job_and_counts_no_work_after_the_last_submission():
    made = jobs(50, said=False)
    endless = replace(made[-1], run_us=10**15)
    assert gpu_traces.cluster_for([*made[:-1], endless]).gpus == gpu_traces.cluster_for(made).gpus
    large = replace(made[0].job, roles=(Role("p", 5, Request(gpus=8)),))
    assert gpu_traces.cluster_for([replace(made[0], job=large), *made[1:]]).gpus == 40


def test_survivors_from_before_the_record_are_left_out():
    made = jobs(20, said=False)
    old = [replace(made[i], run_us=10**12) for i in range(5)]
    kept = gpu_traces.since_record_began([*old, *made[5:]])
    assert not {one.job.id for one in kept} & {one.job.id for one in old}
    assert len(kept) >= 13


def test_the_witness_sees_who_is_told_too_early():
    check = gpu_traces.CausalityCheck(gpu_traces.RunningMedian())
    first, second = (one.job for one in jobs(2, said=False))
    check.learn(PastRun(first, US_PER_S, second.submitted_us + 1))
    assert check.predict(second).values == (US_PER_S,)
    assert check.too_early == 1
    assert check.sources == {"history": 1}


@pytest.mark.parametrize("mode", [predictive.FIFO, predictive.FREE])
def test_without_estimates_forecasts_come_from_past_runs_alone(mode):
    """And nothing is known of what is to come: other run times after an instant change no forecast before it."""
    made, chosen = jobs(80, said=False), load_mode(mode)

    def foretold(log: list[TraceJob]) -> dict:
        check = gpu_traces.CausalityCheck(registry.create("predictor", chosen.predictor))
        predicting = PredictorFeed(check, chosen.uses)
        play(tiny().cluster, log, chosen.policies(), predicting)
        assert set(check.sources) <= gpu_traces.HONEST
        assert check.too_early == 0
        return {name: quantiles.values for name, quantiles in predicting.predictions.items()}

    longer = [*made[:40], *(replace(one, run_us=7 * one.run_us) for one in made[40:])]
    before, after = foretold(made), foretold(longer)
    assert before != after
    assert all(before.get(f"j{i}") == after.get(f"j{i}") for i in range(41))


def test_estimates_that_a_log_does_not_have_are_not_made_up(tmp_path, monkeypatch):
    """The reader takes the run time for a missing estimate; here that would be the truth told in advance."""
    rows = [
        "; MaxProcs: 4",
        *(f"{i} {i * 10} 0 50 1 -1 -1 1 {asked} -1 1 7 1 1 1 1 -1 -1" for i, asked in ((1, 90), (2, -1))),
    ]
    path = tmp_path / "some.swf"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setenv("GPUSQUAD_LOGS", f"{path}:4")
    assert other_logs() == {"some": (path, 4)}
    read_log.cache_clear()
    assert [one.job.estimate_us for one in read_log("some").jobs] == [90 * US_PER_S, None]
    read_log.cache_clear()


def test_files_say_when_only_the_first_jobs_were_played(tmp_path, monkeypatch):
    monkeypatch.setattr(_pages, "OUT", tmp_path / "out")
    monkeypatch.setenv("GPUSQUAD_JOBS", "300")
    part = _pages.keep("figures", {"a": 1})
    monkeypatch.delenv("GPUSQUAD_JOBS")
    whole = _pages.keep("figures", {"a": 2})
    assert (part.name, whole.name) == ("figures-first-300-jobs.json", "figures.json")
    assert json.loads(part.read_text(encoding="utf-8")) == {"a": 1}


def test_plots_are_one_file_with_all_lines(tmp_path, monkeypatch):
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
