"""Tests of the CPU and memory that tasks may use on this machine."""

import os

import pytest

from gpusquad.agent.machine import this_machine

CPU_MILLI = len(os.sched_getaffinity(0)) * 1000
MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def write_files(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def limits(tmp_path, own_cgroup):
    (tmp_path / "own").write_text(own_cgroup)
    machine = this_machine(tmp_path / "cgroup", tmp_path / "own")
    assert machine.id
    return (machine.cpu_milli, machine.memory_bytes)


def test_this_machine_has_cpu_and_memory():
    machine = this_machine()
    assert 0 < machine.cpu_milli <= CPU_MILLI
    assert 0 < machine.memory_bytes <= MEMORY_BYTES


@pytest.mark.parametrize("own_cgroup", ["", "0::/\n", "nonsense", "0::/../..\n", "1:name=systemd:/x\n"])
def test_whole_machine_is_reported_without_limits(tmp_path, own_cgroup):
    assert limits(tmp_path, own_cgroup) == (CPU_MILLI, MEMORY_BYTES)


def test_smallest_limit_of_all_parent_cgroups_applies(tmp_path):
    write_files(tmp_path / "cgroup", cpu__max="max 100000\n", memory__max="max\n")
    write_files(tmp_path / "cgroup" / "a", cpu__max="50000 100000\n", memory__max="1000000\n")
    write_files(tmp_path / "cgroup" / "a" / "b", cpu__max="75000 100000\n", memory__max="2000000\n")
    assert limits(tmp_path, "0::/a/b\n") == (500, 1_000_000)


def test_cgroup_version_1_limits_are_read(tmp_path):
    write_files(tmp_path / "cgroup" / "cpu,cpuacct" / "a", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    write_files(tmp_path / "cgroup" / "memory" / "b", memory__limit_in_bytes="3000000\n")
    assert limits(tmp_path, "4:cpu,cpuacct:/a\n3:memory:/b\n") == (min(1500, CPU_MILLI), 3_000_000)
    write_files(tmp_path / "cgroup" / "cpu,cpuacct" / "a", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert limits(tmp_path, "4:cpu,cpuacct:/a\n")[0] == CPU_MILLI
