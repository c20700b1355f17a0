"""Container image with only busybox, written without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IMAGE = "localhost/gpusquad/busybox:test"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # kernel name: name in images
BUSYBOX = Path("/bin/busybox")  # must be static: Debian's busybox-static


def write_image(path: Path) -> None:
    """Write an archive for ``ctr image import``. The default command sleeps, as a pod's sandbox container must."""
    write_layers(path, IMAGE, [busybox_layer()], {"PATH": "/bin"})


def write_layers(path: Path, tag: str, layers: Sequence[bytes], env: Mapping[str, str]) -> None:
    """Write an image of these layers, each a tar file."""
    config = _json(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Cmd": ["/bin/sleep", "2147483647"], "Env": [f"{name}={value}" for name, value in env.items()]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers],
            },
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    files = {f"layer-{number}.tar": layer for number, layer in enumerate(layers)}
    manifest = _json([{"Config": config_name, "RepoTags": [tag], "Layers": list(files)}])
    with tarfile.open(path, "w") as archive:
        for name, content in ({config_name: config, **files, "manifest.json": manifest}).items():
            add_file(archive, name, content)


def busybox_layer() -> bytes:
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in ("bin", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(entry)
        add_file(archive, "bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
        for applet in sorted({*applets} - {"busybox"}):
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _json(content: object) -> bytes:
    return json.dumps(content).encode()
