"""When the yield thread spins instead of sleeping: by how late its checks were."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.gpu.shim.parts import loaded

WANTED_NS, LATE_NS = 20_000, 3_000_000
WINDOW_NS = 500_000_000
ON_TIME_NS = 40_000


CLOCK = """
#include <stdint.h>
#include <time.h>
uint64_t now, step = 1000000;
uint32_t sleeps, turns, messages;
uint64_t gs_now_ns(void) { return now += step; }
int nanosleep(const struct timespec *wanted, struct timespec *left) { return (void)wanted, (void)left, sleeps++, 0; }
int sched_yield(void) { return turns++, 0; }
void gs_log(const char *format, ...) { (void)format, messages++; }
"""
"""A clock that advances by a millisecond whenever it is read, so that every wait is late."""


class YieldPoll(ctypes.Structure):
    _fields_ = (
        ("may_spin", ctypes.c_bool), ("spins", ctypes.c_bool), ("fixed", ctypes.c_bool),
        ("windows_left", ctypes.c_uint32), ("waited_ns", ctypes.c_uint64), ("late_ns", ctypes.c_uint64),
        ("sleep_late_ppm", ctypes.c_uint64),
    )  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("yield_poll")
    clock = folder / "clock.c"
    clock.write_text(CLOCK)
    return loaded(folder, ["gate/yield_poll.c", "gate/cpu_limit.c"], clock)


class Windows:
    """Feeds a poll with windows in which the given number of checks were late."""

    def __init__(self, library: ctypes.CDLL, may_spin: bool = True) -> None:
        self.poll, self._record = YieldPoll(may_spin=may_spin), library.gs_yield_poll_record

    def passes(self, late: int) -> bool:
        """Whether it spins afterwards."""
        waits = [LATE_NS] * late
        while sum(waits) < WINDOW_NS:
            waits.append(ON_TIME_NS * 100)  # a hundred waits at once
        for ns in waits:
            wanted_ns = WANTED_NS if ns == LATE_NS else ns
            self._record(ctypes.byref(self.poll), ctypes.c_uint64(ns), ctypes.c_uint64(wanted_ns))
        return bool(self.poll.spins)


def test_poll_sleeps_when_sleeps_end_on_time(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert not any(windows.passes(late=0) for _ in range(30))


def test_poll_spins_when_sleeps_end_late_and_tries_sleeps_periodically(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert windows.passes(late=5)
    spun = [windows.passes(late=0) for _ in range(20)]
    assert spun == [True] * 19 + [False]
    assert windows.passes(late=5)


def test_poll_sleeps_again_when_sleeps_end_on_time_again(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert windows.passes(late=5)
    while windows.passes(late=0):
        pass
    assert not any(windows.passes(late=0) for _ in range(30))


def test_poll_stops_spinning_at_once_when_spinning_is_no_better(library: ctypes.CDLL) -> None:
    """As under a CPU time limit, which spinning uses up."""
    windows = Windows(library)
    assert windows.passes(late=5)
    assert not windows.passes(late=5)
    spun = [windows.passes(late=5) for _ in range(120)]
    assert spun == [False] * 119 + [True]


def test_poll_never_spins_when_there_are_few_cpus(library: ctypes.CDLL) -> None:
    windows = Windows(library, may_spin=False)
    assert not any(windows.passes(late=50) for _ in range(30))


def count(library: ctypes.CDLL, name: str) -> int:
    return ctypes.c_uint32.in_dll(library, name).value


def test_poll_sleeps_until_sleeps_were_late_for_a_window(library: ctypes.CDLL) -> None:
    poll, wait_ns = YieldPoll(may_spin=True), ctypes.c_uint64(WANTED_NS)
    sleeps, turns = count(library, "sleeps"), count(library, "turns")
    windows = WINDOW_NS // 1_000_000
    for _ in range(windows):
        library.gs_yield_poll_wait(ctypes.byref(poll), wait_ns)
    assert (count(library, "sleeps") - sleeps, count(library, "turns") - turns) == (windows, 0)
    assert poll.spins
    library.gs_yield_poll_wait(ctypes.byref(poll), wait_ns)
    assert (count(library, "sleeps") - sleeps, count(library, "turns") - turns) == (windows, 1)


@pytest.mark.parametrize(("late", "spins"), [(0, False), (1, True)])
def test_poll_spins_when_a_thousandth_of_the_time_was_late(library: ctypes.CDLL, late: int, spins: bool) -> None:
    assert Windows(library).passes(late) == spins


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [("max 100000", 16), ("250000 100000", 2), ("50000 100000", 0), ("3200000 100000", 16), ("", 16), (None, 16)],
)
def test_cpu_count_is_limited_by_the_control_group(
    library: ctypes.CDLL, tmp_path: Path, limit: str | None, allowed: int
) -> None:
    group = tmp_path / "groups/jobs/a"
    group.mkdir(parents=True)
    if limit is not None:
        (group / "cpu.max").write_text(limit)
    own = tmp_path / "cgroup"
    own.write_text("1:cpu:/elsewhere\n0::/jobs/a\n")
    assert library.gs_cpu_count_in(str(own).encode(), str(tmp_path / "groups").encode(), 16) == allowed
    assert library.gs_cpu_count_in(b"/nowhere/cgroup", str(tmp_path / "groups").encode(), 16) == 16


def started(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, **environment: str) -> YieldPoll:
    for name in ("GPUSQUAD_YIELD_WAIT", "GPUSQUAD_LOOKOUT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    poll = YieldPoll()
    library.gs_yield_poll_start(ctypes.byref(poll))
    return poll


@pytest.mark.parametrize(("word", "spins"), [("spin", True), ("sleep", False)])
def test_poll_follows_the_environment_when_yield_wait_is_set(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, word: str, spins: bool
) -> None:
    messages = count(library, "messages")
    poll = started(library, monkeypatch, GPUSQUAD_YIELD_WAIT=word)
    assert (poll.spins, poll.fixed) == (spins, spins)
    assert not (word == "sleep" and poll.may_spin)
    assert count(library, "messages") == messages


@pytest.mark.parametrize(("word", "spins"), [("spin", True), ("nap", False)])
def test_poll_follows_the_deprecated_variable_and_warns_when_only_that_is_set(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, word: str, spins: bool
) -> None:
    messages = count(library, "messages")
    poll = started(library, monkeypatch, GPUSQUAD_LOOKOUT=word)
    assert (poll.spins, poll.fixed) == (spins, spins)
    assert not (word == "nap" and poll.may_spin)
    assert count(library, "messages") == messages + 1


def test_poll_prefers_yield_wait_when_both_variables_are_set(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = started(library, monkeypatch, GPUSQUAD_YIELD_WAIT="sleep", GPUSQUAD_LOOKOUT="spin")
    assert (poll.spins, poll.may_spin) == (False, False)


def test_poll_measures_when_no_variable_is_set_and_there_are_enough_cpus(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = started(library, monkeypatch)
    assert (poll.spins, poll.fixed) == (False, False)
    assert poll.may_spin == (library.gs_cpu_count() >= 4)
