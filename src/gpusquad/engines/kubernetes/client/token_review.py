"""Asks the API server whose a token is (authentication.k8s.io/v1, TokenReview)."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.objects import Object

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
AUDIENCE = "gpusquad"
"""Whom agents get their tokens for: one for the API server is of no use here, nor ours there."""
_NODE = "authentication.kubernetes.io/node-name"


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who a token stands for."""

    user: str = ""
    """Empty: nobody, or it is meant for somebody else."""
    node: str = ""
    """Where the pod runs that it is bound to, if it is."""


async def review(api: AsyncKubeApi, token: str, audience: str = AUDIENCE) -> Bearer:
    question = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }  # fmt: skip
    return read_review(await api.post(PATH, question), audience)


def read_review(answer: Object, audience: str = AUDIENCE) -> Bearer:
    """An API server that does not know of audiences names none: then nobody said that the token is for us."""
    status = answer.get("status") or {}
    if status.get("authenticated") is not True or audience not in (status.get("audiences") or ()):
        return Bearer()
    user = status.get("user") or {}
    nodes = (user.get("extra") or {}).get(_NODE) or ()
    return Bearer(str(user.get("username") or ""), str(nodes[0]) if len(nodes) == 1 else "")
