"""Sharing of the SMs of the stand-in driver: between processes (MPS, time slices) and between streams."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.gpu.standin.client import Line
from tests.gpu.standin.programs import LOOP, mean_us, run_loop
from tests.gpu.standin.running import Card, MakeCard

ENDLESS = """
c = Cuda()
c.launch("{kernel}", 10**9)
send("ready")
receive()
"""


def run_beside(card: Card, neighbour: str, kernel: str, **environment: str) -> list[Line]:
    """Log of a loop over a kernel while a neighbour runs another kernel."""
    with card.start(ENDLESS.format(kernel=neighbour), **environment) as endless:
        endless.receive()
        return run_loop(card, kernel)


def test_mps_divides_the_sms_between_processes(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="mps"), "time", "full")
    assert mean_us(lines) == pytest.approx(4000, rel=0.01)  # 2000 us on the whole card
    assert all(line.used.bit_count() == 66 for line in lines)


def test_mps_runs_small_kernels_beside_each_other_at_full_speed(make_card: MakeCard) -> None:
    assert mean_us(run_beside(make_card(mode="mps"), "halftime", "half")) == pytest.approx(2000, rel=0.01)


def test_time_slice_belongs_to_one_process(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="timeslice", slice_us=500), "halftime", "half")
    assert mean_us(lines) == pytest.approx(4000, rel=0.3)  # half the time, although both would fit


def test_sm_runs_one_kernel_at_a_time(make_card: MakeCard) -> None:
    card = make_card(mode="mps")
    with (
        card.start(LOOP.format(count=30, kernel="full")) as first,
        card.start(LOOP.format(count=30, kernel="half")) as second,
    ):
        for program in (first, second):
            program.receive()
        for program in (first, second):
            program.resume()
        for program in (first, second):
            program.finish()
    lines = card.lines()
    window_us = max(line.ended_us for line in lines) - min(line.started_us for line in lines)
    sm_us = sum(line.mean_sms * (line.ended_us - line.started_us) for line in lines)
    assert sm_us == pytest.approx(30 * 2000 * (132 + 66), rel=0.01)
    assert sm_us <= window_us * 132 * 1.001


def test_single_process_has_the_whole_card(make_card: MakeCard) -> None:
    assert mean_us(run_loop(make_card(mode="timeslice", slice_us=500), "full")) == pytest.approx(2000, rel=0.01)


def test_the_next_kernel_starts_when_the_last_one_ends(make_card: MakeCard) -> None:
    gaps_us = [b.started_us - a.ended_us for a, b in pairwise(run_loop(make_card(mode="mps"), "full", count=50))]
    assert sum(gap == 0 for gap in gaps_us) > 40  # even if the worker was woken late


def test_mps_percentage_limits_the_sms(make_card: MakeCard) -> None:
    card = make_card(mode="mps")
    sms = card.run(
        """
c = Cuda()
sms = c_int()
c("cuDeviceGetAttribute", byref(sms), c_int(16), c_int(0))
c.launch("full")
c.sync()
send(sms.value)
""",
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25",
    )
    assert sms == 32
    assert [line.mean_sms for line in card.lines()] == [pytest.approx(32, abs=0.1)]


def test_mps_client_with_higher_priority_runs_first(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="mps"), "time", "full", CUDA_MPS_CLIENT_PRIORITY="1")
    assert mean_us(lines) == pytest.approx(2000, rel=0.01)


def test_stream_with_higher_priority_runs_first(card: Card) -> None:
    card.run("""
c = Cuda()
low, high = c.stream(False), c.stream(False, priority=-5)
c.launch("time", 100_000, stream=low)
c.launch("full", stream=high)
c.sync()
""")
    first, second = card.lines()
    assert (first.name, second.name) == ("full", "time")
    assert mean_us([first]) == pytest.approx(2000, rel=0.01)


@pytest.mark.parametrize("mode", ["mps", "timeslice"])
def test_collective_spins_until_all_ranks_run(make_card: MakeCard, mode: str) -> None:
    card = make_card(mode=mode)
    rank = 'c = Cuda()\nc.launch("two")\nsend(c.is_done())\nreceive()\nc.sync()\nsend(c.is_done())'
    with card.start(rank) as first:
        assert first.receive() is False
        with card.start(rank) as second:
            second.receive()
            for program in (first, second):
                program.resume()
                assert program.finish() is True
    one, two = sorted(card.lines(), key=lambda line: line.started_us)
    assert one.ended_us >= two.started_us + 1000
    assert one.ended_us - one.started_us > two.ended_us - two.started_us
