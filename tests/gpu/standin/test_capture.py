"""The stand-in driver's graphs: work that is captured now and runs later, and what spoils a capture."""

from __future__ import annotations

from tests.gpu.standin.programs import in_order
from tests.gpu.standin.running import Card


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
