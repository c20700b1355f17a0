"""The region as the daemon uses it: layout, file modes, pages, and taking over from an earlier daemon."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.gpu import build
from gpusquad.gpu.region import layout
from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import Grant, Region
from gpusquad.model.errors import Invalid
from gpusquad.model.squad import MAX_LEVEL, UNGATED_US
from tests.gpu.shim.clients import Card

ON_REGION = ("region/region", "region/region_files", "region/futex", "region/neighbours")
"""Source files of the shim that use the region and no driver."""
MIRRORS = {
    "gs_grant": layout.GrantLayout,
    "gs_decisions": layout.DecisionsLayout,
    "gs_process": layout.ProcessLayout,
    "gs_kernel": layout.KernelLayout,
    "gs_client": layout.ClientLayout,
}
CONSTANTS = {
    "GS_MAGIC": layout.MAGIC,
    "GS_VERSION": layout.VERSION,
    "GS_SLOTS": layout.SLOTS,
    "GS_PROCS": layout.PROCESSES,
    "GS_KERNELS": layout.KERNELS,
    "GS_LIVE": layout.LIVE,
    "GS_LEND": layout.LEND,
    "GS_UNGATED": UNGATED_US,
    "GS_LEVELS": MAX_LEVEL,
}


def _fields(mirror: type[ctypes.Structure]) -> list[str]:
    return [field[0] for field in mirror._fields_]


def _printing_program() -> str:
    lines = ['#include <stdio.h>\n#include "region/region.h"\nint main(void) {']
    for name, mirror in MIRRORS.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof(struct {name}));')
        for field in _fields(mirror):
            member = f"((struct {name} *)0)->{field}"
            lines.append(f'  printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), sizeof({member}));')
    lines += [f'  printf("{name} %llu\\n", (unsigned long long){name});' for name in CONSTANTS]
    return "\n".join([*lines, "  return 0;\n}\n"])


def _mirrored() -> list[str]:
    lines = []
    for name, mirror in MIRRORS.items():
        lines.append(f"{name} {ctypes.sizeof(mirror)}")
        for field in _fields(mirror):
            described = getattr(mirror, field)
            lines.append(f"{name}.{field} {described.offset} {described.size}")
    return lines + [f"{name} {value}" for name, value in CONSTANTS.items()]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_python_layout_matches_the_c_layout(tmp_path: Path) -> None:
    (tmp_path / "layout.c").write_text(_printing_program())
    program = str(tmp_path / "layout")
    subprocess.run(["gcc", "-I", str(build.SOURCES), "-o", program, str(tmp_path / "layout.c")], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == _mirrored()


def test_card_region_implements_the_region_protocol(tmp_path: Path) -> None:
    region: Region = CardRegion(tmp_path)
    region.attach(3)
    assert region.page(3).used_bytes == 0
    region.detach(3)
    with pytest.raises(KeyError):
        region.page(3)


def test_files_are_readable_by_all_and_writable_by_the_owner(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        region = CardRegion(tmp_path / "card")
        region.attach(1, uid=os.getuid(), gid=os.getgid())
    finally:
        os.umask(old)
    assert stat.S_IMODE(region.path(1).parent.stat().st_mode) == 0o755
    for path in (tmp_path / "card" / "decisions", region.path(1)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert region.path(1).stat().st_uid == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_client_file_belongs_to_its_user(tmp_path: Path) -> None:
    region = CardRegion(tmp_path)
    region.attach(1, uid=65534, gid=65534)
    assert region.path(1).stat().st_uid == 65534
    assert (tmp_path / "decisions").stat().st_uid == 0


def test_attach_refuses_an_unknown_slot(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="slot"):
        CardRegion(tmp_path).attach(layout.SLOTS)


@given(
    credit_us=st.integers(0, UNGATED_US),
    mask=st.integers(0, 2**64 - 1),
    neighbours=st.integers(0, 2**32 - 1),
    quota_bytes=st.integers(0, 2**63),
    restricted_us=st.integers(0, 2**63),
    borrows=st.booleans(),
    squad=st.integers(0, 2**40),
    loan_us=st.integers(0, 2**32 - 1),
    loan_wait_max_us=st.integers(0, 2**32 - 1),
)
def test_grants_are_written_unchanged(
    tmp_path_factory: pytest.TempPathFactory,
    credit_us: int,
    mask: int,
    neighbours: int,
    quota_bytes: int,
    restricted_us: int,
    borrows: bool,
    squad: int,
    loan_us: int,
    loan_wait_max_us: int,
) -> None:
    folder = tmp_path_factory.mktemp("grants")
    region = CardRegion(folder, context_bytes=5)
    region.attach(2)
    grant = Grant(squad, quota_bytes, credit_us, mask, neighbours, restricted_us, borrows, loan_us, loan_wait_max_us,
                  virtual_card_mask=neighbours, linger_us=squad & 0xFFFFFFFF)  # fmt: skip
    region.write({2: grant})
    seen = layout.DecisionsLayout.from_buffer_copy((folder / "decisions").read_bytes()).grants[2]
    assert (seen.state, seen.squad, seen.quota_bytes) == (layout.LIVE, squad % 2**32, quota_bytes)
    assert (seen.credit_us, seen.mask, seen.neighbours) == (credit_us, mask, neighbours)
    assert (seen.restricted_us, seen.flags, seen.context_bytes) == (restricted_us, int(borrows), 5)
    assert (seen.loan_us, seen.loan_wait_max_us) == (loan_us, loan_wait_max_us)
    assert (seen.virtual_card_mask, seen.linger_us) == (neighbours, squad & 0xFFFFFFFF)


def _decisions(folder: Path) -> layout.DecisionsLayout:
    return layout.DecisionsLayout.from_buffer_copy((folder / "decisions").read_bytes())


def test_epoch_grows_with_every_change(tmp_path: Path) -> None:
    region = CardRegion(tmp_path)
    epochs = [_decisions(tmp_path).epoch]
    for change in (lambda: region.attach(0), lambda: region.write({0: Grant()}), lambda: region.detach(0)):
        change()
        epochs.append(_decisions(tmp_path).epoch)
    assert epochs == sorted(set(epochs))


def test_heartbeat_is_written(tmp_path: Path) -> None:
    region = CardRegion(tmp_path, fail_open_ms=250, groups=15, sms_per_group=8)
    region.beat(12345)
    seen = _decisions(tmp_path)
    assert (seen.heartbeat_ns, seen.fail_open_ms, seen.groups, seen.sms_per_group) == (12345, 250, 15, 8)


def test_restarted_daemon_finds_its_clients(tmp_path: Path) -> None:
    before = CardRegion(tmp_path)
    before.attach(4, quota_bytes=77)
    inode = (tmp_path / "decisions").stat().st_ino
    after = CardRegion(tmp_path)
    assert after.attached == (4,)
    assert (tmp_path / "decisions").stat().st_ino == inode, "clients have it mapped"
    assert _decisions(tmp_path).grants[4].quota_bytes == 77


def test_file_of_another_version_is_replaced_and_not_truncated(tmp_path: Path) -> None:
    (tmp_path / "decisions").write_bytes(b"something else")
    with (tmp_path / "decisions").open("rb") as old:
        region = CardRegion(tmp_path)
        assert old.read() == b"something else"
    assert region.attached == ()
    assert _decisions(tmp_path).version == layout.VERSION


def test_page_sums_the_counters_of_all_processes(tmp_path: Path) -> None:
    region = CardRegion(tmp_path)
    region.attach(0)
    content = layout.ClientLayout.from_buffer_copy(region.path(0).read_bytes())
    content.used_bytes, content.peak_bytes = 30, 40
    for index, state in ((0, layout.LIVE), (1, layout.FREE), (2, layout.LIVE)):
        process = content.procs[index]
        process.pid, process.state, process.requested_us, process.in_flight, process.copies = 10 + index, state, 5, 1, 2
    region.path(0).write_bytes(bytes(content))
    page = CardRegion(tmp_path).page(0)
    assert (page.requested_us, page.launches) == (15, 6), "cumulative counters of dead processes stay"
    assert (page.in_flight, page.pids) == (2, (10, 12)), "their queued work does not"
    assert (page.used_bytes, page.peak_bytes) == (30, 40)


def test_kernels_exclude_rows_being_written(tmp_path: Path) -> None:
    region = CardRegion(tmp_path)
    region.attach(0)
    content = layout.ClientLayout.from_buffer_copy(region.path(0).read_bytes())
    content.kernels = 2
    for index, sequence in enumerate((2, 3)):
        row = content.kernel[index]
        row.name, row.identity, row.count, row.mean_us, row.sequence = b"gemm", index + 1, 9, 2.5, sequence
        row.grid[0] = 7
    region.path(0).write_bytes(bytes(content))
    kernels = CardRegion(tmp_path).kernels(0)
    assert [(kernel.identity, kernel.name, kernel.mean_us, kernel.grid) for kernel in kernels] == [
        (1, "gemm", 2.5, (7, 0, 0))
    ]


def _build_on_region(name: str, folder: Path) -> Path:
    parts = [Path(__file__).with_name(f"{name}.c"), *(build.SOURCES / f"{part}.c" for part in ON_REGION)]
    flags = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I", str(build.SOURCES)]
    subprocess.run(["gcc", *flags, "-o", str(folder / name), *map(str, parts), "-lpthread"], check=True)
    return folder / name


def test_quota_is_never_reserved_twice_by_concurrent_processes(tmp_path: Path, built: Path) -> None:
    program = _build_on_region("quota_race", built)
    region = CardRegion(tmp_path)
    region.attach(0, quota_bytes=1000)
    command, environment = [str(program), "200000"], {"GPUSQUAD_TENANT": str(region.path(0))}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    had = [int(process.communicate()[0]) for process in running]
    page = region.page(0)
    assert sum(had) > 0  # one may have got nothing, if another was descheduled while it held the quota
    assert (page.used_bytes, page.peak_bytes) == (0, 1000)


def test_neighbour_file_is_reopened_when_the_slot_gets_a_new_client(card: Card, built: Path) -> None:
    program = _build_on_region("neighbours", built)
    card.attach(0)
    bare = {"GPUSQUAD_TENANT": str(card.region.path(0))}
    with subprocess.Popen([program], env=bare, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as looking:

        def seen() -> str:
            assert looking.stdin is not None
            assert looking.stdout is not None
            looking.stdin.write("1\n")
            looking.stdin.flush()
            return looking.stdout.readline().strip()

        assert seen() == "none"
        for _ in range(3):
            card.attach(1)
            assert seen() == "0"
            peer = card.peer(1)
            assert seen() == str(peer.process.pid)
            peer.kill()
            card.region.detach(1)


def test_reclaim_without_the_shim_waits_for_the_last_process(card: Card) -> None:
    card.attach(quota_bytes=0)
    first, second = card.peer(), card.peer()
    first("alloc(4096)")
    second("alloc(8192)")
    first.kill()
    bare = CardRegion(card.region.folder)
    assert (bare.reclaim(0), bare.page(0).used_bytes) == (0, 12288), "sums are not changed while a process lives"
    second.kill()
    assert bare.reclaim(0) == 12288
    assert (bare.page(0).used_bytes, bare.page(0).pids) == (0, ())


def test_cumulative_counters_continue_in_a_reused_slot(card: Card) -> None:
    """Credit is cumulative, so the requested time of a client must never fall."""
    card.attach()
    peer = card.peer()
    peer.kill()
    raw = bytearray(card.region.path(0).read_bytes())
    at = layout.ClientLayout.procs.offset + layout.ProcessLayout.requested_us.offset
    raw[at : at + 8] = (1234).to_bytes(8, "little")
    card.region.path(0).write_bytes(raw)
    card.peer()
    page = card.region.page(0)
    assert page.requested_us >= 1234
    assert len(page.pids) == 1
