"""A short test of one card, in a process of its own: memory, copies and arithmetic, and what NVML says about it then.

    python -m gpusquad.gpu.self_test GPU-12345678-1234-1234-1234-123456789abc

It prints ``{"passed": true, "detail": "..."}``; ``null``: the card cannot be tested here. It needs nothing but the
driver: its kernels are PTX, which the driver compiles.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.model.card_faults import class_of_xid
from gpusquad.model.errors import Invalid
from gpusquad.model.units import show_bytes

BUDGET_S = 10.0
"""No further memory is tested after this time."""
_DRIVER_LIBRARY = "libcuda.so.1"
_OUT_OF_MEMORY = 2
_CHUNK_BYTES = 1 << 30
_FREE_RATIO = 0.8
"""Fraction of the free memory that is tested at most."""
_WORD_BYTES = 4
_HOST_WORDS = 1024
"""Words that are compared with the same arithmetic on the host."""
_ROUNDS = 16
_BLOCKS, _THREADS = 1024, 256
_SEEDS = (0x5EED1234, 0xA11CE5ED)
_UNCORRECTED, _VOLATILE = 1, 0
_DOUBLE_BIT_EVENT, _XID_EVENT = 2, 8
_ROUND_PTX = """
    cvt.u32.u64 %r7, %d3;
    xor.b32 %r8, %r7, %r1;
    mov.u32 %r9, 0;
ROUND:
    mad.lo.u32 %r8, %r8, 1664525, 1013904223;
    shr.u32 %r10, %r8, 13;
    xor.b32 %r8, %r8, %r10;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %q, %r9, 16;
    @%q bra ROUND;
    shl.b64 %d6, %d3, 2;
    add.u64 %d7, %d1, %d6;
"""


def _kernel(name: str, body: str, more: str = "", setup: str = "") -> str:
    """A kernel that visits each word once."""
    return f"""
.visible .entry {name}(.param .u64 words, .param .u64 count, .param .u32 seed{more})
{{
    .reg .pred %p, %q;
    .reg .b32 %r<16>;
    .reg .b64 %d<16>;
    ld.param.u64 %d1, [words];
    cvta.to.global.u64 %d1, %d1;
    ld.param.u64 %d2, [count];
    ld.param.u32 %r1, [seed];
{setup}
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mul.wide.u32 %d3, %r2, %r3;
    cvt.u64.u32 %d4, %r4;
    add.u64 %d3, %d3, %d4;
    mov.u32 %r6, %nctaid.x;
    mul.wide.u32 %d5, %r6, %r3;
NEXT:
    setp.ge.u64 %p, %d3, %d2;
    @%p bra DONE;
{_ROUND_PTX}
{body}
    add.u64 %d3, %d3, %d5;
    bra NEXT;
DONE:
    ret;
}}
"""


_PTX = (
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    + _kernel("fill", "    st.global.u32 [%d7], %r8;")
    + _kernel(
        "check",
        "    ld.global.u32 %r11, [%d7];\n    setp.ne.u32 %q, %r11, %r8;\n    @%q red.global.add.u32 [%d8], 1;",
        ", .param .u64 errors",
        "    ld.param.u64 %d8, [errors];\n    cvta.to.global.u64 %d8, %d8;",
    )
)


class DriverError(RuntimeError):
    """A driver call that failed."""

    def __init__(self, name: str, code: int, text: str) -> None:
        super().__init__(f"{name}: {text} ({code})")
        self.code = code


class _Driver:
    """CUDA's driver API."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_DRIVER_LIBRARY)

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise DriverError(name, code, self._text(code))

    def _text(self, code: int) -> str:
        text = ctypes.c_char_p()
        known = self._library.cuGetErrorString(code, ctypes.byref(text)) == 0
        return (text.value or b"").decode() if known else "unknown error"


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m gpusquad.gpu.self_test UUID", file=sys.stderr)
        return 2
    passed, detail = test_card(words[0])
    print(json.dumps({"passed": passed, "detail": detail}))
    return 0


def test_card(uuid: str) -> tuple[bool | None, str]:
    """Whether the card that is visible as the only one works, and what was tested. None: it cannot be tested here."""
    try:
        card = CardReader(uuid)
        driver = _Driver()
        driver("cuInit", 0)
    except (Invalid, NvmlError, DriverError, OSError) as error:
        return None, str(error)
    errors_before = _uncorrected(card)
    with _events(card) as events:
        try:
            with _context(driver) as is_ready:
                if not is_ready:
                    return None, "its memory or its compute mode allows no context now"
                detail = _test_memory(driver)
        except DriverError as error:
            return False, str(error)
        except _Mismatch as error:
            return False, str(error)
        faults = _faults(card, events)
    trouble = [*faults, *_health(card, errors_before)]
    return (not trouble), ", ".join(trouble) or detail


class _Mismatch(RuntimeError):
    """The card computed, copied or kept something wrong."""


@contextmanager
def _context(driver: _Driver) -> Iterator[bool]:
    """False: the card grants no context now, which says nothing about its health."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        driver("cuDeviceGet", ctypes.byref(device), 0)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    except DriverError:
        yield False
        return
    driver("cuCtxSetCurrent", context)
    try:
        yield True
    finally:
        with suppress(DriverError):
            driver("cuDevicePrimaryCtxRelease_v2", device)


def _test_memory(driver: _Driver) -> str:
    """What was tested. Chunks stay allocated, so that each one is other memory."""
    module, fill, check = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX.encode()))
    driver("cuModuleGetFunction", ctypes.byref(fill), module, b"fill")
    driver("cuModuleGetFunction", ctypes.byref(check), module, b"check")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    errors = _allocate(driver, _WORD_BYTES)
    wanted_bytes = int(free.value * _FREE_RATIO)
    chunk_bytes = min(_CHUNK_BYTES, wanted_bytes // 2 // _WORD_BYTES * _WORD_BYTES)
    if errors is None or chunk_bytes < _HOST_WORDS * _WORD_BYTES:
        return "no free memory to test, a context was created"
    tested, until_s = 0, time.monotonic() + BUDGET_S
    last = _allocate(driver, chunk_bytes)
    while last is not None and tested + 2 * chunk_bytes <= wanted_bytes and time.monotonic() < until_s:
        copy = _allocate(driver, chunk_bytes)
        if copy is None:
            break
        for seed in _SEEDS:
            _test_chunk(driver, fill, check, (last, copy, errors), chunk_bytes, seed)
        last, tested = copy, tested + chunk_bytes
    return f"{show_bytes(tested)} of memory, copies and arithmetic"


def _test_chunk(driver: _Driver, fill: Any, check: Any, at: tuple[Any, Any, Any], chunk_bytes: int, seed: int) -> None:
    source, copy, errors = at
    count = ctypes.c_uint64(chunk_bytes // _WORD_BYTES)
    found = ctypes.c_uint32()
    driver("cuMemsetD32_v2", errors, 0, ctypes.c_size_t(1))
    _launch(driver, fill, source, count, ctypes.c_uint32(seed))
    driver("cuMemcpyDtoD_v2", copy, source, ctypes.c_size_t(chunk_bytes))
    _launch(driver, check, copy, count, ctypes.c_uint32(seed), errors)
    driver("cuMemcpyDtoH_v2", ctypes.byref(found), errors, ctypes.c_size_t(_WORD_BYTES))
    if found.value:
        raise _Mismatch(f"{found.value} of {count.value} words are wrong after a copy")
    words = (ctypes.c_uint32 * _HOST_WORDS)()
    driver("cuMemcpyDtoH_v2", words, copy, ctypes.c_size_t(_HOST_WORDS * _WORD_BYTES))
    wrong = sum(word != expected_word(index, seed) for index, word in enumerate(words))
    if wrong:
        raise _Mismatch(f"{wrong} of {_HOST_WORDS} words differ from the same arithmetic on the host")


def expected_word(index: int, seed: int) -> int:
    """The kernel's arithmetic."""
    value = (index ^ seed) & 0xFFFFFFFF
    for _ in range(_ROUNDS):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        value ^= value >> 13
    return value


def _allocate(driver: _Driver, size_bytes: int) -> Any:
    """None: there is not as much free memory any more."""
    pointer = ctypes.c_uint64()
    try:
        driver("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
    except DriverError as error:
        if error.code != _OUT_OF_MEMORY:
            raise
        return None
    return pointer


def _launch(driver: _Driver, function: Any, *arguments: Any) -> None:
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
    driver("cuLaunchKernel", function, _BLOCKS, 1, 1, _THREADS, 1, 1, 0, None, pointers, None)
    driver("cuCtxSynchronize")


# -- what NVML says ----------------------------------------------------------------------------------------------------


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


@contextmanager
def _events(card: CardReader) -> Iterator[ctypes.c_void_p | None]:
    """Faults of the card from now on. None: this driver reports none."""
    events = ctypes.c_void_p()
    try:
        card.call("nvmlEventSetCreate", ctypes.byref(events))
        kinds = ctypes.c_ulonglong(_DOUBLE_BIT_EVENT | _XID_EVENT)
        card.call("nvmlDeviceRegisterEvents", card.handle, kinds, events)
    except NvmlError:
        yield None
        return
    try:
        yield events
    finally:
        with suppress(NvmlError):
            card.call("nvmlEventSetFree", events)


def _faults(card: CardReader, events: ctypes.c_void_p | None) -> list[str]:
    found: list[str] = []
    while events is not None and len(found) < 8:
        event = _Event()
        try:
            card.call("nvmlEventSetWait_v2", events, ctypes.byref(event), ctypes.c_uint(0))
        except NvmlError:
            break  # no more
        if event.kind == _DOUBLE_BIT_EVENT:
            found.append("uncorrected memory error")
        elif class_of_xid(event.data) in ("doubtful", "card"):
            found.append(f"Xid {event.data}")
    return found


def _health(card: CardReader, errors_before: int | None) -> Iterator[str]:
    errors = _uncorrected(card)
    if errors is not None and errors_before is not None and errors > errors_before:
        yield f"{errors - errors_before} new uncorrected memory errors"
    rows = [ctypes.c_uint() for _ in range(4)]
    with suppress(NvmlError):
        card.call("nvmlDeviceGetRemappedRows", card.handle, *map(ctypes.byref, rows))
        if rows[3].value:
            yield "a memory row could not be remapped: replace the card"
        elif rows[2].value:
            yield "a memory row waits to be remapped: reset the card"
    pending = ctypes.c_uint()
    with suppress(NvmlError):
        card.call("nvmlDeviceGetRetiredPagesPendingStatus", card.handle, ctypes.byref(pending))
        if pending.value:
            yield "memory pages wait to be retired: reset the card"


def _uncorrected(card: CardReader) -> int | None:
    """None: the card has no ECC."""
    count = ctypes.c_ulonglong()
    try:
        card.call("nvmlDeviceGetTotalEccErrors", card.handle, ctypes.c_uint(_UNCORRECTED), ctypes.c_uint(_VOLATILE),
                  ctypes.byref(count))  # fmt: skip
    except NvmlError:
        return None
    return count.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
