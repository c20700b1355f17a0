"""Permissions of every route for every role, and isolation of tenants."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from gpusquad.server.app import OPEN_PATHS, PREFIX, all_routes
from gpusquad.server.permissions import RULES
from tests.server.rig import JOB_FILE, Rig, error_of

OPEN, READ, MEMBER, ADMIN = "open", "read", "member", "admin"
TABLE = {
    "POST /jobs": MEMBER,
    "GET /jobs": READ,
    "GET /jobs/{job}": READ,
    "GET /jobs/{job}/source": READ,
    "PATCH /jobs/{job}": MEMBER,
    "POST /jobs/{job}/cancel": MEMBER,
    "POST /jobs/{job}/hold": MEMBER,
    "POST /jobs/{job}/release": MEMBER,
    "POST /jobs/{job}/resubmit": MEMBER,
    "GET /jobs/{job}/why": READ,
    "GET /jobs/{job}/when": READ,
    "GET /jobs/{job}/story": READ,
    "GET /pods/{namespace}/{pod}/job": READ,
    "GET /jobs/{job}/logs": READ,
    "GET /jobs/{job}/logs/stream": READ,
    "POST /whatif": MEMBER,
    "POST /recommend": MEMBER,
    "GET /queue": READ,
    "GET /cluster": READ,
    "GET /nodes": READ,
    "POST /nodes/{node}/drain": ADMIN,
    "POST /nodes/{node}/undrain": ADMIN,
    "POST /cards/{card:path}/cordon": ADMIN,
    "POST /cards/{card:path}/uncordon": ADMIN,
    "GET /cards/{card:path}/samples": READ,
    "GET /cards": READ,
    "GET /cards/{card:path}": READ,
    "PUT /cards/{card:path}/divide": ADMIN,
    "GET /cards/{card:path}/divide/revisions": READ,
    "GET /windows": READ,
    "POST /windows": ADMIN,
    "DELETE /windows/{window}": ADMIN,
    "GET /policy": READ,
    "PUT /policy": ADMIN,
    "GET /policy/revisions": READ,
    "POST /policy/preview": ADMIN,
    "GET /usage": READ,
    "GET /predictions": READ,
    "GET /predictions/series": READ,
    "GET /timeline": READ,
    "GET /efficiency": READ,
    "GET /free": READ,
    "GET /interference": READ,
    "GET /jobs/{job}/neighbours": READ,
    "GET /goals": READ,
    "GET /events": READ,
    "GET /me": READ,
    "GET /tenants": READ,
    "POST /tenants": ADMIN,
    "PUT /tenants/{name}": ADMIN,
    "GET /users": READ,
    "POST /users": ADMIN,
    "PATCH /users/{name}": ADMIN,
    "GET /tokens": READ,
    "POST /tokens": READ,
    "DELETE /tokens/{token}": READ,
    "GET /audit": ADMIN,
    "GET /secrets": MEMBER,
    "PUT /secrets/{name}": MEMBER,
    "DELETE /secrets/{name}": MEMBER,
    "GET /inbox": READ,
    "POST /inbox/read": READ,
    "GET /notices/rules": READ,
    "POST /notices/rules": MEMBER,
    "DELETE /notices/rules/{rule}": MEMBER,
    "GET /notices/outbox": READ,
    "POST /notices/test": MEMBER,
    "POST /notices/{notice}/retry": MEMBER,
    "GET /schema/job": OPEN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
}
BY_ADDRESS = {"GET /metrics"}
"""Open to this machine only."""
STREAMS = {"GET /events", "GET /jobs/{job}/logs/stream"}
LEAST_ROLE = {READ: ("vic", "ann", "root"), MEMBER: ("ann", "root"), ADMIN: ("root",)}
USERS = ("vic", "ann", "root")
ROUTES = {
    f"{method} {path.removeprefix(PREFIX)}": (method, path, route)
    for path, route in all_routes()
    for method in route.methods or ()
}


def test_every_route_has_a_rule() -> None:
    assert ROUTES.keys() == TABLE.keys() | BY_ADDRESS


@pytest.mark.parametrize("name", TABLE)
def test_permission_rule_is_a_dependency_of_the_route(name: str) -> None:
    """A route without its own rule would accept every token."""
    used = _calls(ROUTES[name][2].dependant)
    expected = {READ: RULES[0], MEMBER: RULES[1], ADMIN: RULES[2]}.get(TABLE[name])
    assert used & set(RULES) == ({expected} if expected else set())


@pytest.mark.parametrize("name", TABLE)
def test_missing_and_unknown_tokens_are_rejected(shared_rig: Rig, name: str) -> None:
    method, path = _target(name)
    for token in ("", "nonsense", "gsq_" + "a" * 52, "gsq_" + "A" * 52):
        answer = shared_rig.call(method, path, None, headers={"Authorization": f"Bearer {token}"} if token else {})
        if TABLE[name] == OPEN:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 401
            assert error_of(answer)["code"] == "unauthenticated"
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", [name for name, rule in TABLE.items() if rule != OPEN])
def test_route_is_allowed_only_for_its_roles(shared_rig: Rig, name: str, user: str) -> None:
    is_allowed = user in LEAST_ROLE[TABLE[name]]
    if is_allowed and name in STREAMS:
        pytest.skip("endless stream")
    method, path = _target(name)
    answer = shared_rig.call(method, path, user, json={} if method not in ("GET", "DELETE") else None)
    assert (answer.status_code != 403) == is_allowed, answer.text
    assert answer.status_code not in (401, 500)


@pytest.mark.parametrize("name", [name for name, rule in TABLE.items() if rule != OPEN])
def test_token_without_the_needed_scope_is_forbidden(shared_rig: Rig, name: str) -> None:
    """Even for an administrator's token."""
    needed = {READ: "read", MEMBER: "submit", ADMIN: "admin"}[TABLE[name]]
    token = shared_rig.token("root", sorted({"read", "submit", "admin"} - {needed}))
    method, path = _target(name)
    answer = shared_rig.call(method, path, token=token, json={} if method not in ("GET", "DELETE") else None)
    assert answer.status_code == 403
    assert error_of(answer)["code"] == "forbidden"


def test_open_paths_are_the_two_schemas() -> None:
    assert sorted(OPEN_PATHS) == [f"{PREFIX}/openapi.json", f"{PREFIX}/schema/job"]


def test_unknown_path_needs_a_token(shared_rig: Rig) -> None:
    assert shared_rig.get("no/such/thing", None).status_code == 401
    assert shared_rig.get("no/such/thing").status_code == 404


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 401),
        ("10.0.0.7", {}, 401),
    ],
)
def test_metrics_are_open_to_this_machine_only(
    shared_rig: Rig, address: str, headers: dict[str, str], status: int
) -> None:

    client = TestClient(shared_rig.app, base_url="http://localhost", client=(address, 1))
    assert client.get("/metrics", headers=headers).status_code == status
    elsewhere = TestClient(shared_rig.app, base_url="http://localhost", client=("10.0.0.7", 1))
    for user, expected in (("ann", 403), ("root", 200)):
        bearer = {"Authorization": f"Bearer {shared_rig.tokens[user]}"}
        assert elsewhere.get("/metrics", headers=bearer).status_code == expected


# -- isolation of tenants ------------------------------------------------------------------------------------------

JOB_ROUTES = sorted(name for name in TABLE if "/jobs/{job}" in name)


@pytest.mark.parametrize("name", JOB_ROUTES)
def test_job_of_another_tenant_is_not_found(shared_rig: Rig, name: str) -> None:
    job = shared_rig.submit("ann", name="theirs")
    shared_rig.logs.write(job["id"], 0, 0, b"secret output")
    method, path = _target(name)
    for ref in (job["id"], job["id"][:20], job["id"][-8:], "theirs"):
        body = {"priority": "high"} if method == "PATCH" else {}
        answer = shared_rig.call(
            method, path.replace("/x", f"/{ref}", 1), "bob", json=body if method != "GET" else None
        )
        assert answer.status_code == 404
        assert "secret" not in answer.text
    assert shared_rig.get(f"jobs/{job['id']}").json()["state"] == "pending"


@pytest.mark.parametrize("name", JOB_ROUTES)
@pytest.mark.parametrize("user", ["amy", "vic"])
def test_job_of_another_user_in_the_tenant_is_visible_but_not_changeable(shared_rig: Rig, name: str, user: str) -> None:
    job = shared_rig.submit("ann")
    shared_rig.logs.write(job["id"], 0, 0, b"secret output")
    method, path = _target(name)
    body = {"priority": "high"} if method == "PATCH" else {}
    answer = shared_rig.call(
        method, path.replace("/x", f"/{job['id']}", 1), user, json=body if method != "GET" else None
    )
    shown = {"GET /jobs/{job}", "GET /jobs/{job}/why", "GET /jobs/{job}/when", "GET /jobs/{job}/story",
             "GET /jobs/{job}/neighbours"}  # fmt: skip
    assert answer.status_code == (200 if name in shown else 403)
    assert "secret" not in answer.text
    assert shared_rig.get(f"jobs/{job['id']}").json()["state"] == "pending"


def test_lists_contain_only_the_callers_tenant(rig: Rig) -> None:
    mine, theirs = rig.submit("bob")["id"], rig.submit("ann", name="their-name")["id"]
    rig.scheduler.move(theirs, "running")
    for path in ("jobs", "queue", "usage?by=job", "nodes", "events-never"):
        assert theirs not in rig.get(path, "bob").text
        assert "their-name" not in rig.get(path, "bob").text
    assert [job["id"] for job in rig.get("jobs", "bob").json()["items"]] == [mine]
    assert rig.get("jobs?tenant=a", "bob").status_code == 403
    assert rig.get("queue?tenant=a", "bob").status_code == 403
    assert rig.get("predictions?tenant=a", "bob").status_code == 403
    both = {job["id"] for job in rig.get("jobs", "root").json()["items"]}
    assert both == {mine, theirs}


def test_queue_position_counts_jobs_of_all_tenants(rig: Rig) -> None:
    rig.submit("ann")
    rig.submit("bob")
    page = rig.get("queue", "bob").json()
    assert [job["position"] for job in page["items"]] == [2]
    assert page["counts"]["pending"] == 1


def test_queue_has_held_jobs_of_the_own_tenant_only(rig: Rig) -> None:
    theirs, mine = (rig.submit(user)["id"] for user in ("ann", "bob"))
    for job in (theirs, mine):
        rig.scheduler.move(job, "held")
    (held,) = rig.get("queue", "bob").json()["held"]
    assert (held["id"], held["reason"]) == (mine, {"code": "held", "message": "suspected"})
    assert {one["id"] for one in rig.get("queue", "root").json()["held"]} == {theirs, mine}


def test_busy_card_hides_the_job_of_another_tenant(rig: Rig) -> None:
    job = rig.submit("ann", name="their-name")
    rig.scheduler.move(job["id"], "running")
    seen = {user: rig.get("nodes", user).json()["items"][0]["cards"][0] for user in ("ann", "bob", "root")}
    assert all(card["state"] == "busy" for card in seen.values())
    assert seen["bob"]["jobs"] == [{"id": None, "name": None, "user": None, "share": None}]
    assert seen["ann"]["jobs"][0]["id"] == seen["root"]["jobs"][0]["id"] == job["id"]


def test_card_processes_are_visible_to_administrators_only(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = {"power_w": 1.0, "processes": [{"pid": 1, "name": "their-program", "job": "x"}]}
    cards = [replace(card, sample=sample) for card in rig.scheduler.node_service.cards()]
    monkeypatch.setattr(rig.scheduler, "cards", lambda: cards)
    assert "their-program" not in rig.get("nodes").text
    assert rig.get("nodes").json()["items"][0]["cards"][0]["sample"] == {"power_w": 1.0}
    assert "their-program" in rig.get("nodes", "root").text


def test_what_if_names_own_jobs_and_counts_others(rig: Rig) -> None:
    theirs, mine = rig.submit("ann")["id"], rig.submit("bob")["id"]
    answer = rig.post("whatif", "bob", json={"file": JOB_FILE}).json()
    assert [delay["job"] for delay in answer["delayed"]] == answer["preempted"] == [mine]
    assert answer["others"] == 1
    assert theirs not in str(answer)


def test_submission_for_another_tenant_is_for_administrators_only(rig: Rig) -> None:
    answer = rig.post("jobs", "bob", json={"file": JOB_FILE | {"tenant": "a"}})
    assert answer.status_code == 403
    assert error_of(answer)["field"] == "tenant"
    job = rig.submit("root", tenant="a")
    assert (job["tenant"], job["user"]) == ("a", "root")


def test_resubmitted_job_of_another_user_stays_in_its_tenant(rig: Rig) -> None:
    job = rig.submit("bob")
    again = rig.post(f"jobs/{job['id']}/resubmit", "root").json()["jobs"][0]
    assert (again["tenant"], again["user"]) == ("b", "root")


def test_moved_user_loses_access_to_the_old_tenants_jobs(rig: Rig) -> None:
    job = rig.submit("ann")
    assert rig.call("PATCH", "users/ann", "root", json={"tenant": "b"}).status_code == 200
    assert rig.get(f"jobs/{job['id']}").status_code == 404
    assert rig.get("me").json()["tenant"] == "b"


def _target(name: str) -> tuple[str, str]:
    method, path, _ = ROUTES[name]
    return method, re.sub(r"\{(rule|notice)\}", "1", re.sub(r"\{(job|[a-z]+:path|node|name|token|window)\}", "x", path))


def _calls(dependant) -> set:
    return {dependant.call} | {call for dependency in dependant.dependencies for call in _calls(dependency)}
