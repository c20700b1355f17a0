"""Our layouts of NVML structures match its Python binding."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from gpusquad.gpu import build

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

MIRRORS = {"nvmlMemory_t": pynvml.c_nvmlMemory_t, "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t}


def _members(mirror: type[ctypes.Structure]) -> list[str]:
    return [str(field[0]) for field in mirror._fields_]


def _printing_program() -> str:
    lines = ["#include <stdio.h>", '#include "cuda_api.h"', "int main(void) {"]
    for name, mirror in MIRRORS.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'  printf("{name}.{member} %zu\\n", offsetof({name}, {member}));' for member in _members(mirror)]
    return "\n".join([*lines, "  return 0;", "}", ""])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_nvml_memory_layout_matches_the_binding(tmp_path: Path) -> None:
    (tmp_path / "ours.c").write_text(_printing_program())
    program = str(tmp_path / "ours")
    subprocess.run(["gcc", "-I", str(build.SOURCES), "-o", program, str(tmp_path / "ours.c")], check=True)
    offsets = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    expected = []
    for name, mirror in MIRRORS.items():
        expected.append(f"{name} {ctypes.sizeof(mirror)}")
        expected += [f"{name}.{member} {getattr(mirror, member).offset}" for member in _members(mirror)]
    assert offsets == expected
