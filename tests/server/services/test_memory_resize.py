"""Another part of a card's memory for a job that waits or runs."""

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


def part(gib: float) -> dict:
    return {"share": {"memory": int(gib * GIB)}, "gpus": None}


def resize(world: World, job_id: str, memory: int | str) -> None:
    """As whoever asks writes it: bytes, ``30%`` or ``peak``."""
    world.scheduler.update(job_id, change_of(ChangeRequest(memory=memory)), ADA)
    world.settle()


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x1", database)


@pytest.fixture
def whole_gib(world: World) -> int:
    return world.scheduler.node_service.cards()[0].memory_bytes // GIB


def told_bytes(world: World) -> list[int | None]:
    return [sharing_params.memory_bytes for *_, sharing_params in world.engine.changed]


def test_what_a_running_job_gives_up_another_can_have(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", **part(whole_gib - 1))
    second = world.submit(name="second", **part(whole_gib / 2))
    world.settle()
    assert (world.state(first), world.state(second)) == ("running", "pending")
    resize(world, first, whole_gib // 2 * GIB)
    assert world.engine.resized == [(first, 0, 1, whole_gib // 2 * GIB)]
    assert world.state(second) == "running"
    assert told_bytes(world)[-1] == whole_gib // 2 * GIB


def test_what_it_holds_it_does_not_give_up(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", **part(whole_gib - 1))
    second = world.submit(name="second", **part(whole_gib / 2))
    world.settle()
    world.engine.holds_bytes = (whole_gib - 2) * GIB
    with pytest.raises(Invalid, match="holds more"):
        resize(world, first, GIB)
    world.settle()
    assert world.state(second) == "pending"
    assert not world.engine.resized


def test_more_is_taken_from_what_nobody_holds(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", **part(1))
    world.submit(name="second", **part(1))
    world.settle()
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, whole_gib * GIB)
    resize(world, first, (whole_gib - 1) * GIB)
    assert told_bytes(world)[-1] == (whole_gib - 1) * GIB
    assert not world.engine.resized, "more is told, and not asked for"
    third = world.submit(name="third", **part(1))
    world.settle()
    assert world.state(third) == "pending"


def test_one_that_waits_asks_for_less(world: World, whole_gib: int) -> None:
    world.submit(name="first", **part(whole_gib - 1))
    second = world.submit(name="second", **part(2))
    world.settle()
    resize(world, second, GIB)
    assert world.state(second) == "running"
    assert world.engine.running[second, 0].tasks[0].share.memory_bytes == GIB


def test_one_that_waits_cannot_ask_for_more_than_any_card_has(world: World, whole_gib: int) -> None:
    world.submit(name="first", **part(whole_gib))
    second = world.submit(name="second", **part(2))
    world.settle()
    with pytest.raises(Invalid, match="memory"):
        resize(world, second, 2 * whole_gib * GIB)
    assert world.state(second) == "pending"


def look(world: World, job_id: str, memory_bytes: int) -> None:
    """A sample of the agent."""
    card = world.scheduler.node_service.cards()[0].id
    held = {"pid": 4, "name": "python", "memory_bytes": memory_bytes, "job": job_id, "attempt": 0}
    cards, runs = [{"id": card, "processes": [held]}], [{"job": job_id, "attempt": 0}]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": 1, "cards": cards, "runs": runs})


def is_a_tenth_over(memory_bytes: int, held_bytes: int) -> bool:
    return memory_bytes % MIB == 0 and 1.1 * held_bytes <= memory_bytes < 1.1 * held_bytes + MIB


def test_by_what_was_seen_of_it(world: World) -> None:
    first = world.submit(name="first", **part(4))
    world.settle()
    with pytest.raises(Invalid, match=r"has no peak yet.*give an amount"):
        resize(world, first, PEAK)
    look(world, first, GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_a_tenth_over(memory_bytes, GIB)


@pytest.mark.parametrize(("sampled", "counted"), [(GIB, 2 * GIB), (2 * GIB, GIB)])
def test_by_samples_or_by_what_its_library_counted_whichever_is_more(world: World, sampled: int, counted: int) -> None:
    """Samples miss the highest moment; the library misses processes that run without it."""
    first = world.submit(name="first", **part(4))
    world.settle()
    look(world, first, sampled)
    world.engine.counted = (counted,)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_a_tenth_over(memory_bytes, 2 * GIB)


def test_tasks_on_one_card_are_told_apart(world: World) -> None:
    """A sample is of both together, and a little of the driver's."""
    first = world.submit(name="first", count=2, **part(4))
    world.settle()
    look(world, first, 4 * GIB + MIB)
    world.engine.counted = (2 * GIB, 2 * GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_a_tenth_over(memory_bytes, 2 * GIB + MIB)


def test_a_peak_never_gives_more_than_there_is(world: World) -> None:
    first = world.submit(name="first", **part(4))
    world.settle()
    world.engine.counted = (4 * GIB - MIB,)
    resize(world, first, PEAK)
    assert world.engine.resized == []
    assert told_bytes(world)[-1:] in ([], [4 * GIB])


def test_the_task_that_held_most_counts(world: World) -> None:
    first = world.submit(name="first", count=3, **part(4))
    world.settle()
    world.engine.counted = (GIB, 2 * GIB, MIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_a_tenth_over(memory_bytes, 2 * GIB)


def test_after_a_restart_only_what_was_counted_all_along_is_believed(world: World) -> None:
    first = world.submit(name="first", count=2, **part(4))
    world.settle()
    look(world, first, 3 * GIB)
    world.scheduler = world.make()
    look(world, first, GIB)
    for counted in ((), (2 * GIB,)):
        world.engine.counted = counted
        with pytest.raises(Invalid, match="started before the service"):
            resize(world, first, PEAK)
    world.engine.counted = (3 * GIB, GIB)
    resize(world, first, PEAK)
    ((*_, memory_bytes),) = world.engine.resized
    assert is_a_tenth_over(memory_bytes, 3 * GIB)


def test_nothing_is_held_of_a_card_that_is_simulated(tmp_path, database) -> None:
    world = World(tmp_path, "1x1", database, simulated=True)
    first = world.submit(name="first", **part(4))
    world.settle()
    look(world, first, 2 * MIB)
    with pytest.raises(Invalid, match=r"simulated.*give an amount"):
        resize(world, first, PEAK)
    resize(world, first, GIB)
    assert world.engine.resized == [(first, 0, 1, GIB)]


def test_it_outlives_a_restart(world: World) -> None:
    first = world.submit(name="first", **part(4))
    world.settle()
    resize(world, first, GIB)
    world.scheduler = world.make()
    assert world.scheduler.node_service.cards()[0].jobs[0].memory_bytes == GIB


def test_a_part_of_the_card_becomes_an_amount(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", share={"sm": 0.5}, gpus=None)
    second = world.submit(name="second", share={"sm": 0.25, "memory": int(whole_gib * 0.75) * GIB}, gpus=None)
    third = world.submit(name="third", share={"sm": 0.25}, gpus=None)
    world.settle()
    assert [world.state(one) for one in (first, second, third)] == ["running", "pending", "running"]
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, int(whole_gib * 0.8) * GIB)
    resize(world, third, GIB)
    assert world.engine.resized == [(third, 0, 1, GIB)]
    resize(world, first, int(whole_gib * 0.75) * GIB)
    assert not world.engine.resized[1:], "more is told, and not asked for"
    resize(world, second, GIB)
    assert world.state(second) == "running"


def test_a_percentage_is_a_part_of_the_card_it_runs_on(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", **part(whole_gib - 1))
    second = world.submit(name="second", share={"memory": "70%"}, gpus=None)
    world.settle()
    resize(world, first, "30%")
    size = world.scheduler.node_service.cards()[0].memory_bytes
    assert world.engine.resized == [(first, 0, 1, size * 300 // 1000)]
    assert world.state(second) == "running"
    assert told_bytes(world)[-1] == size * 300 // 1000
    with pytest.raises(Invalid, match="more than is free on"):
        resize(world, first, "40%")
    resize(world, second, "60%")
    resize(world, first, "40%")
    assert told_bytes(world)[-1] == size * 400 // 1000
    assert {job.memory_bytes for job in world.scheduler.node_service.cards()[0].jobs} == {
        size * 400 // 1000,
        size * 600 // 1000,
    }


def test_a_percentage_outlives_a_restart(world: World) -> None:
    first = world.submit(name="first", **part(4))
    world.settle()
    resize(world, first, "12.5%")
    world.scheduler = world.make()
    card = world.scheduler.node_service.cards()[0]
    assert card.jobs[0].memory_bytes == card.memory_bytes // 8


def test_as_large_a_part_of_the_memory_as_of_the_sms_is_told_too(world: World, whole_gib: int) -> None:
    """It need not be named in a job file; the card has to hear of it all the same."""
    first = world.submit(name="first", share={"sm": 0.5, "memory": "25%"}, gpus=None)
    world.settle()
    resize(world, first, "50%")
    assert told_bytes(world)[-1] == whole_gib * GIB // 2


def test_one_that_waits_asks_for_another_percentage(world: World, whole_gib: int) -> None:
    world.submit(name="first", **part(whole_gib / 2))
    second = world.submit(name="second", share={"memory": "60%"}, gpus=None)
    world.settle()
    assert world.state(second) == "pending"
    resize(world, second, "50%")
    assert world.state(second) == "running"
    share = world.engine.running[second, 0].tasks[0].share
    assert (share.memory_bytes, share.memory_milli) == (0, 500)


def test_a_percentage_of_cards_of_different_sizes_is_for_one_that_waits(tmp_path, database) -> None:
    cards = (Card("small", memory_bytes=8 * GIB), Card("large", memory_bytes=12 * GIB))
    world = World(tmp_path, Cluster((Node("n", cards, 8000, 64 * GIB),)), database)
    job_id = world.submit(count=2, **part(7))
    world.settle()
    with pytest.raises(Invalid, match="differs between its tasks or cards"):
        resize(world, job_id, "50%")
    assert not world.engine.resized


def test_of_a_card_whose_memory_is_not_known_there_is_no_percentage(tmp_path, database) -> None:
    world = World(tmp_path, Cluster((Node("n", (Card("c", memory_bytes=0),), 8000, 64 * GIB),)), database)
    job_id = world.submit(share={"sm": 0.5}, gpus=None)
    world.settle()
    with pytest.raises(Invalid, match="of unknown memory"):
        resize(world, job_id, "30%")
    assert told_bytes(world) == []


def test_what_was_given_up_is_given_back_if_the_rest_is_refused(world: World, whole_gib: int) -> None:
    first = world.submit(name="first", share={"sm": 0.5}, gpus=None)
    world.settle()
    with pytest.raises(Invalid, match="nope"):
        world.scheduler.update(first, JobChange(memory=GIB, lane="nope"), ADA)
    with pytest.raises(Invalid, match="nope"):
        world.scheduler.update(first, JobChange(memory_milli=250, lane="nope"), ADA)
    half = whole_gib * GIB // 2
    assert [memory_bytes for *_, memory_bytes in world.engine.resized] == [GIB, half, half // 2, half]


def test_one_that_began_meanwhile_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked it for what it is to give up: it waited when the engine would have been asked."""
    first = world.submit(name="first", **part(4))
    waiting = world.scheduler.row(first)
    world.settle()
    with monkeypatch.context() as patched:
        patched.setattr(world.scheduler, "row", lambda job_id: waiting)
        with pytest.raises(Conflict, match="meanwhile"):
            world.scheduler.update(first, JobChange(memory=GIB), ADA)
    assert not world.engine.resized
    resize(world, first, GIB)
    assert world.engine.resized


@pytest.mark.parametrize("memory", [GIB, "30%"])
def test_of_pods_it_stays_as_they_were_made(world: World, memory: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = world.submit(**part(2))
    monkeypatch.setattr(world.scheduler._context, "cluster_engine", object())
    with pytest.raises(Invalid, match="fixed when a pod is created"):
        resize(world, job_id, memory)


@pytest.mark.parametrize("file", [{"gpus": 1}, {"share": {"sm": 0.001}, "gpus": None}])
def test_whoever_holds_no_part_of_the_memory_is_told_so(world: World, file: dict) -> None:
    job_id = world.submit(**file)
    world.settle()
    with pytest.raises(Invalid, match="the same share"):
        resize(world, job_id, GIB)


def test_one_that_is_over_cannot_be_changed(world: World) -> None:
    job_id = world.submit(**part(1))
    world.settle()
    world.engine.end(job_id, 0)
    world.settle()
    with pytest.raises(Conflict):
        resize(world, job_id, GIB)


def test_nothing_is_no_amount(world: World) -> None:
    job_id = world.submit(**part(1))
    with pytest.raises(Invalid, match="must be greater than zero"):
        resize(world, job_id, "0")
    with pytest.raises(Invalid, match="less than a thousandth"):
        resize(world, job_id, "0%")
