"""Finds the node that an agent speaks for. The cluster verifies its token; only the hash is kept here."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpusquad.server.auth import hash_of
from gpusquad.server.errors import Forbidden, Unauthenticated

NODE = "gpusquad.node"
"""Key of a request's scope with the agent's node."""
TTL_S = 60.0
"""Lifetime of a cached result: a deleted agent can report this long."""
_MAX_TOKEN_CHARS = 8192
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Result of a token review."""

    user: str = ""
    """Empty: unknown, or meant for another service."""
    node: str = ""
    """Node of the pod that the token is bound to. Empty: bound to no pod."""


class AgentAuth:
    """Asks the cluster about unknown tokens and caches the answer for a minute.

    ``review`` can be slow, and raises if the cluster does not answer, which is not cached.
    """

    def __init__(
        self,
        review: Callable[[str], TokenIdentity],
        account: str,
        *,
        ttl_s: float = TTL_S,
        most: int = 10_000,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._review = review
        self._account = account
        self._ttl_s = ttl_s
        self._most = most
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[TokenIdentity, float]] = OrderedDict()

    def remembered(self, token: str) -> TokenIdentity | None:
        """The cached node. None: unknown or expired."""
        with self._lock:
            reviewed, until_s = self._found.get(hash_of(token), (None, 0.0))
        return reviewed if self._monotonic_s() < until_s else None

    def identify(self, token: str) -> TokenIdentity:
        reviewed = self._review(token)
        key = hash_of(token)
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = (reviewed, self._monotonic_s() + self._ttl_s)
            if len(self._found) > self._most:
                self._found.popitem(last=False)
        return reviewed

    def node_of(self, reviewed: TokenIdentity) -> str:
        """The node that this agent may report for."""
        if not reviewed.user:
            raise unauthenticated("the cluster does not know this token, or it is not meant for this service")
        if reviewed.user != self._account:
            raise Forbidden("only agents may report here", field="Authorization", cure="see kubernetes.agent_account")
        if not reviewed.node:
            raise Forbidden("the token is not bound to a pod on a node", field="Authorization",
                            cure="use the token that a volume of the agent's pod projects")  # fmt: skip
        return reviewed.node


def agent_token(headers: Mapping[str, str]) -> str:
    """The token of a request. A token that cannot be the cluster's, such as one of this service, is not sent to it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or len(token) > _MAX_TOKEN_CHARS or not _TOKEN.match(token):
        raise unauthenticated("no service account token was sent")
    return token


def unauthenticated(message: str) -> Unauthenticated:
    return Unauthenticated(message, field="Authorization", cure="send the token of the agent's service account")
