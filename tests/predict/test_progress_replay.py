"""The bench's replay of a recorded run, on a recording that was made up."""

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
    """A step a second after a slow start."""
    looks: list[tuple[int, int | None, int | None, int | None]] = [(s * S, None, None, None) for s in range(start_s)]
    looks += [((start_s + step) * S, step, steps, (start_s + step) * S) for step in range(1, steps + 1)]
    return Recording(name, 0, (start_s + steps + 1) * S, 0, looks)


def test_every_way_speaks_once_it_can():
    moments = replay(recording()).moments
    assert all(moment.said_s[way] is None for moment in moments[:20] for way in WAYS)
    assert moments[-10].all_spoke


def test_ours_and_the_windows_are_right_about_a_steady_run_and_the_elapsed_time_is_not():
    half = replay(recording()).at(0.5)
    assert half.left_s == pytest.approx(30.5, abs=1)
    errors = {way: half.error_s(way) or 0.0 for way in WAYS}
    assert errors["elapsed"] > 15
    assert max(errors[OURS], errors["window"], errors["smoothed"]) < 2


def test_the_table_the_claims_and_the_picture_are_of_all_runs():
    replays = [replay(recording()), replay(recording("a < b", 5, 40))]
    assert bench_progress.table(replays).count("\n") == 3 * len(WAYS)
    claims = bench_progress.claims(replays)
    assert len(claims) == 2 + len(replays)
    assert claims[0]["value"] < claims[0]["baseline"]
    assert len(ElementTree.fromstring(svg(replays)).findall(".//{*}g")) == 2


def test_a_run_before_is_a_prior_for_the_one_beside_a_neighbour():
    alone, beside = recording("cnn"), recording("cnn+neighbour", steps=90)
    with_prior = bench_progress.replays_with_prior([alone, beside])
    assert [one.name for one in with_prior] == ["cnn+neighbour"]
    first = with_prior[0].at(0.05)
    assert first.left_s > (first.said_s[OURS] or 0) > 0  # the run before was shorter
    claims = bench_progress.claims([replay(alone), replay(beside)], with_prior)
    assert len(claims) == 2 + 2 + 1


def test_a_recording_is_kept_whole():
    assert load(recording().dump()) == recording()


def test_baselines_know_nothing_before_the_first_steps():
    assert [make().left_s(10.0, 100) for make in (Elapsed, Window, Smoothed)] == [None, None, None]
