"""Green contexts of the stand-in driver."""

from __future__ import annotations

import pytest

from tests.gpu.standin.programs import mean_us
from tests.gpu.standin.running import Card


def test_green_contexts_restrict_the_sms(card: Card) -> None:
    groups, rest, sms = card.run("""
c = Cuda()
groups, rest = c.groups()
a, b = c.green(groups[:4]), c.green(groups[4:15])
own = DevResource()
c("cuCtxGetDevResource", a, byref(own), c_int(1))
for stream in (c.green_stream(a), c.green_stream(b), c.stream(False)):
    c.launch("full", stream=stream)
    c.sync()
send([[group.sms for group in groups], rest.sms, own.sms])
""")
    assert groups == [8] * 15
    assert (rest, sms) == (12, 32)
    narrow, wide, whole = card.lines()
    assert narrow.used & wide.used == 0
    assert [line.used.bit_count() for line in (narrow, wide, whole)] == [32, 88, 132]
    assert [line.used & ~line.allowed for line in (narrow, wide)] == [0, 0]
    assert mean_us([narrow]) == pytest.approx(2000 * 132 / 32, rel=0.01)


def test_the_same_groups_are_the_same_sms_in_two_processes(card: Card) -> None:
    code = """
c = Cuda()
groups, _ = c.groups()
c.launch("full", stream=c.green_stream(c.green(groups[2:5])))
c.sync()
"""
    card.run(code)
    card.run(code)
    first, second = card.lines()
    assert first.pid != second.pid
    assert first.used == second.used


def test_disjoint_partitions_do_not_slow_each_other_down(card: Card) -> None:
    card.run("""
c = Cuda()
groups, _ = c.groups()
a, b = c.green_stream(c.green(groups[:8])), c.green_stream(c.green(groups[8:]))
for _ in range(3):
    c.launch("full", stream=a)
    c.launch("full", stream=b)
c.sync()
""")
    for line in card.lines():
        assert line.mean_sms == pytest.approx(line.allowed.bit_count(), abs=0.1)


def test_primary_synchronisation_waits_for_green_contexts_but_the_legacy_stream_does_not(card: Card) -> None:
    done = card.run("""
c = Cuda()
groups, _ = c.groups()
green = c.green_stream(c.green(groups[:2]))
c.launch("one", stream=green)
c.launch("long", stream=green)
c.launch("one")
c.sync_stream(0)
early = c.is_done(green)
c.sync()
send([early, c.is_done(green)])
""")
    assert done == [False, True]


def test_graph_keeps_the_partition_it_was_captured_in(card: Card) -> None:
    card.run("""
c = Cuda()
groups, _ = c.groups()
green = c.green_stream(c.green(groups[:2]))
c.begin_capture(green)
c.launch("full", stream=green)
c.launch_graph(c.end_capture(green), 0)
c.sync()
""")
    (line,) = card.lines("graph")
    assert line.used.bit_count() == 16
    assert line.stream.startswith("legacy:")


def test_context_reset_is_refused_while_a_green_context_exists(card: Card) -> None:
    codes = card.run("""
c = Cuda()
p, green = c.number(7), c.green(c.groups()[0][:1])
refused, still = c.code("cuDevicePrimaryCtxReset", c_int(0)), c.read(p)
c("cuGreenCtxDestroy", green)
c("cuDevicePrimaryCtxReset", c_int(0))
send([refused, still, c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
""")
    assert codes == [800, 7, 709]
