"""Copies of the stand-in driver: when they read, and which work they wait for."""

from __future__ import annotations

from tests.gpu.standin.running import Card


def test_synchronous_copies_wait_for_earlier_work(card: Card) -> None:
    value = card.run("""
c = Cuda()
p = c.number(1)
c.launch("addlong", p, stream=c.stream())
send(c.read(p))
""")
    assert value == 2


def test_pinned_memory_is_read_when_the_copy_runs(card: Card) -> None:
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
send([c.read(a), c.read(b)])
""")
    assert values == [5, 6]
