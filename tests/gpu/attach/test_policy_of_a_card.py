"""Divide policies, from the service's setting to a real daemon that divides a card among real processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.app.card_policies import SquadDivides
from gpusquad.gpu.attach import card_manager
from gpusquad.gpu.daemon.wire import SOCKET, ask
from gpusquad.server.answers import SYSTEM, CardStatus
from gpusquad.server.services.sharing.cards import CardService
from gpusquad.store.database import Database
from tests.gpu.attach.conftest import CARD, Place, attach, until
from tests.server.fake_divides import check_divides

OTHER = "GPU-99999999-2222-3333-4444-555555555555"
CARDS = [CardStatus(CARD.id, "n0", 0, CARD.model, CARD.memory_bytes, "shared")]
FOREVER = [["kernels", 10**6, "legacy", 0, "add", 200]]


class Service:
    """The part of the service that sets policies. A second instance stands for the service after a restart."""

    def __init__(self, place: Place, database: Database) -> None:
        self.mode = "equal"
        self.divides = SquadDivides()
        self.quota = place.quota(policy=self.divides.policy_of)
        self.divides.use(self.quota)
        self.service = CardService(database, lambda: 5, lambda: CARDS, lambda: self.mode, self.divides)
        self.divides.wanted = self.service.policy_of
        self.service.follow()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "store.db")
    database.migrate()
    yield database
    database.close()


def test_squad_divides_meets_the_divides_contract(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    divides = SquadDivides()
    divides.use(quota)
    check_divides(divides, CARD.id, OTHER)


def test_policy_changes_while_clients_run(place: Place, store: Database) -> None:
    service = Service(place, store)
    assert service.service.set("0", "jct", SYSTEM).effect == "unused"
    players = [place.player(attach(service.quota, name)) for name in ("a", "b")]
    for player in players:
        player.stage()
        player.send("stage.play(given)", FOREVER)
    assert service.service.get("0").division.effect == "live", "a new daemon did not read the policy"

    def squads() -> int:
        status = service.service.get("0").status
        assert status is not None
        return status["squads"]

    made = service.service.set("0", "priority", SYSTEM)
    assert (made.policy, made.effect) == ("priority", "live")
    before = squads()
    until(lambda: squads() > before + 3, "no further squad")
    status = service.service.get("0").status
    assert status is not None
    assert (status["policy"], status["failure"]) == ("priority", "")
    assert {client["job"] for client in status["tenants"]} == {"job-of-a", "job-of-b"}
    assert all(player.process.poll() is None for player in players)


def test_policy_survives_a_service_restart_and_a_daemon_crash(place: Place, store: Database) -> None:
    first = Service(place, store)
    attach(first.quota, "a")
    first.service.set("0", "slo", SYSTEM)
    again = Service(place, store)
    assert again.service.get("0").division.effect == "live"
    os.kill(ask(place.settings.card_folder(CARD.id) / SOCKET, {"do": "hello"})["pid"], signal.SIGKILL)
    until(lambda: again.service.get("0").status is None, "the daemon did not die")
    again.quota.maintain()
    assert again.divides.policies() == {CARD.id: "slo"}


def test_card_without_a_policy_follows_the_mode(place: Place, store: Database) -> None:
    service = Service(place, store)
    attach(service.quota, "a")
    assert service.divides.policies() == {CARD.id: "equal"}
    service.mode = "jct"
    service.service.follow()
    assert service.divides.policies() == {CARD.id: "jct"}
    service.service.set("0", "slo", SYSTEM)
    service.mode = "hybrid"
    service.service.follow()
    assert service.divides.policies() == {CARD.id: "slo"}
    service.service.set("0", None, SYSTEM)
    assert service.divides.policies() == {CARD.id: "hybrid"}


def test_hanging_daemon_is_reported_and_gets_the_policy_when_it_continues(place: Place, store: Database) -> None:
    service = Service(place, store)
    attach(service.quota, "a")
    pid = ask(place.settings.card_folder(CARD.id) / SOCKET, {"do": "hello"})["pid"]
    lock = service.quota._known(CARD.id).lock
    maintenance = threading.Thread(target=service.quota.maintain)

    def is_locked() -> bool:
        if lock.acquire(blocking=False):
            lock.release()
            return False
        return True

    os.kill(pid, signal.SIGSTOP)
    try:
        for policy in ("slo", "jct"):
            from_s = time.monotonic()
            made = service.service.set("0", policy, SYSTEM)
            assert time.monotonic() - from_s < 4.0
            assert (made.effect, made.policy) == ("told", policy)
            assert f"process {pid}" in made.message
            shown = service.service.get("0")
            assert (shown.division.effect, shown.status) == ("told", None)
            if not maintenance.ident:
                maintenance.start()  # it holds the card's lock while it waits for the daemon
                until(is_locked, "maintenance does not hold the card's lock")
    finally:
        os.kill(pid, signal.SIGCONT)
    maintenance.join(60)
    assert service.divides.policies() == {CARD.id: "jct"}
    assert service.service.get("0").division.effect == "live"
    assert service.quota.policies() == {CARD.id: "jct"}


def test_policy_set_during_another_change_is_applied_next(place: Place, monkeypatch) -> None:
    quota = place.quota()
    attach(quota, "a")
    divides, is_called, may_answer = SquadDivides(), threading.Event(), threading.Event()
    divides.use(quota)
    real = card_manager.ask

    def ask_slowly(socket: Path, question: dict, *rest: float) -> dict:
        if question.get("policy") == "jct":
            is_called.set()
            assert may_answer.wait(10)
        return real(socket, question, *rest)

    monkeypatch.setattr(card_manager, "ask", ask_slowly)
    first = threading.Thread(target=divides.set, args=(CARD.id, "jct"))
    first.start()
    assert is_called.wait(10)
    divides.set(CARD.id, "slo")
    may_answer.set()
    first.join()
    quota.maintain()
    assert divides.policies()[CARD.id] == "slo"
