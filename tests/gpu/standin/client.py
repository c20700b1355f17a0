"""Call a driver library from Python as a CUDA program does: the stand-in, or a real driver.

Functions are resolved with `cuGetProcAddress`, as the CUDA runtime finds them, so a preloaded shim sees every call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 12_040  # requested API version, as 1000 * major + 10 * minor
LEGACY, PER_THREAD = 1, 2  # the default streams, as handles
OUT_OF_MEMORY, NOT_READY, NOT_FOUND = 2, 600, 500
KERNELS = """\
add:1:10
copy2:1:10
addlong:1:5000
copy2long:1:5000
full:0:2000
half:66:2000
group:8:2000
long:0:20000
one:1:1000
time:0:*
halftime:66:*
two:16:1000:2
addtime:1:*
"""


class CudaError(RuntimeError):
    """A call that did not return CUDA_SUCCESS."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} returned {code}")
        self.call, self.code = call, code


class LaunchConfig(ctypes.Structure):
    """Configuration for `cuLaunchKernelEx`."""

    _fields_ = (
        *[(name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")],
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


class DevResource(ctypes.Structure):
    """SMs of the card or of a partition."""

    _fields_ = (("type", c_int), ("hidden", ctypes.c_ubyte * 92), ("sms", c_uint), ("rest", ctypes.c_ubyte * 44))


class Cuda:
    """The driver in one process. A call that fails raises `CudaError`."""

    def __init__(self, per_thread: bool = False, by_symbol: bool = False, kernels: str = KERNELS) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.flags = 2 if per_thread else 0
        self.by_symbol = by_symbol
        self.resolved: dict[str, Callable[..., int]] = {}
        self.callbacks: list[Any] = []  # referenced here, because they must outlive their calls
        self("cuInit", c_uint(0))
        self.context = c_void_p()
        self("cuDevicePrimaryCtxRetain", byref(self.context), c_int(0))
        self("cuCtxSetCurrent", self.context)
        self.module = c_void_p()
        self("cuModuleLoadData", byref(self.module), c_char_p(kernels.encode()))
        self.functions: dict[str, c_void_p] = {}

    def address(self, name: str, version: int = VERSION, flags: int | None = None) -> int:
        """Address of a function, from `cuGetProcAddress_v2`."""
        pointer, status = c_void_p(), c_int()
        lookup_flags = c_ulonglong(self.flags if flags is None else flags)
        code = self.library.cuGetProcAddress_v2(
            name.encode(), byref(pointer), c_int(version), lookup_flags, byref(status)
        )
        if code or not pointer.value:
            raise CudaError(name, code or NOT_FOUND)
        return pointer.value

    def function(self, name: str) -> Callable[..., int]:
        if name not in self.resolved:
            if self.by_symbol:
                self.resolved[name] = getattr(self.library, name)
            else:
                self.resolved[name] = ctypes.CFUNCTYPE(c_int)(self.address(name))
        return self.resolved[name]

    def code(self, name: str, *arguments: Any) -> int:
        """Result code of a call. Arguments are ctypes values."""
        return self.function(name)(*arguments)

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code:
            raise CudaError(name, code)

    def alloc(self, size: int) -> int:
        pointer = c_uint64()
        self("cuMemAlloc", byref(pointer), c_size_t(size))
        return pointer.value

    def free(self, pointer: int) -> None:
        self("cuMemFree", c_uint64(pointer))

    def alloc_async(self, size: int, stream: int = 0) -> int:
        pointer = c_uint64()
        self("cuMemAllocAsync", byref(pointer), c_size_t(size), c_void_p(stream))
        return pointer.value

    def free_async(self, pointer: int, stream: int = 0) -> None:
        self("cuMemFreeAsync", c_uint64(pointer), c_void_p(stream))

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = c_size_t(), c_size_t()
        self("cuMemGetInfo", byref(free), byref(total))
        return free.value, total.value

    def write(self, pointer: int, value: int) -> None:
        self("cuMemcpyHtoD", c_uint64(pointer), byref(c_uint(value)), c_size_t(4))

    def read(self, pointer: int) -> int:
        value = c_uint()
        self("cuMemcpyDtoH", byref(value), c_uint64(pointer), c_size_t(4))
        return value.value

    def number(self, value: int = 0) -> int:
        """An int on the card."""
        pointer = self.alloc(4)
        self.write(pointer, value)
        return pointer

    def kernel(self, name: str) -> c_void_p:
        if name not in self.functions:
            function = c_void_p()
            self("cuModuleGetFunction", byref(function), self.module, c_char_p(name.encode()))
            self.functions[name] = function
        return self.functions[name]

    def launch(self, name: str, *arguments: int, stream: int = 0, ex: bool = False, blocks: int = 1) -> None:
        values = [c_uint64(argument) for argument in arguments]
        params = (c_void_p * (len(values) + 1))(*[ctypes.addressof(value) for value in values])
        if ex:
            config = LaunchConfig(blocks, 1, 1, 32, 1, 1, 0, stream, None, 0)
            self("cuLaunchKernelEx", byref(config), self.kernel(name), params, None)
            return
        shape = [c_uint(size) for size in (blocks, 1, 1, 32, 1, 1, 0)]
        self("cuLaunchKernel", self.kernel(name), *shape, c_void_p(stream), params, None)

    def sync(self) -> None:
        self("cuCtxSynchronize")

    def stream(self, blocking: bool = True, priority: int = 0) -> int:
        stream = c_void_p()
        self("cuStreamCreateWithPriority", byref(stream), c_uint(0 if blocking else 1), c_int(priority))
        return stream.value or 0

    def sync_stream(self, stream: int = 0) -> None:
        self("cuStreamSynchronize", c_void_p(stream))

    def is_done(self, stream: int = 0) -> bool:
        code = self.code("cuStreamQuery", c_void_p(stream))
        if code not in (0, NOT_READY):
            raise CudaError("cuStreamQuery", code)
        return code == 0

    def event(self) -> c_void_p:
        event = c_void_p()
        self("cuEventCreate", byref(event), c_uint(0))
        return event

    def record(self, event: c_void_p, stream: int = 0) -> None:
        self("cuEventRecord", event, c_void_p(stream))

    def wait(self, stream: int, event: c_void_p) -> None:
        self("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))

    def elapsed_ms(self, start: c_void_p, end: c_void_p) -> float:
        value = c_float()
        self("cuEventElapsedTime", byref(value), start, end)
        return value.value

    def host_call(self, function: Callable[[], None], stream: int = 0) -> None:
        callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: function())
        self.callbacks.append(callback)
        self("cuLaunchHostFunc", c_void_p(stream), callback, None)

    def begin_capture(self, stream: int, mode: int = 0) -> None:
        self("cuStreamBeginCapture", c_void_p(stream), c_int(mode))

    def end_capture(self, stream: int) -> c_void_p:
        """End the capture. Returns an executable graph."""
        graph, executable = c_void_p(), c_void_p()
        self("cuStreamEndCapture", c_void_p(stream), byref(graph))
        self("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
        self("cuGraphDestroy", graph)
        return executable

    def launch_graph(self, executable: c_void_p, stream: int = 0) -> None:
        self("cuGraphLaunch", executable, c_void_p(stream))

    def groups(self, sms: int = 8) -> tuple[list[DevResource], DevResource]:
        """The card split into SM groups, and the remaining SMs."""
        whole, rest, count = DevResource(), DevResource(), c_uint()
        self("cuDeviceGetDevResource", c_int(0), byref(whole), c_int(1))
        self("cuDevSmResourceSplitByCount", None, byref(count), byref(whole), None, c_uint(0), c_uint(sms))
        parts = (DevResource * count.value)()
        self("cuDevSmResourceSplitByCount", parts, byref(count), byref(whole), byref(rest), c_uint(0), c_uint(sms))
        return list(parts)[: count.value], rest

    def green(self, groups: Sequence[DevResource]) -> c_void_p:
        """A green context of these groups."""
        desc, green = c_void_p(), c_void_p()
        parts = (DevResource * len(groups))(*groups)
        self("cuDevResourceGenerateDesc", byref(desc), parts, c_uint(len(groups)))
        self("cuGreenCtxCreate", byref(green), desc, c_int(0), c_uint(1))
        return green

    def green_stream(self, green: c_void_p, priority: int = 0) -> int:
        stream = c_void_p()
        self("cuGreenCtxStreamCreate", byref(stream), green, c_uint(1), c_int(priority))
        return stream.value or 0


@dataclass(frozen=True)
class Line:
    """One piece of work in the log of the stand-in. Masks have one bit per SM; times are those of the card clock."""

    number: int
    pid: int
    stream: str  # "legacy:CONTEXT", "thread:NUMBER", or the handle as a decimal number
    kind: str  # kernel, graph (a kernel of a graph), copy, set, host, record, wait, free
    name: str
    allowed: int
    used: int
    mean_sms: float
    submitted_us: float
    started_us: float
    ended_us: float

    def overlaps(self, other: Line) -> bool:
        return self.started_us < other.ended_us and other.started_us < self.ended_us


def read_log(path: Path) -> list[Line]:
    """All complete lines, in the order in which the work ended."""
    text = path.read_text() if path.exists() else ""
    return [_line(row) for row in text.splitlines(keepends=True) if row.endswith("\n")]


def _line(row: str) -> Line:
    number, pid, stream, kind, name, allowed, used, *times = row.split("\t")
    mean_sms, submitted_us, started_us, ended_us = map(float, times)
    masks = int(allowed, 16), int(used, 16)
    return Line(int(number), int(pid), stream, kind, name, *masks, mean_sms, submitted_us, started_us, ended_us)
