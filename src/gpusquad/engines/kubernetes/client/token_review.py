"""Identifies the owner of a token with the API server (authentication.k8s.io/v1, TokenReview)."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.objects import Object

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
AUDIENCE = "gpusquad"
"""Audience of the agents' tokens. A token for the API server is not valid here, and theirs is not valid there."""
_NODE = "authentication.kubernetes.io/node-name"


@dataclass(frozen=True, slots=True)
class Bearer:
    """The owner of a token."""

    user: str = ""
    """Empty: the token is invalid or for another audience."""
    node: str = ""
    """Node of the pod that the token is bound to, if any."""


async def review(api: AsyncKubeApi, token: str, audience: str = AUDIENCE) -> Bearer:
    question = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }  # fmt: skip
    return read_review(await api.post(PATH, question), audience)


def read_review(answer: Object, audience: str = AUDIENCE) -> Bearer:
    """An API server without support for audiences names none. Then the token is not accepted."""
    status = answer.get("status") or {}
    if status.get("authenticated") is not True or audience not in (status.get("audiences") or ()):
        return Bearer()
    user = status.get("user") or {}
    nodes = (user.get("extra") or {}).get(_NODE) or ()
    return Bearer(str(user.get("username") or ""), str(nodes[0]) if len(nodes) == 1 else "")
