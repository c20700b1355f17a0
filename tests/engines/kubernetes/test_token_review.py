"""Tests of reading the owner of a token from a TokenReview."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.engines.kubernetes.client.token_review import Bearer, read_review

AGENT = "system:serviceaccount:gpusquad:gpusquad-agent"


def review(**status: Any) -> dict[str, Any]:
    extra = {"authentication.kubernetes.io/node-name": ["n1"], "authentication.kubernetes.io/pod-name": ["agent-x"]}
    defaults = {"authenticated": True, "audiences": ["gpusquad"], "user": {"username": AGENT, "extra": extra}}
    return {"kind": "TokenReview", "status": defaults | status}


def test_review_gives_user_and_node():
    assert read_review(review()) == Bearer(AGENT, "n1")


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False}, {"authenticated": None}, {"authenticated": "true"}, {"audiences": ["kubernetes"]},
        {"audiences": []}, {"audiences": None}, {"user": None}, {"user": {}},
    ],
)  # fmt: skip
def test_unauthenticated_or_foreign_token_has_no_user(status: dict[str, Any]):
    assert read_review(review(**status)).user == ""


@pytest.mark.parametrize("extra", [None, {}, {"authentication.kubernetes.io/node-name": []},
                                   {"authentication.kubernetes.io/node-name": ["n1", "n2"]}])  # fmt: skip
def test_token_without_one_node_has_no_node(extra: Any):
    assert read_review(review(user={"username": AGENT, "extra": extra})) == Bearer(AGENT, "")


def test_empty_review_has_no_user():
    assert read_review({}) == Bearer()
