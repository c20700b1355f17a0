"""Memory of the stand-in driver: accounting, sharing and lifetime."""

from __future__ import annotations

import pytest

from tests.gpu.standin.programs import GIB, HOLD
from tests.gpu.standin.running import Card, MakeCard


def test_memory_is_shared_by_the_processes_of_a_card(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=0)
    with card.start(HOLD.format(size=3 * GIB // 2)) as holder:
        assert holder.receive() == GIB // 2
        codes = card.run(f"""
c = Cuda()
send([c.code("cuMemAlloc", byref(c_uint64()), c_size_t(size)) for size in ({GIB // 2 + 1}, {GIB // 2}, 1)])
""")
    assert codes == [2, 0, 2]


PATHS = {
    "alloc": ("c.alloc(N)", "c.free(x)"),
    "async": ("c.alloc_async(N)", "c.free_async(x); c.sync()"),
    "pitch": (
        "create('cuMemAllocPitch', byref(c_size_t()), c_size_t(512), c_size_t(N // 512), c_uint(4))",
        "c.free(x)",
    ),
    "array": (
        "create('cuArrayCreate', (c_size_t * 3)(1024, N // 4096, 0x100000020))",
        "c('cuArrayDestroy', c_void_p(x))",
    ),
    "vmm": (
        "create('cuMemCreate', c_size_t(N), (c_int * 8)(1, 0, 1, 0), c_ulonglong(0))",
        "c('cuMemRelease', c_ulonglong(x))",
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_kind_of_allocation_is_counted(make_card: MakeCard, path: str) -> None:
    allocate, release = PATHS[path]
    free = make_card(memory=GIB).run(f"""
c, N = Cuda(), 64 << 20
def create(call, *more):
    made = c_uint64()
    c(call, byref(made), *more)
    return made.value
free = [c.memory()[0]]
x = {allocate}
free.append(c.memory()[0])
{release}
send([*free, c.memory()[0]])
""")
    assert free[0] - free[1] == 64 << 20
    assert free[2] == free[0]


def test_memory_is_released_when_its_context_ends(card: Card) -> None:
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
send([*steps, again.value == c.context.value, free()])
""")
    assert steps == [steps[0], steps[0] - (2 << 20), 709, True, steps[0]]


def test_managed_and_pinned_memory_are_not_counted(card: Card) -> None:
    free = card.run("""
c = Cuda()
free = [c.memory()[0]]
c("cuMemAllocManaged", byref(c_uint64()), c_size_t(1 << 20), c_uint(1))
c("cuMemHostAlloc", byref(c_void_p()), c_size_t(1 << 20), c_uint(0))
send([*free, c.memory()[0]])
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
send([*steps, free()])
""")
    assert steps == [steps[0], steps[0] - (2 << 20), 13, steps[0]]


def test_pool_keeps_memory_up_to_its_threshold(card: Card) -> None:
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
send([*steps, c.memory()[0]])
""")
    assert steps == [steps[0], steps[0] - (1 << 20), True, steps[0]]


def test_imported_memory_is_shared_and_counted_once(make_card: MakeCard) -> None:
    card = make_card(context_bytes=0)
    with card.start("""
c = Cuda()
p, handle = c.number(5), create_string_buffer(64)
c("cuIpcGetMemHandle", handle, c_uint64(p))
send([handle.raw.hex(), c.memory()[0]])
receive()
send(c.read(p))
""") as owner:
        handle, free = owner.receive()
        values = card.run(f"""
class Handle(Structure): _fields_ = [("bytes", c_char * 64)]
c, p = Cuda(), c_uint64()
handle = Handle.from_buffer_copy(bytes.fromhex({handle!r}))
c("cuIpcOpenMemHandle", byref(p), handle, c_uint(1))
values = [c.memory()[0], c.read(p.value)]
c.launch("add", p.value)
c.sync()
c("cuIpcCloseMemHandle", p)
send(values)
""")
        owner.resume()
        assert values == [free, 5]
        assert owner.receive() == 6


def test_nvml_reports_memory_and_processes(make_card: MakeCard) -> None:
    card = make_card(memory=2 * GIB, context_bytes=1 << 20)
    with card.start(HOLD.format(size=GIB)) as holder:
        holder.receive()
        result = card.run("""
nvml = CDLL("libnvidia-ml.so.1")
device, memory, uuid = c_void_p(), (c_ulonglong * 3)(), create_string_buffer(96)
class Info(Structure): _fields_ = [("pid", c_uint), ("used", c_ulonglong), ("a", c_uint), ("b", c_uint)]
infos, count = (Info * 8)(), c_uint(8)
codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(c_uint(0), byref(device))]
codes += [nvml.nvmlDeviceGetMemoryInfo(device, memory), nvml.nvmlDeviceGetUUID(device, uuid, c_uint(96))]
codes.append(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), infos))
again = c_void_p()
codes.append(nvml.nvmlDeviceGetHandleByUUID(uuid, byref(again)))
send([codes, list(memory), [[info.pid, info.used] for info in infos[:count.value]], again.value == device.value])
""")
        used = GIB + (1 << 20)
        assert result == [[0] * 6, [2 * GIB, 2 * GIB - used, used], [[holder.pid, used]], True]


def test_access_outside_memory_is_a_sticky_fault(card: Card) -> None:
    codes = card.run("""
c = Cuda()
c.launch("add", 4096)
send([c.code("cuCtxSynchronize"), c.code("cuCtxSynchronize"), c.code("cuMemAlloc", byref(c_uint64()), c_size_t(4))])
""")
    assert codes == [700, 700, 700]
