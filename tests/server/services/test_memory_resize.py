"""Changing the memory quota of a pending or running job."""

from __future__ import annotations

import pytest

from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.errors import Invalid
from gpusquad.server.answers import PEAK, JobChange
from gpusquad.server.errors import Conflict
from gpusquad.server.schemas.jobs import ChangeRequest
from gpusquad.server.submission import change_of
from tests.server.services.world import ADA, World

GIB = 2**30
MIB = 2**20


def share_of(gib: float) -> dict:
    return {"share": {"memory": int(gib * GIB)}, "gpus": None}


def resize(world: World, job_id: str, memory: int | str) -> None:
    """Update the memory as a user writes it: bytes, ``30%`` or ``peak``."""
    world.scheduler.update(job_id, change_of(ChangeRequest(memory=memory)), ADA)
    world.settle()


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x1", database)


@pytest.fixture
def card_gib(world: World) -> int:
    return world.scheduler.node_service.cards()[0].memory_bytes // GIB


def sent_bytes(world: World) -> list[int | None]:
    return [sharing_params.memory_bytes for *_, sharing_params in world.engine.changed]


def test_memory_released_by_a_running_job_lets_another_start(world: World, card_gib: int) -> None:
    first = world.submit(name="first", **share_of(card_gib - 1))
    second = world.submit(name="second", **share_of(card_gib / 2))
    world.settle()
    assert (world.state(first), world.state(second)) == ("running", "pending")
    resize(world, first, card_gib // 2 * GIB)
    assert world.engine.resized == [(first, 0, 1, card_gib // 2 * GIB)]
    assert world.state(second) == "running"
    assert sent_bytes(world)[-1] == card_gib // 2 * GIB


def test_resize_below_the_held_memory_is_refused(world: World, card_gib: int) -> None:
    first = world.submit(name="first", **share_of(card_gib - 1))
    second = world.submit(name="second", **share_of(card_gib / 2))
    world.settle()
    world.engine.holds_bytes = (card_gib - 2) * GIB
    with pytest.raises(Invalid, match="holds more"):
        resize(world, first, GIB)
    world.settle()
    assert world.state(second) == "pending"
    assert not world.engine.resized


def test_resize_up_is_limited_to_the_free_memory_of_the_card(world: World, card_gib: int) -> None:
    first = world.submit(name="first", **share_of(1))
    world.submit(name="second", **share_of(1))
    world.settle()
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, card_gib * GIB)
    resize(world, first, (card_gib - 1) * GIB)
    assert sent_bytes(world)[-1] == (card_gib - 1) * GIB
    assert not world.engine.resized, "an increase is sent, not requested"
    third = world.submit(name="third", **share_of(1))
    world.settle()
    assert world.state(third) == "pending"


def test_pending_job_starts_when_resized_to_fit(world: World, card_gib: int) -> None:
    world.submit(name="first", **share_of(card_gib - 1))
    second = world.submit(name="second", **share_of(2))
    world.settle()
    resize(world, second, GIB)
    assert world.state(second) == "running"
    assert world.engine.running[second, 0].tasks[0].share.memory_bytes == GIB


def test_resize_of_a_pending_job_beyond_any_card_is_refused(world: World, card_gib: int) -> None:
    world.submit(name="first", **share_of(card_gib))
    second = world.submit(name="second", **share_of(2))
    world.settle()
    with pytest.raises(Invalid, match="memory"):
        resize(world, second, 2 * card_gib * GIB)
    assert world.state(second) == "pending"


def send_sample(world: World, job_id: str, memory_bytes: int) -> None:
    """Send a sample as the agent does."""
    card = world.scheduler.node_service.cards()[0].id
    process = {"pid": 4, "name": "python", "memory_bytes": memory_bytes, "job": job_id, "attempt": 0}
    cards, runs = [{"id": card, "processes": [process]}], [{"job": job_id, "attempt": 0}]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": 1, "cards": cards, "runs": runs})


def is_ten_percent_above(memory_bytes: int, held_bytes: int) -> bool:
    return memory_bytes % MIB == 0 and 1.1 * held_bytes <= memory_bytes < 1.1 * held_bytes + MIB


def test_resize_to_peak_uses_the_sampled_memory_plus_ten_percent(world: World) -> None:
    first = world.submit(name="first", **share_of(4))
    world.settle()
    with pytest.raises(Invalid, match=r"has no peak yet.*give an amount"):
        resize(world, first, PEAK)
    send_sample(world, first, GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_ten_percent_above(memory_bytes, GIB)


@pytest.mark.parametrize(("sampled", "shim_peak"), [(GIB, 2 * GIB), (2 * GIB, GIB)])
def test_resize_to_peak_uses_the_larger_of_samples_and_shim_peak(world: World, sampled: int, shim_peak: int) -> None:
    """Samples can miss the peak. The shim misses processes that run without it."""
    first = world.submit(name="first", **share_of(4))
    world.settle()
    send_sample(world, first, sampled)
    world.engine.peak_bytes = (shim_peak,)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_ten_percent_above(memory_bytes, 2 * GIB)


def test_resize_to_peak_separates_tasks_on_one_card(world: World) -> None:
    """A sample contains both tasks and some memory of the driver."""
    first = world.submit(name="first", count=2, **share_of(4))
    world.settle()
    send_sample(world, first, 4 * GIB + MIB)
    world.engine.peak_bytes = (2 * GIB, 2 * GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_ten_percent_above(memory_bytes, 2 * GIB + MIB)


def test_resize_to_peak_never_increases_the_quota(world: World) -> None:
    first = world.submit(name="first", **share_of(4))
    world.settle()
    world.engine.peak_bytes = (4 * GIB - MIB,)
    resize(world, first, PEAK)
    assert world.engine.resized == []
    assert sent_bytes(world)[-1:] in ([], [4 * GIB])


def test_resize_to_peak_uses_the_task_with_the_highest_peak(world: World) -> None:
    first = world.submit(name="first", count=3, **share_of(4))
    world.settle()
    world.engine.peak_bytes = (GIB, 2 * GIB, MIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_ten_percent_above(memory_bytes, 2 * GIB)


def test_resize_to_peak_needs_the_shim_peak_of_all_tasks_after_a_restart(world: World) -> None:
    first = world.submit(name="first", count=2, **share_of(4))
    world.settle()
    send_sample(world, first, 3 * GIB)
    world.scheduler = world.make()
    send_sample(world, first, GIB)
    for peak_bytes in ((), (2 * GIB,)):
        world.engine.peak_bytes = peak_bytes
        with pytest.raises(Invalid, match="started before the service"):
            resize(world, first, PEAK)
    world.engine.peak_bytes = (3 * GIB, GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_ten_percent_above(memory_bytes, 3 * GIB)


def test_resize_to_peak_is_refused_on_simulated_cards(tmp_path, database) -> None:
    world = World(tmp_path, "1x1", database, simulated=True)
    first = world.submit(name="first", **share_of(4))
    world.settle()
    send_sample(world, first, 2 * MIB)
    with pytest.raises(Invalid, match=r"simulated.*give an amount"):
        resize(world, first, PEAK)
    resize(world, first, GIB)
    assert world.engine.resized == [(first, 0, 1, GIB)]


def test_resized_memory_survives_a_restart(world: World) -> None:
    first = world.submit(name="first", **share_of(4))
    world.settle()
    resize(world, first, GIB)
    world.scheduler = world.make()
    assert world.scheduler.node_service.cards()[0].jobs[0].memory_bytes == GIB


def test_resize_replaces_an_sm_share_by_an_amount_of_memory(world: World, card_gib: int) -> None:
    first = world.submit(name="first", share={"sm": 0.5}, gpus=None)
    second = world.submit(name="second", share={"sm": 0.25, "memory": int(card_gib * 0.75) * GIB}, gpus=None)
    third = world.submit(name="third", share={"sm": 0.25}, gpus=None)
    world.settle()
    assert [world.state(job_id) for job_id in (first, second, third)] == ["running", "pending", "running"]
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, int(card_gib * 0.8) * GIB)
    resize(world, third, GIB)
    assert world.engine.resized == [(third, 0, 1, GIB)]
    resize(world, first, int(card_gib * 0.75) * GIB)
    assert not world.engine.resized[1:], "an increase is sent, not requested"
    resize(world, second, GIB)
    assert world.state(second) == "running"


def test_resize_to_a_percentage_is_relative_to_the_jobs_card(world: World, card_gib: int) -> None:
    first = world.submit(name="first", **share_of(card_gib - 1))
    second = world.submit(name="second", share={"memory": "70%"}, gpus=None)
    world.settle()
    resize(world, first, "30%")
    size = world.scheduler.node_service.cards()[0].memory_bytes
    assert world.engine.resized == [(first, 0, 1, size * 300 // 1000)]
    assert world.state(second) == "running"
    assert sent_bytes(world)[-1] == size * 300 // 1000
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, "40%")
    resize(world, second, "60%")
    resize(world, first, "40%")
    assert sent_bytes(world)[-1] == size * 400 // 1000
    assert {job.memory_bytes for job in world.scheduler.node_service.cards()[0].jobs} == {
        size * 400 // 1000,
        size * 600 // 1000,
    }


def test_resized_percentage_survives_a_restart(world: World) -> None:
    first = world.submit(name="first", **share_of(4))
    world.settle()
    resize(world, first, "12.5%")
    world.scheduler = world.make()
    card = world.scheduler.node_service.cards()[0]
    assert card.jobs[0].memory_bytes == card.memory_bytes // 8


def test_resize_to_the_same_fraction_as_the_sm_share_is_sent(world: World, card_gib: int) -> None:
    """A job file may omit such a memory share, but the card must still get the new value."""
    first = world.submit(name="first", share={"sm": 0.5, "memory": "25%"}, gpus=None)
    world.settle()
    resize(world, first, "50%")
    assert sent_bytes(world)[-1] == card_gib * GIB // 2


def test_pending_job_starts_when_resized_to_a_smaller_percentage(world: World, card_gib: int) -> None:
    world.submit(name="first", **share_of(card_gib / 2))
    second = world.submit(name="second", share={"memory": "60%"}, gpus=None)
    world.settle()
    assert world.state(second) == "pending"
    resize(world, second, "50%")
    assert world.state(second) == "running"
    share = world.engine.running[second, 0].tasks[0].share
    assert (share.memory_bytes, share.memory_milli) == (0, 500)


def test_percentage_is_refused_for_a_job_running_on_cards_of_different_sizes(tmp_path, database) -> None:
    cards = (Card("small", memory_bytes=8 * GIB), Card("large", memory_bytes=12 * GIB))
    world = World(tmp_path, Cluster((Node("n", cards, 8000, 64 * GIB),)), database)
    job_id = world.submit(count=2, **share_of(7))
    world.settle()
    with pytest.raises(Invalid, match="differs between its tasks or cards"):
        resize(world, job_id, "50%")
    assert not world.engine.resized


def test_percentage_is_refused_on_a_card_of_unknown_memory(tmp_path, database) -> None:
    world = World(tmp_path, Cluster((Node("n", (Card("c", memory_bytes=0),), 8000, 64 * GIB),)), database)
    job_id = world.submit(share={"sm": 0.5}, gpus=None)
    world.settle()
    with pytest.raises(Invalid, match="of unknown memory"):
        resize(world, job_id, "30%")
    assert sent_bytes(world) == []


def test_released_memory_is_restored_when_the_update_is_refused(world: World, card_gib: int) -> None:
    first = world.submit(name="first", share={"sm": 0.5}, gpus=None)
    world.settle()
    with pytest.raises(Invalid, match="nope"):
        world.scheduler.update(first, JobChange(memory=GIB, lane="nope"), ADA)
    with pytest.raises(Invalid, match="nope"):
        world.scheduler.update(first, JobChange(memory_milli=250, lane="nope"), ADA)
    half = card_gib * GIB // 2
    assert [memory_bytes for *_, memory_bytes in world.engine.resized] == [GIB, half, half // 2, half]


def test_resize_is_refused_when_the_job_started_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine was not asked to release memory, because the job was still pending then."""
    first = world.submit(name="first", **share_of(4))
    pending = world.scheduler.row(first)
    world.settle()
    with monkeypatch.context() as patched:
        patched.setattr(world.scheduler, "row", lambda job_id: pending)
        with pytest.raises(Conflict, match="meanwhile"):
            world.scheduler.update(first, JobChange(memory=GIB), ADA)
    assert not world.engine.resized
    resize(world, first, GIB)
    assert world.engine.resized


@pytest.mark.parametrize("memory", [GIB, "30%"])
def test_resize_of_pods_is_refused(world: World, memory: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = world.submit(**share_of(2))
    monkeypatch.setattr(world.scheduler._context, "cluster_engine", object())
    with pytest.raises(Invalid, match="fixed when a pod is created"):
        resize(world, job_id, memory)


@pytest.mark.parametrize("file", [{"gpus": 1}, {"share": {"sm": 0.001}, "gpus": None}])
def test_resize_is_refused_for_a_job_without_a_memory_share(world: World, file: dict) -> None:
    job_id = world.submit(**file)
    world.settle()
    with pytest.raises(Invalid, match="the same share"):
        resize(world, job_id, GIB)


def test_resize_of_a_finished_job_is_refused(world: World) -> None:
    job_id = world.submit(**share_of(1))
    world.settle()
    world.engine.end(job_id, 0)
    world.settle()
    with pytest.raises(Conflict):
        resize(world, job_id, GIB)


def test_resize_to_zero_is_refused(world: World) -> None:
    job_id = world.submit(**share_of(1))
    with pytest.raises(Invalid, match="must be greater than zero"):
        resize(world, job_id, "0")
    with pytest.raises(Invalid, match="less than a thousandth"):
        resize(world, job_id, "0%")
