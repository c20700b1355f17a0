"""Cards with real daemons, and GPU clients that are real processes on a stand-in driver."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gpusquad.gpu.api import Attachment, CardSharing, Holder, SharingParams
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from tests.gpu.attach.fake_mps import FakeMps, mps_for_the_driver
from tests.gpu.shim.clients import REAL_CARD, Peer
from tests.gpu.shim.conftest import built as built
from tests.gpu.shim.conftest import driver as driver
from tests.gpu.shim.conftest import kept
from tests.gpu.shim.conftest import library as library
from tests.gpu.shim.players import Player

MIB = 1 << 20
CARD = Card(REAL_CARD or "GPU-11111111-2222-3333-4444-555555555555", "stand-in", 1024 * MIB, 64)
LONGEST_S = 60.0


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until the condition holds. Only a failing test waits for ``LONGEST_S``."""
    end_s = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


@dataclass
class Place:
    """Attaches and starts GPU clients for a test, and ends everything that it started."""

    settings: CardSharingSettings
    environment: dict[str, str]
    quotas: list[SquadQuota] = field(default_factory=list)
    programs: list[Peer | Player] = field(default_factory=list)

    def quota(self, fallback: CardSharing | None = None, **other: object) -> SquadQuota:
        """A new quota, as after a restart of the service."""
        self.quotas.append(SquadQuota(replace(self.settings, **other), [CARD], fallback))
        return self.quotas[-1]

    def peer(self, attachment: Attachment) -> Peer:
        self.programs.append(made := Peer(self._env(attachment)))
        return made

    def player(self, attachment: Attachment) -> Player:
        self.programs.append(made := Player(self._env(attachment)))
        return made

    def _env(self, attachment: Attachment) -> dict[str, str]:
        return {**self.environment, **attachment.env}

    def close(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        for quota in self.quotas:
            for card in quota.policies():
                quota.stop(card)


@pytest.fixture
def place(tmp_path: Path, library: Path, driver: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="gs-") as short:  # a socket name has at most 107 characters
        made = _place(Path(short), tmp_path, library, driver)
        yield made
        made.close()


def _place(short: Path, tmp_path: Path, library: Path, driver: Path) -> Place:
    settings = CardSharingSettings(
        folder=short / "run",
        library=library,
        library_folder=tmp_path / "lib",
        has_mps=False,
        idle_s=LONGEST_S,
        context_bytes=0,
    )
    environment = {
        **kept(),
        "LD_LIBRARY_PATH": str(driver),
        "STANDIN_CARD": str(tmp_path / "card"),
        "STANDIN_SMS": str(CARD.sms),
    }
    return Place(settings, environment)


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    return mps_for_the_driver(tmp_path / "fake-mps", monkeypatch)


def attach(
    quota: SquadQuota,
    owner: str,
    memory_mib: int = 100,
    sharing_params: SharingParams | None = None,
    run_as: tuple[int, int] | None = None,
    **share: object,
) -> Attachment:
    wanted = Share(memory_bytes=memory_mib * MIB, **share)  # type: ignore[arg-type]
    return quota.attach([CARD], holder(owner, run_as), wanted, sharing_params or SharingParams())


def holder(owner: str, run_as: tuple[int, int] | None = None) -> Holder:
    return Holder(owner, "0", f"job-of-{owner}", run_as)


def clients(quota: SquadQuota) -> Mapping[str, dict]:
    status = quota.status(CARD.id)
    return {client["id"]: client for client in status["tenants"]}  # type: ignore[attr-defined]
