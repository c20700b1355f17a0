"""Tests for tenants, users and tokens."""

import pytest

from gpusquad.store import people
from gpusquad.store.errors import StoreConflict
from gpusquad.store.people import TenantRow, TokenRow, UserRow

PHYSICS = TenantRow("physics", 2.5, 4, 16, 60.0, 1000, "stop", "1001:1001", "high", True)
ADA = UserRow("ada", "physics", "admin")
BOB = UserRow("bob", "arts", disabled=True, max_priority="urgent", may_choose_lane=False)
TOKEN = TokenRow("01J", "ada", "laptop", "hash-of-it", ["read", "submit"], created_us=5, expires_us=100)


@pytest.fixture
def database_with_people(database):
    with database.write() as c:
        people.put_tenant(c, PHYSICS)
        people.put_tenant(c, TenantRow("arts"))
        people.put_user(c, ADA)
        people.put_user(c, BOB)
        people.add_token(c, TOKEN)
    return database


def test_tenants_users_and_tokens_round_trip_unchanged(database_with_people):
    with database_with_people.read() as c:
        assert people.tenant(c, "physics") == PHYSICS
        assert people.tenants(c) == [TenantRow("arts"), PHYSICS]
        assert people.user(c, "ada") == ADA
        assert people.users(c) == [ADA, BOB]
        assert people.users(c, "physics") == [ADA]
        assert people.token(c, "01J") == people.token_by_hash(c, "hash-of-it") == TOKEN
        assert people.tokens(c) == people.tokens(c, "ada") == [TOKEN]
        assert people.tokens(c, "bob") == []


def test_missing_rows_are_reported_as_missing(database_with_people):
    with database_with_people.write() as c:
        for lookup in (people.tenant, people.user, people.token, people.token_by_hash):
            assert lookup(c, "x") is None
        assert not people.remove_tenant(c, "x")
        assert not people.remove_user(c, "x")
        assert not people.revoke_token(c, "x", 1)
        people.touch_token(c, "x", 1)


def test_put_replaces_a_tenant_and_a_user(database_with_people):
    with database_with_people.write() as c:
        people.put_tenant(c, TenantRow("physics", weight=1.0))
        people.put_user(c, UserRow("ada", "arts", "viewer"))
        assert people.tenant(c, "physics") == TenantRow("physics", weight=1.0)
        assert people.users(c, "arts")[0] == UserRow("ada", "arts", "viewer")


def test_token_records_its_last_use_and_first_revocation(database_with_people):
    with database_with_people.write() as c:
        people.touch_token(c, "01J", 7)
        assert people.revoke_token(c, "01J", 8)
        assert not people.revoke_token(c, "01J", 9)
        token = people.token_by_hash(c, "hash-of-it")
    assert token is not None
    assert (token.last_used_us, token.revoked_us) == (7, 8)


def test_duplicate_token_hash_conflicts(database_with_people):
    with pytest.raises(StoreConflict), database_with_people.write() as c:
        people.add_token(c, TokenRow("01K", "bob", "", "hash-of-it", [], 1))


def test_tenant_with_users_cannot_be_removed(database_with_people):
    with pytest.raises(StoreConflict), database_with_people.write() as c:
        people.remove_tenant(c, "physics")


def test_tokens_are_removed_with_their_user(database_with_people):
    with database_with_people.write() as c:
        assert people.remove_user(c, "ada")
        assert people.tokens(c) == []
        assert people.remove_tenant(c, "physics")
