"""A process that sees what is mounted and nothing else of us: as in a container, by a mount namespace of its own."""

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
"""The mounts that are made: the rest is where the machine's own files are."""
_PEER = Path(__file__).parents[1] / "shim" / "peer.py"


def can_have_mounts() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /run"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_have_mounts(), reason="needs root that may mount")


class Contained(Peer):
    def __init__(self, attachment: Attachment, environment: dict[str, str]) -> None:
        library = next(mount.outside for mount in attachment.mounts if mount.inside.endswith(".so"))
        script = ["set -e", "mount -t tmpfs none /run", f"mkdir -p {INSIDE}"]
        for mount in attachment.mounts:
            if mount.inside.startswith(INSIDE):
                make = "mkdir" if Path(mount.outside).is_dir() else "touch"
                script += [f"{make} {mount.inside}", f"mount --bind {mount.outside} {mount.inside}"]
                script += [f"mount -o remount,bind,ro {mount.inside}"] if mount.read_only else []
        script.append(f"export LD_PRELOAD={library}")  # of ld.so.preload all of this machine would take notice
        script.append(f"exec {sys.executable} {_PEER}")
        self.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "\n".join(script)],
            env={**environment, **attachment.env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started = self("start()")


def test_it_is_held_to_its_quota_by_its_mounts_alone(place: Place) -> None:
    quota = place.quota(where="container")
    told, mate = attach(quota, "a", 100), attach(quota, "b", 200)
    place.programs.append(peer := Contained(told, place.environment))
    assert peer(f"alloc({80 * MIB})")[0] == 0
    assert peer(f"alloc({30 * MIB})")[0] == OUT_OF_MEMORY
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 80 * MIB, "its bytes are not seen")
    place.programs.append(other := Contained(mate, place.environment))
    assert other("total()") == 200 * MIB


def test_it_sees_its_mates_and_writes_only_its_own(place: Place) -> None:
    quota = place.quota(where="container")
    told = attach(quota, "a")
    attach(quota, "b")
    place.programs.append(peer := Contained(told, place.environment))
    mate = f"{INSIDE}tenants/{quota.clients(CARD.id)['b/0']}"
    assert peer(f"len(open({mate!r}, 'rb').read())") > 0
    for path, mode in ((mate, os.O_RDWR), (f"{INSIDE}decisions", os.O_RDWR), (f"{INSIDE}tenants/9", os.O_CREAT)):
        with pytest.raises(AssertionError, match="Read-only"):
            peer(f"os.open({path!r}, {mode})")
    assert peer(f"os.open('{INSIDE}tenant', {os.O_RDWR})") > 0


def test_a_crashed_one_gives_its_memory_back(place: Place) -> None:
    quota = place.quota(where="container")
    told = attach(quota, "a", 100)
    place.programs.append(peer := Contained(told, place.environment))
    assert peer(f"alloc({80 * MIB})")[0] == 0
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 80 * MIB, "its bytes are not seen")
    peer.kill()
    until(lambda: clients(quota)["a/0"]["used_bytes"] == 0, "its bytes are not given back")
