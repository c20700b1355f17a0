"""The kernels of these tests are PTX that a real driver compiles, and that the stand-in reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu.shim.kernels import NAMES, PTX
from tests.gpu.standin.running import new_card

_TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
PTXAS = shutil.which("ptxas", path=f"{os.environ['PATH']}:{_TOOLKIT}")


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas, of a CUDA toolkit")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile(tmp_path: Path, architecture: str) -> None:
    assert PTXAS is not None
    (tmp_path / "kernels.ptx").write_text(PTX)
    command = [PTXAS, f"-arch={architecture}", str(tmp_path / "kernels.ptx"), "-o", str(tmp_path / "kernels")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_kernel_is_a_ptx_entry() -> None:
    assert [line.split()[2].partition("(")[0] for line in PTX.splitlines() if ".entry" in line] == list(NAMES)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_standin_reads_kernel_names_and_notes(tmp_path: Path, c_builds: Path) -> None:
    """A kernel without a note takes its time from an argument."""
    card = new_card(tmp_path, c_builds / "driver", sms=16)
    ptx = "\n".join([".version 7.0", ".entry add(.param .u64 cell)", "{ }", "//! add_two:2:30", ".entry add_two()", ""])
    value = card.run(
        f"c = Cuda(kernels={ptx!r})\np = c.number(1)\nc.launch('add', p, 7)\nc.launch('add_two', p)\n"
        "c.sync()\nsend(c.read(p))"
    )
    assert value == 3
    assert [(line.name, line.used) for line in card.lines()] == [("add", 2**16 - 1), ("add_two", 3)]
