"""Tests of cgroups of both versions."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.engines.local import cgroup_bases, cgroups
from gpusquad.engines.local.cgroup_bases import CgroupBase, find_places
from gpusquad.engines.local.cgroups import TaskCgroups, TaskLimits
from tests.engines.harness import TIMEOUT_S, eventually


def find_bases(tmp_path: Path, mounts: list[str], own_cgroups: str) -> list[CgroupBase]:
    """Cgroup bases found with the given mounts and the process's own cgroups."""
    lines = [f"30 20 0:30 {line}" for line in mounts]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    (tmp_path / "cgroup").write_text(own_cgroups)
    return find_places(str(tmp_path / "mountinfo"), str(tmp_path / "cgroup"))


def write_v2_cgroup(path: Path, controllers: str = "cpuset cpu io memory pids", delegated: str = "") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(delegated)


def summary(bases: list[CgroupBase]) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(base.base, base.version, base.controllers) for base in bases]


def test_version_1_base_is_below_the_cgroups_of_the_service(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct/service", "memory"):
        (tmp_path / name).mkdir(parents=True)
    mounts = [
        f"/ {tmp_path}/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct",
        f"/ {tmp_path}/memory rw shared:9 - cgroup cgroup rw,memory",
        f"/ {tmp_path}/pids rw - cgroup cgroup rw,pids",
        "/ /proc rw - proc proc rw",
    ]
    found = find_bases(tmp_path, mounts, "5:cpu,cpuacct:/service\n4:memory:/\n3:pids:/x\n0::/\n")
    assert summary(found) == [
        (f"{tmp_path}/cpu,cpuacct/service/gpusquad", 1, ("cpu",)),
        (f"{tmp_path}/memory/gpusquad", 1, ("memory",)),
    ]


def test_version_1_base_in_a_container_is_below_the_mount(tmp_path: Path) -> None:
    """The mount contains part of the hierarchy; paths in /proc may be those of the host."""
    (tmp_path / "memory").mkdir()
    mounts = [f"/docker/abc {tmp_path}/memory ro - cgroup cgroup rw,memory"]
    assert find_bases(tmp_path, mounts, "4:memory:/docker/abc\n")[0].base == f"{tmp_path}/memory/gpusquad"
    assert find_bases(tmp_path, mounts, "4:memory:/elsewhere\n")[0].base == f"{tmp_path}/memory/gpusquad"


def test_version_2_base_is_below_the_cgroup_of_the_service(tmp_path: Path) -> None:
    write_v2_cgroup(tmp_path / "unified/service")
    found = find_bases(tmp_path, [f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"], "0::/service\n")
    assert summary(found) == [(f"{tmp_path}/unified/service/gpusquad", 2, ("cpu", "memory"))]


def test_version_2_base_is_beside_the_service_when_it_cannot_delegate(tmp_path: Path) -> None:
    """A cgroup with processes cannot delegate controllers."""
    write_v2_cgroup(tmp_path / "unified/slice", delegated="cpu memory")
    write_v2_cgroup(tmp_path / "unified/slice/service")
    (tmp_path / "unified/slice/service/cgroup.subtree_control").unlink()
    found = find_bases(tmp_path, [f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"], "0::/slice/service\n")
    assert summary(found) == [(f"{tmp_path}/unified/slice/gpusquad", 2, ("cpu", "memory"))]


def test_version_2_has_no_base_without_cpu_and_memory_controllers(tmp_path: Path) -> None:
    write_v2_cgroup(tmp_path / "unified", controllers="hugetlb")
    assert find_bases(tmp_path, [f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"], "0::/\n") == []


def test_version_2_has_no_base_above_the_mount(tmp_path: Path) -> None:
    write_v2_cgroup(tmp_path)
    (tmp_path / "unified").mkdir()
    assert find_bases(tmp_path, [f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"], "0::/\n") == []


def test_version_2_limits_are_written_and_oom_kills_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fake file system, where the files exist as soon as the folder does."""
    base = tmp_path / "gpusquad"
    write_v2_cgroup(base)
    real_mkdir = os.mkdir

    def mkdir(path, mode=0o777):
        real_mkdir(path, mode)
        for name in ("memory.max", "memory.swap.max", "cpu.max", "cgroup.procs"):
            (Path(path) / name).touch()

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(cgroups, "find_places", lambda: [CgroupBase(str(base), 2, ("cpu", "memory"))])
    groups = cgroups.plan("job-0-", 2)
    assert groups.make([TaskLimits(1500, 2**30), TaskLimits(0, 0)]) == ""
    first, second = base / "job-0-0", base / "job-0-1"
    assert (first / "memory.max").read_text() == str(2**30)
    assert (first / "memory.swap.max").read_text() == "0"
    assert (first / "cpu.max").read_text() == "150000 100000"
    assert (second / "memory.max").read_text() == ""
    (first / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert (groups.oom_kills(0), groups.oom_kills(1)) == (2, 0)
    restored = TaskCgroups.from_dict(groups.to_dict())
    assert restored.oom_kills(0) == 2


def test_requested_limits_that_cannot_be_set_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "find_places", lambda: [CgroupBase("/proc/nowhere", 1, ("memory",))])
    groups = cgroups.plan("job-0-", 1)
    note = groups.make([TaskLimits(500, 2**30)])
    assert "cpu limit does not hold: not allowed here" in note
    assert "memory limit does not hold: No such file or directory" in note
    assert groups.pids() == set()
    assert cgroups.plan("job-0-", 1).make([TaskLimits(0, 0)]) == ""


def test_existing_cgroup_of_another_service_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "gpusquad"
    (base / "job-0-1").mkdir(parents=True)
    monkeypatch.setattr(cgroups, "find_places", lambda: [CgroupBase(str(base), 1, ("memory",))])
    groups = cgroups.plan("job-0-", 2)
    assert "File exists" in groups.make([TaskLimits(0, 1), TaskLimits(0, 1)])
    assert groups.to_dict()["bases"] == []
    assert sorted(os.listdir(base)) == ["job-0-1"]
    (base / "job-0-0").mkdir()
    assert cgroups.plan("job-0-", 2).to_dict()["prefix"] == f"job-0-{os.getpid()}-"


@pytest.fixture(params=["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"])
def real_base(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder for cgroups in a real hierarchy of either version."""
    base = Path(request.param) / f"gpusquad-test-{uuid.uuid4().hex[:8]}"
    if not (base.parent / "cgroup.procs").exists():
        pytest.skip(f"{base.parent} is no control group")
    try:
        base.mkdir()
    except OSError as error:
        pytest.skip(f"no control groups may be made in {base.parent}: {error.strerror}")
    yield base
    if base.exists():
        base.rmdir()


def test_all_processes_of_a_cgroup_are_killed(real_base: Path) -> None:
    groups = TaskCgroups([str(real_base)], "job-0-", 1)
    (real_base / "job-0-0").mkdir()
    # exec: a shell whose last child is killed first exits by itself, with 137.
    forks = "for i in 1 2 3; do setsid sleep 600 & done; exec sleep 600"
    process = subprocess.Popen(["sh", "-c", forks], preexec_fn=lambda: groups.join(0))
    assert process.pid in groups.pids()
    eventually(lambda: len(groups.pids()) == 4)
    assert groups.kill() == set()
    assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    eventually(lambda: groups.kill() or not groups.pids())
    groups.remove()
    assert not real_base.exists()


def test_read_and_write_never_create_files(tmp_path: Path) -> None:
    assert cgroup_bases.read(str(tmp_path), "nothing") == ""
    with pytest.raises(FileNotFoundError):
        cgroup_bases.write(str(tmp_path), "nothing", "1")
