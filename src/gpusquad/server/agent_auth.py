"""Which node an agent speaks for. The cluster says whose a token is; nothing but its hash is kept here."""

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
"""Where a request's scope holds the node that the agent runs on."""
TTL_S = 60.0
"""How long a verdict is believed: an agent that was taken away may report for so long after."""
_MAX_TOKEN_CHARS = 8192
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """What the cluster says of a token."""

    user: str = ""
    """Empty: it is nobody's, or not meant for us."""
    node: str = ""
    """Where the pod runs that it was given to; empty: it was given to none."""


class AgentAuth:
    """Asks the cluster about a token it does not know, and remembers the answer for a minute.

    ``review`` may take a while, and raises where the cluster does not answer: that is no verdict, and not kept."""

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
        """Without a question to anybody; None: not known, or no longer surely right."""
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
        """The node that this agent may speak for."""
        if not reviewed.user:
            raise unauthenticated("the cluster does not know this token, or it is not meant for this service")
        if reviewed.user != self._account:
            raise Forbidden("only agents report here", field="Authorization", cure="see kubernetes.agent_account")
        if not reviewed.node:
            raise Forbidden("the token is not bound to a pod on a node", field="Authorization",
                            cure="use the token that a volume of the agent's pod projects")  # fmt: skip
        return reviewed.node


def agent_token(headers: Mapping[str, str]) -> str:
    """The token of a request. What cannot be one of the cluster's, one of our own for example, is not sent to it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or len(token) > _MAX_TOKEN_CHARS or not _TOKEN.match(token):
        raise unauthenticated("no token of a service account was sent")
    return token


def unauthenticated(message: str) -> Unauthenticated:
    return Unauthenticated(message, field="Authorization", cure="send the token of the agent's service account")
