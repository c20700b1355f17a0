"""Whose a token is, by what the API server answers."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.engines.kubernetes.client.token_review import Bearer, read_review

AGENT = "system:serviceaccount:gpusquad:gpusquad-agent"


def answer(**status: Any) -> dict[str, Any]:
    extra = {"authentication.kubernetes.io/node-name": ["n1"], "authentication.kubernetes.io/pod-name": ["agent-x"]}
    told = {"authenticated": True, "audiences": ["gpusquad"], "user": {"username": AGENT, "extra": extra}}
    return {"kind": "TokenReview", "status": told | status}


def test_an_agent_of_a_node():
    assert read_review(answer()) == Bearer(AGENT, "n1")


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False}, {"authenticated": None}, {"authenticated": "true"}, {"audiences": ["kubernetes"]},
        {"audiences": []}, {"audiences": None}, {"user": None}, {"user": {}},
    ],
)  # fmt: skip
def test_nobody_we_may_believe(status: dict[str, Any]):
    assert read_review(answer(**status)).user == ""


@pytest.mark.parametrize("extra", [None, {}, {"authentication.kubernetes.io/node-name": []},
                                   {"authentication.kubernetes.io/node-name": ["n1", "n2"]}])  # fmt: skip
def test_a_token_that_is_bound_to_no_node(extra: Any):
    assert read_review(answer(user={"username": AGENT, "extra": extra})) == Bearer(AGENT, "")


def test_an_answer_without_a_verdict():
    assert read_review({}) == Bearer()
