"""Tests for user programs as workloads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.commands import Command, done_at
from gpusquad.measure.step_counter import StepWindow
from gpusquad.measure.worker import is_no_room

PRINTS = "import itertools, time\nfor n in itertools.count(): print('{}', flush=True); time.sleep(0.001)"
REPORTS = """
import itertools, time, gpusquad._progress as told
told._LEAST_GAP_S = 0.002
for n in itertools.count(): told.progress(n); time.sleep(0.001)
"""


@contextmanager
def _built_command(program: str, pattern: str = "") -> Iterator[Command]:
    command = Command([sys.executable, "-c", program], pattern)
    try:
        assert command.build()["pid"] > 0
        yield command
    finally:
        command.park()


def _window() -> StepWindow:
    return StepWindow(time.monotonic() + 0.01, 0.02, 0.05, 0.01)


@pytest.mark.parametrize(
    ("program", "pattern"),
    [
        (PRINTS.format("step %d loss 0.3' % n + '"), ""),
        (PRINTS.format("done"), "^done$"),
        (PRINTS.format("n=%d' % n + '"), r"n=(\d+)"),
        (REPORTS, ""),
    ],
    ids=["default pattern", "matching lines", "step number", "progress reports"],
)
def test_steps_of_a_command_are_counted(program: str, pattern: str) -> None:
    with _built_command(program, pattern) as command:
        assert command.run(_window())["steps"] > 0
        assert command.run(_window())["steps"] > 0  # it was paused in between and continued


def test_out_of_memory_is_recognized_in_the_last_output() -> None:
    with pytest.raises(RuntimeError) as caught, _built_command("raise RuntimeError('CUDA out of memory. Tried')"):
        pass
    assert is_no_room(caught.value)


def test_failed_command_reports_its_error() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended with 1.*NameError") as caught, _built_command("nothing"):
        pass
    assert not is_no_room(caught.value)


def test_run_before_build_is_an_error() -> None:
    assert "error" in Command(["true"]).run(_window())


progress_gaps = st.lists(st.tuples(st.floats(0.01, 5), st.integers(1, 50)), min_size=2, max_size=20)


@given(progress_gaps, st.floats(-1, 100))
def test_interpolated_progress_never_decreases(gaps: list[tuple[float, int]], instant_s: float) -> None:
    points, at_s, steps = [], 0.0, 0
    for gap_s, count in gaps:
        at_s, steps = at_s + gap_s, steps + count
        points.append((at_s, float(steps)))
    assert points[0][1] <= done_at(points, instant_s) <= points[-1][1]
    assert done_at(points, instant_s) <= done_at(points, instant_s + 0.5)
    assert all(done_at(points, at_s) == pytest.approx(steps) for at_s, steps in points)
