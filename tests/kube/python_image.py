"""An image with Python, gpusquad and its tests, out of what this machine has: there is no registry to ask for one.

Python's layer is kept in the cache of the control plane's programs; ours is made anew each time. In place of NVIDIA's
driver library, which the container runtime brings where there is a card, lies a stub of it.
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
_OURS = "opt/gpusquad"
_ALWAYS = ("libdl.so.2", "libpthread.so.0")
_LEFT_OUT = frozenset({
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "site-packages",
    "dist-packages",
})  # fmt: skip


def missing() -> str | None:
    return None if shutil.which("cc") else "missing: cc, for a stub of NVIDIA's library"


def write_python_image(path: Path) -> None:
    env = {"PATH": "/bin", "PYTHONPATH": f"/{_OURS}", "LD_LIBRARY_PATH": f"/{_LIBRARIES}"}
    write_layers(path, PYTHON_IMAGE, [busybox_layer(), _python_layer(), _our_layer()], env)


def _python_layer() -> bytes:
    """Made once for each interpreter and each version of what makes it."""
    made_by = (sys.version.encode(), str(_PYTHON).encode(), _STUB.read_bytes(), Path(__file__).read_bytes())
    version = hashlib.sha256(b"".join(made_by)).hexdigest()[:16]
    kept = cache_folder() / "images" / f"python-{version}.tar"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_bytes(_make_python_layer())
        draft.replace(kept)
    return kept.read_bytes()


def _make_python_layer() -> bytes:
    """The interpreter and its modules where they are here, libraries in a folder of their own."""
    made = io.BytesIO()
    programs = [_PYTHON, *(path for path in _STDLIB.glob("lib-dynload/*.so") if _TK not in path.name)]
    with tarfile.open(fileobj=made, mode="w") as archive, tempfile.TemporaryDirectory() as folder:
        archive.add(_PYTHON, str(_PYTHON).lstrip("/"))
        archive.add(_STDLIB, str(_STDLIB).lstrip("/"), filter=_wanted)
        link = tarfile.TarInfo("bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(_PYTHON)
        archive.addfile(link)
        for name, library in sorted(_libraries(programs)):
            archive.add(os.path.realpath(library), name)
        stub = Path(folder) / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", stub, _STUB], check=True)
        archive.add(stub, f"{_LIBRARIES}/{stub.name}")
    return made.getvalue()


def _libraries(programs: list[Path]) -> Iterator[tuple[str, str]]:
    """Name in the image and place here of each that one of these loads. The loader itself has to be where it is."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for name, place in set(re.findall(r"^\s+(\S+) => (/\S+)", told, re.MULTILINE)):
        yield f"{_LIBRARIES}/{name}", place
    # Every image with glibc has these, whether a program asks for them or not; a preloaded library may.
    here = Path(next(place for name, place in re.findall(r"(\S+) => (/\S+)", told) if name == "libc.so.6")).parent
    yield from ((f"{_LIBRARIES}/{name}", str(here / name)) for name in _ALWAYS if (here / name).exists())
    for loader in set(re.findall(r"^\s+(/\S*ld-linux\S*)", told, re.MULTILINE)):
        yield loader.lstrip("/"), loader


def _our_layer() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(_REPOSITORY / "src" / "gpusquad", f"{_OURS}/gpusquad", filter=_source)
        archive.add(_REPOSITORY / "tests" / "measure", f"{_OURS}/tests/measure", filter=_source)
    return made.getvalue()


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    is_left_out = Path(entry.name).name in _LEFT_OUT or any(part in entry.name for part in ("/config-", ".opt-", _TK))
    return None if is_left_out else entry


def _source(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
