"""The squad loop of a card daemon, in virtual time with a region in plain memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gpusquad import registry
from gpusquad.gpu.daemon.client import GpuClientSpec
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.gpu.region.pages import ClientPage
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.job import Slo
from gpusquad.model.squad import UNGATED_US, ShareableCard, Squad, SquadMember
from tests.gpu.daemon.memory_region import MemoryRegion

CARD = ShareableCard(groups=15, sms_per_group=8, sms=132, memory_bytes=100)
BUSY = ClientPage(requested_us=5000, completed_us=4000, launches=50, in_flight=2)
RIVALS = TableRates({("a", "b"): 0.9, ("b", "a"): 0.9})


def started(*names: str, policy: str = "equal", **rest) -> tuple[SquadLoop, MemoryRegion]:
    region = MemoryRegion(slots=4)
    squads = SquadLoop(region, CARD, policy, RIVALS, **rest)
    for name in names:
        squads.attach(GpuClientSpec(name), 0)
    return squads, region


def busy(region: MemoryRegion, *slots: int, **changes) -> None:
    for slot in slots:
        region.pages[slot] = replace(BUSY, **changes)


def test_card_has_priorities_unless_a_client_is_time_sliced(monkeypatch: pytest.MonkeyPatch):
    squads, _ = started("a")
    has_priorities: list[bool] = []
    decide = squads._policy.next_squad

    def record(clients, card, *rest):
        has_priorities.append(card.has_priorities)
        return decide(clients, card, *rest)

    monkeypatch.setattr(squads._policy, "next_squad", record)
    squads.step(0)
    squads.attach(GpuClientSpec("b", is_time_sliced=True), 10)
    squads.step(10)
    squads.detach("b")
    squads.step(20)
    assert has_priorities == [True, False, True]


def test_loop_rests_with_no_client_or_a_single_client():
    squads, region = started()
    assert squads.step(0) >= 100_000
    squads.attach(GpuClientSpec("a"), 10)
    squads.step(10)
    writes = region.writes
    busy(region, 0)
    for at in range(20, 2_000_000, 250_000):
        assert squads.step(at) >= 100_000
    assert region.writes == writes
    assert (region.grants[0].credit_us, region.grants[0].mask, region.grants[0].neighbours) == (UNGATED_US, 0, 0)
    assert region.beats > 5


def test_iteration_rate_comes_from_repeated_launches():
    squads, region = started("a", "b")
    region.iterations_us[0] = (20_000, 50_000)
    busy(region, 0, 1)
    squads.step(1_000_000)

    def rates(now_us: int) -> list[float | None]:
        return [client["iterations_per_s"] for client in squads.status(now_us)["tenants"]]

    assert rates(1_010_000) == [pytest.approx(70.0), None]
    assert rates(2_000_000) == [pytest.approx(2.0), None], "no launch for a second"
    busy(region, 0, launches=51)
    squads.step(2_000_000)
    assert rates(2_000_000) == [pytest.approx(70.0), None]


def test_no_client_yields_to_one_that_was_idle_for_long():
    squads, region = started("a", "b", policy="jct")
    yields = []
    for at in range(0, 3_000_000, 1_000):
        busy(region, 0, requested_us=5000 + at, completed_us=4000 + at, launches=50 + at)
        if at in (1_000, 2_000_000):
            busy(region, 1, launches=at)
        elif at in (2_000, 2_001_000):
            busy(region, 1, launches=at - 1_000, in_flight=0)
        squads.step(at)
        yields.append(region.grants[0].yield_to >> 1 & 1)
    idle = slice(1_100, 1_990)
    assert all(yields[10:900]), "it may be busy again soon"
    assert not any(yields[idle])
    assert all(yields[2_010:2_900]), "it was busy again"


def test_two_busy_clients_get_consecutive_squads():
    squads, region = started("a", "b")
    busy(region, 0, 1)
    rest_us = squads.step(1000)
    assert rest_us < 1000
    first = squads.number
    busy(region, 0, 1, completed_us=5000, launches=60)
    squads.step(1000 + squads.squad.length_us)
    assert squads.number == first + 1


def test_loop_rests_when_all_clients_are_idle():
    squads, region = started("a", "b")
    squads.step(0)
    writes = region.writes
    assert squads.step(5000) >= 2000
    assert squads.step(2_000_000) >= 10_000
    assert region.writes == writes


def test_credit_is_cumulative_and_includes_queued_work():
    squads, region = started("a", "b")
    busy(region, 0, 1)
    squads.step(1000)
    credits_us = {slot: region.grants[slot].credit_us for slot in (0, 1)}
    member = {m.slot: m for m in squads.squad.members}
    for slot in (0, 1):
        assert credits_us[slot] == 4000 + member[slot].credit_us, "requested 5000, completed 4000: 1000 are queued"


def test_credit_is_corrected_when_the_queue_is_empty():
    squads, region = started("a", "b")
    busy(region, 0, 1, requested_us=9000, completed_us=4000, in_flight=0, waiting=1)
    squads.step(1000)
    credits_us = {slot: region.grants[slot].credit_us for slot in (0, 1)}
    assert max(credits_us.values()) > 9000, "nothing is queued, so all requested work is done"


def test_new_squad_starts_early_when_a_client_has_no_credit_left():
    squads, region = started("a", "b")
    busy(region, 0, 1)
    squads.step(1000)
    number = squads.number
    squads.step(1100)
    assert squads.number == number
    busy(region, 0, in_flight=0, waiting=1, launches=60)
    busy(region, 1, in_flight=0, launches=60)
    squads.step(1200)
    assert squads.number == number + 1
    assert region.grants[0].credit_us > 5000, "a client without work does not get the slice"


def test_new_squad_starts_when_a_client_becomes_idle():
    squads, region = started("a", "b")
    busy(region, 0, 1)
    squads.step(1000)
    number = squads.number
    busy(region, 0, launches=60)
    busy(region, 1, in_flight=0)
    squads.step(1500)
    assert squads.number == number + 1
    assert "only a is active" in squads.squad.why


def test_policy_is_switched_at_the_next_step():
    squads, region = started("a", "b")
    busy(region, 0, 1)
    squads.step(1000)
    squads.set_policy("jct:patience=7")
    squads.step(1001)
    assert squads.status(1001)["policy"] == "jct:patience=7"
    assert "nearest its end" in squads.squad.why
    with pytest.raises(Invalid):
        squads.set_policy("nonsense")
    assert squads.policy == "jct:patience=7"


def test_clients_are_attached_and_detached():
    squads, _ = started("a", "b")
    squads.step(0)
    squads.detach("a")
    assert squads.attach(GpuClientSpec("c"), 10) == 0
    squads.step(20)
    assert {member.slot for member in squads.squad.members} == {0, 1}
    with pytest.raises(Invalid, match="not on this card"):
        squads.detach("a")
    with pytest.raises(Invalid, match="already"):
        squads.attach(GpuClientSpec("c"), 30)
    squads.attach(GpuClientSpec("d"), 30)
    squads.attach(GpuClientSpec("e"), 30)
    with pytest.raises(Invalid, match="no free slot"):
        squads.attach(GpuClientSpec("f"), 30)


def test_latencies_reported_by_programs_count_for_the_slo():
    squads, region = started("b")
    squads.attach(GpuClientSpec("a", slo=Slo(latency_us=100)), 0)
    region.latencies_us[1] = [500]
    squads.step(0)  # reported to an earlier daemon
    region.latencies_us[1] += [50, 60, 70, 200]
    squads.step(10_000)
    service = next(client for client in squads.status(10_000)["tenants"] if client["id"] == "a")
    assert service["attainment"] == pytest.approx(0.75)
    assert service["per_s"] > 0


def test_client_without_a_quota_gets_the_unreserved_memory():
    squads, region = started("a", "b")
    squads.step(0)
    assert (region.grants[0].quota_bytes, region.grants[1].quota_bytes) == (0, 0)
    busy(region, 0, used_bytes=30)
    busy(region, 1, used_bytes=5)
    squads.attach(GpuClientSpec("c", quota_bytes=60), 1000)
    squads.step(1000)
    assert [region.grants[slot].quota_bytes for slot in range(3)] == [35, 10, 60]
    squads.change(GpuClientSpec("c", quota_bytes=90), 2000)
    squads.step(2000)
    assert region.grants[0].quota_bytes == 30, "it keeps what it holds"
    squads.detach("c")
    squads.step(3000)
    assert region.grants[0].quota_bytes == 0


def test_memory_quotas_are_updated_without_launches():
    squads, region = started("a", "b")
    squads.attach(GpuClientSpec("c", quota_bytes=60), 0)
    squads.step(0)
    assert region.grants[1].quota_bytes == 40
    region.pages[0] = ClientPage(used_bytes=30)  # it loads its weights
    for at_us in range(50_000, 250_000, 50_000):
        squads.step(at_us)
    assert region.grants[1].quota_bytes == 10


def test_reported_memory_use_is_limited_to_the_card():
    squads, region = started("a", "b")
    squads.attach(GpuClientSpec("c", quota_bytes=60), 0)
    region.pages[0] = ClientPage(used_bytes=2**64 - 1)
    squads.step(0)
    assert region.grants[0].quota_bytes == CARD.memory_bytes


def test_memory_quota_shrinks_at_once_but_not_below_the_allocation():
    squads, region = started()
    squads.attach(GpuClientSpec("a", quota_bytes=60), 0)
    squads.step(0)
    region.pages[0] = ClientPage(used_bytes=30)
    with pytest.raises(Invalid, match="holds"):
        squads.change(GpuClientSpec("a", quota_bytes=29), 5)
    assert (region.grants[0].quota_bytes, squads.facts("a").quota_bytes) == (60, 60)
    squads.change(GpuClientSpec("a", quota_bytes=30), 5)
    assert region.grants[0].quota_bytes == 30, "the rest may be given to others"


def test_quota_beyond_the_free_memory_is_refused():
    squads, region = started()
    squads.attach(GpuClientSpec("a", quota_bytes=60), 0)
    assert region.grants[0].quota_bytes == 60
    with pytest.raises(Invalid, match="the 40 bytes"):
        squads.attach(GpuClientSpec("b", quota_bytes=50), 0)
    squads.change(GpuClientSpec("a", quota_bytes=90), 5)
    squads.step(10)
    assert region.grants[0].quota_bytes == 90


def test_memory_of_dead_processes_is_reclaimed():
    squads, region = started("a")
    region.pages[0] = ClientPage(used_bytes=50)
    region.dead_bytes[0] = 30
    squads.step(200_000)
    assert region.pages[0].used_bytes == 20


def test_slo_can_be_changed_during_the_run():
    squads, region = started("a", "b", policy="auto:hold=1")
    busy(region, 0, 1)
    squads.step(1000)
    assert squads.squad.why.startswith("equal")
    squads.change(GpuClientSpec("b", slo=Slo(latency_us=20_000)), 1100)
    squads.step(1200)
    assert squads.squad.why.startswith("slo")
    assert region.grants[1].credit_us == UNGATED_US


def test_remaining_work_decreases_with_service():
    squads, region = started("b")
    squads.attach(GpuClientSpec("a", remaining_us=100_000, deadline_in_us=500_000), 0)
    squads.step(0)
    region.pages[1] = ClientPage(requested_us=20_000, completed_us=20_000, launches=10, in_flight=1)
    squads.step(40_000)
    status = next(client for client in squads.status(40_000)["tenants"] if client["id"] == "a")
    assert (status["remaining_us"], status["attained_us"]) == (80_000, 20_000)


def test_concurrent_service_adds_up_to_the_card_time():
    squads, region = started("a", "b")
    squads.step(0)
    for slot in (0, 1):
        region.pages[slot] = ClientPage(requested_us=10_000, completed_us=10_000, launches=10, in_flight=1)
    squads.step(10_000)
    assert [client["attained_us"] for client in squads.status(10_000)["tenants"]] == [5000, 5000]


def test_service_on_some_groups_counts_by_their_fraction():
    squads, region = started("a", "b")
    squads.step(0)
    region.pages[0] = ClientPage(requested_us=10_000, completed_us=10_000, launches=10, in_flight=1, mask_now=0b11111)
    squads.step(10_000)
    assert squads.status(10_000)["tenants"][0]["attained_us"] == 3030


@pytest.fixture
def broken():
    @registry.register("divide", "broken")
    @dataclass(frozen=True)
    class Broken:
        """Fails."""

        how: str = "raises"

        def next_squad(self, clients, card, effective, state):
            if self.how == "raises":
                raise RuntimeError("no idea")
            masks = {"groups": 1 << 40} if self.how == "masks" else {}
            members = tuple(SquadMember(client.slot, **masks) for client in clients)
            length_us = 10**9 if self.how == "length" else 1000
            return Squad(members[:-1] if self.how == "forgets" else members, "strict", length_us, "so")

    yield
    registry.forget("divide", "broken")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("how", ["raises", "masks", "length", "forgets"])
def test_failing_policy_leaves_all_clients_ungated(how):
    squads, region = started("a", "b", policy=f"broken:how={how}")
    busy(region, 0, 1)
    squads.step(1000)
    assert squads.failure
    assert all((grant.credit_us, grant.mask) == (UNGATED_US, 0) for grant in region.grants.values())
    squads.set_policy("equal")
    squads.step(1001)
    assert not squads.failure


def test_unmanaged_processes_are_reported():
    squads, _ = started("a")
    listed = [UnmanagedProcess(7, "python", 10), UnmanagedProcess(9, "game", 20)]
    assert [process.pid for process in squads.processes(listed, {7})] == [9]
    assert squads.status(0)["strangers"] == [{"pid": 9, "name": "game", "memory_bytes": 20}]
    squads.attach(GpuClientSpec("b"), 0)


def test_unmanaged_processes_block_the_card_under_the_refuse_rule():
    squads, _ = started(rule="refuse")
    squads.processes([UnmanagedProcess(9)], ())
    with pytest.raises(NotReady, match="has unmanaged processes: 9"):
        squads.attach(GpuClientSpec("a"), 0)
    squads.processes([], ())
    squads.attach(GpuClientSpec("a"), 0)


def test_unmanaged_processes_get_a_share_under_the_share_rule():
    squads, region = started("a", rule="share")
    busy(region, 0)
    squads.step(1000)
    assert region.grants[0].credit_us == UNGATED_US
    squads.processes([UnmanagedProcess(9)], ())
    squads.step(2000)
    assert set(region.grants) == {0}
    assert region.grants[0].mask or region.grants[0].credit_us != UNGATED_US
    assert not region.grants[0].borrows
    assert region.grants[0].neighbours == 0
