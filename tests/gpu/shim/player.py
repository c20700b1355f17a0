"""A client process that plays programs of launches, copies, events and graphs, and reports their results.

Run as a program. It reads expressions line by line and answers in JSON, as ``peer.py`` does. A program is a list of
steps; each is the name of a method of `Stage` and its arguments. ``grant`` steps write the card's decisions between two
calls, so that streams move at the same points in every run.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from tests.gpu.shim.kernels import NAMES, PTX

cuda = ctypes.CDLL("libcuda.so.1")


def must(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver returned {result}")


def call(name: str, *arguments: Any) -> None:
    must(getattr(cuda, name)(*arguments))


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        *((f"{what}_{axis}", c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    ]


ATTRIBUTES = {"ex": 0, "cluster": 4, "large": 4, "overlapping": 6, "signalling": 7}
"""Attributes of a launch with a configuration: none, clusters, programmatic serialization, programmatic event."""
CLUSTERS = {"cluster": 2, "large": 16}
"""Blocks per cluster."""

HostFunction = ctypes.CFUNCTYPE(None, c_void_p)
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)


class Stage:
    """Cells of device memory, streams by name, and the values that were read."""

    def __init__(self, cells: int = 8, beside: Stage | None = None) -> None:
        """``beside``: use a new context and the cells of that stage."""
        must(cuda.cuInit(0))
        self.context = c_void_p()
        if beside is None:
            call("cuDevicePrimaryCtxRetain", byref(self.context), 0)
        else:
            call("cuCtxCreate_v2", byref(self.context), c_uint(0), 0)
        self.enter()
        module = c_void_p()
        call("cuModuleLoadData", byref(module), PTX.encode())
        self.functions: dict[str, c_void_p] = {}
        for name in NAMES:
            function = c_void_p()
            call("cuModuleGetFunction", byref(function), module, name.encode())
            self.functions[name] = function
        self.base, self.count = (c_uint64(), cells) if beside is None else (beside.base, beside.count)
        if beside is None:
            call("cuMemAlloc_v2", byref(self.base), c_size_t(4 * cells))
            call("cuMemsetD32_v2", self.base, c_uint(0), c_size_t(cells))
        self.streams: dict[str, c_void_p] = {"legacy": c_void_p(), "explicit": c_void_p(1)}
        self.events: dict[str, c_void_p] = {}
        self.captured: dict[str, c_void_p] = {}
        self.graphs: dict[str, c_void_p] = {}
        self.rooms: dict[str, tuple[c_uint64, int]] = {}
        self.pinned = c_void_p()
        self.seen: list[Any] = []
        self.kept: list[Any] = []
        self.region: Any = None
        self.sync()

    def enter(self) -> None:
        call("cuCtxSetCurrent", self.context)

    def _on(self, stream: str) -> tuple[str, c_void_p]:
        """The suffix of the call, and the handle. ``thread`` is the per-thread default stream, by the call's name."""
        return ("_ptsz", c_void_p()) if stream == "thread" else ("", self.streams[stream])

    def _at(self, cell: int) -> c_uint64:
        return c_uint64(self.base.value + 4 * cell)

    def stream(self, name: str, blocking: bool, priority: int = 0) -> None:
        self.streams[name] = made = c_void_p()
        call("cuStreamCreateWithPriority", byref(made), c_uint(0 if blocking else 1), c_int(priority))

    def destroy(self, name: str) -> None:
        call("cuStreamDestroy_v2", self.streams.pop(name))

    def kernel(
        self, stream: str, cell: int, name: str = "add", lasts_us: int = 0, how: str = "plain", grid: int = 1
    ) -> None:
        self._launch(stream, self.functions[name], (grid, 32), (self._at(cell), c_uint64(lasts_us)), how)

    def _launch(
        self, stream: str, function: c_void_p, shape: tuple[int, int], arguments: tuple[c_uint64, c_uint64], how: str
    ) -> None:
        """``shape``: number of blocks and threads per block."""
        suffix, handle = self._on(stream)
        parameters = (c_void_p * 2)(*(ctypes.addressof(argument) for argument in arguments))
        sizes = [c_uint(size) for size in (shape[0], 1, 1, shape[1], 1, 1)]
        if how in ATTRIBUTES:
            attribute = self._attribute(how)
            launch_attributes = (ctypes.addressof(attribute), 1) if attribute else (None, 0)
            config = LaunchConfig(*(size.value for size in sizes), 0, handle, *launch_attributes)
            call("cuLaunchKernelEx" + suffix, byref(config), function, parameters, None)
        elif how == "cooperative":
            call("cuLaunchCooperativeKernel" + suffix, function, *sizes, c_uint(0), handle, parameters)
        else:
            call("cuLaunchKernel" + suffix, function, *sizes, c_uint(0), handle, parameters, None)

    def _attribute(self, how: str) -> Any:
        """As the driver lays it out: its number, and from the eighth byte on its value."""
        number = ATTRIBUTES[how]
        if how in CLUSTERS:
            return (c_uint64 * 9)(number, CLUSTERS[how] | 1 << 32, 1)
        value = self._event("blocks").value if how == "signalling" else 1
        return (c_uint64 * 9)(number, value or 0) if number else None

    def kernels(self, count: int, *arguments: Any) -> None:
        for _ in range(count):
            self.kernel(*arguments)

    def room(self, name: str, blocks: int) -> None:
        """Allocate memory in which this number of blocks write the SM they run on."""
        cells = c_uint64()
        call("cuMemAlloc_v2", byref(cells), c_size_t(4 * blocks))
        self.rooms[name] = cells, blocks

    def report_sms(self, name: str, stream: str, how: str = "plain", cycles: int = 200_000) -> None:
        """Launch a kernel with one large block per cell of the room. It can be captured."""
        cells, blocks = self.rooms[name]
        self._launch(stream, self.functions["burn"], (blocks, 1024), (cells, c_uint64(cycles)), how)

    def sms(self, name: str) -> list[int]:
        """Return the SMs that the blocks wrote, after they end, and free the room."""
        cells, blocks = self.rooms.pop(name)
        found = (c_uint * blocks)()
        call("cuMemcpyDtoH_v2", found, cells, c_size_t(4 * blocks))
        call("cuMemFree_v2", cells)
        return sorted(set(found))

    def burn(self, stream: str, blocks: int, how: str = "plain", cycles: int = 200_000) -> list[int]:
        """Run a kernel of this many large blocks and return the SMs it ran on."""
        self.room("burn", blocks)
        self.report_sms("burn", stream, how, cycles)
        self.wait_stream(stream)
        return self.sms("burn")

    def set(self, stream: str, cell: int, value: int) -> None:
        suffix, handle = self._on(stream)
        call("cuMemsetD32Async" + suffix, self._at(cell), c_uint(value), c_size_t(1), handle)

    def await_value(self, stream: str, cell: int, value: int) -> None:
        """The stream waits until the cell is at least this value."""
        suffix, handle = self._on(stream)
        call("cuStreamWaitValue32_v2" + suffix, handle, self._at(cell), c_uint(value), c_uint(0))

    def copy(self, stream: str, to: int, start: int) -> None:
        suffix, handle = self._on(stream)
        call("cuMemcpyDtoDAsync_v2" + suffix, self._at(to), self._at(start), c_size_t(4), handle)

    def put(self, stream: str, cell: int, value: int) -> None:
        """Copy from pageable memory."""
        suffix, handle = self._on(stream)
        call("cuMemcpyHtoDAsync_v2" + suffix, self._at(cell), byref(c_uint(value)), c_size_t(4), handle)

    def set_now(self, stream: str, cell: int, value: int) -> None:
        call("cuMemsetD32_v2" + self._default(stream), self._at(cell), c_uint(value), c_size_t(1))

    def copy_now(self, stream: str, to: int, start: int) -> None:
        call("cuMemcpyDtoD_v2" + self._default(stream), self._at(to), self._at(start), c_size_t(4))

    def free_in_use(self, stream: str, host: bool = False) -> None:
        """Free memory that a kernel still writes to. Programs may do this, because a free waits for pending work."""
        cell, lasts, pinned = c_uint64(), c_uint64(3000), c_void_p()
        if host:
            call("cuMemHostAlloc", byref(pinned), c_size_t(4), c_uint(0))
            call("cuMemHostGetDevicePointer_v2", byref(cell), pinned, c_uint(0))
        else:
            call("cuMemAlloc_v2", byref(cell), c_size_t(4))
        suffix, handle = self._on(stream)
        parameters = (c_void_p * 2)(ctypes.addressof(cell), ctypes.addressof(lasts))
        shape = [c_uint(size) for size in (1, 1, 1, 32, 1, 1)]
        call("cuLaunchKernel" + suffix, self.functions["add"], *shape, c_uint(0), handle, parameters, None)
        call("cuMemFreeHost", pinned) if host else call("cuMemFree_v2", cell)

    def read(self, stream: str, cell: int) -> None:
        value = c_uint()
        call("cuMemcpyDtoH_v2" + self._default(stream), byref(value), self._at(cell), c_size_t(4))
        self.seen.append(value.value)

    def fetch(self, stream: str, cell: int) -> None:
        """Copy to pageable memory: complete when the call returns."""
        value = c_uint()
        suffix, handle = self._on(stream)
        call("cuMemcpyDtoHAsync_v2" + suffix, byref(value), self._at(cell), c_size_t(4), handle)
        self.seen.append(value.value)

    def pin(self) -> None:
        """Allocate host memory for `fetch_pinned`. Call it first, because the allocation may wait for all work."""
        call("cuMemHostAlloc", byref(self.pinned), c_size_t(4), c_uint(0))

    def fetch_pinned(self, stream: str, cell: int) -> None:
        """Copy to pinned memory, which does not block other threads."""
        suffix, handle = self._on(stream)
        call("cuMemcpyDtoHAsync_v2" + suffix, self.pinned, self._at(cell), c_size_t(4), handle)
        self.wait_stream(stream)
        self.seen.append(c_uint.from_address(self.pinned.value or 0).value)

    @staticmethod
    def _default(stream: str) -> str:
        return "_ptds" if stream == "thread" else ""

    def _event(self, event: str) -> c_void_p:
        if event not in self.events:
            self.events[event] = made = c_void_p()
            call("cuEventCreate", byref(made), c_uint(2))
        return self.events[event]

    def record(self, event: str, stream: str) -> None:
        suffix, handle = self._on(stream)
        call("cuEventRecord" + suffix, self._event(event), handle)

    def wait(self, stream: str, event: str) -> None:
        suffix, handle = self._on(stream)
        call("cuStreamWaitEvent" + suffix, handle, self.events[event], c_uint(0))

    def wait_stream(self, stream: str) -> None:
        suffix, handle = self._on(stream)
        call("cuStreamSynchronize" + suffix, handle)

    def is_done(self, stream: str) -> bool:
        suffix, handle = self._on(stream)
        return getattr(cuda, "cuStreamQuery" + suffix)(handle) == 0

    def sync(self) -> None:
        call("cuCtxSynchronize")

    def host(self, stream: str, word: str) -> None:
        """Record the word when the stream reaches this point."""
        function = HostFunction(lambda _: self.seen.append([stream, word]))
        self.kept.append(function)
        suffix, handle = self._on(stream)
        call("cuLaunchHostFunc" + suffix, handle, function, None)

    def callback(self, stream: str, word: str) -> None:
        """The same, and whether the callback got the caller's stream."""
        suffix, handle = self._on(stream)
        wanted = handle.value
        function = Callback(lambda handle, status, _: self.seen.append([stream, word, handle == wanted, status]))
        self.kept.append(function)
        call("cuStreamAddCallback" + suffix, handle, function, None, c_uint(0))

    def capture(self, graph: str, stream: str, steps: list[list[Any]], mode: int = 0) -> None:
        self.begin_capture(stream, mode)
        self.play(steps)
        self.end_capture(graph, stream)

    def begin_capture(self, stream: str, mode: int = 0) -> None:
        suffix, handle = self._on(stream)
        call("cuStreamBeginCapture_v2" + suffix, handle, c_int(mode))

    def begin_capture_to_graph(self, stream: str) -> None:
        graph = c_void_p()
        suffix, handle = self._on(stream)
        call("cuGraphCreate", byref(graph), c_uint(0))
        call("cuStreamBeginCaptureToGraph" + suffix, handle, graph, None, None, c_size_t(0), c_int(0))

    def end_capture(self, graph: str, stream: str) -> None:
        suffix, handle = self._on(stream)
        captured, made = c_void_p(), c_void_p()
        call("cuStreamEndCapture" + suffix, handle, byref(captured))
        call("cuGraphInstantiateWithFlags", byref(made), captured, c_uint64(0))
        self.captured[graph], self.graphs[graph] = captured, made

    def invalidate_capture(self, stream: str) -> list[int]:
        """Invalidate a capture by a wait for its stream. Return the results of the wait and of the end."""
        suffix, handle = self._on(stream)
        return [getattr(cuda, "cuStreamSynchronize" + suffix)(handle), self.code_of_end(stream)]

    def code_of_end(self, stream: str) -> int:
        """Return the result of ending a capture that may fail."""
        suffix, handle = self._on(stream)
        return getattr(cuda, "cuStreamEndCapture" + suffix)(handle, byref(c_void_p()))

    def drop_graph(self, graph: str) -> None:
        call("cuGraphExecDestroy", self.graphs.pop(graph))
        call("cuGraphDestroy", self.captured.pop(graph))

    def edges(self, graph: str) -> int:
        """Return the number of edges. The call fails if one is not a plain edge."""
        count = c_size_t()
        call("cuGraphGetEdges", self.captured[graph], None, None, byref(count))
        return count.value

    def ends(self, graph: str) -> int:
        """Return the number of nodes that wait for others and that no node waits for."""
        count = c_size_t(self.edges(graph))
        firsts, seconds = (c_void_p * count.value)(), (c_void_p * count.value)()
        call("cuGraphGetEdges", self.captured[graph], firsts, seconds, byref(count))
        return len(set(seconds) - set(firsts))

    def _dependencies(self, stream: str) -> tuple[Any, int]:
        status, nodes, count = c_int(), ctypes.POINTER(c_void_p)(), c_size_t()
        suffix, handle = self._on(stream)
        arguments = (handle, byref(status), None, None, byref(nodes), None, byref(count))
        call("cuStreamGetCaptureInfo_v3" + suffix, *arguments)
        return nodes, count.value

    def note_dependencies(self, stream: str) -> None:
        """Record the number of nodes that the next captured work will depend on."""
        self.seen.append(self._dependencies(stream)[1])

    def keep_dependencies(self, stream: str) -> None:
        """Keep the current dependencies for `set_dependencies`."""
        nodes, count = self._dependencies(stream)
        self.kept_dependencies = (c_void_p * count)(*nodes[:count])

    def set_dependencies(self, stream: str) -> None:
        """Make the next work depend on the kept nodes only."""
        suffix, handle = self._on(stream)
        nodes = self.kept_dependencies
        count = c_size_t(len(nodes))
        call("cuStreamUpdateCaptureDependencies_v2" + suffix, handle, nodes, None, count, c_uint(1))

    def graph(self, stream: str, graph: str) -> None:
        suffix, handle = self._on(stream)
        call("cuGraphLaunch" + suffix, self.graphs[graph], handle)

    def in_thread(self, steps: list[list[Any]]) -> None:
        """Play the steps in a thread that has ended afterwards. Its work may still run."""
        failed: list[BaseException] = []

        def play() -> None:
            try:
                self.enter()
                self.play(steps)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=play)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def together(self, parts: list[list[list[Any]]]) -> None:
        """Play each part in a thread, all at once."""
        threads = [threading.Thread(target=self.in_thread, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def grant(self, **fields: Any) -> None:
        """Write a grant as the daemon would. Does nothing in a process without a client."""
        client = os.environ.get("GPUSQUAD_TENANT")
        if not client:
            return
        if self.region is None:
            from gpusquad.gpu.region.card_region import CardRegion

            self.region = CardRegion(Path(client).parents[1], groups=8, sms_per_group=8)
        from gpusquad.gpu.region.pages import Grant

        self.region.write({int(Path(client).name): Grant(**fields)})

    def play(self, steps: list[list[Any]]) -> None:
        for name, *arguments in steps:
            if name == "grant":
                self.grant(**arguments[0])
            else:
                getattr(self, name)(*arguments)

    def cells(self) -> list[int]:
        self.sync()
        values = (c_uint * self.count)()
        call("cuMemcpyDtoH_v2", values, self.base, c_size_t(4 * self.count))
        return list(values)


class Beside(threading.Thread):
    """Plays steps in a thread that stays until ``leave`` is set."""

    def __init__(self, stage: Stage, steps: list[list[Any]]) -> None:
        super().__init__(daemon=True)
        self.stage, self.steps = stage, steps
        self.played, self.leave = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        self.stage.enter()
        self.stage.play(self.steps)
        self.played.set()
        self.leave.wait()

    def is_gone(self) -> bool:
        """Whether the system thread has ended. Python's own thread object ends earlier."""
        return not Path(f"/proc/self/task/{self.native_id}").exists()


def played(steps: list[list[Any]], cells: int = 8) -> dict[str, Any]:
    """Play a whole program on a new stage."""
    stage = Stage(cells)
    stage.play(steps)
    return {"cells": stage.cells(), "seen": stage.seen}


def main() -> None:
    names: dict[str, Any] = dict(globals())
    for line in sys.stdin:
        try:
            request = json.loads(line)
            value = eval(request["do"], names | {"given": request.get("given")})
            if request.get("keep"):
                names[request["keep"]], value = value, None
            answer = {"value": value}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
