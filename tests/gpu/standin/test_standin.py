"""The stand-in driver itself: what tests of the shim rely on."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu.standin.client import Line
from tests.gpu.standin.running import Card, Program, new_card

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

MakeCard = Callable[..., Card]


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("standin")


@pytest.fixture
def make_card(tmp_path: Path, builds: Path) -> MakeCard:
    return lambda **settings: new_card(tmp_path, builds, **settings)


@pytest.fixture
def card(make_card: MakeCard) -> Card:
    return make_card(mode="mps", speed=4)


def in_order(calls: str) -> int:
    """What "a" (add one) and "c" (times three plus one) make of 1, in this order."""
    value = 1
    for call in calls:
        value = value + 1 if call == "a" else value * 3 + 1
    return value


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["0", "LEGACY", "PER_THREAD", "c.stream()", "c.stream(blocking=False)"])
def test_a_stream_keeps_its_order(card: Card, stream: str) -> None:
    calls = "acacaacc"
    value = card.run(f"""
c = Cuda()
stream, p = {stream}, c.number(1)
for i, call in enumerate({calls!r}):
    c.launch("add" if call == "a" else "copy2", p, stream=stream, ex=bool(i % 2))
c.sync()
tell(c.read(p))
""")
    assert value == in_order(calls)
    assert all(first.ended_us <= second.started_us for first, second in pairwise(card.lines()))


def test_the_legacy_stream_waits_for_blocking_streams_and_they_for_it(card: Card) -> None:
    value = card.run("""
c = Cuda()
a, b, p = c.stream(), c.stream(), c.number(1)
c.launch("addlong", p, stream=a)
c.launch("copy2", p)              # legacy: after a's
c.launch("add", p, stream=b)      # after the legacy one
c.launch("copy2long", p)
c.launch("add", p, stream=PER_THREAD)
c.sync()
tell(c.read(p))
""")
    assert value == in_order("acaca")
    assert all(first.ended_us <= second.started_us for first, second in pairwise(card.lines()))


PLAYER = """
c = Cuda()
streams = [0, c.stream(), c.stream(), PER_THREAD]
numbers = [c.number() for _ in streams]
tell("ready")
while (steps := hear()) is not None:
    for number in numbers:
        c.write(number, 1)
    for stream, number, call in steps:
        c.launch("add" if call == "a" else "copy2", numbers[number], stream=streams[stream])
    c.sync()
    tell([c.read(number) for number in numbers])
"""


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory, builds: Path) -> Iterator[Program]:
    card = new_card(tmp_path_factory.mktemp("player"), builds, mode="mps", speed=10)
    with card.start(PLAYER) as program:
        program.hear()
        yield program


def step(draw_stream: int, target: int, call: str) -> tuple[int, int, str]:
    """The legacy stream may touch every number, any other stream its own: so their order is defined."""
    return draw_stream, target if draw_stream == 0 else draw_stream, call


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.builds(step, st.integers(0, 3), st.integers(0, 3), st.sampled_from("ac")), max_size=25))
def test_the_order_that_the_legacy_stream_gives_to_blocking_streams_always_holds(
    player: Program, steps: list[tuple[int, int, str]]
) -> None:
    player.say(steps)
    expected = [in_order("".join(call for _, target, call in steps if target == number)) for number in range(4)]
    assert player.hear() == [value % 2**32 for value in expected]


def test_non_blocking_streams_pass_the_legacy_stream(card: Card) -> None:
    card.run("""
c = Cuda()
free = c.stream(blocking=False)
c.launch("long")
c.launch("one", stream=free)
c.sync()
""")
    assert [line.name for line in card.lines()] == ["one", "long"]


def test_per_thread_variants_of_calls_use_a_stream_of_the_thread(card: Card) -> None:
    card.run("""
import threading
c = Cuda(per_thread=True)
def work():
    c("cuCtxSetCurrent", c.context)
    c.launch("long")
    c.sync_stream()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    first, second = card.lines()
    assert first.overlaps(second)
    assert first.stream != second.stream
    assert first.stream.startswith("thread:")


def test_streams_of_the_two_default_kinds_are_ordered_between_themselves(card: Card) -> None:
    card.run("""
c = Cuda(per_thread=True)
c.launch("long")
c.launch("one", stream=LEGACY)
c.sync()
""")
    assert [line.name for line in card.lines()] == ["long", "one"]


def test_an_event_orders_streams(card: Card) -> None:
    value = card.run("""
c = Cuda()
a, b, p, event = c.stream(False), c.stream(False), c.number(1), c.event()
c.launch("addlong", p, stream=a)
c.record(event, a)
c.launch("time", 200_000, stream=a)
c.wait(b, event)
c.launch("copy2", p, stream=b)
c.sync()
tell(c.read(p))
""")
    assert value == in_order("ac")
    assert [line.name for line in card.lines()] == ["addlong", "copy2", "time"]


def test_an_event_knows_when_it_was_reached(card: Card) -> None:
    before, after, ms = card.run("""
c = Cuda()
start, end = c.event(), c.event()
c.record(start)
c.launch("long")
c.record(end)
before = c.code("cuEventQuery", end)
c("cuEventSynchronize", end)
tell([before, c.code("cuEventQuery", end), c.elapsed_ms(start, end)])
""")
    start, end = card.lines("record")
    (kernel,) = card.lines()
    assert (before, after) == (600, 0)
    assert ms == pytest.approx((end.ended_us - start.ended_us) / 1000, abs=0.01)
    assert end.ended_us == kernel.ended_us
    assert ms >= 20


def test_a_host_function_runs_in_its_place(card: Card) -> None:
    seen = card.run("""
c = Cuda()
s, p, seen = c.stream(False), c.number(1), []
pinned = c_void_p()
c("cuMemAllocHost", byref(pinned), c_size_t(4))
look = lambda: seen.append(c_uint.from_address(pinned.value).value)
for kernel in ("add", "copy2long", "add"):
    c.launch(kernel, p, stream=s)
    c("cuMemcpyDtoHAsync", pinned, c_uint64(p), c_size_t(4), c_void_p(s))
    c.host_call(look, s)
c.sync()
tell(seen)
""")
    assert seen == [2, 7, 8]


def test_synchronous_copies_come_after_the_work_before_them(card: Card) -> None:
    value = card.run("""
c = Cuda()
p = c.number(1)
c.launch("addlong", p, stream=c.stream())
tell(c.read(p))
""")
    assert value == 2


def test_pageable_memory_is_read_at_once_and_pinned_memory_when_the_copy_runs(card: Card) -> None:
    values = card.run("""
c = Cuda()
s, a, b = c.stream(False), c.number(), c.number()
pageable, pinned = c_uint(5), c_void_p()
c("cuMemAllocHost", byref(pinned), c_size_t(4))
held = c_uint.from_address(pinned.value)
held.value = 5
c.launch("long", stream=s)
c("cuMemcpyHtoDAsync", c_uint64(a), byref(pageable), c_size_t(4), c_void_p(s))
c("cuMemcpyHtoDAsync", c_uint64(b), pinned, c_size_t(4), c_void_p(s))
pageable.value = held.value = 6
c.sync()
tell([c.read(a), c.read(b)])
""")
    assert values == [5, 6]


def test_a_stream_waits_for_a_value_that_the_host_or_another_stream_writes(card: Card) -> None:
    told = card.run("""
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
tell([early, c.read(p)])
""")
    assert told == [False, 1]


def test_an_access_outside_all_memory_is_a_fault_that_stays(card: Card) -> None:
    codes = card.run("""
c = Cuda()
c.launch("add", 4096)
tell([c.code("cuCtxSynchronize"), c.code("cuCtxSynchronize"), c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
""")
    assert codes == [700, 700, 700]


# --- sharing SMs ------------------------------------------------------------------------------------------------------

LOOP = """
c = Cuda()
tell("ready")
hear()
for _ in range({count}):
    c.launch("{kernel}")
c.sync()
"""
ENDLESS = """
c = Cuda()
c.launch("{kernel}", 10**9)
tell("ready")
hear()
"""


def run_loop(card: Card, kernel: str, count: int = 20, **environment: str) -> list[Line]:
    with card.start(LOOP.format(count=count, kernel=kernel), **environment) as program:
        program.go_on()
        program.finish()
        return card.lines(pid=program.pid)


def run_beside(card: Card, neighbour: str, kernel: str, **of_neighbour: str) -> list[Line]:
    """The log of a loop over a kernel, while a process beside it runs another one all the time."""
    with card.start(ENDLESS.format(kernel=neighbour), **of_neighbour) as endless:
        endless.hear()
        return run_loop(card, kernel)


def mean_us(lines: list[Line]) -> float:
    return sum(line.ended_us - line.started_us for line in lines) / len(lines)


def test_mps_divides_the_sms_between_processes(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="mps"), "time", "full")
    assert mean_us(lines) == pytest.approx(4000, rel=0.01)  # 2000 us on the whole card
    assert all(line.used.bit_count() == 66 for line in lines)


def test_mps_runs_small_kernels_beside_each_other_at_full_speed(make_card: MakeCard) -> None:
    assert mean_us(run_beside(make_card(mode="mps"), "halftime", "half")) == pytest.approx(2000, rel=0.01)


def test_time_slices_go_to_one_process_at_a_time(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="timeslice", slice_us=500), "halftime", "half")
    assert mean_us(lines) == pytest.approx(4000, rel=0.3)  # half the time, though there would be room for both


def test_no_sm_works_for_two_at_a_time(make_card: MakeCard) -> None:
    card = make_card(mode="mps")
    with (
        card.start(LOOP.format(count=30, kernel="full")) as first,
        card.start(LOOP.format(count=30, kernel="half")) as second,
    ):
        for program in (first, second):
            program.hear()
        for program in (first, second):
            program.go_on()
        for program in (first, second):
            program.finish()
    lines = card.lines()
    window_us = max(line.ended_us for line in lines) - min(line.started_us for line in lines)
    sm_us = sum(line.mean_sms * (line.ended_us - line.started_us) for line in lines)
    assert sm_us == pytest.approx(30 * 2000 * (132 + 66), rel=0.01)
    assert sm_us <= window_us * 132 * 1.001


def test_a_process_alone_has_the_card_to_itself(make_card: MakeCard) -> None:
    assert mean_us(run_loop(make_card(mode="timeslice", slice_us=500), "full")) == pytest.approx(2000, rel=0.01)


def test_the_next_kernel_starts_when_the_last_one_ends(make_card: MakeCard) -> None:
    gaps_us = [b.started_us - a.ended_us for a, b in pairwise(run_loop(make_card(mode="mps"), "full", count=50))]
    assert sum(gap == 0 for gap in gaps_us) > 40  # however late the worker was woken


def test_an_mps_percentage_limits_the_sms(make_card: MakeCard) -> None:
    card = make_card(mode="mps")
    sms = card.run(
        """
c = Cuda()
sms = c_int()
c("cuDeviceGetAttribute", byref(sms), c_int(16), c_int(0))
c.launch("full")
c.sync()
tell(sms.value)
""",
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25",
    )
    assert sms == 32
    assert [line.mean_sms for line in card.lines()] == [pytest.approx(32, abs=0.1)]


def test_mps_client_priority_goes_first(make_card: MakeCard) -> None:
    lines = run_beside(make_card(mode="mps"), "time", "full", CUDA_MPS_CLIENT_PRIORITY="1")
    assert mean_us(lines) == pytest.approx(2000, rel=0.01)


def test_stream_priority_goes_first(card: Card) -> None:
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
def test_a_collective_spins_until_all_its_ranks_run(make_card: MakeCard, mode: str) -> None:
    card = make_card(mode=mode)
    rank = 'c = Cuda()\nc.launch("two")\ntell(c.is_done())\nhear()\nc.sync()\ntell(c.is_done())'
    with card.start(rank) as first:
        assert first.hear() is False
        with card.start(rank) as second:
            second.hear()
            for program in (first, second):
                program.go_on()
                assert program.finish() is True
    one, two = sorted(card.lines(), key=lambda line: line.started_us)
    assert one.ended_us >= two.started_us + 1000
    assert one.ended_us - one.started_us > two.ended_us - two.started_us


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
tell([[group.sms for group in groups], rest.sms, own.sms])
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


def test_primary_synchronisation_waits_for_green_contexts_and_streams_on_top_of_them_do_not_block(card: Card) -> None:
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
tell([early, c.is_done(green)])
""")
    assert done == [False, True]


def test_a_graph_keeps_the_partition_it_was_captured_in(card: Card) -> None:
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


# --- capture ----------------------------------------------------------------------------------------------------------


def test_captured_work_runs_when_the_graph_is_launched_and_not_before(card: Card) -> None:
    values = card.run("""
c = Cuda()
s, t, p, event, joined = c.stream(False), c.stream(False), c.number(1), c.event(), c.event()
c.begin_capture(s)
c.launch("add", p, stream=s)
c.record(event, s)
c.wait(t, event)                 # t is drawn in
c.launch("copy2", p, stream=t)
c.record(joined, t)
c.wait(s, joined)
c.launch("add", p, stream=s, ex=True)
status = c_int()
c("cuStreamIsCapturing", c_void_p(t), byref(status))
graph = c.end_capture(s)
values = [status.value, c.read(p)]
c.launch_graph(graph, s)
c.launch_graph(graph, s)
c.sync()
tell([*values, c.read(p)])
""")
    assert values == [1, 1, in_order("acaaca")]


def test_what_spoils_a_capture(card: Card) -> None:
    codes = card.run("""
c = Cuda()
def capture(spoil, blocking=True):
    s = c.stream(blocking)
    c.begin_capture(s)
    code = spoil(s)
    return [code, c.code("cuStreamEndCapture", c_void_p(s), byref(c_void_p()))]
def fork(s):
    event, other = c.event(), c.stream(False)
    c.record(event, s)
    c.wait(other, event)
    c.launch("one", stream=other)
    return 0
tell([
    capture(lambda s: c.code("cuStreamSynchronize", c_void_p(s))),
    capture(lambda s: c.code("cuStreamSynchronize", c_void_p(c.stream(False)))),
    capture(lambda s: c.code("cuStreamQuery", c_void_p(0))),
    capture(lambda s: c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))),
    capture(fork),
    c.code("cuStreamBeginCapture", c_void_p(0), c_int(0)),
])
""")
    assert codes == [[900, 901], [900, 901], [906, 901], [900, 901], [0, 904], 900]


# --- memory -----------------------------------------------------------------------------------------------------------

GIB = 1 << 30
HOLD = """
c = Cuda()
c.alloc({size})
tell(c.memory()[0])
hear()
"""


def test_memory_is_shared_by_the_processes_of_a_card(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=0)
    with card.start(HOLD.format(size=3 * GIB // 2)) as holder:
        assert holder.hear() == GIB // 2
        codes = card.run(f"""
c = Cuda()
tell([c.code("cuMemAlloc", byref(c_uint64()), c_size_t(size)) for size in ({GIB // 2 + 1}, {GIB // 2}, 1)])
""")
    assert codes == [2, 0, 2]


def test_memory_comes_back_after_a_kill(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=1 << 20)
    with card.start(HOLD.format(size=GIB)) as holder:
        holder.hear()
        with card.start("c = Cuda()\ntell(c.memory()[0])\nhear()\ntell(c.memory()[0])") as witness:
            assert witness.hear() == GIB - (2 << 20)
            holder.process.kill()
            holder.process.wait()
            witness.go_on()
            assert witness.hear() == 2 * GIB - (1 << 20)


def test_a_killed_process_leaves_its_sms_to_the_others(make_card: MakeCard) -> None:
    card = make_card(mode="timeslice")
    with card.start('c = Cuda()\nc.launch("time", 10**9)\ntell("ready")\nhear()') as stuck:
        stuck.hear()
        stuck.process.kill()
        stuck.process.wait()
    assert mean_us(run_loop(card, "full")[-5:]) == pytest.approx(2000, rel=0.01)


STORM = """
import random
c, dice, held, launched = Cuda(), random.Random(os.getpid()), [], 0
p, stream = c.number(), c.stream()
tell("ready")
for i in range({rounds}):
    if dice.random() < 0.5 and len(held) < 20:
        held.append(c.alloc(dice.randrange(1, 1 << 20)))
    elif held:
        c.free(held.pop(dice.randrange(len(held))))
    c.launch("add", p, stream=stream)
    c.launch("one")
    launched += 1
for x in held:
    c.free(x)
tell([c.read(p), launched])
"""


@pytest.mark.parametrize("mode", ["mps", "timeslice"])
def test_kills_in_the_middle_of_a_storm_harm_nobody_else(make_card: MakeCard, mode: str) -> None:
    card = make_card(mode=mode, speed=20, context_bytes=1 << 20)
    with ExitStack() as stack:
        victims = [stack.enter_context(card.start(STORM.format(rounds=10**9))) for _ in range(2)]
        others = [stack.enter_context(card.start(STORM.format(rounds=200))) for _ in range(3)]
        for program in (*victims, *others):
            program.hear()
        for victim in victims:
            victim.process.kill()
            victim.process.wait()
        for other in others:
            counted, launched = other.finish()
            assert counted == launched == 200
        free, total = card.run("c = Cuda()\ntell(c.memory())")
    assert total - free == 1 << 20


PATHS = {
    "alloc": ("c.alloc(N)", "c.free(x)"),
    "async": ("c.alloc_async(N)", "c.free_async(x); c.sync()"),
    "pitch": ("take('cuMemAllocPitch', byref(c_size_t()), c_size_t(512), c_size_t(N // 512), c_uint(4))", "c.free(x)"),
    "array": (
        "take('cuArrayCreate', (c_size_t * 3)(1024, N // 4096, 0x100000020))",
        "c('cuArrayDestroy', c_void_p(x))",
    ),
    "vmm": (
        "take('cuMemCreate', c_size_t(N), (c_int * 8)(1, 0, 1, 0), c_ulonglong(0))",
        "c('cuMemRelease', c_ulonglong(x))",
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_way_to_allocate_is_counted(make_card: MakeCard, path: str) -> None:
    take, give = PATHS[path]
    free = make_card(memory=GIB).run(f"""
c, N = Cuda(), 64 << 20
def take(call, *more):
    made = c_uint64()
    c(call, byref(made), *more)
    return made.value
free = [c.memory()[0]]
x = {take}
free.append(c.memory()[0])
{give}
tell([*free, c.memory()[0]])
""")
    assert free[0] - free[1] == 64 << 20
    assert free[2] == free[0]


def test_a_context_takes_its_memory_with_it(card: Card) -> None:
    steps = card.run("""
c = Cuda()
free = lambda: c.memory()[0]
steps = [free()]
c.alloc(1 << 20)
c("cuArrayCreate", byref(c_void_p()), (c_size_t * 3)(1024, 256, 0x100000020))
steps.append(free())
c("cuDevicePrimaryCtxReset", c_int(0))
steps.append(c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4)))
again = c_void_p()
c("cuDevicePrimaryCtxRetain", byref(again), c_int(0))
tell([*steps, again.value == c.context.value, free()])
""")
    assert steps == [steps[0], steps[0] - (2 << 20), 709, True, steps[0]]


def test_a_context_is_not_reset_under_a_green_one(card: Card) -> None:
    codes = card.run("""
c = Cuda()
p, green = c.number(7), c.green(c.groups()[0][:1])
refused, still = c.code("cuDevicePrimaryCtxReset", c_int(0)), c.read(p)
c("cuGreenCtxDestroy", green)
c("cuDevicePrimaryCtxReset", c_int(0))
tell([refused, still, c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
""")
    assert codes == [800, 7, 709]


def test_managed_and_pinned_memory_cost_the_card_nothing(card: Card) -> None:
    free = card.run("""
c = Cuda()
free = [c.memory()[0]]
c("cuMemAllocManaged", byref(c_uint64()), c_size_t(1 << 20), c_uint(1))
c("cuMemHostAlloc", byref(c_void_p()), c_size_t(1 << 20), c_uint(0))
tell([*free, c.memory()[0]])
""")
    assert free[0] == free[1]


def test_mapped_memory_lives_until_it_is_unmapped(card: Card) -> None:
    steps = card.run("""
c, N = Cuda(), 2 << 20
free = lambda: c.memory()[0]
steps, handle, where = [free()], c_ulonglong(), c_uint64()
c("cuMemCreate", byref(handle), c_size_t(N), (c_int * 8)(1, 0, 1, 0), c_ulonglong(0))
c("cuMemAddressReserve", byref(where), c_size_t(N), c_size_t(0), c_uint64(0), c_ulonglong(0))
c("cuMemMap", where, c_size_t(N), c_size_t(0), handle, c_ulonglong(0))
c("cuMemSetAccess", where, c_size_t(N), (c_int * 3)(1, 0, 3), c_size_t(1))
c("cuMemRelease", handle)
c.write(where.value, 4)
c.launch("copy2", where.value)
steps += [free(), c.read(where.value)]
c("cuMemUnmap", where, c_size_t(N))
c("cuMemAddressFree", where, c_size_t(N))
tell([*steps, free()])
""")
    assert steps == [steps[0], steps[0] - (2 << 20), 13, steps[0]]


def test_a_pool_keeps_what_its_threshold_says(card: Card) -> None:
    steps = card.run("""
c, pool = Cuda(), c_void_p()
c("cuDeviceGetDefaultMemPool", byref(pool), c_int(0))
c("cuMemPoolSetAttribute", pool, c_int(4), byref(c_ulonglong(1 << 20)))
steps = [c.memory()[0]]
x = c.alloc_async(1 << 20)
c.free_async(x)
c.sync()
steps += [c.memory()[0], c.alloc_async(1 << 20) == x]
c.free_async(x)
c.sync()
c("cuMemPoolTrimTo", pool, c_size_t(0))
tell([*steps, c.memory()[0]])
""")
    assert steps == [steps[0], steps[0] - (1 << 20), True, steps[0]]


def test_memory_opened_in_another_process_is_the_same_and_counted_once(make_card: MakeCard) -> None:
    card = make_card(context_bytes=0)
    with card.start("""
c = Cuda()
p, handle = c.number(5), create_string_buffer(64)
c("cuIpcGetMemHandle", handle, c_uint64(p))
tell([handle.raw.hex(), c.memory()[0]])
hear()
tell(c.read(p))
""") as owner:
        handle, free = owner.hear()
        seen = card.run(f"""
class Handle(Structure): _fields_ = [("bytes", c_char * 64)]
c, p = Cuda(), c_uint64()
handle = Handle.from_buffer_copy(bytes.fromhex({handle!r}))
c("cuIpcOpenMemHandle", byref(p), handle, c_uint(1))
seen = [c.memory()[0], c.read(p.value)]
c.launch("add", p.value)
c.sync()
c("cuIpcCloseMemHandle", p)
tell(seen)
""")
        owner.go_on()
        assert seen == [free, 5]
        assert owner.hear() == 6


def test_nvml_tells_the_same_memory_and_the_processes(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=1 << 20)
    with card.start(HOLD.format(size=GIB)) as holder:
        holder.hear()
        told = card.run("""
nvml = CDLL("libnvidia-ml.so.1")
device, memory, uuid = c_void_p(), (c_ulonglong * 3)(), create_string_buffer(96)
class Info(Structure): _fields_ = [("pid", c_uint), ("used", c_ulonglong), ("a", c_uint), ("b", c_uint)]
infos, count = (Info * 8)(), c_uint(8)
codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(c_uint(0), byref(device))]
codes += [nvml.nvmlDeviceGetMemoryInfo(device, memory), nvml.nvmlDeviceGetUUID(device, uuid, c_uint(96))]
codes.append(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), infos))
again = c_void_p()
codes.append(nvml.nvmlDeviceGetHandleByUUID(uuid, byref(again)))
tell([codes, list(memory), [[info.pid, info.used] for info in infos[:count.value]], again.value == device.value])
""")
        used = GIB + (1 << 20)
        assert told == [[0] * 6, [2 * GIB, 2 * GIB - used, used], [[holder.pid, used]], True]


def test_a_child_of_fork_cannot_use_the_driver_and_does_not_keep_its_parent_alive(make_card: MakeCard) -> None:
    card = make_card(context_bytes=1 << 20)
    with card.start("""
c = Cuda()
child = os.fork()
if child == 0:
    tell([os.getpid(), c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
    hear()
    os._exit(0)
os.waitpid(child, 0)
""") as parent:
        _, code = parent.hear()
        parent.process.kill()
        parent.process.wait()
        free, total = card.run("c = Cuda()\ntell(c.memory())")
        parent.go_on()
    assert code == 3
    assert total - free == 1 << 20


# --- finding functions ------------------------------------------------------------------------------------------------


def test_functions_are_found_by_name_version_and_meaning_of_stream_0(card: Card) -> None:
    found = card.run("""
c = Cuda()
symbol = lambda name: cast(getattr(c.library, name), c_void_p).value
def same(name, version, flags, expected):
    return c.address(name, version, flags) == symbol(expected)
tell([
    same("cuLaunchKernel", 12000, 0, "cuLaunchKernel"),
    same("cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz"),
    same("cuLaunchKernelEx", 12000, 2, "cuLaunchKernelEx_ptsz"),
    same("cuMemcpyHtoDAsync", 12000, 2, "cuMemcpyHtoDAsync_v2_ptsz"),
    same("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"),
    same("cuMemAlloc", 12000, 2, "cuMemAlloc_v2"),
    same("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
    same("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    same("cuStreamGetCaptureInfo", 11030, 2, "cuStreamGetCaptureInfo_v2_ptsz"),
    same("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"),
])
""")
    assert found == [True] * len(found)


def test_what_is_not_there_is_not_found(card: Card) -> None:
    told = card.run("""
c, pointer, status = Cuda(), c_void_p(), c_int()
def ask(name, version):
    code = c.library.cuGetProcAddress_v2(name, byref(pointer), c_int(version), c_ulonglong(0), byref(status))
    return [code, pointer.value, status.value]
tell([ask(b"cuNoSuchThing", 12000), ask(b"cuGreenCtxCreate", 12000), ask(b"cuInit", 12000)[::2]])
""")
    assert told == [[500, None, 1], [500, None, 2], [0, 0]]


def test_every_declared_function_is_exported(card: Card) -> None:
    header = (Path(__file__).parent / "standin_cuda.h").read_text()
    names = {word.split("(")[0] for word in header.split() if word.startswith("cu") and "(" in word}
    names |= {part.split(",")[0] for part in header.split("SI_BOTH(")[2:]}
    library = ctypes.CDLL(str(card.library / "libcuda.so.1"))
    assert len(names) > 150
    assert [name for name in sorted(names) if not hasattr(library, name)] == []


def test_kernels_of_a_library_and_by_symbol(card: Card) -> None:
    told = card.run("""
c = Cuda()
library, kernel, function, name = c_void_p(), c_void_p(), c_void_p(), c_char_p()
c("cuLibraryLoadData", byref(library), b"addmine:4:20\\n", None, None, c_uint(0), None, None, c_uint(0))
c("cuLibraryGetKernel", byref(kernel), library, b"addmine")
c("cuKernelGetFunction", byref(function), kernel)
c("cuFuncGetName", byref(name), function)
c.functions["addmine"] = kernel      # a kernel may be launched where a function is asked for
p = c.number(1)
c.launch("addmine", p)
c.functions["addmine"] = function
c.launch("addmine", p, ex=True)
missing = c.code("cuLibraryGetKernel", byref(kernel), library, b"other")
bad = c.code("cuModuleLoadData", byref(library), b"no kernel at all")
tell([name.value.decode(), c.read(p), missing, bad])
""")
    assert told == ["addmine", 3, 500, 200]
