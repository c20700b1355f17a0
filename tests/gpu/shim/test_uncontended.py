"""A client that is alone on its card runs on its own streams, almost without cost."""

from __future__ import annotations

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import REAL_DRIVER, Card
from tests.gpu.shim.gate_clients import staged
from tests.gpu.shim.players import GROUPS, SMS_PER_GROUP, log, process_page, until


def test_uncontended_client_makes_no_extra_calls_except_a_few_samples(card: Card) -> None:
    path = card.region.folder / "log"
    client = staged(card, STANDIN_LOG=str(path))
    client.on_stage([["kernels", 1000, "legacy", 0, "add", 0], ["sync"]])
    page = process_page(card)
    assert (page.launches, page.waits, page.moves, page.in_flight) == (1000, 0, 0, 0)
    if REAL_DRIVER:
        return  # it has no log of its calls
    kinds = [line.kind for line in log(path)]
    assert kinds.count("kernel") == 1000
    assert kinds.count("wait") == 0
    assert kinds.count("record") <= 2 * (8 + 3 + 1000 // 64)  # pairs: the early ones, some not yet settled, one of 64
    assert {line.stream.split(":")[0] for line in log(path)} == {"legacy"}


def test_client_returns_to_its_own_streams_when_uncontended_again(card: Card) -> None:
    path = card.region.folder / "log"
    client = staged(card, STANDIN_LOG=str(path))
    card.attach(1)
    streams = ("legacy", "s", "thread")
    card.region.write({0: Grant(mask=0x01, neighbours=0b11)})
    client.on_stage([["stream", "s", True], *([["kernel", s, 0, "add", 20] for s in streams] * 3), ["sync"]])
    until(lambda: process_page(card).in_flight == 0, "idleness")
    assert {len(client(f"stage.burn({stream!r}, 1024)")) for stream in streams} == {SMS_PER_GROUP}
    until(lambda: process_page(card).in_flight == 0, "idleness")
    card.region.write({0: Grant()})
    client.on_stage([["kernel", "thread", 0, "add", 20], ["kernel", "legacy", 0, "add", 20], ["sync"]])
    lines_before = 0 if REAL_DRIVER else len(log(path))
    client.on_stage([["kernels", 30, stream, 0, "copy2", 0] for stream in streams])
    assert min(len(client(f"stage.burn({stream!r}, 1024)")) for stream in streams) >= SMS_PER_GROUP * GROUPS
    assert process_page(card).mask_now == 0
    if REAL_DRIVER:
        return
    after = log(path)[lines_before:]
    assert {line.allowed for line in after} == {2**64 - 1}
    assert sum(line.kind == "wait" for line in after) == 0
