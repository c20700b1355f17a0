"""A replacement for the control program of MPS. It records commands and gives the answers that a test has set. On a
real driver it passes the commands on to the real program."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpusquad.gpu.mps import PROGRAM
from tests.gpu.shim.clients import REAL_DRIVER

_SCRIPT = """#!/bin/sh
pid="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = -d ]; then
    echo "-d $CUDA_VISIBLE_DEVICES" >>"$FAKE_MPS/asked"
    [ -e "$FAKE_MPS/broken" ] && { echo "cannot start" >&2; exit 1; }
    echo 999999999 >"$pid"
    rm -f "$FAKE_MPS/status"
    exit 0
fi
read -r words
echo "$words" >>"$FAKE_MPS/asked"
[ -e "$pid" ] || { echo "no daemon" >&2; exit 1; }
case "$words" in
    quit*) rm -f "$pid" ;;
    get_server_list) echo 77 ;;
    get_server_status*) cat "$FAKE_MPS/status" 2>/dev/null || echo ACTIVE ;;
    get_client_list*) cat "$FAKE_MPS/clients" 2>/dev/null ;;
esac
exit 0
"""

_RECORDING_WRAPPER = """#!/bin/sh
if [ "$1" = -d ]; then
    echo "-d $CUDA_VISIBLE_DEVICES" >>"$FAKE_MPS/asked"
    exec "$REAL_MPS" "$@"
fi
read -r words
echo "$words" >>"$FAKE_MPS/asked"
echo "$words" | exec "$REAL_MPS" "$@"
"""


@dataclass(frozen=True)
class FakeMps:
    folder: Path

    @property
    def commands(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def count(self, words: str) -> int:
        return sum(line.startswith(words) for line in self.commands)

    def put(self, name: str, content: str) -> None:
        """Set the answer ``status`` or ``clients``. ``broken``: the program does not start."""
        (self.folder / name).write_text(content)


def fake_mps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    return _put(_SCRIPT, folder, monkeypatch)


def mps_for_the_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    """The stand-in driver ignores MPS. A client of a real driver exits if no MPS server answers on the pipe."""
    if not REAL_DRIVER:
        return fake_mps(folder, monkeypatch)
    real = shutil.which(PROGRAM)
    if real is None:
        pytest.skip(f"{PROGRAM} is not installed")
    monkeypatch.setenv("REAL_MPS", real)
    return _put(_RECORDING_WRAPPER, folder, monkeypatch)


def _put(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    program = folder / "bin" / PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("FAKE_MPS", str(folder))
    return FakeMps(folder)
