"""Tokens: what they are worth, for how long, and to whom."""

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


def test_tokens_are_random_and_look_alike() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"gsq_[a-z2-7]{52}", token) for token in tokens)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic abc", "Bearer gsq_" + "a" * 51, "gsq_" + "a" * 52])
def test_what_cannot_be_a_token_is_none(header: str) -> None:
    assert token_in(header) is None


def test_only_the_hash_is_kept(rig: Rig, tmp_path: Path) -> None:
    token = rig.post("tokens", json={}).json()["token"]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(hash_of(token).encode() in data for data in files)
    assert not any(token.encode() in data for data in files)


# -- made ----------------------------------------------------------------------------------------------------------


def test_a_token_works_and_is_shown_once(rig: Rig) -> None:
    made = rig.post("tokens", json={"label": "laptop"}).json()
    me = rig.get("me", token=made["token"]).json()
    assert (me["user"], me["scopes"], me["token"]["label"]) == ("ann", ["read", "submit"], "laptop")
    assert made["token"] not in rig.get("tokens").text
    assert made["token"] not in rig.get("audit", "root").text


def test_a_token_gives_no_more_than_it_has(rig: Rig) -> None:
    reads = rig.token("ann", ["read"])
    assert rig.post("tokens", token=reads, json={}).json()["scopes"] == ["read"]
    for body in ({"scopes": ["submit"]}, {"scopes": ["admin"]}):
        answer = rig.post("tokens", token=reads, json=body)
        assert answer.status_code == 403
        assert error_of(answer)["field"] == "scopes"
    assert rig.post("tokens", "ann", json={"scopes": ["admin"]}).status_code == 403
    assert rig.post("tokens", "root", json={"user": "vic", "scopes": ["submit"]}).status_code == 403


def test_a_token_makes_none_that_outlives_it(rig: Rig) -> None:
    end_us = rig.clock.now_us() + 100 * US_PER_S
    short = rig.token("ann", expires_us=end_us)
    later_s = end_us / US_PER_S + 1000
    for body in ({}, {"expires_s": later_s}):
        assert rig.post("tokens", token=short, json=body).json()["expires_s"] == pytest.approx(end_us / US_PER_S)
    assert rig.post("tokens", json={"expires_s": 1.0}).status_code == 422


def test_tokens_of_others_are_for_administrators(rig: Rig) -> None:
    assert rig.post("tokens", "ann", json={"user": "amy"}).status_code == 403
    assert rig.post("tokens", "ann", json={"user": "nobody"}).status_code == 403
    made = rig.post("tokens", "root", json={"user": "amy"}).json()
    assert rig.get("me", token=made["token"]).json()["user"] == "amy"
    assert {one["user"] for one in rig.get("tokens", "ann").json()["items"]} == {"ann"}
    assert rig.call("DELETE", f"tokens/{made['id']}", "ann").status_code == 404
    assert rig.call("DELETE", f"tokens/{made['id']}", "amy").status_code == 204


# -- no longer worth anything --------------------------------------------------------------------------------------


def test_revoked_is_out_at_once(rig: Rig) -> None:
    made = rig.post("tokens", json={}).json()
    assert rig.get("me", token=made["token"]).status_code == 200
    assert rig.call("DELETE", f"tokens/{made['id']}").status_code == 204
    assert rig.get("me", token=made["token"]).status_code == 401
    shown = {one["id"]: one for one in rig.get("tokens").json()["items"]}
    assert shown[made["id"]]["revoked_s"] is not None


def test_expired_is_out_even_if_remembered(rig: Rig) -> None:
    now_us = 1_000 * US_PER_S
    auth = Auth(rig.database, lambda: now_us)
    token = rig.token("ann", expires_us=now_us + 1)
    assert auth.identify(token) is not None
    assert auth.remembered(token) is not None
    now_us += 1
    assert auth.remembered(token) is None
    assert auth.identify(token) is None


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "viewer"}, {"tenant": "b"}])
def test_a_changed_user_is_another_caller_at_once(rig: Rig, change: dict) -> None:
    before = rig.get("me").json()
    rig.call("PATCH", "users/ann", "root", json=change)
    after = rig.get("me")
    assert after.status_code == (401 if "disabled" in change else 200)
    assert after.json() != before


def test_memory_saves_queries_and_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, asked = 0.0, []
    auth = Auth(rig.database, rig.clock.now_us, ttl_s=30, monotonic_s=lambda: now_s)
    monkeypatch.setattr(
        people, "token_by_hash", lambda c, key, real=people.token_by_hash: asked.append(key) or real(c, key)
    )
    token = rig.tokens["ann"]
    assert auth.remembered(token) is None
    auth.identify(token)
    for _ in range(5):
        assert auth.remembered(token) is not None
    assert len(asked) == 1
    now_s = 30.0
    assert auth.remembered(token) is None


def test_revoked_while_it_was_looked_up_is_not_remembered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    token = rig.token("ann")
    real = people.token_by_hash

    def meanwhile(c, key):
        row = real(c, key)
        thread = threading.Thread(target=rig.auth.forget)
        thread.start()
        thread.join()
        return row

    monkeypatch.setattr(people, "token_by_hash", meanwhile)
    rig.auth.identify(token)
    assert rig.auth.remembered(token) is None


def test_use_is_noted_now_and_then(rig: Rig) -> None:
    now_us = rig.clock.now_us()
    auth = Auth(rig.database, lambda: now_us)
    token = rig.token("ann")

    def used() -> int | None:
        with rig.database.read() as c:
            row = people.token_by_hash(c, hash_of(token))
        assert row is not None
        return row.last_used_us

    auth.identify(token)
    first = used()
    now_us += US_PER_S
    auth.identify(token)
    assert used() == first
    now_us += 600 * US_PER_S
    auth.identify(token)
    assert used() == now_us


# -- the first one -------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path):
    database = Database(tmp_path / "fresh.db")
    database.migrate()
    yield tmp_path / "home", database
    database.close()


def test_first_start_makes_an_administrator(fresh) -> None:
    home, database = fresh
    path = ensure_admin_token(home, database, lambda: 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    caller = Auth(database, lambda: 2).identify(path.read_text().strip())
    assert caller is not None
    assert caller.who.is_admin
    assert [entry.name for entry in home.iterdir()] == ["token"]


def test_later_starts_leave_it_alone(fresh) -> None:
    home, database = fresh
    path = ensure_admin_token(home, database, lambda: 1)
    first = path.read_text()
    path.chmod(0o644)
    ensure_admin_token(home, database, lambda: 2)
    assert path.read_text() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, "", "gsq_" + "a" * 52, "\xff"])
def test_a_lost_token_is_replaced_and_the_old_one_dies(fresh, content: str | None) -> None:
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


def test_a_link_is_not_followed(fresh, tmp_path: Path) -> None:
    home, database = fresh
    home.mkdir(mode=0o700)
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (home / "token").symlink_to(target)
    ensure_admin_token(home, database, lambda: 1)
    assert target.read_text() == "precious"
    assert not (home / "token").is_symlink()
