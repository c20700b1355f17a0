"""The time of a kernel as samples come: the shortest of the first, then a mean that believes short ones sooner."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import pytest

from tests.gpu.shim.parts import loaded

ALONE_US, BESIDE_US = 2000.0, 4000.0


@pytest.fixture(scope="module")
def average(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[float]], float]:
    call = loaded(tmp_path_factory.mktemp("averages"), ["timing/running_mean.c"]).gs_running_mean

    def after(samples_us: Sequence[float]) -> float:
        mean_us, var = ctypes.c_float(10.0), ctypes.c_float(0.0)
        for number, us in enumerate(samples_us, 1):
            call(ctypes.byref(mean_us), ctypes.byref(var), ctypes.c_uint32(number), ctypes.c_float(us))
        return mean_us.value

    return after


def test_mean_is_the_shortest_of_the_first_samples(average: Callable[[Sequence[float]], float]) -> None:
    assert average([9000.0]) == 9000.0
    assert average([9000.0, ALONE_US, 8000.0]) == ALONE_US


def test_mean_falls_quickly_when_the_first_samples_were_beside_neighbours(
    average: Callable[[Sequence[float]], float],
) -> None:
    assert average([BESIDE_US] * 3 + [ALONE_US] * 4) < 1.1 * ALONE_US


def test_mean_rises_slowly_when_samples_stay_longer(average: Callable[[Sequence[float]], float]) -> None:
    assert average([ALONE_US] * 20 + [BESIDE_US]) < 1.1 * ALONE_US
    assert average([ALONE_US] * 20 + [BESIDE_US] * 60) > 0.9 * BESIDE_US


def test_mean_hardly_changes_after_one_long_sample(average: Callable[[Sequence[float]], float]) -> None:
    assert average([ALONE_US] * 20 + [1e6]) < 1.3 * ALONE_US
