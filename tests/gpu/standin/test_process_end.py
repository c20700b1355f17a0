"""Processes on a stand-in card that are killed or fork: their resources are released, and others continue."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.gpu.standin.programs import GIB, HOLD, mean_us, run_loop
from tests.gpu.standin.running import MakeCard


def test_memory_is_released_when_a_process_is_killed(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=1 << 20)
    with card.start(HOLD.format(size=GIB)) as holder:
        holder.receive()
        with card.start("c = Cuda()\nsend(c.memory()[0])\nreceive()\nsend(c.memory()[0])") as witness:
            assert witness.receive() == GIB - (2 << 20)
            holder.process.kill()
            holder.process.wait()
            witness.resume()
            assert witness.receive() == 2 * GIB - (1 << 20)


def test_sms_are_released_when_a_process_is_killed(make_card: MakeCard) -> None:
    card = make_card(mode="timeslice")
    with card.start('c = Cuda()\nc.launch("time", 10**9)\nsend("ready")\nreceive()') as hanging:
        hanging.receive()
        hanging.process.kill()
        hanging.process.wait()
    assert mean_us(run_loop(card, "full")[-5:]) == pytest.approx(2000, rel=0.01)


STORM = """
import random
c, dice, held, launched = Cuda(), random.Random(os.getpid()), [], 0
p, stream = c.number(), c.stream()
send("ready")
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
send([c.read(p), launched])
"""


@pytest.mark.parametrize("mode", ["mps", "timeslice"])
def test_other_processes_continue_when_processes_are_killed_during_storms(make_card: MakeCard, mode: str) -> None:
    card = make_card(mode=mode, speed=20, context_bytes=1 << 20)
    with ExitStack() as stack:
        victims = [stack.enter_context(card.start(STORM.format(rounds=10**9))) for _ in range(2)]
        others = [stack.enter_context(card.start(STORM.format(rounds=200))) for _ in range(3)]
        for program in (*victims, *others):
            program.receive()
        for victim in victims:
            victim.process.kill()
            victim.process.wait()
        for other in others:
            counted, launched = other.finish()
            assert counted == launched == 200
        free, total = card.run("c = Cuda()\nsend(c.memory())")
    assert total - free == 1 << 20


def test_forked_child_cannot_use_the_driver(make_card: MakeCard) -> None:
    card = make_card(context_bytes=1 << 20)
    with card.start("""
c = Cuda()
child = os.fork()
if child == 0:
    send([os.getpid(), c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
    receive()
    os._exit(0)
os.waitpid(child, 0)
""") as parent:
        _, code = parent.receive()
        parent.process.kill()
        parent.process.wait()
        free, total = card.run("c = Cuda()\nsend(c.memory())")
        parent.resume()
    assert code == 3
    assert total - free == 1 << 20
