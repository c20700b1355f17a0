"""The look at a machine before anything is measured on it."""

from __future__ import annotations

import shutil

import pytest

from bench.card.check import WAYS, check
from bench.card.place import Place


def test_every_way_is_tried_and_what_does_not_work_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.card.check.Tenant", lambda name, _: _tenant(name))
    found = {one.what: one for one in check(place, tiny=True)}
    assert set(WAYS) <= set(found)
    assert [one for one in found.values() if not one.ok] == []
    assert "steps/s" in found["moving to two groups"].words


def test_a_machine_without_a_compiler_or_card_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = check(Place(card="GPU-nowhere", device="cuda", logs=place.logs), tiny=True)
    assert not next(found).ok
    next(found)
    assert not next(found).ok
    found.close()


def _tenant(name: str):
    from bench.card.stage import Tenant

    return Tenant(name, "sleeps")
