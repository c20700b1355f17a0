"""When the thread that looks out for mates spins instead of napping: by how late its looks were."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
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
uint32_t naps, turns;
uint64_t gs_now_ns(void) { return now += step; }
int nanosleep(const struct timespec *wanted, struct timespec *left) { return (void)wanted, (void)left, naps++, 0; }
int sched_yield(void) { return turns++, 0; }
"""
"""A clock on which a millisecond is over whenever it is asked: every rest is late."""


class Lookout(ctypes.Structure):
    _fields_ = (
        ("may_spin", ctypes.c_bool), ("spins", ctypes.c_bool), ("always", ctypes.c_bool),
        ("windows_left", ctypes.c_uint32), ("rested_ns", ctypes.c_uint64), ("blind_ns", ctypes.c_uint64),
        ("nap_blind", ctypes.c_uint64),
    )  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("lookout")
    clock = folder / "clock.c"
    clock.write_text(CLOCK)
    return loaded(folder, ["gate/yield_poll.c", "gate/cpu_limit.c"], clock)


class Windows:
    """Feeds a lookout with windows in which so many looks were late."""

    def __init__(self, library: ctypes.CDLL, may_spin: bool = True) -> None:
        self.lookout, self._note = Lookout(may_spin=may_spin), library.gs_yield_poll_record

    def passes(self, late: int) -> bool:
        """Whether it spins afterwards."""
        waits = [LATE_NS] * late
        while sum(waits) < WINDOW_NS:
            waits.append(ON_TIME_NS * 100)  # a hundred at once, as far as the clock goes
        for ns in waits:
            wanted_ns = WANTED_NS if ns == LATE_NS else ns
            self._note(ctypes.byref(self.lookout), ctypes.c_uint64(ns), ctypes.c_uint64(wanted_ns))
        return bool(self.lookout.spins)


def test_it_naps_where_naps_end_in_time(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert not any(windows.passes(late=0) for _ in range(30))


def test_it_spins_where_naps_end_late_and_tries_naps_from_time_to_time(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert windows.passes(late=5)
    spun = [windows.passes(late=0) for _ in range(20)]
    assert spun == [True] * 19 + [False]
    assert windows.passes(late=5)


def test_it_naps_again_where_the_machine_has_become_quiet(library: ctypes.CDLL) -> None:
    windows = Windows(library)
    assert windows.passes(late=5)
    while windows.passes(late=0):
        pass
    assert not any(windows.passes(late=0) for _ in range(30))


def test_it_stops_spinning_at_once_where_that_is_no_better(library: ctypes.CDLL) -> None:
    """As under a limit of processor time, which spinning uses up."""
    windows = Windows(library)
    assert windows.passes(late=5)
    assert not windows.passes(late=5)
    napped = [windows.passes(late=5) for _ in range(120)]
    assert napped == [False] * 119 + [True]


def test_it_never_spins_where_processors_are_few(library: ctypes.CDLL) -> None:
    windows = Windows(library, may_spin=False)
    assert not any(windows.passes(late=50) for _ in range(30))


def count(library: ctypes.CDLL, name: str) -> int:
    return ctypes.c_uint32.in_dll(library, name).value


def test_a_rest_is_a_nap_until_naps_were_late_for_a_window(library: ctypes.CDLL) -> None:
    lookout, rest_ns = Lookout(may_spin=True), ctypes.c_uint64(WANTED_NS)
    naps, turns = count(library, "naps"), count(library, "turns")
    windows = WINDOW_NS // 1_000_000
    for _ in range(windows):
        library.gs_yield_poll_wait(ctypes.byref(lookout), rest_ns)
    assert (count(library, "naps") - naps, count(library, "turns") - turns) == (windows, 0)
    assert lookout.spins
    library.gs_yield_poll_wait(ctypes.byref(lookout), rest_ns)
    assert (count(library, "naps") - naps, count(library, "turns") - turns) == (windows, 1)


@pytest.mark.parametrize(("late", "spins"), [(0, False), (1, True)])
def test_a_thousandth_of_the_time_is_too_much(library: ctypes.CDLL, late: int, spins: bool) -> None:
    assert Windows(library).passes(late) == spins


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [("max 100000", 16), ("250000 100000", 2), ("50000 100000", 0), ("3200000 100000", 16), ("", 16), (None, 16)],
)
def test_a_limit_of_processor_time_counts(
    library: ctypes.CDLL, tmp_path: Path, limit: str | None, allowed: int
) -> None:
    """One that spins would use it up."""
    group = tmp_path / "groups/jobs/a"
    group.mkdir(parents=True)
    if limit is not None:
        (group / "cpu.max").write_text(limit)
    own = tmp_path / "cgroup"
    own.write_text("1:cpu:/elsewhere\n0::/jobs/a\n")
    assert library.gs_cpu_count_in(str(own).encode(), str(tmp_path / "groups").encode(), 16) == allowed
    assert library.gs_cpu_count_in(b"/nowhere/cgroup", str(tmp_path / "groups").encode(), 16) == 16


@pytest.fixture
def asked() -> Iterator[None]:
    before = os.environ.get("GPUSQUAD_LOOKOUT")
    yield
    os.environ.pop("GPUSQUAD_LOOKOUT", None)
    if before is not None:
        os.environ["GPUSQUAD_LOOKOUT"] = before


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("word", "spins"), [("spin", True), ("nap", False)])
def test_it_can_be_asked_for(library: ctypes.CDLL, word: str, spins: bool) -> None:
    os.environ["GPUSQUAD_LOOKOUT"] = word
    lookout = Lookout()
    library.gs_yield_poll_start(ctypes.byref(lookout))
    assert (lookout.spins, lookout.always) == (spins, spins)
    assert not (word == "nap" and lookout.may_spin)


@pytest.mark.usefixtures("asked")
def test_unasked_it_is_found_out_where_there_are_processors_enough(library: ctypes.CDLL) -> None:
    os.environ.pop("GPUSQUAD_LOOKOUT", None)
    lookout = Lookout()
    library.gs_yield_poll_start(ctypes.byref(lookout))
    assert (lookout.spins, lookout.always) == (False, False)
    assert lookout.may_spin == (library.gs_cpu_count() >= 4)
