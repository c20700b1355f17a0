"""Secrets of tenants: one file each, readable by the service only. Values are passed to tasks, never returned by the
API."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from gpusquad.model.errors import Invalid
from gpusquad.server.errors import Conflict, NotFound, Unavailable
from gpusquad.spec.texts import SECRET_NAME

MAX_BYTES = 64 * 1024
MAX_PER_TENANT = 1000
TENANT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
"""Tenant names are folder names here."""
_TENANT = re.compile(TENANT_NAME[:-1] + r"\Z")


class SecretStore:
    """``secrets/TENANT/NAME`` under the service's home."""

    def __init__(self, home: Path) -> None:
        self._root = home / "secrets"

    def names(self, tenant: str) -> list[str]:
        try:
            found = os.listdir(self._folder(tenant))
        except FileNotFoundError:
            return []
        return sorted(name for name in found if SECRET_NAME.fullmatch(name))

    def has(self, tenant: str, name: str) -> bool:
        return self._path(tenant, name).is_file()

    def put(self, tenant: str, name: str, value: str) -> None:
        """Written completely or not at all, so that a task never sees half a secret."""
        path, data = self._path(tenant, name), _checked(value)
        if not path.exists() and len(self.names(tenant)) >= MAX_PER_TENANT:
            raise Conflict(f"the tenant already has {MAX_PER_TENANT} secrets", cure="delete unused ones")
        try:
            _write(path, data)
        except OSError as error:
            raise Unavailable(f"the secret cannot be written: {error.strerror}") from None

    def remove(self, tenant: str, name: str) -> None:
        try:
            self._path(tenant, name).unlink()
        except FileNotFoundError:
            raise NotFound(f"there is no secret {name}") from None

    def read(self, tenant: str, name: str) -> str:
        """For tasks of that tenant only."""
        try:
            return self._path(tenant, name).read_text(encoding="utf-8")
        except FileNotFoundError:
            cure = f"set it with gpusquad secret set {name}"
            raise Invalid("secrets", f"tenant {tenant} has no secret {name}", cure) from None

    def _folder(self, tenant: str) -> Path:
        if not _TENANT.match(tenant):
            raise Invalid("tenant", "is not a valid folder name", "use letters, digits, dot, dash, underscore")
        return self._root / tenant

    def _path(self, tenant: str, name: str) -> Path:
        if not SECRET_NAME.fullmatch(name):
            raise Invalid("name", "is not a valid secret name", "use letters, digits, dot, dash, underscore")
        return self._folder(tenant) / name


def _write(path: Path, data: bytes) -> None:
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp creates it with mode 0600; the dot hides an unfinished file from the list of names.
    handle, unfinished = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def _checked(value: str) -> bytes:
    if "\0" in value:
        raise Invalid("value", "contains a NUL character, which environment variables cannot hold")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Invalid("value", "cannot be encoded as UTF-8") from None
    if len(data) > MAX_BYTES:
        raise Invalid("value", f"has {len(data)} bytes", f"use at most {MAX_BYTES}")
    return data
