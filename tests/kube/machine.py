"""What a kubelet could leave on the machine, before and after."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kube.traces import FOLDERS, SYSCTLS

SETTLED_S = 10.0


class Machine:
    """Remembers how it was."""

    def __init__(self) -> None:
        self._before = _state()

    def must_be_as_before(self) -> None:
        """In a moment: the kernel takes apart the network of a pod after its last process is gone."""
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
        except OSError:  # it has ended meanwhile
            continue
    return lines
