"""Order of work in streams of the stand-in driver: default streams, events, host functions and values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu.standin.programs import in_order
from tests.gpu.standin.running import Card, Program, new_card


@pytest.mark.parametrize("stream", ["0", "LEGACY", "PER_THREAD", "c.stream()", "c.stream(blocking=False)"])
def test_stream_runs_in_order(card: Card, stream: str) -> None:
    calls = "acacaacc"
    value = card.run(f"""
c = Cuda()
stream, p = {stream}, c.number(1)
for i, call in enumerate({calls!r}):
    c.launch("add" if call == "a" else "copy2", p, stream=stream, ex=bool(i % 2))
c.sync()
send(c.read(p))
""")
    assert value == in_order(calls)
    assert all(first.ended_us <= second.started_us for first, second in pairwise(card.lines()))


def test_legacy_and_blocking_streams_wait_for_each_other(card: Card) -> None:
    value = card.run("""
c = Cuda()
a, b, p = c.stream(), c.stream(), c.number(1)
c.launch("addlong", p, stream=a)
c.launch("copy2", p)              # legacy: after stream a
c.launch("add", p, stream=b)      # after the legacy stream
c.launch("copy2long", p)
c.launch("add", p, stream=PER_THREAD)
c.sync()
send(c.read(p))
""")
    assert value == in_order("acaca")
    assert all(first.ended_us <= second.started_us for first, second in pairwise(card.lines()))


PLAYER = """
c = Cuda()
streams = [0, c.stream(), c.stream(), PER_THREAD]
numbers = [c.number() for _ in streams]
send("ready")
while (steps := receive()) is not None:
    for number in numbers:
        c.write(number, 1)
    for stream, number, call in steps:
        c.launch("add" if call == "a" else "copy2", numbers[number], stream=streams[stream])
    c.sync()
    send([c.read(number) for number in numbers])
"""


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory, builds: Path) -> Iterator[Program]:
    card = new_card(tmp_path_factory.mktemp("player"), builds, mode="mps", speed=10)
    with card.start(PLAYER) as program:
        program.receive()
        yield program


def step(draw_stream: int, target: int, call: str) -> tuple[int, int, str]:
    """The legacy stream may change every number, other streams only their own, so that the order is defined."""
    return draw_stream, target if draw_stream == 0 else draw_stream, call


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.builds(step, st.integers(0, 3), st.integers(0, 3), st.sampled_from("ac")), max_size=25))
def test_legacy_order_holds_for_random_programs(player: Program, steps: list[tuple[int, int, str]]) -> None:
    player.send(steps)
    expected = [in_order("".join(call for _, target, call in steps if target == number)) for number in range(4)]
    assert player.receive() == [value % 2**32 for value in expected]


def test_non_blocking_streams_do_not_wait_for_the_legacy_stream(card: Card) -> None:
    card.run("""
c = Cuda()
free = c.stream(blocking=False)
c.launch("long")
c.launch("one", stream=free)
c.sync()
""")
    assert [line.name for line in card.lines()] == ["one", "long"]


def test_per_thread_variants_use_the_threads_own_stream(card: Card) -> None:
    card.run("""
import threading
c = Cuda(per_thread=True)
def work():
    c("cuCtxSetCurrent", c.context)
    ready.wait()
    c.launch("long")
    c.sync_stream()
ready = threading.Barrier(2)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    first, second = card.lines()
    assert first.overlaps(second)
    assert first.stream != second.stream
    assert first.stream.startswith("thread:")


def test_legacy_and_per_thread_default_streams_are_ordered(card: Card) -> None:
    card.run("""
c = Cuda(per_thread=True)
c.launch("long")
c.launch("one", stream=LEGACY)
c.sync()
""")
    assert [line.name for line in card.lines()] == ["long", "one"]


def test_event_orders_two_streams(card: Card) -> None:
    value = card.run("""
c = Cuda()
a, b, p, event = c.stream(False), c.stream(False), c.number(1), c.event()
c.launch("addlong", p, stream=a)
c.record(event, a)
c.launch("time", 200_000, stream=a)
c.wait(b, event)
c.launch("copy2", p, stream=b)
c.sync()
send(c.read(p))
""")
    assert value == in_order("ac")
    assert [line.name for line in card.lines()] == ["addlong", "copy2", "time"]


def test_event_records_its_time(card: Card) -> None:
    before, after, ms = card.run("""
c = Cuda()
start, end = c.event(), c.event()
c.record(start)
c.launch("long")
c.record(end)
before = c.code("cuEventQuery", end)
c("cuEventSynchronize", end)
send([before, c.code("cuEventQuery", end), c.elapsed_ms(start, end)])
""")
    start, end = card.lines("record")
    (kernel,) = card.lines()
    assert (before, after) == (600, 0)
    assert ms == pytest.approx((end.ended_us - start.ended_us) / 1000, abs=0.01)
    assert end.ended_us == kernel.ended_us
    assert ms >= 20


def test_host_function_runs_in_stream_order(card: Card) -> None:
    values = card.run("""
c = Cuda()
s, p, values = c.stream(False), c.number(1), []
pinned = c_void_p()
c("cuMemAllocHost", byref(pinned), c_size_t(4))
observe = lambda: values.append(c_uint.from_address(pinned.value).value)
for kernel in ("add", "copy2long", "add"):
    c.launch(kernel, p, stream=s)
    c("cuMemcpyDtoHAsync", pinned, c_uint64(p), c_size_t(4), c_void_p(s))
    c.host_call(observe, s)
c.sync()
send(values)
""")
    assert values == [2, 7, 8]


def test_stream_waits_for_a_value_written_by_the_host_or_another_stream(card: Card) -> None:
    result = card.run("""
c = Cuda()
s, t, p, pinned = c.stream(False), c.stream(False), c.number(), c_void_p()
c("cuMemAllocHost", byref(pinned), c_size_t(4))
flag = c_uint.from_address(pinned.value)
flag.value = 0
c("cuStreamWaitValue32", c_void_p(s), pinned, c_uint(3), c_uint(0))
c.launch("add", p, stream=s)
c("cuStreamWriteValue32", c_void_p(t), pinned, c_uint(2), c_uint(0))
c.sync_stream(t)
early = c.is_done(s)
flag.value = 3
c.sync_stream(s)
send([early, c.read(p)])
""")
    assert result == [False, 1]
