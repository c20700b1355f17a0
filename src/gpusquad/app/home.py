"""What a service needs before its first request: a private home, a tenant, an administrator and a way in."""

from __future__ import annotations

import os
from pathlib import Path

from gpusquad.server.auth import hash_of, new_token
from gpusquad.server.ids import new_id
from gpusquad.store import people
from gpusquad.store.database import Database
from gpusquad.store.people import TenantRow, TokenRow, UserRow

DEFAULT_TENANT = "default"
ADMIN = "admin"
TOKEN_FILE = "token"


def make_home(home: Path) -> None:
    """For its owner alone: logs and tokens lie here."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if home.stat().st_uid == os.getuid():
        home.chmod(0o700)


def ensure_people(database: Database) -> None:
    with database.write() as connection:
        if people.tenant(connection, DEFAULT_TENANT) is None:
            people.put_tenant(connection, TenantRow(DEFAULT_TENANT))
        if people.user(connection, ADMIN) is None:
            people.put_user(connection, UserRow(ADMIN, DEFAULT_TENANT, "admin"))


def ensure_admin_token(home: Path, database: Database, now_us: int) -> Path:
    """The token in the file works: kept if it does, made anew if not."""
    path = home / TOKEN_FILE
    with database.read() as connection:
        if path.exists():
            row = people.token_by_hash(connection, hash_of(path.read_text().strip()))
            if row is not None and row.revoked_us is None and (row.expires_us or now_us + 1) > now_us:
                return path
    token = new_token()
    with database.write() as connection:
        people.add_token(connection, TokenRow(
            id=new_id(), user=ADMIN, label="loopback", hash=hash_of(token), scopes=["read", "submit", "admin"],
            created_us=now_us,
        ))  # fmt: skip
    write_private(path, token + "\n")
    return path


def write_private(path: Path, text: str) -> None:
    """Never readable by others, not even for a moment; whole or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    beside.replace(path)
