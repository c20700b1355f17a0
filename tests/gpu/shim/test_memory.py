"""The memory quota, in real processes with the shim over the stand-in driver."""

from __future__ import annotations

import pytest

from gpusquad.gpu.region import layout
from gpusquad.gpu.region.card_region import CardRegion
from tests.gpu.shim.clients import Card, Peer

OUT_OF_MEMORY = 2
MIB = 1 << 20
QUOTA = 64 * MIB

WAYS = {
    "plain": ("alloc({n})", "free({key})"),
    "managed": ("managed({n})", "free({key})"),
    "pitched": ("pitched({n} // 16, 16)[:2]", "free({key})"),
    "async": ("alloc_async({n})", "free_async({key})"),
    "async, freed at once": ("alloc_async({n})", "free({key})"),
    "async, per thread": ("alloc_async({n}, True)", "free_async({key}, True)"),
    "pool": ("alloc_from(pool_default(), {n})", "free_async({key})"),
    "pool, per thread": ("alloc_from(pool_default(), {n}, True)", "free_async({key}, True)"),
    "physical": ("create({n})", "release({key})"),
    "array": ("array({n} // 4096, 1024)", "array_free({key})"),
    "array of floats": ("array({n} // 4096, 256, 4)", "array_free({key})"),
    "array in three dimensions": ("array3d({n} // 16384, 64, 64)", "array_free({key})"),
    "mipmapped array": ("mipmaps({n} // 4096, 1024, 1)", "mipmaps_free({key})"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_allocation_is_refused_beyond_the_quota(card: Card, way: str) -> None:
    take, give = WAYS[way]
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    result, key = peer(take.format(n=48 * MIB))
    assert (result, card.used()) == (0, 48 * MIB)
    assert peer(take.format(n=18 * MIB))[0] == OUT_OF_MEMORY
    assert card.used() == 48 * MIB
    result, last = peer(take.format(n=16 * MIB))
    assert (result, card.used()) == (0, QUOTA), "the quota itself may be used to the last byte"
    assert peer("alloc(1)")[0] == OUT_OF_MEMORY
    assert peer(give.format(key=key)) == 0
    assert peer(give.format(key=last)) == 0
    assert peer("sync()") == 0
    assert card.used() == 0


@pytest.mark.parametrize("way", WAYS)
def test_peak_excludes_what_the_driver_refuses(card: Card, way: str) -> None:
    take, give = WAYS[way]
    card.attach()
    peer = card.peer()
    assert peer(take.format(n=1 << 50))[0] != 0
    assert card.region.page(0).peak_bytes == 0
    result, key = peer(take.format(n=4 * MIB))
    assert (result, peer(give.format(key=key)), peer("sync()")) == (0, 0, 0)
    assert card.region.page(0).peak_bytes == 4 * MIB


def test_quota_covers_all_processes_of_a_client(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    first, second = card.peer(), card.peer()
    assert first(f"alloc({40 * MIB})")[0] == 0
    assert second(f"alloc({40 * MIB})")[0] == OUT_OF_MEMORY
    assert second(f"alloc({24 * MIB})")[0] == 0
    assert card.used() == QUOTA
    assert len(card.region.page(0).pids) == 2


def test_quota_excludes_other_clients(card: Card) -> None:
    card.attach(0, QUOTA)
    card.attach(1, QUOTA)
    assert card.peer(0)(f"alloc({QUOTA})")[0] == 0
    assert card.peer(1)(f"alloc({QUOTA})")[0] == 0


def test_allocation_is_limited_by_the_card_without_a_quota(card: Card) -> None:
    card.attach(quota_bytes=0)
    peer = card.peer()
    free_bytes, total_bytes = peer("info()")
    assert peer(f"alloc({total_bytes + 1})")[0] == OUT_OF_MEMORY
    assert card.used() == 0, "what the driver refuses is released"
    assert peer(f"alloc({free_bytes // 2})")[0] == 0


def test_client_sees_its_quota_as_the_card_memory(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer, fake_client = card.peer(), card.peer()
    assert peer("info()") == [QUOTA, QUOTA]
    fake_client(f"alloc({10 * MIB})")
    peer(f"alloc({20 * MIB})")
    assert peer("info()") == [34 * MIB, QUOTA]
    assert peer("total()") == QUOTA
    fake_client.kill()
    assert peer("info()") == [44 * MIB, QUOTA], "dead processes hold nothing"


def test_nvml_shows_the_quota(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    peer("nvml_start()")
    peer(f"alloc({20 * MIB})")
    assert peer("nvml_memory()") == [QUOTA, 44 * MIB, 20 * MIB]
    assert peer("nvml_memory2()") == [QUOTA, 44 * MIB, 20 * MIB]


def test_nvml_shows_the_quota_only_on_the_clients_card(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    uuid = peer("nvml_start()")
    CardRegion(card.region.folder, uuid=uuid)
    assert peer("nvml_memory()")[0] == QUOTA
    CardRegion(card.region.folder, uuid="GPU-another")
    assert peer("nvml_memory()")[0] > QUOTA


def test_client_sees_the_card_when_its_quota_is_larger(card: Card) -> None:
    card.attach(quota_bytes=1 << 60)
    peer = card.peer()
    with_quota = peer("total()")
    card.set_quota(0, 0)
    assert with_quota == peer("total()") < 1 << 60


def test_changed_quota_applies_to_the_next_call(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    _, key = peer(f"alloc({32 * MIB})")
    card.set_quota(0, 16 * MIB)
    assert peer("alloc(1)")[0] == OUT_OF_MEMORY
    assert peer("info()") == [0, 16 * MIB]
    assert peer(f"free({key})") == 0
    assert peer(f"alloc({16 * MIB})")[0] == 0
    card.set_quota(0, 2 * QUOTA)
    assert peer(f"alloc({QUOTA})")[0] == 0


def test_first_context_of_each_process_is_charged_once(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    card.environment["GPUSQUAD_CONTEXT_BYTES"] = str(25 * MIB)
    first = card.peer()
    assert card.used() == 25 * MIB
    first("context_new()")
    assert card.used() == 25 * MIB
    assert card.peer().started == 0
    third = card.peer()
    assert (third.started, card.used()) == (OUT_OF_MEMORY, 50 * MIB), "no context without room for it"
    first.kill()
    assert third("start()") == 0, "it may try again"
    assert card.used() == 50 * MIB


def test_context_cost_of_the_daemon_overrides_the_variable(card: Card) -> None:
    CardRegion(card.region.folder, context_bytes=3 * MIB).attach(1)
    card.peer(1, GPUSQUAD_CONTEXT_BYTES=str(25 * MIB))
    assert CardRegion(card.region.folder).page(1).used_bytes == 3 * MIB


def test_allocations_are_released_when_their_context_ends(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    peer(f"alloc({MIB})")
    context = peer("context_new()")
    peer(f"alloc({2 * MIB})")
    peer("array(1024, 1024)")
    assert card.used() == 7 * MIB
    assert peer(f"context_destroy({context})") == 0
    assert card.used() == MIB


def test_allocations_are_released_when_the_primary_context_is_reset(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    peer(f"alloc({MIB})")
    assert peer("call('cuDevicePrimaryCtxReset_v2', 0)") == 0
    assert card.used() == 0


def test_pitched_allocation_is_charged_with_the_drivers_pitch(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    result, key, pitch = peer("pitched(100, 64)")
    assert (result, card.used()) == (0, pitch * 64)
    peer(f"free({key})")
    assert card.used() == 0


def test_pitched_allocation_is_refused_when_the_pitch_exceeds_the_quota(card: Card) -> None:
    card.attach(quota_bytes=0)
    peer = card.peer()
    before = peer("info()")
    card.set_quota(0, 101 * 64)
    assert peer("pitched(100, 64)")[0] == OUT_OF_MEMORY
    assert card.used() == 0
    card.set_quota(0, 0)
    assert peer("info()") == before, "the driver has freed it"


def test_mipmapped_array_is_charged_for_all_levels(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    card.peer()("mipmaps(1024, 1024, 3)")
    assert card.used() == 4 * (1024 * 1024 + 512 * 512 + 256 * 256)


def test_physical_memory_is_charged_while_it_is_mapped(card: Card) -> None:
    """Programs release the handle as soon as the memory is mapped. This frees nothing."""
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    size = 4 * MIB
    _, handle = peer(f"create({size})")
    address = peer(f"reserve({size})")
    assert peer(f"map_at({address}, {size}, {handle})") == 0
    assert peer(f"release({handle})") == 0
    assert card.used() == size
    assert peer(f"unmap({address}, {size})") == 0
    assert card.used() == 0


def test_physical_memory_is_charged_while_a_handle_is_held(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    size = 4 * MIB
    _, handle = peer(f"create({size})")
    address = peer(f"reserve({size})")
    peer(f"map_at({address}, {size}, {handle})")
    result, again = peer(f"retain({address})")
    assert (result, again) == (0, handle)
    peer(f"unmap({address}, {size})")
    peer(f"release({handle})")
    assert card.used() == size
    peer(f"release({again})")
    assert card.used() == 0


def test_unmap_releases_several_adjacent_mappings(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    size = 2 * MIB
    address = peer(f"reserve({3 * size})")
    for part in range(3):
        _, handle = peer(f"create({size})")
        peer(f"map_at({address + part * size}, {size}, {handle})")
        peer(f"release({handle})")
    assert card.used() == 3 * size
    assert peer(f"unmap({address}, {3 * size})") == 0
    assert card.used() == 0


def test_imported_memory_is_charged_to_its_owner(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    owner, guest = card.peer(), card.peer()
    _, key = owner(f"alloc({8 * MIB})")
    handle = owner(f"ipc_export({key})")
    result, seen = guest(f"ipc_open({handle!r})")
    assert (result, card.used()) == (0, 8 * MIB)
    assert guest(f"ipc_close({seen})") == 0
    assert card.used() == 8 * MIB


def test_pool_is_charged_for_kept_memory_and_trimmed_before_a_refusal(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    pool = peer("pool_default()")
    assert peer(f"pool_keep({pool}, {1 << 60})") == 0
    _, key = peer(f"alloc_async({48 * MIB})")
    peer(f"free_async({key})")
    peer("sync()")
    assert card.used() >= 48 * MIB, "it is free to the pool, not to the card"
    result, key = peer(f"alloc_async({48 * MIB})")
    assert result == 0, "the pool itself may use what it kept"
    peer(f"free_async({key})")
    peer("sync()")
    assert peer(f"alloc({48 * MIB})")[0] == 0
    assert card.used() == 48 * MIB


def test_destroyed_pool_is_released_with_its_last_allocation(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    pool = peer("pool_new()")
    _, key = peer(f"alloc_from({pool}, {8 * MIB})")
    assert peer(f"pool_destroy({pool})") == 0
    assert card.used() == 8 * MIB
    assert peer(f"free_async({key})") == 0
    assert card.used() == 0


def test_pool_of_host_memory_is_not_charged(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    pool = peer("pool_new(location=2)")
    result, key = peer(f"alloc_from({pool}, {2 * QUOTA})")
    assert (result, card.used()) == (0, 0)
    assert peer(f"free_async({key})") == 0


def test_account_is_unchanged_when_the_driver_refuses_a_free(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    _, key = peer(f"alloc({MIB})")
    assert peer(f"free({key + 4})") != 0
    assert card.used() == MIB
    assert peer("free(0)") == 0
    assert card.used() == MIB


def test_account_is_zero_after_allocation_storms_in_eight_processes(card: Card) -> None:
    card.attach(quota_bytes=96 * MIB)
    peers = [card.peer() for _ in range(8)]
    for seed, peer in enumerate(peers):
        peer.send(f"storm(1000, {seed})")
    refused = sum(peer.answer()["refused"] for peer in peers)
    page = card.region.page(0)
    assert refused > 0, "the storm must reach the quota"
    assert (page.used_bytes, page.peak_bytes <= 96 * MIB) == (0, True)
    assert page.peak_bytes > 80 * MIB


def test_account_is_zero_after_allocation_storms_in_threads(card: Card) -> None:
    card.attach(quota_bytes=40 * MIB)
    assert card.peer()("storm_in_threads(4, 300, 7)") == 0
    assert card.used() == 0


def test_reclaim_releases_only_the_bytes_of_killed_processes(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    doomed, survivor = card.peer(), card.peer()
    doomed(f"alloc({30 * MIB})")
    doomed(f"create({10 * MIB})")
    survivor(f"alloc({20 * MIB})")
    doomed.kill()
    assert card.used() == 60 * MIB
    assert card.region.reclaim(0) == 40 * MIB
    assert card.used() == 20 * MIB
    assert card.region.reclaim(0) == 0
    assert survivor(f"alloc({44 * MIB})")[0] == 0


def test_client_reclaims_dead_processes_when_it_needs_room(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    doomed, survivor = card.peer(), card.peer()
    doomed(f"alloc({QUOTA})")
    doomed.kill()
    assert survivor(f"alloc({QUOTA})")[0] == 0
    assert card.used() == QUOTA


def test_account_is_exact_when_processes_are_killed_during_storms(card: Card) -> None:
    """A process may be killed anywhere, also while it holds the lock."""
    card.attach(quota_bytes=QUOTA)
    survivor = card.peer()
    survivor(f"alloc({MIB})")
    for seed in range(6):
        doomed = [card.peer(), card.peer()]
        for number, peer in enumerate(doomed):
            peer.send(f"storm(10**9, {seed * 2 + number})")
        assert survivor(f"storm(50, {seed})")["refused"] >= 0
        for peer in doomed:
            peer.kill()
        card.region.reclaim(0)
        assert card.used() == MIB


def _die_holding_the_lock(card: Card, doomed: Peer) -> None:
    """Simulate a kill between the update of its own count and of the sum."""
    index = card.region.page(0).pids.index(doomed.process.pid)
    doomed.kill()
    with card.region.path(0).open("r+b") as file:
        file.seek(layout.ClientLayout.lock.offset)
        file.write((index + 1).to_bytes(4, "little"))
        file.seek(layout.ClientLayout.used_bytes.offset)
        file.write((999 * MIB).to_bytes(8, "little"))


@pytest.mark.parametrize("who", ["a fake_client", "the next process in its place", "the daemon"])
def test_sum_is_corrected_when_the_lock_holder_died(card: Card, who: str) -> None:
    card.attach(quota_bytes=QUOTA)
    doomed, survivor = card.peer(), card.peer()
    doomed(f"alloc({30 * MIB})")
    survivor(f"alloc({2 * MIB})")
    _die_holding_the_lock(card, doomed)
    if who == "a fake_client":
        assert survivor(f"alloc({62 * MIB})")[0] == 0
        assert card.used() == QUOTA
    elif who == "the daemon":
        assert card.region.reclaim(0) == 30 * MIB
        assert card.used() == 2 * MIB
    else:
        assert card.peer()(f"alloc({62 * MIB})")[0] == 0
        assert card.used() == QUOTA


def test_daemon_continues_when_a_client_corrupts_its_file(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer, doomed = card.peer(), card.peer()
    doomed.kill()
    held = 1 + card.region.page(0).pids.index(peer.process.pid)
    with card.region.path(0).open("r+b") as file:
        file.seek(layout.ClientLayout.lock.offset)
        file.write(held.to_bytes(4, "little"))
    assert card.region.reclaim(0) == 0, "the lock is never released, and the daemon continues"
    with card.region.path(0).open("r+b") as file:
        file.truncate(100)
    assert card.region.reclaim(0) == 0
    assert card.region.page(0).used_bytes == 0


def test_process_gets_no_memory_when_all_slots_are_taken(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peers = [card.peer() for _ in range(16)]
    extra = card.peer()
    assert extra.started == OUT_OF_MEMORY
    peers[5].kill()
    assert card.peer().started == 0, "the slot of a dead process is free"
    assert "16 processes" in extra.end()
