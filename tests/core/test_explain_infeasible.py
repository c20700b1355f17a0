"""Infeasible jobs are refused with the limit and a cure; feasible jobs are not."""

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


@pytest.mark.parametrize(("request_", "count", "message"), [
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
    (Request(gpus=1, gpu_models=("A100",), cpu_milli=100_000), 1, "no node has 1 GPU, 100 cores together"),
])  # fmt: skip
def test_infeasible_job_is_refused_with_the_limit(request_: Request, count: int, message: str) -> None:
    state = state_of(TWO_KINDS)
    infeasible_job = job("j", request_, count)
    assert not state.can_ever_run(infeasible_job)
    reason = why_never(state, infeasible_job)
    assert message in reason.message
    assert reason.cure
    assert refusal(state, infeasible_job) == reason


def test_cure_of_too_much_memory_is_a_valid_job_file_value() -> None:
    """80 GiB is 85.9 GB rounded, but slightly less than that in bytes."""
    state = state_of(Cluster((Node("n0", (Card("a", "H100", 80 * GIB),), 64_000, 256 * GIB),)))
    reason = refusal(state, job("j", Request(share=Share(85_900_000_000))))
    assert reason is not None
    assert "share.memory: requests a card with 85900000000 bytes; the largest has 85899345920 bytes" in reason.message
    assert reason.cure == "request at most 85.8 GB"
    allowed_bytes = parse_bytes(reason.cure.removeprefix("request at most "), "share.memory")
    assert refusal(state, job("k", Request(share=Share(allowed_bytes)))) is None
    reason = refusal(state, job("l", Request(gpus=1, min_card_memory_bytes=90 * GIB)))
    assert reason is not None
    assert reason.message.startswith("gpu_memory: requests a card with 96.6 GB; the largest has 85.9 GB")


@pytest.mark.parametrize(("request_", "cure"), [
    (Request(share=Share(6 * GIB)), "request a percentage of it: 30%"),
    (Request(gpus=1, min_card_memory_bytes=GIB), "omit it"),
])  # fmt: skip
def test_memory_in_bytes_is_infeasible_when_the_card_memory_is_unknown(request_: Request, cure: str) -> None:
    state = state_of(Cluster((Node("n", (Card("c", "A100", memory_bytes=0),), 1000, GIB),)))
    reason = refusal(state, job("j", request_))
    assert reason is not None
    assert "GB; the memory size of the cards is unknown" in reason.message
    assert reason.cure == cure


VIRTUAL = Cluster((Node("parts", tuple(Card(f"g.{i}of4", "A100", 10 * GIB) for i in range(1, 5)), 64_000, 256 * GIB),))


def test_several_virtual_cards_per_task_are_infeasible() -> None:
    state, infeasible_job = state_of(VIRTUAL), job("j", Request(gpus=2))
    reason = refusal(state, infeasible_job)
    assert reason is not None
    assert "gpus: requests 2 virtual cards per task" in reason.message
    assert "gpus: 1" in reason.cure
    assert why_never(state, infeasible_job) == reason
    assert refusal(state, job("k", Request(gpus=1), 4)) is None


def test_task_with_one_gpu_per_container_can_use_virtual_cards() -> None:
    state, feasible_job = state_of(VIRTUAL), job("j", Request(gpus=2, gpus_together=1))
    assert refusal(state, feasible_job) is None
    submit(state, feasible_job)
    assert len(state.runs["j"].placement.all_cards()) == 2
    reason = refusal(state, job("k", Request(gpus=3, gpus_together=2)))
    assert reason is not None
    assert "requests 2 virtual cards per container" in reason.message


def test_refusal_of_a_one_gpu_job_does_not_mention_virtual_cards() -> None:
    cluster = Cluster((*VIRTUAL.nodes, Node("whole", (Card("h0", "H100", 80 * GIB),), 64_000, 256 * GIB)))
    reason = refusal(state_of(cluster), job("j", Request(gpus=1, card="h0", gpu_models=("A100",))))
    assert reason is not None
    assert "virtual" not in reason.message


def test_multi_gpu_tasks_use_whole_cards_beside_virtual_ones() -> None:
    cluster = Cluster((*VIRTUAL.nodes, *TWO_KINDS.nodes))
    state = state_of(cluster)
    submit(state, job("wide", Request(gpus=4, gpu_models=("A100",))), job("wider", Request(gpus=4)))
    names = state.space.fixed.card_ids
    held = [names[card] for run in state.runs.by_id.values() for card in run.placement.all_cards()]
    assert len(held) == 8
    assert not [card for card in held if "of4" in card]
    reason = refusal(state, job("widest", Request(gpus=16)))
    assert reason is not None
    assert "the largest node has 8" in reason.message


def test_job_above_a_tenant_or_lane_limit_is_infeasible() -> None:
    state = state_of(grid("1x8"), tenants=(TenantQuota("red", limit_gpus=3),), lanes=(Lane("all", limit_ratio=0.5),))
    reason = refusal(state, job("a", Request(gpus=4), tenant="red"))
    assert reason is not None
    assert reason.code is ReasonCode.TENANT_LIMIT
    reason = refusal(state, job("b", Request(gpus=5)))
    assert reason is not None
    assert reason.code is ReasonCode.LANE_LIMIT
    reason = refusal(state, job("c", Request(gpus=1), lane="fast"))
    assert reason is not None
    assert "'fast' does not exist" in reason.message
    assert refusal(state, job("d", Request(gpus=1))) is None


@given(loads(most=4, roles=2))
def test_refusal_agrees_with_can_ever_run(load: Load) -> None:
    state = SchedulerState(load.cluster, make_policies())
    for trace in load.jobs:
        reason = refusal(state, trace.job)
        assert (reason is None) == state.can_ever_run(trace.job)
        if reason is not None:
            assert reason.cure
