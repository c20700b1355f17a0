"""Memory that graphs allocate by nodes is charged like any other.

Sizes are multiples of a real driver's mapping size, and the account is compared with the driver's own count.
"""

from __future__ import annotations

import pytest

from tests.gpu.shim.clients import Card, Peer, standin_only

OUT_OF_MEMORY = 2
MIB = 1 << 20
QUOTA = 512 * MIB
MUCH, LITTLE = 384 * MIB, 256 * MIB
WAYS = {
    "captured": "graph_by_capture({n}, {frees})",
    "by a node of memory": "graph_by_nodes({n}, {frees})",
    "by a node of any kind": "graph_by_nodes({n}, {frees}, any_node=True)",
}


def _graph(peer: Peer, nbytes: int, frees: bool = True, way: str = "captured") -> tuple[int, int]:
    """Return the executable graph and the address of its allocation."""
    result, executable, pointer = peer(WAYS[way].format(n=nbytes, frees=frees))
    assert result == 0
    return executable, pointer


@pytest.mark.parametrize("way", WAYS)
def test_graph_launch_is_refused_when_it_needs_more_than_the_quota(card: Card, way: str) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    executable, _ = _graph(peer, QUOTA + 64 * MIB, way=way)
    assert peer(f"graph_launch({executable})") == OUT_OF_MEMORY
    assert peer(f"graph_upload({executable})") == OUT_OF_MEMORY
    assert (card.used(), peer("graph_reserved()")) == (0, 0)
    card.set_quota(0, 2 * QUOTA)
    assert peer(f"graph_launch({executable})") == 0
    assert peer("sync()") == 0
    assert card.used() == peer("graph_reserved()") >= QUOTA + 64 * MIB


@pytest.mark.parametrize("way", WAYS)
def test_graph_memory_is_charged_while_the_graph_holds_it(card: Card, way: str) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    executable, pointer = _graph(peer, MUCH, frees=False, way=way)
    assert card.used() == 0, "a graph that was only made holds nothing"
    assert peer(f"graph_launch({executable})") == 0
    assert card.used() == peer("graph_reserved()") >= MUCH
    assert card.region.page(0).peak_bytes == card.used()
    assert peer(f"alloc({LITTLE})")[0] == OUT_OF_MEMORY
    assert peer(f"free({pointer})") == 0
    assert peer(f"alloc({LITTLE})")[0] == 0, "what graphs keep for later makes room"
    assert card.used() == LITTLE
    assert peer(f"graph_launch({executable})") == OUT_OF_MEMORY


def test_graph_memory_is_charged_after_an_upload(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    executable, _ = _graph(peer, MUCH)
    assert peer(f"graph_upload({executable})") == 0
    assert card.used() == peer("graph_reserved()")


def test_consecutive_graphs_are_charged_once(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    graphs = [_graph(peer, size)[0] for size in (MUCH, LITTLE, MUCH)]
    for executable in graphs:
        assert (peer(f"graph_launch({executable})"), peer("sync()")) == (0, 0)
    assert MUCH <= card.used() == peer("graph_reserved()") <= QUOTA
    assert [peer(f"graph_destroy({executable})") for executable in graphs] == [0, 0, 0]
    assert peer("graph_trim()") == 0
    assert card.used() == 0


def test_concurrent_graphs_are_charged_each(card: Card) -> None:
    """That the second graph needs its own memory shows only after its launch. The third is refused."""
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    (first, first_pointer), (second, second_pointer), (third, _) = (_graph(peer, MUCH, frees=False) for _ in range(3))
    assert (peer(f"graph_launch({first})"), peer(f"graph_launch({second})")) == (0, 0)
    assert card.used() == peer("graph_reserved()") >= 2 * MUCH
    assert peer(f"graph_launch({third})") == OUT_OF_MEMORY
    assert peer("alloc(1)")[0] == OUT_OF_MEMORY
    assert (peer(f"free({first_pointer})"), peer(f"free({second_pointer})")) == (0, 0)
    assert peer(f"graph_launch({third})") == 0
    assert card.used() <= QUOTA


def test_graph_with_its_memory_runs_after_the_quota_shrinks(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    executable, _ = _graph(peer, MUCH)
    assert (peer(f"graph_launch({executable})"), peer("sync()")) == (0, 0)
    card.set_quota(0, LITTLE)
    assert (peer(f"graph_launch({executable})"), peer("sync()")) == (0, 0)


def test_graph_memory_is_released_when_its_process_dies(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    first, second = card.peer(), card.peer()
    executable, _ = _graph(first, MUCH, frees=False)
    assert first(f"graph_launch({executable})") == 0
    assert second(f"alloc({LITTLE})")[0] == OUT_OF_MEMORY
    first.kill()
    assert second(f"alloc({LITTLE})")[0] == 0
    assert card.used() == LITTLE


def test_peak_excludes_what_the_driver_refuses(card: Card) -> None:
    card.attach(quota_bytes=0)
    peer = card.peer()
    _, total_bytes = peer("info()")
    executable, _ = _graph(peer, total_bytes * 2)
    assert peer(f"graph_launch({executable})") != 0
    assert card.used() == peer("graph_reserved()")
    assert card.region.page(0).peak_bytes <= total_bytes


@standin_only("a real driver may refuse a node of this size when it is made")
def test_graph_larger_than_any_card_is_out_of_memory(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    executable, _ = _graph(peer, 1 << 42)
    assert peer(f"graph_launch({executable})") == OUT_OF_MEMORY
    assert card.used() == 0


def test_graph_without_allocations_runs_at_the_quota(card: Card) -> None:
    card.attach(quota_bytes=QUOTA)
    peer = card.peer()
    assert peer(f"alloc({QUOTA})")[0] == 0
    executable = peer("graph_empty()")
    assert peer(f"graph_launch({executable})") == 0
    assert card.used() == QUOTA
