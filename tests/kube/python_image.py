"""Container image with Python, gpusquad and its tests, built from this machine's files without a registry.

The Python layer is cached with the programs of the control plane. The gpusquad layer is built each time. A stub
replaces NVIDIA's driver library, which the container runtime would mount on a node with a GPU.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kube.image import busybox_layer, write_layers
from tools.kube.build import cache_folder

PYTHON_IMAGE = "localhost/gpusquad/python:test"
_REPOSITORY = Path(__file__).parents[2]
_STUB = Path(__file__).with_name("nvml_stub.c")
_PYTHON = Path(os.path.realpath(sys.executable))
_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_TK = "_tkinter."
_LIBRARIES = "opt/lib"
_GPUSQUAD = "opt/gpusquad"
_ADDED_LIBRARIES = ("libdl.so.2", "libpthread.so.0")
_LEFT_OUT = frozenset({
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "site-packages",
    "dist-packages",
})  # fmt: skip


def missing() -> str | None:
    return None if shutil.which("cc") else "missing: cc, for a stub of NVIDIA's library"


def write_python_image(path: Path) -> None:
    env = {"PATH": "/bin", "PYTHONPATH": f"/{_GPUSQUAD}", "LD_LIBRARY_PATH": f"/{_LIBRARIES}"}
    write_layers(path, PYTHON_IMAGE, [busybox_layer(), _python_layer(), _gpusquad_layer()], env)


def _python_layer() -> bytes:
    """Return the Python layer, cached by interpreter, stub and the code of this module."""
    inputs = (sys.version.encode(), str(_PYTHON).encode(), _STUB.read_bytes(), Path(__file__).read_bytes())
    version = hashlib.sha256(b"".join(inputs)).hexdigest()[:16]
    cached = cache_folder() / "images" / f"python-{version}.tar"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        draft = cached.with_suffix(f".{os.getpid()}")
        draft.write_bytes(_make_python_layer())
        draft.replace(cached)
    return cached.read_bytes()


def _make_python_layer() -> bytes:
    """Build a layer with the interpreter and its modules at the paths of this machine, and a folder of libraries."""
    buffer = io.BytesIO()
    programs = [_PYTHON, *(path for path in _STDLIB.glob("lib-dynload/*.so") if _TK not in path.name)]
    with tarfile.open(fileobj=buffer, mode="w") as archive, tempfile.TemporaryDirectory() as folder:
        archive.add(_PYTHON, str(_PYTHON).lstrip("/"))
        archive.add(_STDLIB, str(_STDLIB).lstrip("/"), filter=_without_unused)
        link = tarfile.TarInfo("bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(_PYTHON)
        archive.addfile(link)
        for name, library in sorted(_libraries(programs)):
            archive.add(os.path.realpath(library), name)
        stub = Path(folder) / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", stub, _STUB], check=True)
        archive.add(stub, f"{_LIBRARIES}/{stub.name}")
    return buffer.getvalue()


def _libraries(programs: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield the image path and local path of each library that the programs load. The loader keeps its path."""
    ldd_output = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for name, local_path in set(re.findall(r"^\s+(\S+) => (/\S+)", ldd_output, re.MULTILINE)):
        yield f"{_LIBRARIES}/{name}", local_path
    # Every image with glibc has these. Python does not link them, but a preloaded library can.
    libc_folder = Path(
        next(local_path for name, local_path in re.findall(r"(\S+) => (/\S+)", ldd_output) if name == "libc.so.6")
    ).parent
    yield from (
        (f"{_LIBRARIES}/{name}", str(libc_folder / name)) for name in _ADDED_LIBRARIES if (libc_folder / name).exists()
    )
    for loader in set(re.findall(r"^\s+(/\S*ld-linux\S*)", ldd_output, re.MULTILINE)):
        yield loader.lstrip("/"), loader


def _gpusquad_layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(_REPOSITORY / "src" / "gpusquad", f"{_GPUSQUAD}/gpusquad", filter=_without_bytecode)
        archive.add(_REPOSITORY / "tests" / "measure", f"{_GPUSQUAD}/tests/measure", filter=_without_bytecode)
    return buffer.getvalue()


def _without_unused(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    is_left_out = Path(entry.name).name in _LEFT_OUT or any(part in entry.name for part in ("/config-", ".opt-", _TK))
    return None if is_left_out else entry


def _without_bytecode(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
