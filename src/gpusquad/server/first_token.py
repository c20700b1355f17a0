"""The administrator's token of this machine: every user who can read the service's home can use it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gpusquad.server.auth import hash_of, new_token
from gpusquad.server.ids import new_id
from gpusquad.store import people
from gpusquad.store.database import Database
from gpusquad.store.people import TenantRow, TokenRow, UserRow

FILE = "token"
USER = "admin"
TENANT = "default"
LABEL = "this machine"
_SCOPES = ["admin", "read", "submit"]


def ensure_admin_token(home: Path, database: Database, now_us: Callable[[], int]) -> Path:
    """Ensure a file with a valid administrator token. A valid one is not replaced."""
    path = home / FILE
    if _lets_in(path, database, now_us()):
        path.chmod(0o600)
        return path
    token = new_token()
    _register(token, database, now_us())
    _write(path, token)
    return path


def _lets_in(path: Path, database: Database, now_us: int) -> bool:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return False
    with database.read() as c:
        row = people.token_by_hash(c, hash_of(token))
        user = people.user(c, row.user) if row is not None else None
    if row is None or user is None or row.revoked_us is not None:
        return False
    return user.role == "admin" and not user.disabled and (row.expires_us is None or row.expires_us > now_us)


def _register(token: str, database: Database, now_us: int) -> None:
    """Stored before the file is written: an unused token is harmless, an unrecorded one is not."""
    with database.write() as c:
        if people.tenant(c, TENANT) is None:
            people.put_tenant(c, TenantRow(TENANT))
        user = people.user(c, USER)
        if user is None or user.role != "admin" or user.disabled:
            people.put_user(c, UserRow(USER, user.tenant if user else TENANT, "admin"))
        for row in people.tokens(c, USER):
            if row.label == LABEL:
                people.revoke_token(c, row.id, now_us)
        people.add_token(c, TokenRow(new_id(), USER, LABEL, hash_of(token), _SCOPES, now_us))


def _write(path: Path, token: str) -> None:
    """Never readable by others, and written completely or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
