"""A process that sees only the mounts of its attachment, as in a container. It has its own mount namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpusquad.gpu.api import Attachment
from tests.gpu.attach.conftest import CARD, MIB, Place, attach, clients, until
from tests.gpu.shim.clients import Peer

OUT_OF_MEMORY = 2
INSIDE = "/run/gpusquad/"
"""Only mounts below this folder are made. The others would cover files of the machine."""
_PEER = Path(__file__).parents[1] / "shim" / "peer.py"


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /run"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="needs root and permission to mount")


class ContainedPeer(Peer):
    def __init__(self, attachment: Attachment, environment: dict[str, str]) -> None:
        library = next(mount.outside for mount in attachment.mounts if mount.inside.endswith(".so"))
        script = ["set -e", "mount -t tmpfs none /run", f"mkdir -p {INSIDE}"]
        for mount in attachment.mounts:
            if mount.inside.startswith(INSIDE):
                make = "mkdir" if Path(mount.outside).is_dir() else "touch"
                script += [f"{make} {mount.inside}", f"mount --bind {mount.outside} {mount.inside}"]
                script += [f"mount -o remount,bind,ro {mount.inside}"] if mount.read_only else []
        script.append(f"export LD_PRELOAD={library}")  # ld.so.preload would affect the whole machine
        script.append(f"exec {sys.executable} {_PEER}")
        self.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "\n".join(script)],
            env={**environment, **attachment.env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started = self("start()")


def test_container_is_held_to_its_quota_by_its_mounts(place: Place) -> None:
    quota = place.quota(where="container")
    first, second = attach(quota, "a", 100), attach(quota, "b", 200)
    place.programs.append(peer := ContainedPeer(first, place.environment))
    assert peer(f"alloc({80 * MIB})")[0] == 0
    assert peer(f"alloc({30 * MIB})")[0] == OUT_OF_MEMORY
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 80 * MIB, "its memory is not reported")
    place.programs.append(other := ContainedPeer(second, place.environment))
    assert other("total()") == 200 * MIB


def test_container_reads_neighbour_pages_and_writes_only_its_own(place: Place) -> None:
    quota = place.quota(where="container")
    attachment = attach(quota, "a")
    attach(quota, "b")
    place.programs.append(peer := ContainedPeer(attachment, place.environment))
    neighbour = f"{INSIDE}tenants/{quota.clients(CARD.id)['b/0']}"
    assert peer(f"len(open({neighbour!r}, 'rb').read())") > 0
    for path, mode in ((neighbour, os.O_RDWR), (f"{INSIDE}decisions", os.O_RDWR), (f"{INSIDE}tenants/9", os.O_CREAT)):
        with pytest.raises(AssertionError, match="Read-only"):
            peer(f"os.open({path!r}, {mode})")
    assert peer(f"os.open('{INSIDE}tenant', {os.O_RDWR})") > 0


def test_crashed_container_releases_its_memory(place: Place) -> None:
    quota = place.quota(where="container")
    attachment = attach(quota, "a", 100)
    place.programs.append(peer := ContainedPeer(attachment, place.environment))
    assert peer(f"alloc({80 * MIB})")[0] == 0
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 80 * MIB, "its memory is not reported")
    peer.kill()
    until(lambda: clients(quota)["a/0"]["used_bytes"] == 0, "its memory is not released")
