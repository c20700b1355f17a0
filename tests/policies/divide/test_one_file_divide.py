"""A divide policy with its own memory is one file: the model, the daemon and the other policies do not change."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gpusquad import registry
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.model.squad import DivideState
from tests.gpu.daemon.card_sim import CardSim
from tests.gpu.daemon.loads import CARD, batch
from tests.policies.divide.snapshots import client, sm_contention

POLICY = '''
"""Rotate: one client after the other."""

from dataclasses import dataclass

from gpusquad.model.squad import PolicyMemory, Squad, SquadMember
from gpusquad.registry import register


@dataclass(frozen=True)
class Rotation(PolicyMemory):
    last: str = ""
    squads: int = 0

    def only(self, clients):
        return self if self.last in clients else Rotation()


@register("divide", "rotate")
@dataclass(frozen=True)
class Rotate:
    """Clients run one after the other."""

    each: int = 3

    def next_squad(self, clients, card, effective, state):
        names = sorted(one.id for one in clients)
        state = state.only(names)
        before = state.get(Rotation)
        if before.last and before.squads < self.each:
            now = Rotation(before.last, before.squads + 1)
        else:
            later = [name for name in names if name > before.last]
            now = Rotation((later or names)[0], 1)
        first = sum(1 << one.slot for one in clients if one.id == now.last)
        members = tuple(
            SquadMember(one.slot, neighbours=sum(1 << other.slot for other in clients if other is not one),
                        yield_to=0 if first >> one.slot & 1 else first)
            for one in clients
        )
        return Squad(members, "temporal", 1000, f"turn of {now.last}", state.put(now))
'''


@pytest.fixture
def rotate(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "rotate.py"
    path.write_text(POLICY)
    spec = importlib.util.spec_from_file_location("rotate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rotate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    registry.forget("divide", "rotate")
    del sys.modules["rotate"]


@pytest.mark.usefixtures("rotate")
def test_policy_finds_its_memory_in_the_next_squad() -> None:
    policy, state, turns = registry.create("divide", "rotate:each=2"), DivideState(), []
    for _ in range(6):
        squad = policy.next_squad([client(0), client(1)], CARD, sm_contention, state)
        state, turns = squad.state, [*turns, squad.why[-2:]]
    assert turns == ["t0", "t0", "t1", "t1", "t0", "t0"]


@pytest.mark.usefixtures("rotate")
def test_daemon_carries_the_memory() -> None:
    sim = CardSim([batch("a"), batch("b")], "rotate", CARD, TableRates()).run(100_000)
    assert not sim.squads.failure
    assert sim.squads.number > 50
    done = [outcome.done_us for outcome in sim.outcomes.values()]
    assert min(done) > 0.8 * max(done)


def test_memory_survives_other_policies(rotate: ModuleType) -> None:
    """A policy passes on the memories of others; ``equal`` stands for all."""
    clients = [client(0), client(1)]
    squad = registry.create("divide", "rotate").next_squad(clients, CARD, sm_contention, DivideState())
    between = registry.create("divide", "equal").next_squad(clients, CARD, sm_contention, squad.state)
    assert between.state.for_new_policy().get(rotate.Rotation) == rotate.Rotation("t0", 1)


def test_memory_without_survival_is_dropped_when_the_policy_changes(
    rotate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotate.Rotation, "survives_policy_change", False)
    sim = CardSim([batch("a"), batch("b")], "rotate", CARD, TableRates()).run(10_000)
    loop: SquadLoop = sim.squads
    assert loop._state.get(rotate.Rotation).last
    loop.set_policy("equal")
    assert loop._state.get(rotate.Rotation) == rotate.Rotation()
