"""Messages, numbers and cures of each reason, in small examples."""

import pytest

from gpusquad.core.explain.explain import position, when, why
from gpusquad.core.explain.forecast import Eta
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.model.cluster import GIB, Card, Cluster, MaintenanceWindow, Node, grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Request, Share
from gpusquad.model.reasons import Reason, ReasonCode
from tests.core.states import HOUR, job, state_of, submit


def codes(reasons: list[Reason]) -> list[ReasonCode]:
    return [r.code for r in reasons]


def test_no_block_reason_gives_the_largest_free_block() -> None:
    state = state_of(grid("2x8"))
    submit(state, job("a", Request(gpus=3)), job("b", Request(gpus=6)), job("big", Request(gpus=8)))
    (reason,) = [r for r in why(state, "big") if r.code is ReasonCode.NO_BLOCK]
    assert "needs 8 on one node, largest free block 5" in str(reason)


def test_gang_reason_gives_the_number_of_tasks_with_room() -> None:
    state = state_of(grid("2x4"))
    submit(state, job("a", Request(gpus=1)), job("b", Request(gpus=2), 4))
    reasons = why(state, "b")
    assert ReasonCode.GANG in codes(reasons)
    assert "room for 3 of 4 tasks" in reasons[0].message


def test_no_cpu_reason_counts_only_nodes_with_suitable_cards() -> None:
    nodes = (Node("full", (Card("c0"),), 4000, GIB), Node("bare", (), 64_000, GIB))
    state = state_of(Cluster(nodes))
    submit(state, job("a", Request(cpu_milli=3000)), job("b", Request(gpus=1, cpu_milli=2000)))
    taken = [state.space.fixed.node_ids[n] for n in state.runs["a"].placement.all_nodes()]
    assert taken == ["full"] or "b" in state.runs
    if "b" in state.queue:
        reasons = why(state, "b")
        assert ReasonCode.NO_CPU in codes(reasons)
        assert "the nodes with cards for it have at most 1 core free on one" in str(reasons[-1])


def test_card_taken_reason_names_the_job_that_holds_the_card() -> None:
    state = state_of(grid("1x2"))
    submit(state, job("a", Request(gpus=1, card="n0/1")), job("b", Request(gpus=1, card="n0/1")))
    (reason,) = why(state, "b")
    assert (reason.code, reason.who) == (ReasonCode.CARD_TAKEN, ("a",))
    assert "1 other is idle" in reason.cure


def test_reason_uses_the_singular_when_one_card_is_needed_or_idle() -> None:
    state = state_of(grid("1x2"))
    submit(state, job("a", Request(gpus=1)), job("b", Request(gpus=2)))
    assert next(reason.message for reason in why(state, "b")) == "needs 2 idle cards, 1 is idle"
    full = state_of(grid("1x1"))
    submit(full, job("a", Request(gpus=1)), job("b", Request(gpus=1)))
    assert [reason.message for reason in why(full, "b")] == ["needs 1 idle card, 0 are idle"]


def test_gang_reason_uses_the_singular_when_one_task_has_room() -> None:
    state = state_of(grid("1x2"))
    submit(state, job("a", Request(gpus=1)), job("b", Request(gpus=1), count=2))
    assert "allow 1 task (min: 1)" in "; ".join(reason.cure for reason in why(state, "b"))


def test_limit_reason_uses_the_singular_when_the_limit_is_one_gpu() -> None:
    state = state_of(grid("1x2"), tenants=(TenantQuota("red", limit_gpus=1),))
    submit(state, *(job(name, Request(gpus=1), tenant="red") for name in "ab"))
    assert "tenant red holds 1 of at most 1 GPU; the job needs 1" in [reason.message for reason in why(state, "b")]


def test_no_share_reason_gives_the_most_free_memory() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=12 * GIB),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(8 * GIB, 500))), job("b", Request(share=Share(6 * GIB, 200))))
    (reason,) = why(state, "b")
    assert reason.code is ReasonCode.NO_SHARE
    assert reason.numbers["most_bytes"] == 4 * GIB


def test_sm_share_without_memory_waits_for_the_same_fraction_of_memory() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=12 * GIB),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(8 * GIB, 100))), job("b", Request(share=Share(sm_milli=500))))
    (reason,) = why(state, "b")
    assert "needs 50% of the memory (6.4 GB) and 50% of the SMs of one card" in str(reason)
    assert "set share.memory" in reason.cure
    assert (reason.numbers["needed_bytes"], reason.numbers["most_bytes"]) == (6 * GIB, 4 * GIB)
    submit(state, job("c", Request(share=Share(sm_milli=333))))  # just under 4 GiB
    assert "c" not in state.queue


def test_no_share_reason_for_a_memory_percentage_gives_its_bytes() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=12 * GIB),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(8 * GIB))), job("b", Request(share=Share(memory_milli=500))))
    (reason,) = why(state, "b")
    assert "needs 50% of the memory (6.4 GB) of one card" in str(reason)
    assert reason.cure == "wait, or request a smaller share"


def test_no_share_reason_has_no_bytes_when_the_card_memory_is_unknown() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=0),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(sm_milli=500))), job("b", Request(share=Share(sm_milli=600))))
    (reason,) = why(state, "b")
    assert reason.message == (
        "needs 60% of the memory and 60% of the SMs of one card; the most free on any is 50% of the SMs; "
        "their memory size is unknown"
    )
    assert reason.numbers == {"needed_sm_milli": 600, "most_sm_milli": 500}


def test_device_slot_reason_has_no_bytes_when_the_card_memory_is_unknown() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=0),), 1000, GIB),)))
    submit(state, job("a", Request(gpus=1)), job("b", Request(share=Share(sm_milli=1))))
    (reason,) = why(state, "b")
    assert "needs a part of one card;" in str(reason)
    assert "0 B" not in str(reason)


def test_no_share_reason_uses_the_cards_with_known_memory() -> None:
    cards = (Card("c", memory_bytes=0), Card("d", memory_bytes=12 * GIB))
    state = state_of(Cluster((Node("n", cards, 1000, GIB),)))
    submit(state, job("a", Request(gpus=1, card="c")), job("b", Request(share=Share(8 * GIB))))
    submit(state, job("d", Request(share=Share(sm_milli=500))))
    (reason,) = why(state, "d")
    assert "needs 50% of the memory (6.4 GB)" in str(reason)
    assert (reason.numbers["needed_bytes"], reason.numbers["most_bytes"]) == (6 * GIB, 4 * GIB)


def test_device_slot_waits_for_the_memory_that_is_charged_for_it() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=12 * GIB),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(12 * GIB))), job("b", Request(share=Share(sm_milli=1))))
    (reason,) = why(state, "b")
    assert "needs 1.1 GB of one card" in str(reason)
    assert (reason.numbers["needed_bytes"], reason.cure) == (GIB, "wait")


def test_reserved_reason_names_the_job_that_would_be_delayed() -> None:
    state = state_of(grid("1x4"))
    submit(state, job("a", Request(gpus=2)))
    submit(state, job("head", Request(gpus=4)))
    submit(state, job("long", Request(gpus=2)), hours=3)
    (reason,) = why(state, "long")
    assert (reason.code, reason.who) == (ReasonCode.RESERVED, ("head",))
    assert reason.cure == "a run of at most 1h00m can be backfilled"


def test_behind_reason_names_the_head_under_the_plan_without_backfill() -> None:
    state = state_of(grid("1x4"), "none")
    submit(state, job("a", Request(gpus=2)), job("head", Request(gpus=4)), job("small", Request(gpus=1)))
    assert (ReasonCode.BEHIND, ("head",)) in [(r.code, r.who) for r in why(state, "small")]
    assert position(state, "small") == 2
    assert ReasonCode.BEHIND not in codes(why(state, "head"))


def test_limits_of_tenant_and_lane_are_both_reported() -> None:
    state = state_of(grid("1x8"), tenants=(TenantQuota("red", limit_gpus=3),), lanes=(Lane("all", limit_ratio=0.5),))
    submit(state, job("a", Request(gpus=2), tenant="red"), job("b", Request(gpus=3), tenant="red"))
    assert codes(why(state, "b")) == [ReasonCode.TENANT_LIMIT, ReasonCode.LANE_LIMIT]


def test_maintenance_window_and_drained_node_are_reported() -> None:
    state = state_of(grid("2x1"), windows=(MaintenanceWindow("w", ("n0",), HOUR // 2, 2 * HOUR),))
    submit(state, job("a", Request(gpus=1), 2))
    (reason,) = [r for r in why(state, "a") if r.code is ReasonCode.WINDOW]
    assert reason.who == ("n0",)
    assert "fits before it" in reason.cure
    state = state_of(grid("2x1"))
    state.space.set_node_up(1, False)
    submit(state, job("a", Request(gpus=1), 2))
    assert ReasonCode.DOWN in codes(why(state, "a"))


def test_queries_about_jobs_that_are_not_pending_are_refused() -> None:
    state = state_of(grid("1x1"))
    submit(state, job("a", Request(gpus=1)))
    for query in (why, position, when):
        with pytest.raises(Invalid):
            query(state, "a")
        with pytest.raises(Invalid):
            query(state, "nobody")


def test_start_beyond_the_horizon_is_not_told():
    """A user said 68 years. Nobody plans by that."""
    state = state_of(grid("1x2"))
    submit(state, job("service", Request(1)), hours=(2**31) / 3600)
    submit(state, job("wide", Request(2)), hours=1)
    submit(state, job("guest", Request(1)), hours=20_000_000)
    (reason,) = why(state, "guest")
    assert reason.message.startswith("would delay wide (its start is not known: more than a year away)")
    assert reason.cure == "wait"
    assert when(state, "wide") == Eta(None, None)
