"""The folders of a launch: private, or passable for the user its tasks run as. And the host files of a gang."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from gpusquad.core.ports import Launch
from gpusquad.engines.frameworks import Gang
from gpusquad.engines.local.environment import gang_of
from gpusquad.engines.local.names import checkpoint_path, run_folder
from gpusquad.engines.local.run_folder import make_private

_STAYS_OPEN = ("runs", "checkpoints", "lib")
"""The last one: if home is the default place of the preloaded library (``gpu.attach.library``). The loader silently
skips a library that tasks may not read, and then quotas are not enforced.
"""
_FOR_OTHERS = 0o077
_PASS_THROUGH = 0o011


def make(launch: Launch, home: Path) -> None:
    """The run folder, and the folders that the tasks write to."""
    folder = run_folder(home, (launch.job_id, launch.attempt))
    checkpoints = str(checkpoint_path(home, launch.job_id))
    folder.make()
    make_private(checkpoints)
    if launch.run_as is not None:
        _close_rest(home)
        _open_way(home, Path(folder.path))
        _open_way(home, Path(checkpoints).parent)
        for given in (folder.progress, checkpoints):
            os.chown(given, *launch.run_as, follow_symlinks=False)


def write_host_files(launch: Launch, home: Path, ports: Sequence[int]) -> None:
    """For the launchers of a gang's programs. Any user who can pass the run folder may read them."""
    gang = gang_of(launch, home, ports)
    if not isinstance(gang, Gang):
        return
    for name, text in gang.files.items():
        path = os.path.join(gang.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o644)


def _open_way(home: Path, folder: Path) -> None:
    """The tasks' user can pass through, but not list."""
    for part in (folder, *folder.parents):
        mode = stat.S_IMODE(part.stat().st_mode)
        if mode & _FOR_OTHERS != _PASS_THROUGH:
            part.chmod(mode & ~_FOR_OTHERS | _PASS_THROUGH)
        if part == home:
            return


def _close_rest(home: Path) -> None:
    """Where others can pass, they could open files whose name they know: the database, for example."""
    for entry in os.scandir(home):
        if entry.name in _STAYS_OPEN or entry.is_symlink():
            continue
        mode = stat.S_IMODE(entry.stat().st_mode)
        if mode & _FOR_OTHERS:
            os.chmod(entry.path, mode & ~_FOR_OTHERS)
