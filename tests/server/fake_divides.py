"""Fake card daemons, and the contract of ``CardDivides``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.server.services.sharing.cards import CardDivides


class FakeDivides:
    """Fake of ``CardDivides``. A card is divided once ``start`` was called for it."""

    def __init__(self) -> None:
        self.absence = ""
        self.now: dict[str, str] = {}
        self.tenants: dict[str, list[dict[str, Any]]] = {}
        self.strangers: list[dict[str, Any]] = []
        self.sent: list[tuple[str, str]] = []
        self.fail: Exception | None = None
        self.why = "a is behind"
        self.hangs = ""
        """Message about a daemon that does not answer."""
        self.is_slow = False
        """Whether a new policy is accepted without taking effect yet."""

    def start(self, card: str, policy: str, *tenants: dict[str, Any]) -> None:
        self.now[card] = policy
        self.tenants[card] = list(tenants)

    def set(self, card: str, policy: str) -> None:
        if self.fail is not None:
            raise self.fail
        self.sent.append((card, policy))
        if card in self.now and not self.is_slow:
            self.now[card] = policy

    def policies(self) -> Mapping[str, str]:
        if self.fail is not None:
            raise self.fail
        return dict(self.now)

    def silence(self, card: str) -> str:
        return self.hangs

    def status(self, card: str) -> Mapping[str, Any] | None:
        if self.fail is not None:
            raise self.fail
        if card not in self.now:
            return None
        return {
            "policy": self.now[card], "groups": 15, "failure": "", "squads": 7, "configuration": "strict",
            "length_us": 2000, "why": self.why, "tenants": self.tenants[card], "strangers": self.strangers,
            "rule": "report", "mps": "one pool",
        }  # fmt: skip


def tenant(name: str, **facts: Any) -> dict[str, Any]:
    """Return one client's entry in a card daemon's status."""
    return {
        "id": name, "weight": 1.0, "priority": 0, "quota_bytes": 8 * 2**30, "slo": {"latency_us": 20_000}, "slot": 0,
        "is_idle": False, "attained_us": 5, "attainment": 0.97, "remaining_us": None, "wants_us": 9, "kernel_us": 3.0,
        "used_bytes": 2**30, "peak_bytes": 2**31, "processes": 1, "groups": 5, "gated": True, "credit_us": 400,
        "waiting": 1, "moves": 2, "waited_us": 1_500_000, "isolation": "shared", "note": "",
        "iterations_per_s": 12.5,
    } | facts  # fmt: skip


def check_divides(divides: CardDivides, card: str, other: str, settle: Callable[[], None] = lambda: None) -> None:
    """Check the contract. ``card`` is divided, ``other`` is known but undivided; ``settle`` applies changes."""
    assert divides.absence == ""
    divides.set(card, "jct")
    settle()
    assert divides.policies()[card] == "jct"
    divides.set(other, "slo")
    divides.set("nowhere", "slo")
    settle()
    assert divides.policies().keys() == {card}, "only divided cards are listed"
    assert divides.status(other) is None
    assert divides.status("nowhere") is None
    divides.set(card, "hybrid:alpha=0.5")
    settle()
    status = divides.status(card)
    assert status is not None
    assert status["policy"] == divides.policies()[card] == "hybrid:alpha=0.5"
    assert isinstance(status["tenants"], list)
