"""What a client gets for its share: environment variables of a process, or mounts of a container.

A shell can drop its environment; a container cannot drop its mounts. There the loader finds the shim through
``/etc/ld.so.preload``, and the shim finds its files by fixed paths, so only MPS needs variables.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpusquad.gpu.api import Attachment, Mount
from gpusquad.gpu.attach.mps_pool import MpsPool
from gpusquad.gpu.attach.records import AttachRecord, write_whole
from gpusquad.gpu.attach.settings import CardSharingSettings

_PRELOAD, _TENANT = "LD_PRELOAD", "GPUSQUAD_TENANT"
LIBRARY_INSIDE = "/usr/lib/gpusquad/libgpusquad.so"
PRELOAD_INSIDE = "/etc/ld.so.preload"
TENANT_INSIDE, NEIGHBOURS_INSIDE = "/run/gpusquad/tenant", "/run/gpusquad/tenants"
DECISIONS_INSIDE = "/run/gpusquad/decisions"


def to_process(told: AttachRecord, client: Path, library: Path) -> Attachment:
    env = {**told.env, _PRELOAD: str(library), _TENANT: str(client)}
    return Attachment(env=env, notes=told.notes)


def own_environment() -> dict[str, str]:
    """Environment of our own helper programs, which must not run as clients even if this process does."""
    return {name: value for name, value in os.environ.items() if name not in (_PRELOAD, _TENANT)}


def to_container(
    told: AttachRecord, client: Path, decisions: Path, library: Path, pool: MpsPool, settings: CardSharingSettings
) -> Attachment:
    """Neighbours' files are mounted read-only, its own also writable through a second mount. A file that is mounted
    alone is never replaced while its client is attached: the mount would keep showing the old one."""
    preload = settings.folder / "ld.so.preload"
    write_preload(preload)
    mounts = [
        Mount(LIBRARY_INSIDE, str(library)),
        Mount(PRELOAD_INSIDE, str(preload)),
        Mount(TENANT_INSIDE, str(client), read_only=False),
        Mount(DECISIONS_INSIDE, str(decisions)),
        Mount(NEIGHBOURS_INSIDE, str(client.parent)),
    ]
    if told.is_pooled:
        mounts.append(Mount(str(pool.pipes), str(pool.pipes), read_only=False))
        if settings.shm is not None:
            mounts.append(Mount("/dev/shm", str(settings.shm), read_only=False))
    return Attachment(env=dict(told.env), mounts=tuple(mounts), notes=told.notes)


def write_preload(file: Path) -> None:
    """Write it once: containers have it mounted."""
    content = f"{LIBRARY_INSIDE}\n"
    if not file.exists() or file.read_text(encoding="utf-8") != content:
        write_whole(file, content)
