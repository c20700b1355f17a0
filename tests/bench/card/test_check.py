"""Tests of the check of a machine before a measurement."""

from __future__ import annotations

import shutil

import pytest

from bench.card.check import WAYS, check
from bench.card.place import Place


def test_check_tries_every_way_to_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.card.check.Tenant", lambda name, _: _tenant(name))
    found = {item.what: item for item in check(place, tiny=True)}
    assert set(WAYS) <= set(found)
    assert [item for item in found.values() if not item.ok] == []
    assert "steps/s" in found["moving to two groups"].words


def test_missing_compiler_and_card_are_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = check(Place(card="GPU-nowhere", device="cuda", logs=place.logs), tiny=True)
    assert not next(found).ok
    next(found)
    assert not next(found).ok
    found.close()


def _tenant(name: str):
    from bench.card.stage import Tenant

    return Tenant(name, "sleeps")
