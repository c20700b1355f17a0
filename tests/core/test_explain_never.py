"""Jobs that can never run are told the limit and the cure, and no others are."""

import pytest
from hypothesis import given

from gpusquad.core.explain.explain import refusal, why_never
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Request, Share
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import parse_bytes
from tests.core.states import job, state_of, submit
from tests.strategies import Load, loads

TWO_KINDS = Cluster((
    Node("n0", tuple(Card(f"a{i}", "A100", 40 * GIB) for i in range(8)), 64_000, 256 * GIB),
    Node("n1", tuple(Card(f"v{i}", "V100", 16 * GIB) for i in range(4)), 128_000, 64 * GIB),
))  # fmt: skip


@pytest.mark.parametrize(("request_", "count", "words"), [
    (Request(gpus=16), 1, "requests 16 GPUs on one node; the largest node has 8"),
    (Request(gpus=8, gpu_models=("V100",)), 1, "the largest node with V100 has 4"),
    (Request(gpus=1, gpu_models=("H100",)), 1, "requests GPU model H100; the cluster has A100, V100"),
    (Request(gpus=1, card="x"), 1, "card 'x' does not exist"),
    (Request(share=Share(80 * GIB)), 1, "requests a card with 85.9 GB; the largest has 42.9 GB"),
    (Request(gpus=1, min_card_memory_bytes=20 * GIB, gpu_models=("V100",)), 1, "the largest with V100 has 17.2 GB"),
    (Request(gpus=1), 13, "the gang has 13 tasks; the idle cluster has room for 12"),
    (Request(cpu_milli=200_000), 1, "requests 200 cores per task; the largest node has 128 cores"),
    (Request(memory_bytes=512 * GIB), 1, "the largest node has 274.9 GB of memory"),
    (Request(gpus=8, cpu_milli=100_000), 1, "no node has 8 GPUs, 100 cores together"),
])  # fmt: skip
def test_never_names_the_limit(request_: Request, count: int, words: str) -> None:
    state = state_of(TWO_KINDS)
    asked = job("j", request_, count)
    assert not state.can_ever_run(asked)
    reason = why_never(state, asked)
    assert words in reason.message
    assert reason.cure
    assert refusal(state, asked) == reason


def test_the_cure_of_too_much_memory_can_be_typed() -> None:
    """80 GiB is 85.9 GB as people read it, and a little less in truth."""
    state = state_of(Cluster((Node("n0", (Card("a", "H100", 80 * GIB),), 64_000, 256 * GIB),)))
    told = refusal(state, job("j", Request(share=Share(85_900_000_000))))
    assert told is not None
    assert "share.memory: requests a card with 85900000000 bytes; the largest has 85899345920 bytes" in told.message
    assert told.cure == "request at most 85.8 GB"
    asked = parse_bytes(told.cure.removeprefix("request at most "), "share.memory")
    assert refusal(state, job("k", Request(share=Share(asked)))) is None
    told = refusal(state, job("l", Request(gpus=1, min_card_memory_bytes=90 * GIB)))
    assert told is not None
    assert told.message.startswith("gpu_memory: requests a card with 96.6 GB; the largest has 85.9 GB")


@pytest.mark.parametrize(("request_", "cure"), [
    (Request(share=Share(6 * GIB)), "request a percentage of it: 30%"),
    (Request(gpus=1, min_card_memory_bytes=GIB), "omit it"),
])  # fmt: skip
def test_bytes_are_never_there_where_nobody_knows_of_any(request_: Request, cure: str) -> None:
    state = state_of(Cluster((Node("n", (Card("c", "A100", memory_bytes=0),), 1000, GIB),)))
    told = refusal(state, job("j", request_))
    assert told is not None
    assert "GB; the memory size of the cards is unknown" in told.message
    assert told.cure == cure


VIRTUAL = Cluster((Node("parts", tuple(Card(f"g.{i}of4", "A100", 10 * GIB) for i in range(1, 5)), 64_000, 256 * GIB),))


def test_a_task_never_has_several_virtual_cards() -> None:
    state, asked = state_of(VIRTUAL), job("j", Request(gpus=2))
    told = refusal(state, asked)
    assert told is not None
    assert "gpus: requests 2 virtual cards per task" in told.message
    assert "gpus: 1" in told.cure
    assert why_never(state, asked) == told
    assert refusal(state, job("k", Request(gpus=1), 4)) is None


def test_a_task_whose_programs_have_one_card_each_takes_virtual_ones() -> None:
    state, asked = state_of(VIRTUAL), job("j", Request(gpus=2, gpus_together=1))
    assert refusal(state, asked) is None
    submit(state, asked)
    assert len(state.runs["j"].placement.all_cards()) == 2
    told = refusal(state, job("k", Request(gpus=3, gpus_together=2)))
    assert told is not None
    assert "requests 2 virtual cards per container" in told.message


def test_who_asks_for_one_card_is_not_told_of_virtual_ones() -> None:
    cluster = Cluster((*VIRTUAL.nodes, Node("whole", (Card("h0", "H100", 80 * GIB),), 64_000, 256 * GIB)))
    told = refusal(state_of(cluster), job("j", Request(gpus=1, card="h0", gpu_models=("A100",))))
    assert told is not None
    assert "virtual" not in told.message


def test_beside_virtual_cards_whole_ones_serve_several_at_once() -> None:
    cluster = Cluster((*VIRTUAL.nodes, *TWO_KINDS.nodes))
    state = state_of(cluster)
    submit(state, job("wide", Request(gpus=4, gpu_models=("A100",))), job("wider", Request(gpus=4)))
    names = state.space.fixed.card_ids
    held = [names[card] for run in state.runs.by_id.values() for card in run.placement.all_cards()]
    assert len(held) == 8
    assert not [card for card in held if "of4" in card]
    told = refusal(state, job("widest", Request(gpus=16)))
    assert told is not None
    assert "the largest node has 8" in told.message


def test_never_by_rules() -> None:
    state = state_of(grid("1x8"), tenants=(TenantQuota("red", limit_gpus=3),), lanes=(Lane("all", limit_ratio=0.5),))
    told = refusal(state, job("a", Request(gpus=4), tenant="red"))
    assert told is not None
    assert told.code is ReasonCode.TENANT_LIMIT
    told = refusal(state, job("b", Request(gpus=5)))
    assert told is not None
    assert told.code is ReasonCode.LANE_LIMIT
    told = refusal(state, job("c", Request(gpus=1), lane="fast"))
    assert told is not None
    assert "'fast' does not exist" in told.message
    assert refusal(state, job("d", Request(gpus=1))) is None


@given(loads(most=4, roles=2))
def test_never_and_refusal_agree_with_what_can_run(load: Load) -> None:
    state = SchedulerState(load.cluster, make_policies())
    for trace in load.jobs:
        told = refusal(state, trace.job)
        assert (told is None) == state.can_ever_run(trace.job)
        if told is not None:
            assert told.cure
