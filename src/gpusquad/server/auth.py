"""Token authentication. Only hashes are stored, so that a reader of the store cannot impersonate users."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Role, Who
from gpusquad.store import people
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.people import TokenRow

TOKEN_HEADER = "gpusquad-token"
CALLER = "gpusquad.caller"
"""Key of a request's scope with the caller."""
TTL_S = 30.0
"""How long a change by another process may go unnoticed. Changes by this process apply at once."""
_USE_NOTED_INTERVAL_US = 300 * US_PER_S
_TOKEN = re.compile(r"gsq_[a-z2-7]{52}\Z")


def new_token() -> str:
    """32 random bytes in letters that are easy to tell apart."""
    return "gsq_" + base64.b32encode(secrets.token_bytes(32)).decode().rstrip("=").lower()


def hash_of(token: str) -> str:
    # The token has 256 random bits and cannot be guessed, so a fast hash is enough.
    return hashlib.sha256(token.encode()).hexdigest()


def token_in(header: str) -> str | None:
    """The token of an ``Authorization`` header. None if it cannot be one of ours."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and _TOKEN.match(token) else None


def sent_token(headers: Mapping[str, str]) -> str | None:
    """The token of a request. Proxies with their own tokens use ``Authorization``, so ours may come in a header of its
    own."""
    own = headers.get(TOKEN_HEADER, "").strip()
    return token_in(headers.get("authorization", "")) or (own if _TOKEN.match(own) else None)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller and its token."""

    who: Who
    token_id: str
    label: str
    expires_us: int | None


class Auth:
    """Identifies callers by their tokens. Results are cached, so that most requests need no query."""

    def __init__(
        self,
        database: Database,
        now_us: Callable[[], int],
        *,
        ttl_s: float = TTL_S,
        most: int = 10_000,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._now_us = now_us
        self._monotonic_s = monotonic_s
        self._ttl_s = ttl_s
        self._most = most
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[Caller, float]] = OrderedDict()
        self._changes = 0

    def remembered(self, token: str) -> Caller | None:
        """The cached caller. None: unknown or expired."""
        key = hash_of(token)
        with self._lock:
            caller, until_s = self._found.get(key, (None, 0.0))
        if caller is None or self._monotonic_s() >= until_s or self._is_over(caller.expires_us):
            return None
        return caller

    def identify(self, token: str) -> Caller | None:
        """The caller from the store. None: unknown or revoked."""
        key = hash_of(token)
        with self._lock:
            changes = self._changes
        with self._database.read() as c:
            row = people.token_by_hash(c, key)
            user = people.user(c, row.user) if row is not None else None
        if row is None or user is None or user.disabled or not hmac.compare_digest(row.hash, key):
            return None
        if row.revoked_us is not None or self._is_over(row.expires_us):
            return None
        who = Who(user.name, user.tenant, cast(Role, user.role), frozenset(row.scopes),
                  user.max_priority, user.may_choose_lane)  # fmt: skip
        caller = Caller(who, row.id, row.label, row.expires_us)
        self._remember(key, caller, changes)
        self._note_use(row)
        return caller

    def is_still(self, caller: Caller, token: str) -> bool:
        """Whether a long stream may continue."""
        return (self.remembered(token) or self.identify(token)) == caller

    def forget(self) -> None:
        """Drop the cache after users or tokens changed."""
        with self._lock:
            self._changes += 1
            self._found.clear()

    def _is_over(self, expires_us: int | None) -> bool:
        return expires_us is not None and expires_us <= self._now_us()

    def _remember(self, key: str, caller: Caller, changes: int) -> None:
        with self._lock:
            if changes != self._changes:  # revoked during the query
                return
            self._found.pop(key, None)
            self._found[key] = (caller, self._monotonic_s() + self._ttl_s)
            if len(self._found) > self._most:
                self._found.popitem(last=False)

    def _note_use(self, row: TokenRow) -> None:
        """Approximate: a write for every request would cost too much."""
        now_us = self._now_us()
        if row.last_used_us is not None and now_us - row.last_used_us < _USE_NOTED_INTERVAL_US:
            return
        with suppress(StoreUnavailable), self._database.write() as c:
            people.touch_token(c, row.id, now_us)
