"""Tests for scaling against measured step times: profiles of Sia (SOSP 2023), one node, a fixed batch per GPU."""

import csv
import gzip
from collections import defaultdict
from statistics import fmean, median

import pytest

from bench.data import data_path
from gpusquad.predict.scaling import curve, worth
from tests.predict.similar_jobs import S, job, run_summary

PROFILES = data_path("sia-pollux/sia_profile_placements.csv.gz")
HELD_OUT = ("cifar10", "gpt_pmp", "ncf")
"""Held-out applications. The constants in ``scaling`` were chosen with the others."""
pytestmark = pytest.mark.skipif(not PROFILES.exists(), reason=f"{PROFILES.name} is not here")


@pytest.fixture(scope="module")
def measured() -> list[dict[int, float]]:
    """Seconds for a fixed number of samples by number of GPUs, for each application, GPU type and batch size."""
    found: dict[tuple, dict[int, float]] = defaultdict(dict)
    with gzip.open(PROFILES, "rt") as file:
        for row in csv.DictReader(file):
            if row["application"] in HELD_OUT and len(row["placement"]) == 1 and row["gpu_type"][:7] != "default":
                key = row["application"], row["gpu_type"], row["local_bsz"]
                found[key][int(row["placement"])] = 10_000 * float(row["step_time"]) / int(row["placement"])
    return [times for times in found.values() if {1, 2, 4, 8} <= times.keys()]


def curve_by(times: dict[int, float], *sizes: int):
    found = curve(job(gpus=8), [run_summary(n, times[n], number=i) for n in sizes for i in range(3)])
    assert found is not None
    return found


@pytest.mark.parametrize(("sizes", "max_error"), [((1, 2), 0.2), ((1, 2, 4), 0.15)])
def test_larger_sizes_are_predicted_accurately(measured, sizes, max_error):
    runs = [(curve_by(times, *sizes).run(8), times[8] * S) for times in measured]
    assert len(runs) > 100
    assert median(abs(run.at(0.5) / actual - 1) for run, actual in runs) < max_error
    assert fmean(run.at(0.1) <= actual <= run.at(0.9) for run, actual in runs) > 0.75


def test_default_scaling_is_slightly_pessimistic(measured):
    ratios = [curve_by(times, 1).run(4).at(0.5) / (times[4] * S) for times in measured]
    assert fmean(ratio > 0.95 for ratio in ratios) > 0.7
    assert median(ratios) < 1.5


def test_advised_number_of_gpus_is_near_the_best(measured):
    """Compared with the curve through all sizes, most advice is at most one doubling too low or too high."""
    steps = []
    for times in measured:
        advised, actual = worth(curve_by(times, 1, 2), 8), worth(curve_by(times, 1, 2, 4, 8), 8)
        steps.append(abs(advised.bit_length() - actual.bit_length()))
    assert fmean(step <= 1 for step in steps) > 0.85
