"""Kernels are distinguished by name and shape and timed by samples. Iterations are found in the launches."""

from __future__ import annotations

import random

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import SMS_PER_GROUP, Step, client_page, player, process_page

LONG_US = 5000


def names(card: Card) -> set[str]:
    """Names of everything launched, timed or not."""
    return {row.name.decode() for row in client_page(card).kernel if row.identity}


def test_kernels_are_distinguished_by_name_and_shape(card: Card) -> None:
    card.attach(0)
    shapes = [("add", 1), ("add", 4), ("copy2", 1)]
    steps: list[Step] = [["kernel", "legacy", 0, name, 10, "plain", grid] for name, grid in shapes for _ in range(2)]
    player(card).play(steps)
    known = [row for row in client_page(card).kernel if row.identity]
    assert [(row.name.decode(), tuple(row.grid), tuple(row.block)) for row in known] == [
        (name, (grid, 1, 1), (32, 1, 1)) for name, grid in shapes
    ]
    assert len({row.identity for row in known}) == 3


def test_kernel_time_is_measured_from_samples(card: Card) -> None:
    card.attach(0)
    steps: list[Step] = [["kernel", "legacy", 0, "add_long"], ["sync"]] * 5
    player(card).play(steps)
    (known,) = card.region.kernels(0)
    assert known.count >= 3
    assert known.mean_us >= LONG_US - 1


def test_many_kernels_are_timed_in_one_queue_without_a_wait(card: Card) -> None:
    """A training job runs ahead of the card, so its samples stay pending for long."""
    card.attach(0)
    queue: list[Step] = [["kernel", "legacy", 0, "add", 200, "plain", grid] for grid in range(1, 31)]
    player(card).play([*queue, *queue, ["sync"], *queue])
    assert {known.grid[0] for known in card.region.kernels(0)} == set(range(1, 31))


def test_kernel_is_timed_although_samples_are_left_on_an_unused_stream(card: Card) -> None:
    card.attach(0)
    left: list[Step] = [["stream", "s", False], *([["kernel", "s", 0, "add", 10]] * 3), ["sync"]]
    player(card).play([*left, *([["kernel", "legacy", 0, "add", 10], ["sync"]] * 20)])
    (known,) = card.region.kernels(0)
    assert known.count >= 3


def test_kernels_are_timed_on_streams_that_are_used_once(card: Card) -> None:
    card.attach(0)
    use: list[Step] = [["stream", "s", False], ["kernel", "s", 0, "add", 10], ["sync"], ["destroy", "s"]]
    player(card).play(use * 20)
    (known,) = card.region.kernels(0)
    assert known.count >= 3


def test_kernel_refused_on_a_partition_is_timed_where_it_runs(card: Card) -> None:
    """An SM holds 32 blocks of 32 threads, and the grid is larger than a group."""
    card.attach(0)
    large: Step = ["kernel", "legacy", 0, "copy2", 200, "cooperative", 33 * SMS_PER_GROUP]
    player(card).play([["grant", {"mask": 0x01}], *([large, ["sync"]] * 5)])
    assert "copy2" in {known.name for known in card.region.kernels(0)}


def test_second_process_of_a_client_uses_the_times_of_the_first(card: Card) -> None:
    card.attach(0)
    steps: list[Step] = [["kernel", "legacy", 0, "add_long"], ["sync"]] * 4
    first, second = player(card), player(card)
    first.play(steps)
    second.play([["kernel", "legacy", 0, "add_long"]])
    assert len(card.region.kernels(0)) == 1
    assert process_page(card, index=1).requested_us >= LONG_US - 1


@standin_only("kernels that spin take no longer on fewer SMs of a real card")
def test_times_are_kept_apart_by_partition_width(card: Card) -> None:
    """A kernel takes eight times as long on an eighth of the SMs, and its unrestricted time stays known."""
    card.attach(0)
    client, page = player(card), process_page(card)
    client.stage()

    def predicted_us(mask: int) -> int:
        """Predicted time after some runs with this mask."""
        client.on_stage([["grant", {"mask": mask}], *([["kernel", "legacy", 0, "add_long"], ["sync"]] * 4)])
        before_us = page.requested_us
        client.on_stage([["kernel", "legacy", 0, "add_long"], ["sync"]])
        return page.requested_us - before_us

    whole_us, eighth_us = predicted_us(0), predicted_us(0x01)
    assert eighth_us >= 8 * LONG_US - 2
    client.on_stage([["grant", {}], ["kernel", "legacy", 0, "copy2"]])
    before_us = page.requested_us
    client.on_stage([["kernel", "legacy", 0, "add_long"]])
    assert page.requested_us - before_us < max(2 * whole_us, eighth_us)
    before_us = page.requested_us
    client.on_stage([["grant", {"mask": 0x02}], ["kernel", "legacy", 0, "copy2"], ["sync"]])
    client.on_stage([["kernel", "legacy", 0, "add_long"]])
    assert page.requested_us - before_us >= 8 * LONG_US - 2
    (known,) = [kernel for kernel in card.region.kernels(0) if kernel.name == "add_long"]
    assert known.mean_us < eighth_us, "the unrestricted time is reported"


def test_copies_are_distinguished_by_kind_and_size_class(card: Card) -> None:
    card.attach(0)
    player(card).play(
        [["set", "legacy", 0, 1], ["set", "legacy", 1, 2], ["copy", "legacy", 0, 1], ["put", "legacy", 0, 1]]
    )
    assert names(card) == {"memset", "copy on card", "copy from host"}
    assert (process_page(card).copies, process_page(card).launches) == (4, 0)


def test_completed_time_never_exceeds_requested_time(card: Card) -> None:
    card.attach(0)
    card.attach(1)
    client = player(card)
    client.stage()
    card.region.write({0: Grant(neighbours=0b11)})
    page = process_page(card)
    for _ in range(20):
        client.on_stage([["kernels", 20, "legacy", 0, "add", 50]])
        done_us = page.completed_us
        assert done_us <= page.requested_us
    client.on_stage([["sync"]])


def test_iterations_are_found_in_repeated_launches(card: Card) -> None:
    """Two layers of five kernels and a last kernel are one iteration. The repeated layer is not."""
    layer: list[Step] = [["kernel", "legacy", 0, "add", 0, "plain", grid] for grid in (1, 2, 3, 4, 5)]
    iteration = [*layer, *layer, ["kernel", "legacy", 0, "copy2", 0]]
    card.attach(0)
    player(card).play(iteration * 200)
    page = process_page(card)
    assert page.period_us > 0
    assert card.region.periods_us(0) == (page.period_us,)
    assert 2048 // 11 - 32 <= page.iterations <= 200


def test_iterations_are_found_in_repeated_graph_launches(card: Card) -> None:
    card.attach(0)
    capture: Step = ["capture", "g", "s", [["kernel", "s", 0, "add", 0]]]
    loop: list[Step] = [["graph", "s", "g"], ["set", "s", 1, 0]] * 300
    player(card).play([["stream", "s", False], capture, *loop])
    assert 200 <= process_page(card).iterations <= 300


def test_no_iterations_are_found_without_a_pattern(card: Card) -> None:
    dice = random.Random(1)
    steps: list[Step] = [["kernel", "legacy", 0, "add", 0, "plain", dice.randrange(1, 9)] for _ in range(1500)]
    card.attach(0)
    player(card).play(steps)
    assert (process_page(card).iterations, process_page(card).period_us) == (0, 0)


def test_launches_run_when_the_kernel_table_is_full(card: Card) -> None:
    card.attach(0)
    steps: list[Step] = [["kernel", "legacy", 0, "add", 0, "plain", grid] for grid in range(1, 400)]
    assert player(card).play(steps)["cells"][0] == 399
    assert client_page(card).kernels == 256


def test_captured_launches_are_not_timed(card: Card) -> None:
    card.attach(0)
    inside: list[Step] = [["kernel", "s", 0, "add", 0, "plain", grid] for grid in range(1, 9)]
    player(card).play([["stream", "s", False], ["capture", "g", "s", inside]])
    assert names(card) == set()
    assert process_page(card).requested_us == 0
