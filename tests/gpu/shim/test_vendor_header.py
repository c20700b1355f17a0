"""Our declarations of the driver's interface match the vendor's: every prototype, version, layout and value.

The header comes with the package ``nvidia-cuda-runtime`` (extra ``dev``) or with a toolkit; nothing of it is kept here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpusquad.gpu import build
from tests.gpu.shim.vendor_header import Header, find_header, our_rows, passed_through

FOUND = find_header()
pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(FOUND is None, reason="needs the vendor's cuda.h: pip install nvidia-cuda-runtime"),
]

GIVES_WORK_OR_TAKES_MEMORY = re.compile(
    r"^cu(Launch|Memcpy|Memset|MemAlloc|MemHostAlloc|MemCreate|MemPoolCreate|MemPoolImport|Array\w*Create|"
    r"MipmappedArrayCreate|Import|IpcOpenMem|Multicast\w*Create|LogicalEndpoint(Create|Import)|ModuleLoad|"
    r"LibraryLoad|GraphLaunch|GraphInstantiate|GreenCtxCreate|CtxCreate|CtxFrom|CtxSynchronize|"
    r"CtxRecordEvent|CtxWaitEvent|DevicePrimaryCtxRetain|GraphAddMemAllocNode|GraphAddNode|CtxSetLimit)"
)
"""Names of functions through which a client could evade its share or quota."""

STRUCTS = {
    "CUlaunchConfig": (
        *("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"),
        *("sharedMemBytes", "hStream", "attrs", "numAttrs"),
    ),
    "CUlaunchAttribute": ("id", "value"),
    "CUdevResource": ("type", "sm.smCount"),
    "CUmemLocation": ("type", "id"),
    "CUmemAllocationProp": ("type", "requestedHandleTypes", "location", "win32HandleMetaData", "allocFlags"),
    "CUmemPoolProps": ("allocType", "handleTypes", "location", "win32SecurityAttributes", "maxSize", "usage"),
    "CUDA_MEM_ALLOC_NODE_PARAMS": ("poolProps", "accessDescs", "accessDescCount", "bytesize", "dptr"),
    "CUDA_ARRAY_DESCRIPTOR": ("Width", "Height", "Format", "NumChannels"),
    "CUDA_ARRAY3D_DESCRIPTOR": ("Width", "Height", "Depth", "Format", "NumChannels", "Flags"),
}
SCALARS = (
    *("CUresult", "CUdevice", "CUdeviceptr", "CUmemGenericAllocationHandle", "CUstream", "CUevent", "cuuint64_t"),
    *("CUarray_format", "CUmemPool_attribute", "CUstreamCaptureStatus", "CUdriverProcAddressQueryResult", "CUhostFn"),
    *("CUgraphNodeType", "CUgraphMem_attribute"),
)


@pytest.fixture(scope="module")
def header() -> Header:
    assert FOUND is not None
    return Header(FOUND)


def _same(row_arguments: str, vendors: str, what: str) -> str:
    ours = f"CUresult (*) {row_arguments}"
    return f'_Static_assert(__builtin_types_compatible_p({ours}, {vendors}), "{what}");'


def test_every_prototype_matches_the_vendor_header(header: Header) -> None:
    """Our tables name types as the vendor does, so with its types they must give its prototypes."""
    known = [row for row in our_rows() if row.since <= header.version]
    assert len(known) > 130
    checks = [_same(row.arguments, f"__typeof__(&{name})", name) for row in known for name in row.symbols]
    assert header.compile(checks) == ""


def test_comparison_detects_a_different_prototype(header: Header) -> None:
    assert "cuMemFree_v2" in header.compile([_same("(CUstream stream)", "__typeof__(&cuMemFree_v2)", "cuMemFree_v2")])


def test_every_version_matches_the_vendor_header(header: Header) -> None:
    """``cuGetProcAddress`` with this name and this version means this prototype."""
    known = [row for row in our_rows() if row.since <= header.version]
    assert header.compile(_same(row.arguments, f"PFN_{row.base}_v{row.since}", row.symbol) for row in known) == ""


def test_every_variant_of_a_hooked_function_is_hooked(header: Header) -> None:
    ours = {(row.base, row.since) for row in our_rows() if row.hooked}
    bases, passing = {base for base, _ in ours}, passed_through()
    theirs = {(name, version) for name, version, ending in header.versions if name in bases and not ending}
    first = {base: min(version for name, version in theirs if name == base) for base, _ in theirs}
    unknown = {
        (name, version) for name, version in theirs - ours if not (first[name] == version and _old(name, passing))
    }
    assert unknown == set()


def _old(name: str, passing: dict[str, str]) -> bool:
    """Whether it is the unnumbered 32-bit form."""
    return name in passing or name in {"cuMemFree", "cuMemGetInfo", "cuDeviceTotalMem"}


def test_every_per_thread_variant_is_hooked(header: Header) -> None:
    ours = {name for row in our_rows() for name in row.symbols}
    hooked = {row.symbol for row in our_rows() if row.hooked}
    variants = {name for name in header.functions if re.sub(r"_pt[sd][sz]$", "", name) in hooked}
    assert variants - ours == set()


def test_every_function_with_a_stream_is_hooked_or_has_a_reason(header: Header) -> None:
    hooked = {name for row in our_rows() if row.hooked for name in row.symbols}
    takes = {name for name, arguments in header.functions.items() if re.search(r"\bCUstream\b", arguments)}
    assert len(takes) > 100
    assert {name for name in takes - hooked if _without_ending(name) not in passed_through()} == set()


def test_every_launch_and_allocation_is_hooked_or_has_a_reason(header: Header) -> None:
    hooked = {name for row in our_rows() if row.hooked for name in row.symbols}
    meant = {name for name in header.functions if GIVES_WORK_OR_TAKES_MEMORY.match(name)}
    assert len(meant) > 80
    assert {name for name in meant - hooked if _without_ending(name) not in passed_through()} == set()


def _without_ending(name: str) -> str:
    return re.sub(r"_pt[sd][sz]$", "", name)


def test_every_reason_is_for_an_existing_unhooked_function(header: Header) -> None:
    hooked = {row.symbol for row in our_rows() if row.hooked}
    assert set(passed_through()) & hooked == set()
    if header.version >= 13040:
        assert set(passed_through()) - set(header.functions) == set()


def _our_constants() -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", (build.SOURCES / "cuda_api.h").read_text(), flags=re.S)
    named = re.findall(r"\b(CU(?:DA)?_[A-Z0-9_]+)\s*=", text)
    assert len(named) > 30
    return [*named, "CU_STREAM_LEGACY", "CU_STREAM_PER_THREAD"]


def _printing(include: str) -> str:
    lines = ["#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>", include, "int main(void) {"]
    for name, members in STRUCTS.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        for member in members:
            place = f"offsetof({name}, {member}), sizeof((({name} *)0)->{member})"
            lines.append(f'  printf("{name}.{member} %zu %zu\\n", {place});')
    lines += [f'  printf("{name} %zu\\n", sizeof({name}));' for name in SCALARS]
    lines += [f'  printf("{name} %lld\\n", (long long){name});' for name in _our_constants()]
    return "\n".join([*lines, "  return 0;", "}", ""])


def _printed(folder: Path, name: str, include: str, where: Path) -> list[str]:
    source, program = folder / f"{name}.c", folder / name
    source.write_text(_printing(include))
    subprocess.run(["gcc", "-I", str(where), "-o", str(program), str(source)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()


def test_layouts_and_values_match_the_vendor_header(tmp_path: Path, header: Header) -> None:
    ours = _printed(tmp_path, "ours", '#include "cuda_api.h"', build.SOURCES)
    assert ours == _printed(tmp_path, "theirs", "#include <cuda.h>", header.folder)
