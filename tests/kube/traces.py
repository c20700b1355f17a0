"""What a kubelet leaves on a machine besides its own folder, and how it is taken back.

All that has to be known for it is written into the folder before the kubelet starts. So the next test can tidy up after
one that was killed.
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

from tests.kube.daemons import answers

NOTE = "before.json"
PLUGINS = Path("/var/lib/kubelet/device-plugins")  # the kubelet puts it there whatever its --root-dir
LOG_LINKS = Path("/var/log/containers")
SHIM_SOCKETS = Path("/run/containerd/s")
NETWORK_NOTES = Path("/var/lib/cni/results")
FOLDERS = (PLUGINS, LOG_LINKS, SHIM_SOCKETS, NETWORK_NOTES)
# Set by the kubelet; the last by the network plugin.
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
)  # fmt: skip
GONE_S = 10.0


def note(folder: Path) -> None:
    """Writes down what is there now."""
    folders = {path for folder in FOLDERS for path in (folder, *folder.parents)}
    before = {
        "pid": os.getpid(),
        "sysctls": {name: _sysctl(name).read_text().strip() for name in SYSCTLS if _sysctl(name).exists()},
        "absent": [str(path) for path in folders if not path.exists()],
        "plugins": [path.name for path in PLUGINS.glob("*")],
        "sockets": [path.name for path in SHIM_SOCKETS.glob("*")],
    }
    (folder / NOTE).write_text(json.dumps(before))


def undo(folder: Path) -> None:
    """Ends every container, unmounts, and puts back what was. May be called twice."""
    if not (folder / NOTE).exists():
        return
    before = json.loads((folder / NOTE).read_text())
    _end_containers(folder)
    _end_shims(folder)
    _unmount(folder)
    _remove_cgroups(folder)
    for name, value in before["sysctls"].items():
        if _sysctl(name).read_text().strip() != value:
            _sysctl(name).write_text(value)
    _remove_files(folder, before["plugins"], before["sockets"])
    for path in sorted(map(Path, before["absent"]), reverse=True):
        with contextlib.suppress(OSError):  # somebody else's by now
            path.rmdir()
    (folder / NOTE).unlink()


def sweep() -> None:
    """Tidies up after tests that were killed before they could."""
    for noted in Path("/tmp").glob(f"gpusquad-kube-*/{NOTE}"):
        with contextlib.suppress(FileNotFoundError):  # its owner is tidying up right now
            if not Path(f"/proc/{json.loads(noted.read_text())['pid']}").exists():
                undo(noted.parent)
                shutil.rmtree(noted.parent, ignore_errors=True)


def make_cgroups(folder: Path) -> str:
    """A cgroup for all pods, in every hierarchy, named after the folder."""
    for top in _hierarchies():
        made = top / folder.name
        made.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # a new one in version 1 has none, and takes no process then
            if (made / setting).exists() and not (made / setting).read_text().strip():
                with contextlib.suppress(OSError):
                    (made / setting).write_text((top / setting).read_text())
    return f"/{folder.name}"


def _end_containers(folder: Path) -> None:
    deadline = time.monotonic() + GONE_S
    while pids := {pid for group in _cgroups(folder) for pid in _pids(group)}:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of containers do not end: {sorted(pids)}")
        time.sleep(0.02)


def _end_shims(folder: Path) -> None:
    """Containerd's helpers, one a pod. They are no children of ours, but name the folder."""
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
    deadline = time.monotonic() + GONE_S
    while groups := _cgroups(folder):
        for group in groups:
            with contextlib.suppress(OSError):  # a process may take a moment to be gone
                group.rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroups stay: {groups}")
        time.sleep(0.02)


def _remove_files(folder: Path, plugins_before: list[str], sockets_before: list[str]) -> None:
    for path in PLUGINS.glob("*"):
        if path.name not in plugins_before:
            path.unlink(missing_ok=True)
    for path in SHIM_SOCKETS.glob("*"):
        if path.name not in sockets_before and not answers(path):  # one that answers belongs to another containerd
            path.unlink(missing_ok=True)
    for path in LOG_LINKS.glob("*"):
        if path.is_symlink() and str(path.readlink()).startswith(f"{folder}/"):
            path.unlink(missing_ok=True)
    for path in NETWORK_NOTES.glob(f"{folder.name}-*-eth0"):  # the network has the name of the folder
        pod = path.name.removeprefix(f"{folder.name}-").removesuffix("-eth0")
        path.unlink(missing_ok=True)
        (NETWORK_NOTES / f"cni-loopback-{pod}-lo").unlink(missing_ok=True)


def _cgroups(folder: Path) -> list[Path]:
    """The folder's own in every hierarchy, deepest first."""
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
