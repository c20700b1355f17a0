"""API of cards: divide policies, permissions and visibility between tenants."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.server.schemas import cards as schemas
from gpusquad.server.services.sharing.cards import NoDivides
from tests.server.fake_divides import FakeDivides, tenant
from tests.server.rig import Rig, error_of


@pytest.fixture
def divides() -> FakeDivides:
    return FakeDivides()


@pytest.fixture
def rig(make_rig: Any, divides: FakeDivides) -> Rig:
    return make_rig(divides=divides)


def put(rig: Rig, card: str, user: str = "root", **body: Any):
    return rig.call("PUT", f"cards/{card}/divide", user, json=body)


def test_divide_policy_of_a_card_is_set_and_listed(rig: Rig, divides: FakeDivides):
    divides.start("node0/0", "equal")
    made = put(rig, "0", policy="slo", note="demo").json()
    schemas.CardDivision.model_validate(made)
    assert (made["id"], made["node"], made["index"]) == ("node0/0", "node0", 0)
    division = made["divide"]
    assert (division["policy"], division["own"], division["of_mode"], division["effect"]) == (
        "slo",
        True,
        "equal",
        "live",
    )
    assert (division["by"], division["note"], division["revision"]) == ("root", "demo", 1)
    assert divides.now == {"node0/0": "slo"}
    listed = rig.get("cards").json()
    schemas.CardDivisionPage.model_validate(listed)
    assert [card["id"] for card in listed["items"] if card["divide"]["own"]] == ["node0/0"]


def test_divide_changes_are_in_revisions_and_audit(rig: Rig):
    put(rig, "node0/3", policy="slo", note="why not")
    put(rig, "node0%2F3", policy=None)
    history = rig.get("cards/node0/3/divide/revisions").json()
    schemas.DivideRevisionPage.model_validate(history)
    assert [(row["policy"], row["by"], row["note"]) for row in history["items"]] == [
        (None, "root", ""),
        ("slo", "root", "why not"),
    ]
    assert len(rig.get("cards/3/divide/revisions?limit=1").json()["items"]) == 1
    audit = rig.get("audit", "root").json()["items"]
    assert [(row["action"], row["target"], row["data"]["policy"]) for row in audit] == [
        ("card.divide", "node0/3", None),
        ("card.divide", "node0/3", "slo"),
    ]


def test_new_mode_changes_cards_without_their_own_policy(rig: Rig, divides: FakeDivides):
    divides.start("node0/0", "equal")
    divides.start("node0/1", "equal")
    put(rig, "1", policy="priority")
    assert rig.call("PUT", "policy", "root", json={"mode": "slo"}).json()["divide"] == "slo"
    assert divides.now == {"node0/0": "slo", "node0/1": "priority"}
    assert rig.get("cards/0").json()["divide"]["policy"] == "slo"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"policy": "nope"}, "policy"),
        ({"policy": "hybrid:alpha=x"}, "policy.hybrid.alpha"),
        ({"policy": ""}, "policy"),
        ({"policy": 3}, "policy"),
        ({}, "policy"),
        ({"policy": "slo", "more": 1}, "more"),
        ({"policy": "slo", "note": "a\nb"}, "note"),
    ],
)
def test_invalid_divide_policy_is_refused_and_not_stored(rig: Rig, body: dict[str, Any], field: str):
    answer = put(rig, "0", **body)
    assert answer.status_code == 422
    assert error_of(answer)["field"] == field
    assert rig.get("cards/0").json()["divide"]["own"] is False


def test_divide_policy_is_set_by_administrators_only(rig: Rig, divides: FakeDivides):
    assert put(rig, "0", "ann", policy="slo").status_code == 403
    assert divides.sent == []


def test_unknown_card_is_not_found(rig: Rig):
    answer = put(rig, "9", policy="slo")
    assert (answer.status_code, error_of(answer)["field"]) == (404, "card")
    assert rig.get("cards/node7/0").status_code == 404
    assert rig.get("cards/node0").status_code == 409


def test_divide_policy_is_stored_with_a_message_when_shares_are_not_enforced(make_rig: Any):
    rig = make_rig(divides=NoDivides("the cards are simulated"))
    answer = put(rig, "0", policy="slo")
    assert answer.status_code == 200
    assert answer.json()["divide"]["effect"] == "kept"
    assert "takes effect where shares are enforced" in answer.json()["divide"]["message"]
    assert rig.get("cards/0").json()["now"] is None


def test_cards_are_answered_when_the_daemon_is_unavailable(rig: Rig, divides: FakeDivides):
    divides.start("node0/0", "equal")
    divides.fail = ConnectionRefusedError("no daemon")
    assert put(rig, "0", policy="slo").json()["divide"]["policy"] == "slo"
    assert rig.get("cards").status_code == rig.get("cards/0").status_code == 200


def start_job(rig: Rig, user: str, **file: Any) -> str:
    job = rig.submit(user, **file)["id"]
    rig.scheduler.move(job, "running")
    return job


def test_card_detail_has_the_daemons_status_with_job_names(rig: Rig, divides: FakeDivides):
    job = start_job(rig, "ann", name="chat")
    divides.start("node0/0", "slo", tenant(f"{job}.0/0"), tenant("other/0", groups=0, credit_us=None))
    divides.strangers = [{"pid": 42, "name": "game", "memory_bytes": 5}]
    answer = rig.get("cards/0", "root").json()
    schemas.CardDetail.model_validate(answer)
    now = answer["now"]
    assert (now["policy"], now["configuration"], now["why"], now["pool"]) == (
        "slo",
        "strict",
        "a is behind",
        "one pool",
    )
    assert now["unmanaged"] == divides.strangers
    assert (now["unmanaged_count"], now["unmanaged"]) == (now["stranger_count"], now["strangers"]), "until /api/v2"
    mine, other = now["tenants"]
    assert (mine["job"], mine["name"], mine["user"], mine["id"]) == (job, "chat", "ann", f"{job}.0/0")
    assert (mine["groups"], mine["sm_ratio"], mine["credit_us"]) == (5, 5 / 15, 400)
    assert (mine["used_bytes"], mine["quota_bytes"], mine["peak_bytes"]) == (2**30, 8 * 2**30, 2**31)
    assert (mine["attainment_ratio"], mine["waiting"], mine["waited_s"]) == (0.97, 1, 1.5)
    assert mine["iterations_per_s"] == 12.5
    assert (other["sm_ratio"], other["credit_us"], other["job"], other["id"]) == (1.0, None, None, "other/0")


def test_reason_of_the_daemon_uses_job_names(rig: Rig, divides: FakeDivides):
    job = start_job(rig, "ann", name="chat")
    ids = [f"{job}.0/0", f"{job}.0/01", "pod-uid/main"]
    divides.start("node0/0", "slo", *map(tenant, ids))
    divides.why = f"{ids[0]} first, others in the pauses; 2 groups for {ids[2]}, {ids[0]}"
    assert rig.get("cards/0", "root").json()["now"]["why"] == (
        "chat first, others in the pauses; 2 groups for pod-uid/main, chat"
    )


def test_card_detail_hides_other_tenants_except_their_resources(rig: Rig, divides: FakeDivides):
    mine, theirs = start_job(rig, "ann", name="mine"), start_job(rig, "bob", name="secret")
    divides.start("node0/0", "slo", tenant("pod-uid-1/main", job=mine), tenant(f"{theirs}.0/0", note="secret"))
    divides.strangers = [{"pid": 42, "name": "secret", "memory_bytes": 5}]
    answer = rig.get("cards/0", "ann")
    schemas.CardDetail.model_validate(answer.json())
    now = answer.json()["now"]
    assert [client["name"] for client in now["tenants"]] == ["mine", None]
    hidden = now["tenants"][1]
    assert (hidden["groups"], hidden["quota_bytes"]) == (5, 8 * 2**30)
    private = ("id", "weight", "slo", "attainment_ratio", "waiting", "credit_us", "iterations_per_s")
    assert {hidden[name] for name in private} == {None}
    assert (now["unmanaged_count"], now["unmanaged"], now["why"]) == (1, [], "")
    assert (now["stranger_count"], now["strangers"]) == (1, [])
    assert "secret" not in answer.text
    assert theirs not in answer.text
