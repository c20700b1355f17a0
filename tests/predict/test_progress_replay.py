"""Tests for the replay of recorded runs in the progress benchmark, with synthetic recordings."""

import importlib
from xml.etree import ElementTree

import pytest

from bench.progress_jobs.baselines import Elapsed, Smoothed, Window
from bench.progress_jobs.draw import svg
from bench.progress_jobs.record import Recording, load
from bench.progress_jobs.replay import OURS, WAYS, replay

S = 1_000_000
bench_progress = importlib.import_module("bench.progress")


def recording(name: str = "made up", start_s: int = 20, steps: int = 60) -> Recording:
    """One step per second after a start without reports."""
    samples: list[tuple[int, int | None, int | None, int | None]] = [(s * S, None, None, None) for s in range(start_s)]
    samples += [((start_s + step) * S, step, steps, (start_s + step) * S) for step in range(1, steps + 1)]
    return Recording(name, 0, (start_s + steps + 1) * S, 0, samples)


def test_every_method_answers_after_the_first_steps():
    moments = replay(recording()).moments
    assert all(moment.said_s[method] is None for moment in moments[:20] for method in WAYS)
    assert moments[-10].all_spoke


def test_elapsed_baseline_is_wrong_after_a_slow_start_and_the_others_are_right():
    half = replay(recording()).at(0.5)
    assert half.left_s == pytest.approx(30.5, abs=1)
    errors = {method: half.error_s(method) or 0.0 for method in WAYS}
    assert errors["elapsed"] > 15
    assert max(errors[OURS], errors["window"], errors["smoothed"]) < 2


def test_table_claims_and_chart_include_all_runs():
    replays = [replay(recording()), replay(recording("a < b", 5, 40))]
    assert bench_progress.table(replays).count("\n") == 3 * len(WAYS)
    claims = bench_progress.claims(replays)
    assert len(claims) == 2 + len(replays)
    assert claims[0]["value"] < claims[0]["baseline"]
    assert len(ElementTree.fromstring(svg(replays)).findall(".//{*}g")) == 2


def test_earlier_run_is_the_prior_for_the_run_beside_a_neighbour():
    alone, beside = recording("cnn"), recording("cnn+neighbour", steps=90)
    with_prior = bench_progress.replays_with_prior([alone, beside])
    assert [replayed.name for replayed in with_prior] == ["cnn+neighbour"]
    first = with_prior[0].at(0.05)
    assert first.left_s > (first.said_s[OURS] or 0) > 0  # the earlier run was shorter
    claims = bench_progress.claims([replay(alone), replay(beside)], with_prior)
    assert len(claims) == 2 + 2 + 1


def test_recording_round_trips_unchanged():
    assert load(recording().dump()) == recording()


def test_baselines_give_no_answer_before_the_first_steps():
    assert [baseline().left_s(10.0, 100) for baseline in (Elapsed, Window, Smoothed)] == [None, None, None]
