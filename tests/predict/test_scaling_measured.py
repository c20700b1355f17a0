"""Scaling against measured step times: profiles of Sia (SOSP 2023) on one machine, a fixed batch on each GPU."""

import csv
import gzip
from collections import defaultdict
from statistics import fmean, median

import pytest

from bench.data import data_path
from gpusquad.predict.scaling import curve, worth
from tests.predict.similar_jobs import S, job, seen

PROFILES = data_path("sia-pollux/sia_profile_placements.csv.gz")
NOT_LOOKED_AT = ("cifar10", "gpt_pmp", "ncf")
"""The numbers in ``scaling`` were chosen by the other applications."""
pytestmark = pytest.mark.skipif(not PROFILES.exists(), reason=f"{PROFILES.name} is not here")


@pytest.fixture(scope="module")
def measured() -> list[dict[int, float]]:
    """By number of GPUs: seconds for the same number of samples."""
    found: dict[tuple, dict[int, float]] = defaultdict(dict)
    with gzip.open(PROFILES, "rt") as file:
        for row in csv.DictReader(file):
            if row["application"] in NOT_LOOKED_AT and len(row["placement"]) == 1 and row["gpu_type"][:7] != "default":
                key = row["application"], row["gpu_type"], row["local_bsz"]
                found[key][int(row["placement"])] = 10_000 * float(row["step_time"]) / int(row["placement"])
    return [times for times in found.values() if {1, 2, 4, 8} <= times.keys()]


def curve_by(times: dict[int, float], *sizes: int):
    found = curve(job(gpus=8), [seen(n, times[n], number=i) for n in sizes for i in range(3)])
    assert found is not None
    return found


@pytest.mark.parametrize(("sizes", "most_error"), [((1, 2), 0.2), ((1, 2, 4), 0.15)])
def test_the_next_sizes_are_foretold(measured, sizes, most_error):
    runs = [(curve_by(times, *sizes).run(8), times[8] * S) for times in measured]
    assert len(runs) > 100
    assert median(abs(run.at(0.5) / truth - 1) for run, truth in runs) < most_error
    assert fmean(run.at(0.1) <= truth <= run.at(0.9) for run, truth in runs) > 0.75


def test_the_guess_is_cautious_but_not_far_off(measured):
    ratios = [curve_by(times, 1).run(4).at(0.5) / (times[4] * S) for times in measured]
    assert fmean(ratio > 0.95 for ratio in ratios) > 0.7
    assert median(ratios) < 1.5


def test_what_is_advised_is_worth_it(measured):
    """By the truth at all sizes: no more than a step too few or too many in nine of ten."""
    steps = []
    for times in measured:
        advised, truly = worth(curve_by(times, 1, 2), 8), worth(curve_by(times, 1, 2, 4, 8), 8)
        steps.append(abs(advised.bit_length() - truly.bit_length()))
    assert fmean(step <= 1 for step in steps) > 0.85
