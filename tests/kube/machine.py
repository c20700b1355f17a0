"""State of the machine that a kubelet can change, compared before and after a test."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kube.host_state import FOLDERS, SYSCTLS

SETTLED_S = 10.0


class Machine:
    """State of this machine when the object was created."""

    def __init__(self) -> None:
        self._before = _state()

    def must_be_as_before(self) -> None:
        """Wait for the original state: the kernel removes a pod's network after its last process has ended."""
        deadline = time.monotonic() + SETTLED_S
        while _state() != self._before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _state() == self._before


def _state() -> dict[str, object]:
    return {
        "sysctls": {name: (Path("/proc/sys") / name).read_text() for name in SYSCTLS},
        "mounts": Path("/proc/mounts").read_text(),
        "cgroups": sorted(Path("/sys/fs/cgroup").glob("*/gpusquad-kube-*")),
        "links": sorted(link.name for link in Path("/sys/class/net").iterdir()),
        "folders": [path for path in FOLDERS if path.exists()],
        "programs": sorted(line for line in _command_lines() if b"/gpusquad-kube-" in line),
        "temporary": sorted(Path("/tmp").glob("gpusquad-kube-*/")),
    }


def _command_lines() -> list[bytes]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # the process has ended
            continue
    return lines
