"""Tokens: creation, scopes, expiry, revocation and the first administrator token."""

from __future__ import annotations

import re
import stat
import threading
from pathlib import Path

import pytest

from gpusquad.model.units import US_PER_S
from gpusquad.server.auth import Auth, hash_of, new_token, token_in
from gpusquad.server.first_token import ensure_admin_token
from gpusquad.store import people
from gpusquad.store.database import Database
from tests.server.rig import Rig, error_of


def test_new_tokens_are_unique_and_have_the_token_format() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"gsq_[a-z2-7]{52}", token) for token in tokens)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic abc", "Bearer gsq_" + "a" * 51, "gsq_" + "a" * 52])
def test_invalid_header_has_no_token(header: str) -> None:
    assert token_in(header) is None


def test_only_the_hash_of_a_token_is_stored(rig: Rig, tmp_path: Path, sqlite_folder: Path) -> None:
    token = rig.post("tokens", json={}).json()["token"]
    files = [path.read_bytes() for home in (tmp_path, sqlite_folder) for path in home.rglob("*") if path.is_file()]
    assert any(hash_of(token).encode() in data for data in files)
    assert not any(token.encode() in data for data in files)


# -- creation ------------------------------------------------------------------------------------------------------


def test_new_token_works_and_is_shown_once(rig: Rig) -> None:
    made = rig.post("tokens", json={"label": "laptop"}).json()
    me = rig.get("me", token=made["token"]).json()
    assert (me["user"], me["scopes"], me["token"]["label"]) == ("ann", ["read", "submit"], "laptop")
    assert made["token"] not in rig.get("tokens").text
    assert made["token"] not in rig.get("audit", "root").text


def test_token_cannot_create_a_token_with_more_scopes(rig: Rig) -> None:
    reads = rig.token("ann", ["read"])
    assert rig.post("tokens", token=reads, json={}).json()["scopes"] == ["read"]
    for body in ({"scopes": ["submit"]}, {"scopes": ["admin"]}):
        answer = rig.post("tokens", token=reads, json=body)
        assert answer.status_code == 403
        assert error_of(answer)["field"] == "scopes"
    assert rig.post("tokens", "ann", json={"scopes": ["admin"]}).status_code == 403
    assert rig.post("tokens", "root", json={"user": "vic", "scopes": ["submit"]}).status_code == 403


def test_token_cannot_create_a_token_that_expires_later(rig: Rig) -> None:
    end_us = rig.clock.now_us() + 100 * US_PER_S
    short = rig.token("ann", expires_us=end_us)
    later_s = end_us / US_PER_S + 1000
    for body in ({}, {"expires_s": later_s}):
        assert rig.post("tokens", token=short, json=body).json()["expires_s"] == pytest.approx(end_us / US_PER_S)
    assert rig.post("tokens", json={"expires_s": 1.0}).status_code == 422


def test_tokens_of_other_users_are_for_administrators_only(rig: Rig) -> None:
    assert rig.post("tokens", "ann", json={"user": "amy"}).status_code == 403
    assert rig.post("tokens", "ann", json={"user": "nobody"}).status_code == 403
    made = rig.post("tokens", "root", json={"user": "amy"}).json()
    assert rig.get("me", token=made["token"]).json()["user"] == "amy"
    assert {row["user"] for row in rig.get("tokens", "ann").json()["items"]} == {"ann"}
    assert rig.call("DELETE", f"tokens/{made['id']}", "ann").status_code == 404
    assert rig.call("DELETE", f"tokens/{made['id']}", "amy").status_code == 204


def test_token_for_a_user_that_does_not_exist_names_the_command_that_adds_one(rig: Rig) -> None:
    answer = rig.post("tokens", "root", json={"user": "nosuch"})
    assert answer.status_code == 404
    assert error_of(answer) == {
        "code": "not_found", "message": "there is no user nosuch", "field": "user",
        "cure": "add the user first: gpusquad user add nosuch",
    }  # fmt: skip
    assert "nosuch" not in rig.post("tokens", "ann", json={"user": "nosuch"}).text, "only administrators see users"


# -- revocation and expiry -----------------------------------------------------------------------------------------


def test_revoked_token_is_rejected_immediately(rig: Rig) -> None:
    made = rig.post("tokens", json={}).json()
    assert rig.get("me", token=made["token"]).status_code == 200
    assert rig.call("DELETE", f"tokens/{made['id']}").status_code == 204
    assert rig.get("me", token=made["token"]).status_code == 401
    shown = {row["id"]: row for row in rig.get("tokens").json()["items"]}
    assert shown[made["id"]]["revoked_s"] is not None


def test_expired_token_is_rejected_even_if_cached(rig: Rig) -> None:
    now_us = 1_000 * US_PER_S
    auth = Auth(rig.database, lambda: now_us)
    token = rig.token("ann", expires_us=now_us + 1)
    assert auth.identify(token) is not None
    assert auth.remembered(token) is not None
    now_us += 1
    assert auth.remembered(token) is None
    assert auth.identify(token) is None


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "viewer"}, {"tenant": "b"}])
def test_change_of_a_user_applies_immediately(rig: Rig, change: dict) -> None:
    before = rig.get("me").json()
    rig.call("PATCH", "users/ann", "root", json=change)
    after = rig.get("me")
    assert after.status_code == (401 if "disabled" in change else 200)
    assert after.json() != before


def test_token_cache_saves_queries_and_expires(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, queries = 0.0, []
    auth = Auth(rig.database, rig.clock.now_us, ttl_s=30, monotonic_s=lambda: now_s)
    monkeypatch.setattr(
        people, "token_by_hash", lambda c, key, real=people.token_by_hash: queries.append(key) or real(c, key)
    )
    token = rig.tokens["ann"]
    assert auth.remembered(token) is None
    auth.identify(token)
    for _ in range(5):
        assert auth.remembered(token) is not None
    assert len(queries) == 1
    now_s = 30.0
    assert auth.remembered(token) is None


def test_token_revoked_during_its_lookup_is_not_cached(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    token = rig.token("ann")
    real = people.token_by_hash

    def lookup_with_revocation(c, key):
        row = real(c, key)
        thread = threading.Thread(target=rig.auth.forget)
        thread.start()
        thread.join()
        return row

    monkeypatch.setattr(people, "token_by_hash", lookup_with_revocation)
    rig.auth.identify(token)
    assert rig.auth.remembered(token) is None


def test_last_use_of_a_token_is_recorded_periodically(rig: Rig) -> None:
    now_us = rig.clock.now_us()
    auth = Auth(rig.database, lambda: now_us)
    token = rig.token("ann")

    def last_used_us() -> int | None:
        with rig.database.read() as c:
            row = people.token_by_hash(c, hash_of(token))
        assert row is not None
        return row.last_used_us

    auth.identify(token)
    first = last_used_us()
    now_us += US_PER_S
    auth.identify(token)
    assert last_used_us() == first
    now_us += 600 * US_PER_S
    auth.identify(token)
    assert last_used_us() == now_us


# -- first administrator token -------------------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path):
    database = Database(tmp_path / "fresh.db")
    database.migrate()
    yield tmp_path / "home", database
    database.close()


def test_first_start_creates_an_administrator_token(fresh) -> None:
    home, database = fresh
    path = ensure_admin_token(home, database, lambda: 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    caller = Auth(database, lambda: 2).identify(path.read_text().strip())
    assert caller is not None
    assert caller.who.is_admin
    assert [entry.name for entry in home.iterdir()] == ["token"]


def test_later_start_keeps_the_token(fresh) -> None:
    home, database = fresh
    path = ensure_admin_token(home, database, lambda: 1)
    first = path.read_text()
    path.chmod(0o644)
    ensure_admin_token(home, database, lambda: 2)
    assert path.read_text() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, "", "gsq_" + "a" * 52, "\xff"])
def test_lost_token_is_replaced_and_the_old_one_is_rejected(fresh, content: str | None) -> None:
    home, database = fresh
    path = ensure_admin_token(home, database, lambda: 1)
    first = path.read_text().strip()
    path.unlink()
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    ensure_admin_token(home, database, lambda: 2)
    auth = Auth(database, lambda: 3)
    assert auth.identify(first) is None
    assert auth.identify(path.read_text().strip()) is not None


def test_symlink_is_replaced_and_not_followed(fresh, tmp_path: Path) -> None:
    home, database = fresh
    home.mkdir(mode=0o700)
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (home / "token").symlink_to(target)
    ensure_admin_token(home, database, lambda: 1)
    assert target.read_text() == "precious"
    assert not (home / "token").is_symlink()
