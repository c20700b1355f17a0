"""State of the machine that a kubelet changes outside its own folder, and how to restore it.

The original state is written into the folder before the kubelet starts. The next test can therefore clean up after one
that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.kube.daemons import is_listening

STATE_FILE = "before.json"
PLUGINS = Path("/var/lib/kubelet/device-plugins")  # independent of the kubelet's --root-dir
LOG_LINKS = Path("/var/log/containers")
SHIM_SOCKETS = Path("/run/containerd/s")
CNI_RESULTS = Path("/var/lib/cni/results")
FOLDERS = (PLUGINS, LOG_LINKS, SHIM_SOCKETS, CNI_RESULTS)
# Set by the kubelet, the last one by the network plugin.
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
)  # fmt: skip
END_TIMEOUT_S = 10.0


def record_state(folder: Path) -> None:
    """Write the current state of the machine into the folder."""
    folders = {path for folder in FOLDERS for path in (folder, *folder.parents)}
    before = {
        "pid": os.getpid(),
        "sysctls": {name: _sysctl(name).read_text().strip() for name in SYSCTLS if _sysctl(name).exists()},
        "absent": [str(path) for path in folders if not path.exists()],
        "plugins": [path.name for path in PLUGINS.glob("*")],
        "sockets": [path.name for path in SHIM_SOCKETS.glob("*")],
    }
    (folder / STATE_FILE).write_text(json.dumps(before))


def restore_state(folder: Path) -> None:
    """End all containers, unmount their file systems and restore the recorded state. Does nothing the second time."""
    if not (folder / STATE_FILE).exists():
        return
    before = json.loads((folder / STATE_FILE).read_text())
    _end_containers(folder)
    _end_shims(folder)
    _unmount(folder)
    _remove_cgroups(folder)
    for name, value in before["sysctls"].items():
        if _sysctl(name).read_text().strip() != value:
            _sysctl(name).write_text(value)
    _remove_files(folder, before["plugins"], before["sockets"])
    for path in sorted(map(Path, before["absent"]), reverse=True):
        with contextlib.suppress(OSError):  # another program uses it by now
            path.rmdir()
    (folder / STATE_FILE).unlink()


def clean_up_killed_tests() -> None:
    """Clean up after tests that were killed."""
    for state_file in Path("/tmp").glob(f"gpusquad-kube-*/{STATE_FILE}"):
        with contextlib.suppress(FileNotFoundError):  # its owner is cleaning up at the moment
            if not Path(f"/proc/{json.loads(state_file.read_text())['pid']}").exists():
                restore_state(state_file.parent)
                shutil.rmtree(state_file.parent, ignore_errors=True)


def make_cgroups(folder: Path) -> str:
    """Create a cgroup for all pods in every hierarchy, named after the folder."""
    for top in _hierarchies():
        cgroup = top / folder.name
        cgroup.mkdir(exist_ok=True)
        for setting in (
            "cpuset.cpus",
            "cpuset.mems",
        ):  # empty in a new cgroup of version 1, which then accepts no process
            if (cgroup / setting).exists() and not (cgroup / setting).read_text().strip():
                with contextlib.suppress(OSError):
                    (cgroup / setting).write_text((top / setting).read_text())
    return f"/{folder.name}"


def _end_containers(folder: Path) -> None:
    deadline = time.monotonic() + END_TIMEOUT_S
    while pids := {pid for group in _cgroups(folder) for pid in _pids(group)}:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of containers do not end: {sorted(pids)}")
        time.sleep(0.02)


def _end_shims(folder: Path) -> None:
    """End the containerd shims, one per pod. They are not child processes, but their arguments name the folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and any(word.startswith(f"{folder}/".encode()) for word in words):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _unmount(folder: Path) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in reversed([path for path in mounted if path.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)


def _remove_cgroups(folder: Path) -> None:
    deadline = time.monotonic() + END_TIMEOUT_S
    while groups := _cgroups(folder):
        for group in groups:
            with contextlib.suppress(OSError):  # a process may still be ending
                group.rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"cannot remove cgroups: {groups}")
        time.sleep(0.02)


def _remove_files(folder: Path, plugins_before: list[str], sockets_before: list[str]) -> None:
    for path in PLUGINS.glob("*"):
        if path.name not in plugins_before:
            path.unlink(missing_ok=True)
    for path in SHIM_SOCKETS.glob("*"):
        if path.name not in sockets_before and not is_listening(
            path
        ):  # a socket with a listener belongs to another containerd
            path.unlink(missing_ok=True)
    for path in LOG_LINKS.glob("*"):
        if path.is_symlink() and str(path.readlink()).startswith(f"{folder}/"):
            path.unlink(missing_ok=True)
    for path in CNI_RESULTS.glob(f"{folder.name}-*-eth0"):  # the network is named after the folder
        pod = path.name.removeprefix(f"{folder.name}-").removesuffix("-eth0")
        path.unlink(missing_ok=True)
        (CNI_RESULTS / f"cni-loopback-{pod}-lo").unlink(missing_ok=True)


def _cgroups(folder: Path) -> list[Path]:
    """List the folder's cgroups in every hierarchy, deepest first."""
    return [
        Path(path)
        for top in _hierarchies()
        for path, _, _ in os.walk(top / folder.name, topdown=False)
    ]  # fmt: skip


def _hierarchies() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def _pids(group: Path) -> list[int]:
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name
