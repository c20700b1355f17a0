"""The loan of a borrower in its grant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusquad import registry
from gpusquad.gpu.daemon.client import GpuClientSpec
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.gpu.region.pages import ClientPage
from gpusquad.model.squad import ShareableCard, Squad, SquadMember
from tests.gpu.daemon.memory_region import MemoryRegion

BUSY = ClientPage(requested_us=5000, completed_us=4000, launches=50, in_flight=2)


@pytest.mark.parametrize(("member_us", "card_us", "granted_us"), [(300, 2000, 300), (0, 2000, 2000), (0, 700, 700)])
def test_loan_is_that_of_the_squad_member_or_else_of_the_card(
    monkeypatch: pytest.MonkeyPatch, member_us: int, card_us: int, granted_us: int
) -> None:
    class LendingPolicy:
        def next_squad(self, clients, card, effective, state) -> Squad:
            members = tuple(
                SquadMember(client.slot, neighbours=0b11, borrows=True, loan_us=member_us) for client in clients
            )
            return Squad(members, "unrestricted", 1000, "so")

    monkeypatch.setattr(registry, "create", lambda *_, **__: LendingPolicy())
    region = MemoryRegion(slots=4)
    squads = SquadLoop(region, replace(ShareableCard(), loan_us=card_us), "equal", TableRates({}))
    for name in ("a", "b"):
        squads.attach(GpuClientSpec(name), 0)
    region.pages = {0: BUSY, 1: BUSY}
    squads.step(1000)
    assert {grant.loan_us for grant in region.grants.values()} == {granted_us}
