"""Memory quota of a share on a physical card and on a virtual card."""

from __future__ import annotations

import pytest

from gpusquad.gpu.api import SharingParams
from gpusquad.gpu.attach.card_slices import place_on
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Share
from tests.gpu.attach.conftest import CARD, Place, attach, clients, holder


def test_share_without_memory_gets_the_same_fraction_as_sm(place: Place) -> None:
    quota = place.quota()
    quota.attach([CARD], holder("a"), Share(sm_milli=750), SharingParams())
    assert clients(quota)["a/0"]["quota_bytes"] == CARD.memory_bytes * 3 // 4
    with pytest.raises(Invalid, match="request less"):
        attach(quota, "b", 257)  # MiB, of 1,024
    attach(quota, "b", 256)


def test_share_of_only_a_device_slot_has_no_memory_quota(place: Place) -> None:
    quota = place.quota()
    quota.attach([CARD], holder("a"), Share(sm_milli=1), SharingParams())
    assert clients(quota)["a/0"]["quota_bytes"] == 0


def test_share_of_a_virtual_card_is_a_fraction_of_its_memory() -> None:
    second = place_on(Card(f"{CARD.id}.2of3", CARD.model, CARD.memory_bytes // 3, 16))
    assert second.quota_bytes(Share(sm_milli=500)) == CARD.memory_bytes // 3 // 2
    assert second.quota_bytes(Share(sm_milli=1)) == second.quota_bytes(None) == CARD.memory_bytes // 3
    assert place_on(CARD).quota_bytes(None) == 0
