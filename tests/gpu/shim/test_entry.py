"""How the shim intercepts the driver, and that it does not affect other programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpusquad.gpu import build
from gpusquad.gpu.region import layout
from gpusquad.gpu.region.pages import Grant
from gpusquad.model.errors import Invalid
from tests.gpu.shim.clients import Card
from tests.gpu.shim.players import until

HERE = Path(__file__).parent
MIB = 1 << 20
GRANTED, REFUSED = "0", "2"


@pytest.fixture(scope="session")
def lookup_program(built: Path, driver: Path) -> Path:
    made = built / "lookup_program"
    subprocess.run(["gcc", "-o", str(made), str(HERE / "symbol_lookup.c"), "-ldl"], check=True)
    return made


@pytest.fixture(scope="session")
def linked(built: Path, driver: Path) -> Path:
    made = built / "linked"
    command = ["gcc", "-DLINKED", "-o", str(made), str(HERE / "symbol_lookup.c"), str(driver / "libcuda.so.1"), "-ldl"]
    subprocess.run(command, check=True)
    return made


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)


def _without_library(card: Card) -> dict[str, str]:
    return {name: value for name, value in card.of().items() if name != "LD_PRELOAD"}


@pytest.mark.parametrize("way", ["dlsym", "dlvsym", "default", "v1", "v2"])
@pytest.mark.parametrize("stream", ["legacy", "thread"])
def test_quota_applies_to_every_way_of_symbol_lookup(card: Card, lookup_program: Path, way: str, stream: str) -> None:
    card.attach(quota_bytes=MIB)
    results = _run([str(lookup_program), way, stream], card.of()).stdout.split()
    assert results[:3] == [GRANTED, REFUSED, REFUSED]
    assert results[3] == ("cuMemAllocAsync_ptsz" if stream == "thread" else "cuMemAllocAsync")


def test_quota_applies_to_a_program_linked_with_the_driver(card: Card, linked: Path) -> None:
    card.attach(quota_bytes=MIB)
    assert _run([str(linked)], card.of()).stdout.split()[:3] == [GRANTED, REFUSED, REFUSED]


def _address(name: str, version: int, flags: int = 0) -> str:
    return (
        f"[(call('cuGetProcAddress_v2', b'{name}', byref(found), {version}, c_uint64({flags}), None), found.value)"
        f" for found in [c_void_p()]][0]"
    )


def test_proc_address_depends_on_the_requested_version(card: Card) -> None:
    card.attach()
    peer = card.peer()
    symbol = "ctypes.cast(cuda.{}, c_void_p).value".format
    assert peer(_address("cuGetProcAddress", 12000)) == [0, peer(symbol("cuGetProcAddress_v2"))]
    assert peer(_address("cuGetProcAddress", 11030)) == [0, peer(symbol("cuGetProcAddress"))]
    assert peer(_address("cuCtxCreate", 11000)) == [0, peer(symbol("cuCtxCreate_v2"))]
    assert peer(_address("cuCtxCreate", 12050)) == [0, peer(symbol("cuCtxCreate_v4"))]
    assert peer(_address("cuGraphInstantiate", 11000)) == [0, peer(symbol("cuGraphInstantiate_v2"))]
    newest = peer(_address("cuGraphInstantiate", 12000))
    assert newest == [0, peer(symbol("cuGraphInstantiate_v2"))], "though headers since then mean the one with flags"
    assert peer(_address("cuMemFreeAsync", 12000, 2)) == [0, peer(symbol("cuMemFreeAsync_ptsz"))]
    assert peer(_address("cuMemFree", 12000, 2)) == [0, peer(symbol("cuMemFree_v2"))], "it has no variant for threads"


def test_unhooked_function_is_the_drivers_own(card: Card) -> None:
    card.attach()
    peer = card.peer()
    own = "ctypes.cast(cuda.cuDriverGetVersion, c_void_p).value"
    assert peer(_address("cuDriverGetVersion", 12000)) == [0, peer(own)]
    result, address = peer(_address("cuNoSuchThing", 12000))
    assert result != 0 or address is None


@pytest.mark.parametrize(
    "program", [["bash", "-c", "echo $((1+1)) | cat"], ["ls", "/"], [sys.executable, "-c", "import ssl"]]
)
def test_program_without_cuda_runs_unchanged(card: Card, program: list[str]) -> None:
    card.attach()
    with_it, without = _run(program, card.of()), _run(program, _without_library(card))
    assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)
    assert card.region.page(0).pids == ()
    content = layout.ClientLayout.from_buffer_copy(card.region.path(0).read_bytes())
    assert content.procs[0].pid == 0, "it never attached"


def test_symbol_lookup_finds_no_cuda_without_a_driver(card: Card) -> None:
    card.attach()
    look = (
        "import ctypes\n"
        "everything = ctypes.CDLL(None)\n"
        "print(hasattr(everything, 'cuMemAlloc_v2'), hasattr(everything, 'nvmlDeviceGetMemoryInfo'))"
    )
    assert _run([sys.executable, "-c", look], card.of()).stdout.split() == ["False", "False"]


def test_driver_is_not_loaded_for_a_program_that_only_uses_nvml(card: Card) -> None:
    """Unless NVML itself loads it, as some versions do."""
    card.attach(quota_bytes=MIB)
    look = (
        "import ctypes\n"
        "nvml, device, memory = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()\n"
        "assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0\n"
        "assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0\n"
        "print(memory[0], '/libcuda.so' in open('/proc/self/maps').read())\n"
    )
    total_bytes, loads = _run([sys.executable, "-c", look], card.of()).stdout.split()
    _, loads_without = _run([sys.executable, "-c", look], _without_library(card)).stdout.split()
    assert (total_bytes, loads) == (str(MIB), loads_without)


def test_rtld_next_of_another_preloaded_library_is_unchanged(card: Card, built: Path) -> None:
    wrapper = built / "next.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(wrapper), str(HERE / "rtld_next.c"), "-ldl"], check=True)
    environment = card.environment
    for order in ([wrapper, environment["LD_PRELOAD"]], [environment["LD_PRELOAD"], wrapper]):
        preload = " ".join(map(str, order))
        program = [sys.executable, "-c", "import os; print(os.getppid() > 0)"]
        result = _run(program, environment | {"LD_PRELOAD": preload})
        assert (result.stdout.strip(), result.stderr.strip()) == ("True", "wrapped")


def test_library_exports_only_its_hooks_and_two_functions(library: Path) -> None:
    names = _run(["nm", "-D", "--defined-only", str(library)], dict(os.environ)).stdout.split()[2::3]
    others = {name for name in names if not name.startswith(("cu", "nvml"))}
    assert others == {"dlsym", "dlvsym", "gpusquad_reclaim", "gpusquad_served"}


def test_library_requires_no_symbol_newer_than_the_oldest_glibc(library: Path) -> None:
    wanted = _run(["nm", "-D", "--undefined-only", str(library)], dict(os.environ)).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"@GLIBC_([0-9.]+)", wanted)}
    assert versions
    assert max(versions) <= build.OLDEST_GLIBC
    needed = _run(["readelf", "-d", str(library)], dict(os.environ)).stdout
    libraries = set(re.findall(r"NEEDED.*\[(\S+)\]", needed))
    assert libraries >= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}, "where these functions were before 2.34"
    assert libraries <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6"}


def test_sources_call_no_function_that_newer_headers_redirect() -> None:
    """Headers since glibc 2.38 redirect these functions to symbols that older versions do not have."""
    changed = re.compile(r"\b(strto(l|ul|ll|ull|imax|umax|q|uq)(_l)?|v?[fs]?scanf)\s*\(")
    sources = build.source_files(build.SOURCES)
    assert sources
    assert [path.name for path in sources if changed.search(path.read_text())] == []


def test_forked_child_takes_no_slot_without_cuda(card: Card) -> None:
    card.attach(quota_bytes=64 * MIB)
    peer = card.peer()
    peer(f"alloc({MIB})")
    parent, child = peer("(os.getpid(), in_child('os.getpid()'))")
    assert parent != child
    assert card.region.page(0).pids == (parent,), "a child that does not use CUDA takes no slot"
    assert card.used() == MIB
    assert peer(f"alloc({MIB})")[0] == 0
    assert card.used() == 2 * MIB


def test_forked_child_attaches_in_its_own_slot_when_it_uses_cuda(card: Card) -> None:
    card.attach(quota_bytes=64 * MIB)
    peer = card.peer(start=False)
    peer("call('cuDeviceTotalMem_v2', byref(c_size_t()), 0)")  # attaches; the driver cannot be used across a fork
    own = card.region.page(0).pids
    assert len(own) == 1
    seen = peer("in_child('(os.getpid(), start(), total())')")
    assert seen[1:] == [0, 64 * MIB]
    assert set(card.region.page(0).pids) == {*own, seen[0]}
    card.region.reclaim(0)
    assert card.region.page(0).pids == own


def _holds(process: int, path: Path) -> bool:
    """Whether it has the file open or mapped."""
    opened = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()]
    return str(path) in opened or str(path) in Path(f"/proc/{process}/maps").read_text()


def test_parents_memory_is_reclaimed_while_its_child_lives(card: Card) -> None:
    """A lock is released with the last descriptor of its file, so the child must have closed the inherited one."""
    card.attach(quota_bytes=64 * MIB)
    peer = card.peer()
    peer(f"alloc({MIB})")
    child = peer("lingering_child()")
    try:
        assert _holds(peer.process.pid, card.region.path(0))
        assert not _holds(child, card.region.path(0))
        peer.process.kill()
        peer.process.wait()
        until(lambda: card.region.reclaim(0) == MIB, "the memory of the dead parent")
    finally:
        os.kill(child, signal.SIGKILL)


def test_process_counts_as_dead_when_its_descriptor_is_closed(card: Card) -> None:
    """An open driver file may keep the memory of its process, with all mappings. A forked child has that file too, so
    the mappings of its dead parent last while it lives."""
    card.attach(quota_bytes=64 * MIB)
    peer = card.peer()
    peer(f"alloc({MIB})")
    assert card.region.reclaim(0) == 0
    assert peer(f"close_file({str(card.region.path(0))!r})") == 1
    assert _holds(peer.process.pid, card.region.path(0)), "it is still mapped"
    assert card.region.reclaim(0) == MIB


def _corrupt(card: Card, field: str, value: int) -> None:
    content = layout.ClientLayout.from_buffer_copy(card.region.path(0).read_bytes())
    setattr(content, field, value)
    card.region.path(0).write_bytes(bytes(content))


@pytest.mark.parametrize(("field", "value"), [("version", 99), ("magic", 1), ("size", 64), ("slot", 99)])
def test_region_of_another_version_is_ignored_with_one_message(card: Card, field: str, value: int) -> None:
    card.attach(quota_bytes=MIB)
    _corrupt(card, field, value)
    peer = card.peer()
    assert peer(f"alloc({8 * MIB})")[0] == 0
    assert peer(f"alloc({8 * MIB})")[0] == 0
    words = peer.end().splitlines()
    assert len(words) == 1
    assert "without quota" in words[0]


def test_missing_region_is_ignored_with_one_message(card: Card) -> None:
    card.attach(quota_bytes=MIB)
    peer = card.peer(GPUSQUAD_TENANT="/nowhere/at/all")
    assert peer(f"alloc({8 * MIB})")[0] == 0
    assert len(peer.end().splitlines()) == 1


def test_client_writes_nothing_to_stderr(card: Card) -> None:
    card.attach(quota_bytes=MIB)
    peer = card.peer()
    peer("alloc(1)")
    assert peer.end() == ""


def test_decisions_are_found_beside_the_client_file_in_a_container(card: Card, tmp_path: Path) -> None:
    card.attach(quota_bytes=MIB)
    inside = tmp_path / "run"
    inside.mkdir()
    os.link(card.region.path(0), inside / "tenant")
    os.link(card.region.folder / "decisions", inside / "decisions")
    peer = card.peer(GPUSQUAD_TENANT=str(inside / "tenant"))
    assert peer("total()") == MIB


def test_region_is_not_attached_before_a_call_needs_it(card: Card) -> None:
    card.attach()
    peer = card.peer(start=False)
    peer("call('cuInit', 0)")
    peer(_address("cuMemAlloc", 12000))
    assert card.region.page(0).pids == ()


def test_library_is_built_once_per_state_of_its_sources(tmp_path: Path, library: Path) -> None:
    first = build.library(tmp_path)
    made_ns = first.stat().st_mtime_ns
    assert build.library(tmp_path) == first
    assert first.stat().st_mtime_ns == made_ns
    assert first.parent.name == library.parent.name
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["libgpusquad.so"]


def test_build_reports_a_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Invalid, match="gcc: is not installed"):
        build.library(tmp_path)


def test_shipped_library_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    shipped = tmp_path / "libgpusquad-x86_64.so"
    shipped.touch()
    assert build.library(tmp_path / "cache") == shipped


def test_new_grant_applies_to_the_next_call(card: Card) -> None:
    card.attach(quota_bytes=MIB)
    peer = card.peer()
    card.region.write({0: Grant(quota_bytes=3 * MIB)})
    assert peer("total()") == 3 * MIB
    card.region.detach(0)
    assert peer("total()") > 3 * MIB
