"""CPU and memory that tasks may use."""

import os

import pytest

from gpusquad.agent.machine import this_machine

HERE = len(os.sched_getaffinity(0)) * 1000
PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def facts(tmp_path, own):
    (tmp_path / "own").write_text(own)
    machine = this_machine(tmp_path / "cgroup", tmp_path / "own")
    assert machine.id
    return (machine.cpu_milli, machine.memory_bytes)


def test_a_real_machine_has_some():
    machine = this_machine()
    assert 0 < machine.cpu_milli <= HERE
    assert 0 < machine.memory_bytes <= PHYSICAL


@pytest.mark.parametrize("own", ["", "0::/\n", "nonsense", "0::/../..\n", "1:name=systemd:/x\n"])
def test_without_limits_it_is_the_whole_machine(tmp_path, own):
    assert facts(tmp_path, own) == (HERE, PHYSICAL)


def test_the_narrowest_limit_above_us_holds(tmp_path):
    put(tmp_path / "cgroup", cpu__max="max 100000\n", memory__max="max\n")
    put(tmp_path / "cgroup" / "a", cpu__max="50000 100000\n", memory__max="1000000\n")
    put(tmp_path / "cgroup" / "a" / "b", cpu__max="75000 100000\n", memory__max="2000000\n")
    assert facts(tmp_path, "0::/a/b\n") == (500, 1_000_000)


def test_the_older_layout_is_read_too(tmp_path):
    put(tmp_path / "cgroup" / "cpu,cpuacct" / "a", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    put(tmp_path / "cgroup" / "memory" / "b", memory__limit_in_bytes="3000000\n")
    assert facts(tmp_path, "4:cpu,cpuacct:/a\n3:memory:/b\n") == (min(1500, HERE), 3_000_000)
    put(tmp_path / "cgroup" / "cpu,cpuacct" / "a", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert facts(tmp_path, "4:cpu,cpuacct:/a\n")[0] == HERE
