"""A program in the place of MPS's control program: it writes down what it is asked and answers what a test wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpusquad.gpu.mps import PROGRAM

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


@dataclass(frozen=True)
class FakeMps:
    folder: Path

    @property
    def asked(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def count(self, words: str) -> int:
        return sum(line.startswith(words) for line in self.asked)

    def put(self, name: str, content: str) -> None:
        """``status``, ``clients``: what it answers; ``broken``: it does not start."""
        (self.folder / name).write_text(content)


def fake_mps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    program = folder / "bin" / PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(_SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("FAKE_MPS", str(folder))
    return FakeMps(folder)
