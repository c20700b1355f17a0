"""Stream capture of the stand-in driver: captured work, and calls that invalidate a capture."""

from __future__ import annotations

from tests.gpu.standin.programs import in_order
from tests.gpu.standin.running import Card


def test_captured_work_runs_only_when_the_graph_is_launched(card: Card) -> None:
    values = card.run("""
c = Cuda()
s, t, p, event, joined = c.stream(False), c.stream(False), c.number(1), c.event(), c.event()
c.begin_capture(s)
c.launch("add", p, stream=s)
c.record(event, s)
c.wait(t, event)                 # t joins the capture
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
send([*values, c.read(p)])
""")
    assert values == [1, 1, in_order("acaaca")]


def test_capture_is_invalidated_by_forbidden_calls(card: Card) -> None:
    codes = card.run("""
c = Cuda()
def capture(invalidate, blocking=True):
    s = c.stream(blocking)
    c.begin_capture(s)
    code = invalidate(s)
    return [code, c.code("cuStreamEndCapture", c_void_p(s), byref(c_void_p()))]
def fork(s):
    event, other = c.event(), c.stream(False)
    c.record(event, s)
    c.wait(other, event)
    c.launch("one", stream=other)
    return 0
send([
    capture(lambda s: c.code("cuStreamSynchronize", c_void_p(s))),
    capture(lambda s: c.code("cuStreamSynchronize", c_void_p(c.stream(False)))),
    capture(lambda s: c.code("cuStreamQuery", c_void_p(0))),
    capture(lambda s: c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))),
    capture(fork),
    c.code("cuStreamBeginCapture", c_void_p(0), c_int(0)),
])
""")
    assert codes == [[900, 901], [900, 901], [906, 901], [900, 901], [0, 904], 900]


def test_capture_refuses_the_same_calls_as_a_real_card(card: Card) -> None:
    """Probe 33 of DRIVER_PROBES.md, with the result of an H200."""
    results = card.run("""
from tests.gpu.standin.driver_probe import DriverProbe
send(DriverProbe().invalidating_calls())
""")
    assert results == {
        "graph": [900, 901],
        "no blocks": [1, 901],
        "too many blocks at once": [720, 901],
        "cuStreamGetFlags own": [900, 901],
        "cuStreamGetFlags side": [900, 901],
    }


def test_capture_fails_when_work_of_a_destroyed_stream_was_not_joined(card: Card) -> None:
    """As on an H200."""
    codes = card.run("""
c = Cuda()
def end(launches, joins):
    s, t, event, joined = c.stream(False), c.stream(False), c.event(), c.event()
    c.begin_capture(s)
    c.launch("one", stream=s)
    c.record(event, s)
    c.wait(t, event)
    if launches: c.launch("one", stream=t)
    if joins: c.record(joined, t); c.wait(s, joined)
    c("cuStreamDestroy", c_void_p(t))
    c.launch("one", stream=s)
    return c.code("cuStreamEndCapture", c_void_p(s), byref(c_void_p()))
send([end(False, False), end(True, False), end(False, True), end(True, True)])
""")
    assert codes == [0, 904, 0, 0]


def test_work_captured_on_a_green_stream_keeps_its_sms(card: Card) -> None:
    """Probe 31 of DRIVER_PROBES.md, with the result of an H200."""
    sms = card.run("""
from tests.gpu.standin.driver_probe import DriverProbe
send([DriverProbe().sms_of_graph_from_green(), DriverProbe().sms_of_graph_through_green()])
""")
    assert sms == [8, [8, 132]]


LOSSY_QUERY = 402
EDGES = """
c = Cuda()
s, t, event, joined = c.stream(False), c.stream(False), c.event(), c.event()
def dependencies(stream):
    status, nodes, count = c_int(), POINTER(c_void_p)(), c_size_t()
    c("cuStreamGetCaptureInfo", c_void_p(stream), byref(status), None, None, byref(nodes), None, byref(count))
    return nodes[:count.value]
def edges(graph):
    count = c_size_t()
    code = c.code("cuGraphGetEdges", c_void_p(graph), None, None, byref(count))
    return code or count.value
def end():
    graph = c_void_p()
    c("cuStreamEndCapture", c_void_p(s), byref(graph))
    return graph.value
"""


def test_captured_stream_depends_on_its_last_work_and_its_waits(card: Card) -> None:
    counts = card.run(
        EDGES
        + """
c.begin_capture(s)
c.launch("one", stream=s)
first = dependencies(s)
c.record(event, s)
c.wait(t, event)
joined_with = dependencies(t)
c.launch("one", stream=t)
c.record(joined, t)
c.wait(s, joined)
both = dependencies(s)
c("cuStreamUpdateCaptureDependencies", c_void_p(s), (c_void_p * 1)(both[1]), None, c_size_t(1), c_uint(1))
c.launch("one", stream=s)
send([joined_with == first, len(both), both[0] == first[0], edges(end())])
"""
    )
    assert counts == [True, 2, True, 2]


def test_overlapping_kernel_has_a_programmatic_edge(card: Card) -> None:
    code = card.run(
        EDGES
        + """
attribute = (c_uint * 18)(6, 0, 1)
config = LaunchConfig(1, 1, 1, 32, 1, 1, 0, s, addressof(attribute), 1)
c.begin_capture(s)
c.launch("one", stream=s)
c("cuLaunchKernelEx", byref(config), c.kernel("one"), None, None)
send(edges(end()))
"""
    )
    assert code == LOSSY_QUERY


def test_capture_ends_with_the_stream_it_started_on(card: Card) -> None:
    value = card.run("""
c = Cuda()
s, t, p = c.stream(False), c.stream(False), c.number()
c.begin_capture(s)
c.launch("add", p, stream=s)
c("cuStreamDestroy", c_void_p(s))
c.begin_capture(t)
c.launch("add", p, stream=t)
c.launch_graph(c.end_capture(t), t)
c.sync()
send(c.read(p))
""")
    assert value == 1


def test_capture_to_a_graph_adds_nodes_to_it(card: Card) -> None:
    values = card.run("""
c = Cuda()
s, p, graph, ended = c.stream(False), c.number(1), c_void_p(), c_void_p()
c("cuGraphCreate", byref(graph), c_uint(0))
for name in ("add", "copy2"):
    c("cuStreamBeginCaptureToGraph", c_void_p(s), graph, None, None, c_size_t(0), c_int(0))
    c.launch(name, p, stream=s)
    c("cuStreamEndCapture", c_void_p(s), byref(ended))
executable = c_void_p()
c("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
c.launch_graph(executable, s)
c.sync()
send([ended.value == graph.value, c.read(p)])
""")
    assert values == [True, in_order("ac")]
