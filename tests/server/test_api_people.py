"""API of tenants, users, secrets, notices, nodes, policies, usage and audit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.server import secrets as secrets_module
from gpusquad.server.audit import redacted
from gpusquad.server.errors import NotFound
from gpusquad.server.secrets import MAX_BYTES, SecretStore
from gpusquad.store import attempts, notices, samples
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.samples import SampleRow
from tests.server.rig import Rig, error_of

VALUE = "very-secret-value"


# -- tenants and users ---------------------------------------------------------------------------------------------


def test_tenants_are_created_changed_and_listed(rig: Rig) -> None:
    assert rig.post("tenants", "root", json={"name": "new", "weight": 2}).status_code == 201
    assert rig.post("tenants", "root", json={"name": "new"}).status_code == 409
    answer = rig.call("PUT", "tenants/new", "root", json={"limit_gpus": 4}).json()
    assert (answer["limit_gpus"], answer["weight"]) == (4, 1.0)
    assert rig.scheduler.tenants_read == 2
    assert {row["name"] for row in rig.get("tenants", "root").json()["items"]} == {"a", "b", "default", "new"}
    assert [row["name"] for row in rig.get("tenants").json()["items"]] == ["a"]
    assert rig.call("PUT", "tenants/new", "root", json={"limit_gpus": 1, "guaranteed_gpus": 2}).status_code == 422


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a b", ".x", "x" * 64, "é", "a\n"])
def test_tenant_name_unfit_for_a_folder_is_refused(shared_rig: Rig, name: str) -> None:
    assert shared_rig.post("tenants", "root", json={"name": name}).status_code == 422


def test_users_are_created_changed_and_listed(rig: Rig) -> None:
    assert rig.post("users", "root", json={"name": "new", "tenant": "a"}).json()["role"] == "member"
    assert rig.post("users", "root", json={"name": "new", "tenant": "a"}).status_code == 409
    assert rig.post("users", "root", json={"name": "x", "tenant": "none"}).status_code == 422
    assert rig.call("PATCH", "users/new", "root", json={"role": "viewer"}).json()["role"] == "viewer"
    assert rig.call("PATCH", "users/nobody", "root", json={"role": "viewer"}).status_code == 404
    assert {row["name"] for row in rig.get("users", "bob").json()["items"]} == {"bob"}


@pytest.mark.parametrize("change", [{"role": "member"}, {"disabled": True}])
def test_last_administrator_cannot_be_demoted_or_disabled(rig: Rig, change: dict) -> None:
    assert rig.call("PATCH", "users/root", "root", json=change).status_code == 409
    assert rig.get("me", "root").json()["is_admin"] is True
    rig.call("PATCH", "users/ann", "root", json={"role": "admin"})
    assert rig.call("PATCH", "users/root", "root", json=change).status_code == 200


# -- secrets -------------------------------------------------------------------------------------------------------


def test_secret_values_are_never_returned(rig: Rig) -> None:
    assert rig.call("PUT", "secrets/KEY", json={"value": VALUE}).json() == {"name": "KEY"}
    assert rig.secrets.read("a", "KEY") == VALUE
    job = rig.submit(secrets=["KEY"])["id"]
    seen = "".join(
        rig.get(path, "root").text
        for path in (
            "secrets",
            "audit",
            "jobs",
            "queue",
            f"jobs/{job}",
            f"jobs/{job}/source",
            f"jobs/{job}/story",
            "nodes",
        )
    )
    assert VALUE not in seen
    assert "secret.set" in seen
    assert rig.get("secrets").json()["items"] == [{"name": "KEY"}]


def test_secrets_belong_to_the_tenant(rig: Rig) -> None:
    rig.call("PUT", "secrets/KEY", json={"value": VALUE})
    assert rig.get("secrets", "amy").json()["items"] == [{"name": "KEY"}]
    assert rig.get("secrets", "bob").json()["items"] == []
    assert rig.get("secrets?tenant=a", "bob").status_code == 403
    assert rig.call("DELETE", "secrets/KEY", "bob").status_code == 404
    assert rig.get("secrets", "vic").status_code == 403
    assert rig.get("secrets?tenant=a", "root").json()["items"] == [{"name": "KEY"}]
    assert rig.call("DELETE", "secrets/KEY").status_code == 204
    assert rig.secrets.names("a") == []


def test_secret_files_are_readable_by_the_service_only(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    before = os.umask(0)
    try:
        store.put("a", "KEY", VALUE)
    finally:
        os.umask(before)
    path = tmp_path / "secrets" / "a" / "KEY"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in path.parents[:2]} == {0o700}
    store.put("a", "KEY", "other")
    assert store.read("a", "KEY") == "other"
    assert [entry.name for entry in path.parent.iterdir()] == ["KEY"]


@pytest.mark.parametrize("name", ["../b/KEY", "..", ".", "", "a/b", ".hidden", "x" * 129, "KEY\n", "é"])
def test_secret_names_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    store = SecretStore(tmp_path)
    for call in (lambda: store.put("a", name, "v"), lambda: store.read("a", name), lambda: store.put(name, "KEY", "v")):
        with pytest.raises(Invalid):
            call()
    assert list(tmp_path.rglob("*")) == []


def test_secrets_are_limited_in_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SecretStore(tmp_path)
    store.put("a", "KEY", "é" * (MAX_BYTES // 2))
    for value in ("é" * (MAX_BYTES // 2) + "x", "nul\0", "\ud800"):
        with pytest.raises(Invalid):
            store.put("a", "KEY", value)
    monkeypatch.setattr(secrets_module, "MAX_PER_TENANT", 1)
    store.put("a", "KEY", "again")
    with pytest.raises(Exception, match="already"):
        store.put("a", "KEY2", "one too many")
    with pytest.raises(NotFound):
        store.remove("a", "NONE")
    with pytest.raises(Invalid):
        store.read("a", "NONE")


def test_full_disk_keeps_the_old_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SecretStore(tmp_path)
    store.put("a", "KEY", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Exception, match="No space left"):
        store.put("a", "KEY", "new")
    assert store.read("a", "KEY") == "old"
    assert len(list((tmp_path / "secrets" / "a").iterdir())) == 1


# -- notices -------------------------------------------------------------------------------------------------------

URL = "slack://TokenA/TokenB/TokenC"


def test_notice_rules_hide_their_secrets(rig: Rig) -> None:
    made = rig.post("notices/rules", json={"kinds": ["failed", "finished"], "url": URL, "label": "chat"})
    assert made.status_code == 201
    seen = made.text + rig.get("notices/rules").text + rig.get("audit", "root").text
    assert "TokenB" not in seen
    assert "slack://" in seen
    assert rig.get("notices/rules", "amy").json()["items"] == []
    number = made.json()["id"]
    assert rig.call("DELETE", f"notices/rules/{number}", "amy").status_code == 404
    assert rig.post("notices/test", "amy", json={"rule": number}).status_code == 404
    assert rig.post("notices/test", json={"rule": str(number)}).json() == {"ok": True, "error": ""}
    assert rig.notices.tested == [URL]
    assert rig.call("DELETE", f"notices/rules/{number}").status_code == 204


@pytest.mark.parametrize(
    "body",
    [{"kinds": ["nope"], "url": URL}, {"kinds": [], "url": URL}, {"kinds": ["failed"], "url": "json://10.0.0.1/"}],
)
def test_invalid_notice_rule_is_refused(shared_rig: Rig, body: dict) -> None:
    assert shared_rig.post("notices/rules", json=body).status_code == 422
    assert shared_rig.post("notices/test", json={"url": "json://10.0.0.1/"}).status_code == 422
    assert shared_rig.post("notices/test", json={}).status_code == 422


def test_dead_notice_is_retried_by_its_owner(rig: Rig) -> None:
    rule = rig.post("notices/rules", json={"kinds": ["failed"], "url": URL}).json()["id"]
    with rig.database.write() as c:
        number = notices.add(c, rule, "j", "failed", "title", "body", 1)
    assert rig.post(f"notices/{number}/retry").status_code == 409
    with rig.database.write() as c:
        notices.failed(c, number, "no answer", None)
    shown = rig.get("notices/outbox?state=dead").json()["items"]
    assert [(row["id"], row["error"]) for row in shown] == [(number, "no answer")]
    assert rig.get("notices/outbox", "amy").json()["items"] == []
    assert rig.post(f"notices/{number}/retry", "amy").status_code == 404
    assert rig.post(f"notices/{number}/retry").json() == {"ok": True}
    assert rig.notices.woken == 1


# -- nodes, policies, usage ----------------------------------------------------------------------------------------


def test_nodes_are_drained_and_cards_cordoned(rig: Rig) -> None:
    assert rig.post("nodes/node0/drain", "root", json={"cause": "dust"}).json() == {"ok": True}
    assert rig.get("nodes").json()["items"][0]["up"] is False
    assert rig.post("nodes/node0/undrain", "root").status_code == 200
    assert rig.post("nodes/none/drain", "root").status_code == 404
    for card in ("node0/3", "node0%2F3"):
        assert rig.post(f"cards/{card}/cordon", "root", json={"cause": "hot"}).status_code == 200
        assert rig.post(f"cards/{card}/uncordon", "root").status_code == 200
    assert rig.post("cards/node9/9/cordon", "root").status_code == 404
    targets = [row["target"] for row in rig.get("audit?action=card.cordon", "root").json()["items"]]
    assert targets == ["node0/3", "node0/3"]


def test_maintenance_windows_are_added_and_removed(rig: Rig) -> None:
    body = {"nodes": ["node0"], "start_s": 100.0, "end_s": 200.0, "cause": "firmware"}
    made = rig.post("windows", "root", json=body)
    assert made.status_code == 201
    assert rig.get("windows").json()["items"] == [made.json()]
    assert rig.post("windows", "root", json=body | {"end_s": 100.0}).status_code == 422
    assert rig.post("windows", "root", json=body | {"nodes": []}).status_code == 422
    assert rig.call("DELETE", f"windows/{made.json()['id']}", "root").status_code == 204
    assert rig.call("DELETE", f"windows/{made.json()['id']}", "root").status_code == 404


def test_policy_is_set_previewed_and_recorded(rig: Rig) -> None:
    assert rig.call("PUT", "policy", "root", json={"mode": "fair", "note": "for the week"}).json()["mode"] == "fair"
    answer = rig.get("policy/revisions").json()["items"]
    assert [(row["by"], row["settings"], row["note"]) for row in answer] == [("root", {"mode": "fair"}, "for the week")]
    assert rig.call("PUT", "policy", "root", json={"mode": "nope"}).status_code == 422
    assert error_of(rig.call("PUT", "policy", "root", json={"note": "nothing"}))["field"] == "body"
    assert rig.post("policy/preview", "root", json={"mode": "slo"}).json()["moved"][0]["after_s"] is None
    assert rig.get("policy").json()["mode"] == "fair"


def test_samples_of_a_card_are_listed(rig: Rig) -> None:
    now_us = rig.clock.now_us()
    with rig.database.write() as c:
        samples.append(c, now_us - 10, [SampleRow("node0/1", busy_ratio=0.5)])
    answer = rig.get("cards/node0/1/samples").json()["items"]
    assert [row["utilisation_ratio"] for row in answer] == [0.5]
    assert rig.get("cards/node0/99/samples").status_code == 404


def test_usage_contains_only_the_callers_tenant(rig: Rig) -> None:
    now_us = rig.clock.now_us()
    with rig.database.write() as c:
        for tenant in ("a", "b"):
            attempts.open(c, AttemptRow(f"job-{tenant}", 0, tenant, tenant, now_us - 3600 * 10**6, now_us, 2000))
    assert [row["key"] for row in rig.get("usage").json()["items"]] == ["a"]
    answer = rig.get("usage?by=job", "root").json()["items"]
    assert [(row["key"], row["gpu_hours"]) for row in answer] == [("job-a", 2.0), ("job-b", 2.0)]
    assert rig.get("usage?by=job", "bob").json()["items"] == answer[1:]


# -- audit ---------------------------------------------------------------------------------------------------------


def test_audit_data_has_no_secrets_and_is_bounded() -> None:
    data = {
        "value": VALUE, "api_key": VALUE, "nested": [{"Password": VALUE, "plain": 1}], "long": "x" * 10_000,
        "many": list(range(1000)), "deep": [[[[[[[1]]]]]]], "url": "slack://x", "empty_token": "",
    }  # fmt: skip
    stored = redacted(data)
    assert VALUE not in str(stored)
    assert stored["nested"][0]["plain"] == 1
    assert len(str(stored)) < 2000


def test_audit_is_paged_and_filtered(rig: Rig) -> None:
    for name in ("t1", "t2", "t3"):
        rig.post("tenants", "root", json={"name": name})
    first = rig.get("audit?limit=2", "root").json()
    second = rig.get(f"audit?limit=2&cursor={first['next']}", "root").json()
    assert [row["target"] for row in first["items"] + second["items"]] == ["t3", "t2", "t1"]
    assert [row["target"] for row in rig.get("audit?target=t2", "root").json()["items"]] == ["t2"]
    assert rig.get("audit?actor=ann", "root").json()["items"] == []
