"""Probes of a driver without the shim, for ``DRIVER_PROBES.md``. Results differ between drivers.

python -c "from tests.gpu.standin.driver_probe import *; print(DriverProbe().sms_on_green())"
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from tests.gpu.shim.kernels import PTX
from tests.gpu.shim.player import LaunchConfig, Stage, call, cuda

SM, DEFAULT_STREAM, NON_BLOCKING, RELAXED = 1, 1, 1, 2
KERNEL_NS = 2_000_000_000
"""Long enough to be observed while it runs."""
TIMEOUT_S = 5.0
"""A call that takes longer is blocked."""


class Resource(ctypes.Structure):
    """A resource of the card, as the driver describes it."""

    _fields_ = [("type", c_uint), ("rest", c_uint * 35)]


class DriverProbe(Stage):
    """A stage with a stream ``green`` on the first groups of eight SMs, and a stream ``own``."""

    def __init__(self, groups: int = 1, priority: int = 0) -> None:
        super().__init__()
        self.partition = self.make_green(groups)
        self.streams["green"] = stream = c_void_p()
        call("cuGreenCtxStreamCreate", byref(stream), self.partition, c_uint(NON_BLOCKING), c_int(priority))
        self.stream("own", blocking=False)

    @staticmethod
    def make_green(groups: int = 1) -> c_void_p:
        whole, parts, rest, count = Resource(), (Resource * 64)(), Resource(), c_uint(64)
        desc, green = c_void_p(), c_void_p()
        call("cuDeviceGetDevResource", c_int(0), byref(whole), c_int(SM))
        call("cuDevSmResourceSplitByCount", parts, byref(count), byref(whole), byref(rest), c_uint(0), c_uint(8))
        call("cuDevResourceGenerateDesc", byref(desc), parts, c_uint(groups))
        call("cuGreenCtxCreate", byref(green), desc, c_int(0), c_uint(DEFAULT_STREAM))
        return green

    def result_of(self, name: str, *arguments: Any) -> int:
        return getattr(cuda, name)(*arguments)

    def sms_on_green(self) -> int:
        return len(self.burn("green", 264))

    def sms_of_graph_on_green(self) -> int:
        """SMs of a graph that is captured in the primary context and launched on the green stream."""
        return self._sms_of_graph("own", "green")

    def sms_of_graph_from_green(self) -> int:
        """SMs of a graph that is captured on the green stream and launched in the primary context."""
        return self._sms_of_graph("green", "own")

    def _sms_of_graph(self, captured: str, launched: str) -> int:
        self.room("graph", 264)
        self.capture("graph", captured, [["report_sms", "graph", captured]])
        self.graph(launched, "graph")
        self.wait_stream(launched)
        return len(self.sms("graph"))

    def sms_of_graph_through_green(self) -> tuple[int, int]:
        """SMs of two kernels captured in the primary context. The first is launched on the green stream, which joins
        the capture by an event; the second on the first stream afterwards."""
        self.room("there", 264)
        self.room("after", 264)
        own, green, captured, executable = self.streams["own"], self.streams["green"], c_void_p(), c_void_p()
        forth, back = c_void_p(), c_void_p()
        for event in (forth, back):
            call("cuEventCreate", byref(event), c_uint(2))
        call("cuStreamBeginCapture_v2", own, c_int(0))
        call("cuEventRecord", forth, own)
        call("cuStreamWaitEvent", green, forth, c_uint(0))
        self.report_sms("there", "green")
        call("cuEventRecord", back, green)
        call("cuStreamWaitEvent", own, back, c_uint(0))
        self.report_sms("after", "own")
        call("cuStreamEndCapture", own, byref(captured))
        call("cuGraphInstantiateWithFlags", byref(executable), captured, c_uint64(0))
        call("cuGraphLaunch", executable, own)
        self.wait_stream("own")
        return len(self.sms("there")), len(self.sms("after"))

    def launch_too_large(self, blocks: int, attribute: int, value: int) -> int:
        """Result of a launch on the green stream with an attribute (2: cooperative, 4: cluster of ``value`` blocks)."""
        attributes = (c_uint * 18)(attribute, 0, value, *((1, 1) if attribute == 4 else (0, 0)))
        config = LaunchConfig(blocks, 1, 1, 1024, 1, 1, 0, self.streams["green"], ctypes.addressof(attributes), 1)
        target, duration = self._at(0), c_uint64(0)
        parameters = (c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(duration))
        result = self.result_of("cuLaunchKernelEx", byref(config), self.functions["add"], parameters, None)
        self.sync()
        return result

    def names_by_wrong_handle(self) -> tuple[int, int]:
        """Results of name queries for a handle of the other kind. They may crash."""
        library, kernel, name = c_void_p(), c_void_p(), ctypes.c_char_p()
        call("cuLibraryLoadData", byref(library), PTX.encode(), None, None, c_uint(0), None, None, c_uint(0))
        call("cuLibraryGetKernel", byref(kernel), library, b"add")
        first = self.result_of("cuFuncGetName", byref(name), kernel)
        return first, self.result_of("cuKernelGetName", byref(name), self.functions["add"])

    def concurrent_threads(self, count: int = 8, launches: int = 20_000) -> list[int]:
        """Each thread launches on its own stream of one green context, which the vendor does not guarantee to work."""
        for number in range(count):
            self.streams[f"g{number}"] = stream = c_void_p()
            call("cuGreenCtxStreamCreate", byref(stream), self.partition, c_uint(NON_BLOCKING), c_int(0))
        self.together([[["kernels", launches, f"g{number}", number]] for number in range(count)])
        return self.cells()

    def ms_between(self) -> float:
        """Time between an event on a stream of the primary context and one on the green stream."""
        events, ms = [c_void_p(), c_void_p()], c_float()
        for event, stream in zip(events, ("own", "green"), strict=True):
            call("cuEventCreate", byref(event), c_uint(0))
            call("cuEventRecord", event, self.streams[stream])
        self.sync()
        call("cuEventElapsedTime", byref(ms), *events)
        return ms.value

    def results_during_capture(self, relaxed: bool) -> dict[str, int]:
        """Results of calls of another thread while a stream is captured in global mode, and of the capture's end."""
        event, results = c_void_p(), dict[str, int]()
        call("cuEventCreate", byref(event), c_uint(2))
        call("cuEventRecord", event, self.streams["green"])

        def make_calls() -> None:
            self.enter()
            mode, stream, priority = c_int(RELAXED), c_void_p(), c_int()
            if relaxed:
                call("cuThreadExchangeStreamCaptureMode", byref(mode))
            for name, *arguments in (
                ("cuEventQuery", event),
                ("cuEventRecord", event, self.streams["green"]),
                ("cuStreamWaitEvent", self.streams["green"], event, c_uint(0)),
                ("cuStreamGetPriority", c_void_p(1), byref(priority)),
                ("cuStreamSynchronize", self.streams["green"]),
                ("cuGreenCtxStreamCreate", byref(stream), self.partition, c_uint(NON_BLOCKING), c_int(0)),
            ):
                results[name] = self.result_of(name, *arguments)

        call("cuStreamBeginCapture_v2", self.streams["own"], c_int(0))
        thread = threading.Thread(target=make_calls)
        thread.start()
        thread.join()
        results["end"] = self.result_of("cuStreamEndCapture", self.streams["own"], byref(c_void_p()))
        return results

    def invalidating_calls(self) -> dict[str, tuple[int, int]]:
        """Calls that fail or invalidate a capture: their results, and those of the end of the capture. ``side`` has
        joined the capture, ``green`` has not."""
        self.stream("side", blocking=False)
        self.capture("inner", "own", [["kernel", "own", 0]])
        calls = self._refused_launches() | {
            f"{name} {stream}": (name, self.streams[stream], byref(output))
            for stream in ("own", "side", "green")
            for name, output in (
                ("cuStreamGetFlags", c_uint()),
                ("cuStreamGetPriority", c_int()),
                ("cuStreamGetCtx", c_void_p()),
                ("cuStreamGetGreenCtx", c_void_p()),
            )
        }
        return {name: results for name, made in calls.items() if any(results := self._results_in_capture(*made))}

    def _refused_launches(self) -> dict[str, tuple[Any, ...]]:
        own, add = self.streams["own"], self.functions["add"]
        target, duration = self._at(0), c_uint64(0)
        parameters = (c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(duration))
        self.kept += [target, duration]
        nothing, too_much = [c_uint(0)] * 6, [c_uint(size) for size in (100_000, 1, 1, 1024, 1, 1)]
        return {
            "graph": ("cuGraphLaunch", self.graphs["inner"], own),
            "no blocks": ("cuLaunchKernel", add, *nothing, c_uint(0), own, parameters, None),
            "too many blocks at once": ("cuLaunchCooperativeKernel", add, *too_much, c_uint(0), own, parameters),
        }

    def _results_in_capture(self, name: str, *arguments: Any) -> tuple[int, int]:
        own, side = self.streams["own"], self.streams["side"]
        self.play([["begin_capture", "own"], ["record", "forth", "own"], ["wait", "side", "forth"]])
        result = self.result_of(name, *arguments)
        self.result_of("cuEventRecord", self._event("back"), side)
        self.result_of("cuStreamWaitEvent", own, self._event("back"), c_uint(0))
        return result, self.result_of("cuStreamEndCapture", own, byref(c_void_p()))

    def free_waits_for_green(self) -> bool:
        cell = c_uint64()
        call("cuMemAlloc_v2", byref(cell), c_size_t(4))
        self.kernel("green", 0, "add", KERNEL_NS // 1000)
        call("cuMemFree_v2", cell)
        return self.is_done("green")

    def after_reset(self) -> tuple[int, int]:
        """Results of a reset while a green context exists, and of the destruction of that context afterwards."""
        return self.result_of("cuDevicePrimaryCtxReset_v2", 0), self.result_of("cuGreenCtxDestroy", self.partition)

    def is_active_after_last_release(self) -> int:
        flags, active = c_uint(), c_int()
        call("cuDevicePrimaryCtxRelease_v2", 0)
        call("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
        return active.value

    def _block(self, stream: str) -> c_uint:
        """Block a stream until the returned value is not 0. Setting it needs no call of the driver."""
        memory, address = c_void_p(), c_uint64()
        call("cuMemHostAlloc", byref(memory), c_size_t(4), c_uint(0))
        call("cuMemHostGetDevicePointer_v2", byref(address), memory, c_uint(0))
        flag = c_uint.from_address(memory.value or 0)
        flag.value = 0
        call("cuStreamWaitValue32_v2", self.streams[stream], address, c_uint(1), c_uint(0))
        return flag

    def launches_during_copy(self, pinned: bool) -> bool:
        """Whether a thread can launch on its own stream while a copy of another thread to the host is blocked."""
        self.pin()
        self.kernels(100, "own", 0)
        self.sync()
        flag = self._block("legacy")
        copy = ["fetch_pinned" if pinned else "fetch", "legacy", 0]
        copies = threading.Thread(target=self.in_thread, args=([copy],))
        launches = threading.Thread(target=self.in_thread, args=([["kernels", 100, "own", 0]],))
        copies.start()
        copies.join(1)  # by then it is in the call
        launches.start()
        launches.join(TIMEOUT_S)
        has_launched = not launches.is_alive()
        flag.value = 1
        launches.join()
        copies.join()
        return has_launched

    def objects_created_while_blocked(self) -> list[str]:
        """Objects that can be created while a stream of the context is blocked. The first missing one blocks too."""
        flag, created = self._block("own"), list[str]()

        def create() -> None:
            self.enter()
            stream, event = c_void_p(), c_void_p()
            call("cuEventCreate", byref(event), c_uint(2))
            created.append("event")
            call("cuStreamCreateWithPriority", byref(stream), c_uint(NON_BLOCKING), c_int(0))
            created.append("stream")
            call("cuGreenCtxStreamCreate", byref(stream), self.partition, c_uint(NON_BLOCKING), c_int(0))
            created.append("green stream")
            self.make_green(2)
            created.append("green context")

        thread = threading.Thread(target=create)
        thread.start()
        thread.join(TIMEOUT_S)
        in_time = list(created)
        flag.value = 1
        thread.join()
        return in_time
