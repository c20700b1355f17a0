"""Lookup of functions and kernels of the stand-in driver by name, version and symbol."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tests.gpu.standin.running import Card


def test_proc_address_finds_functions_by_name_version_and_stream_mode(card: Card) -> None:
    found = card.run("""
c = Cuda()
symbol = lambda name: cast(getattr(c.library, name), c_void_p).value
def same(name, version, flags, expected):
    return c.address(name, version, flags) == symbol(expected)
send([
    same("cuLaunchKernel", 12000, 0, "cuLaunchKernel"),
    same("cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz"),
    same("cuLaunchKernelEx", 12000, 2, "cuLaunchKernelEx_ptsz"),
    same("cuMemcpyHtoDAsync", 12000, 2, "cuMemcpyHtoDAsync_v2_ptsz"),
    same("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"),
    same("cuMemAlloc", 12000, 2, "cuMemAlloc_v2"),
    same("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
    same("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    same("cuStreamGetCaptureInfo", 11030, 2, "cuStreamGetCaptureInfo_v2_ptsz"),
    same("cuGraphInstantiate", 12000, 0, "cuGraphInstantiate_v2"),
])
""")
    assert found == [True] * len(found)


def test_proc_address_does_not_find_missing_functions(card: Card) -> None:
    result = card.run("""
c, pointer, status = Cuda(), c_void_p(), c_int()
def look_up(name, version):
    code = c.library.cuGetProcAddress_v2(name, byref(pointer), c_int(version), c_ulonglong(0), byref(status))
    return [code, pointer.value, status.value]
send([look_up(b"cuNoSuchThing", 12000), look_up(b"cuGreenCtxCreate", 12000), look_up(b"cuInit", 12000)[::2]])
""")
    assert result == [[500, None, 1], [500, None, 2], [0, 0]]


def test_every_declared_function_is_exported(card: Card) -> None:
    header = (Path(__file__).parent / "standin_cuda.h").read_text()
    names = {word.split("(")[0] for word in header.split() if word.startswith("cu") and "(" in word}
    names |= {part.split(",")[0] for part in header.split("SI_BOTH(")[2:]}
    library = ctypes.CDLL(str(card.library / "libcuda.so.1"))
    assert len(names) > 150
    assert [name for name in sorted(names) if not hasattr(library, name)] == []


def test_kernels_are_found_in_a_library_and_by_symbol(card: Card) -> None:
    result = card.run("""
c = Cuda()
library, kernel, function, name = c_void_p(), c_void_p(), c_void_p(), c_char_p()
c("cuLibraryLoadData", byref(library), b"addmine:4:20\\n", None, None, c_uint(0), None, None, c_uint(0))
c("cuLibraryGetKernel", byref(kernel), library, b"addmine")
c("cuKernelGetFunction", byref(function), kernel)
c("cuFuncGetName", byref(name), function)
c.functions["addmine"] = kernel      # a kernel may be used in place of a function
p = c.number(1)
c.launch("addmine", p)
c.functions["addmine"] = function
c.launch("addmine", p, ex=True)
missing = c.code("cuLibraryGetKernel", byref(kernel), library, b"other")
bad = c.code("cuModuleLoadData", byref(library), b"no kernel at all")
send([name.value.decode(), c.read(p), missing, bad])
""")
    assert result == ["addmine", 3, 500, 200]
