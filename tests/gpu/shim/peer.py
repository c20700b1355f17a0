"""A client process for tests: evaluates expressions line by line from stdin and answers in JSON on stdout.

Run as a program, so that the dynamic linker preloads the shim as in any other process.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import threading
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

OUT_OF_MEMORY = 2
MIB = 1 << 20


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]


class Array3DDescriptor(ctypes.Structure):
    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
        ("flags", c_uint),
    ]


class AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location_type", c_int),
        ("location_id", c_int),
        ("win32", c_void_p),
        ("flags", c_char * 8),
    ]


class PoolProperties(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location_type", c_int),
        ("location_id", c_int),
        ("win32", c_void_p),
        ("max_bytes", c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", c_char * 54),
    ]


cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> int:
    return getattr(cuda, name)(*arguments)


def must(result: int) -> None:
    if result != 0:
        raise RuntimeError(f"the driver returned {result}")


def start() -> int:
    """Initialise the driver and make the primary context current."""
    must(call("cuInit", 0))
    context = c_void_p()
    result = call("cuDevicePrimaryCtxRetain", byref(context), 0)
    if result == 0:
        must(call("cuCtxSetCurrent", context))
    return result


Answer = tuple[int, int]
"""The driver's result, and the pointer or handle."""


def alloc(nbytes: int) -> Answer:
    pointer = c_uint64()
    return call("cuMemAlloc_v2", byref(pointer), c_size_t(nbytes)), pointer.value


def free(pointer: int) -> int:
    return call("cuMemFree_v2", c_uint64(pointer))


def managed(nbytes: int) -> Answer:
    pointer = c_uint64()
    return call("cuMemAllocManaged", byref(pointer), c_size_t(nbytes), c_uint(1)), pointer.value


def pitched(width: int, height: int) -> tuple[int, int, int]:
    pointer, pitch = c_uint64(), c_size_t()
    result = call("cuMemAllocPitch_v2", byref(pointer), byref(pitch), c_size_t(width), c_size_t(height), c_uint(4))
    return result, pointer.value, pitch.value


def alloc_async(nbytes: int, thread: bool = False) -> Answer:
    pointer = c_uint64()
    name = "cuMemAllocAsync_ptsz" if thread else "cuMemAllocAsync"
    return call(name, byref(pointer), c_size_t(nbytes), c_void_p()), pointer.value


def free_async(pointer: int, thread: bool = False) -> int:
    return call("cuMemFreeAsync_ptsz" if thread else "cuMemFreeAsync", c_uint64(pointer), c_void_p())


def pool_new(location: int = 1) -> int:
    pool = c_void_p()
    must(call("cuMemPoolCreate", byref(pool), byref(PoolProperties(type=1, location_type=location))))
    return pool.value or 0


def pool_default() -> int:
    pool = c_void_p()
    must(call("cuDeviceGetDefaultMemPool", byref(pool), 0))
    return pool.value or 0


def pool_keep(pool: int, nbytes: int) -> int:
    return call("cuMemPoolSetAttribute", c_void_p(pool), 4, byref(c_uint64(nbytes)))


def pool_destroy(pool: int) -> int:
    return call("cuMemPoolDestroy", c_void_p(pool))


def pool_trim(pool: int) -> int:
    return call("cuMemPoolTrimTo", c_void_p(pool), c_size_t(0))


def alloc_from(pool: int, nbytes: int, thread: bool = False) -> Answer:
    pointer = c_uint64()
    name = "cuMemAllocFromPoolAsync_ptsz" if thread else "cuMemAllocFromPoolAsync"
    return call(name, byref(pointer), c_size_t(nbytes), c_void_p(pool), c_void_p()), pointer.value


class AllocNode(ctypes.Structure):
    _fields_ = [
        ("pool", PoolProperties),
        ("accesses", c_void_p),
        ("access_count", c_size_t),
        ("bytes", c_size_t),
        ("pointer", c_uint64),
    ]


class NodeParameters(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("reserved", c_int * 3),
        ("alloc", AllocNode),
        ("rest", c_char * (232 - ctypes.sizeof(AllocNode))),
        ("last", c_ulonglong),
    ]


def graph_by_nodes(nbytes: int, frees: bool = True, any_node: bool = False) -> tuple[int, int, int]:
    """A graph that allocates so much in a node of its own: result, the executable graph, the address."""
    graph, node, freeing = c_void_p(), c_void_p(), c_void_p()
    must(call("cuGraphCreate", byref(graph), c_uint(0)))
    alloc_node = AllocNode(pool=PoolProperties(type=1, location_type=1), bytes=nbytes)
    if any_node:
        parameters = NodeParameters(type=10, alloc=alloc_node)
        must(call("cuGraphAddNode_v2", byref(node), graph, None, None, c_size_t(0), byref(parameters)))
        alloc_node = parameters.alloc
    else:
        must(call("cuGraphAddMemAllocNode", byref(node), graph, None, c_size_t(0), byref(alloc_node)))
    if frees:
        pointer = c_uint64(alloc_node.pointer)
        must(call("cuGraphAddMemFreeNode", byref(freeing), graph, byref(node), c_size_t(1), pointer))
    return (*_made(graph), alloc_node.pointer)


def graph_by_capture(nbytes: int, frees: bool = True) -> tuple[int, int, int]:
    stream, graph, pointer = c_void_p(), c_void_p(), c_uint64()
    must(call("cuStreamCreate", byref(stream), c_uint(1)))
    must(call("cuStreamBeginCapture_v2", stream, c_int(0)))
    must(call("cuMemAllocAsync", byref(pointer), c_size_t(nbytes), stream))
    if frees:
        must(call("cuMemFreeAsync", pointer, stream))
    must(call("cuStreamEndCapture", stream, byref(graph)))
    return (*_made(graph), pointer.value)


def _made(graph: c_void_p) -> Answer:
    executable = c_void_p()
    result = call("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
    must(call("cuGraphDestroy", graph))
    return result, executable.value or 0


def graph_empty() -> int:
    graph = c_void_p()
    must(call("cuGraphCreate", byref(graph), c_uint(0)))
    result, executable = _made(graph)
    must(result)
    return executable


def graph_launch(executable: int) -> int:
    return call("cuGraphLaunch", c_void_p(executable), c_void_p())


def graph_upload(executable: int) -> int:
    return call("cuGraphUpload", c_void_p(executable), c_void_p())


def graph_destroy(executable: int) -> int:
    return call("cuGraphExecDestroy", c_void_p(executable))


def graph_trim() -> int:
    return call("cuDeviceGraphMemTrim", c_int(0))


def graph_reserved() -> int:
    value = c_uint64()
    must(call("cuDeviceGetGraphMemAttribute", c_int(0), c_int(2), byref(value)))
    return value.value


def create(nbytes: int, shareable: bool = False) -> Answer:
    handle = c_ulonglong()
    properties = AllocationProperties(type=1, handle_types=int(shareable), location_type=1)
    return call("cuMemCreate", byref(handle), c_size_t(nbytes), byref(properties), c_ulonglong(0)), handle.value


def release(handle: int) -> int:
    return call("cuMemRelease", c_ulonglong(handle))


def reserve(nbytes: int) -> int:
    address = c_uint64()
    must(call("cuMemAddressReserve", byref(address), c_size_t(nbytes), c_size_t(0), c_uint64(0), c_ulonglong(0)))
    return address.value


def map_at(address: int, nbytes: int, handle: int) -> int:
    return call("cuMemMap", c_uint64(address), c_size_t(nbytes), c_size_t(0), c_ulonglong(handle), c_ulonglong(0))


def unmap(address: int, nbytes: int) -> int:
    return call("cuMemUnmap", c_uint64(address), c_size_t(nbytes))


def retain(address: int) -> Answer:
    handle = c_ulonglong()
    return call("cuMemRetainAllocationHandle", byref(handle), c_void_p(address)), handle.value


def array(width: int, height: int, channels: int = 1, form: int = 0x20) -> Answer:
    made = c_void_p()
    result = call("cuArrayCreate_v2", byref(made), byref(ArrayDescriptor(width, height, form, channels)))
    return result, made.value or 0


def array3d(width: int, height: int, depth: int, form: int = 0x20) -> Answer:
    made = c_void_p()
    result = call("cuArray3DCreate_v2", byref(made), byref(Array3DDescriptor(width, height, depth, form, 1, 0)))
    return result, made.value or 0


def array_free(made: int) -> int:
    return call("cuArrayDestroy", c_void_p(made))


def mipmaps(width: int, height: int, levels: int) -> Answer:
    made = c_void_p()
    descriptor = Array3DDescriptor(width, height, 0, 0x20, 1, 0)
    return call("cuMipmappedArrayCreate", byref(made), byref(descriptor), c_uint(levels)), made.value or 0


def mipmaps_free(made: int) -> int:
    return call("cuMipmappedArrayDestroy", c_void_p(made))


def context_new() -> int:
    context = c_void_p()
    must(call("cuCtxCreate_v2", byref(context), c_uint(0), 0))
    return context.value or 0


def context_destroy(context: int) -> int:
    return call("cuCtxDestroy_v2", c_void_p(context))


def info() -> tuple[int, int]:
    free_bytes, total_bytes = c_size_t(), c_size_t()
    must(call("cuMemGetInfo_v2", byref(free_bytes), byref(total_bytes)))
    return free_bytes.value, total_bytes.value


def total() -> int:
    nbytes = c_size_t()
    must(call("cuDeviceTotalMem_v2", byref(nbytes), 0))
    return nbytes.value


class NvmlMemory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class NvmlMemory2(ctypes.Structure):
    _fields_ = [
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    ]


def nvml_start() -> str:
    """The card's UUID."""
    global nvml, nvml_device
    nvml, nvml_device = ctypes.CDLL("libnvidia-ml.so.1"), c_void_p()
    text = ctypes.create_string_buffer(96)
    must(nvml.nvmlInit_v2())
    must(nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(nvml_device)))
    must(nvml.nvmlDeviceGetUUID(nvml_device, text, 96))
    return text.value.decode()


def nvml_memory() -> list[int]:
    memory = NvmlMemory()
    must(nvml.nvmlDeviceGetMemoryInfo(nvml_device, byref(memory)))
    return [memory.total, memory.free, memory.used]


def nvml_memory2() -> list[int]:
    memory = NvmlMemory2(version=ctypes.sizeof(NvmlMemory2) | 2 << 24)
    must(nvml.nvmlDeviceGetMemoryInfo_v2(nvml_device, byref(memory)))
    return [memory.total, memory.free, memory.used]


def sync() -> int:
    return call("cuCtxSynchronize")


def ipc_export(pointer: int) -> str:
    handle = (c_char * 64)()
    must(call("cuIpcGetMemHandle", byref(handle), c_uint64(pointer)))
    return bytes(handle).hex()


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", c_char * 64)]


def ipc_open(handle: str) -> Answer:
    pointer = c_uint64()
    by_value = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    return call("cuIpcOpenMemHandle_v2", byref(pointer), by_value, c_uint(1)), pointer.value


def ipc_close(pointer: int) -> int:
    return call("cuIpcCloseMemHandle", c_uint64(pointer))


WAYS = (
    (alloc, free),
    (managed, free),
    (lambda nbytes: pitched(nbytes // 4, 4)[:2], free),
    (alloc_async, free_async),
    (alloc_async, free),
    (lambda nbytes: array(nbytes // 256 + 1, 64), array_free),
    (lambda nbytes: create((nbytes // (2 * MIB) + 1) * 2 * MIB), release),
)


def storm(rounds: int, seed: int, largest: int = 8 * MIB) -> dict[str, int]:
    """Allocates and frees in every way and in any order; ends holding nothing."""
    dice, held, refused = random.Random(seed), [], 0
    for _ in range(rounds):
        take, give = dice.choice(WAYS)
        result, key = take(dice.randrange(4096, largest))
        if result == OUT_OF_MEMORY:
            refused += 1
        else:
            must(result)
            held.append((give, key))
        while held and (len(held) > 8 or dice.random() < 0.5):
            give, key = held.pop(dice.randrange(len(held)))
            must(give(key))
    for give, key in held:
        must(give(key))
    return {"refused": refused}


def storm_in_threads(threads: int, rounds: int, seed: int) -> int:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start()
            storm(rounds, seed + number)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(failures)


def in_child(expression: str) -> object:
    """The expression's value in a forked child, which lives until the answer is read."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, json.dumps(eval(expression)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        result = json.loads(answer.read())
    os.waitpid(pid, 0)
    return result


def lingering_child() -> int:
    """A forked child that does nothing, once fork has returned in it."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, b"!")
        signal.pause()
    os.read(read_end, 1)
    return pid


def close_file(path: str) -> int:
    """Every descriptor of it that this process has; mappings stay. How many."""
    found = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open_as(number, path)]
    for number in found:
        os.close(number)
    return len(found)


def _is_open_as(number: int, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{number}") == path
    except FileNotFoundError:  # the descriptor by which the folder was read
        return False


def main() -> None:
    for line in sys.stdin:
        try:
            answer = {"value": eval(line)}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
