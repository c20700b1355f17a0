"""The place policy ``interference``: choice of neighbours, idle cards and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.model.cluster import GIB, Card, Cluster, Node
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Profile, Request, Role, Share, Slo
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import Refusal
from gpusquad.policies.place._pairing import in_order_of_pairs
from tests.strategies import examples

APPS = "abcd"
RATIOS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
Table = Mapping[tuple[str, str], float]


def job(
    name: str, app: str = "", gib: int = 1, priority: str = "normal", slo: Slo | None = None, count: int = 1
) -> Job:
    request = Request(share=Share(gib * GIB))
    return Job(name, (Role("w", count, request),), app=app or name[0], priority=priority, slo=slo)


def make_space(cards: int, gib: int = 16, models: Sequence[str] = ("A",)) -> Space:
    gpus = tuple(Card(f"gpu{i}", models[i % len(models)], gib * GIB) for i in range(cards))
    return Space(ClusterArrays(Cluster((Node("n", gpus, 64_000, 512 * GIB),))))


def rates(table: Table) -> Rate:
    """Rate as the product over the neighbours; pairs that the table does not list have rate 1."""

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return float(np.prod([table.get((own.app, other.app), 1.0) for other in others]))

    return rate


def mutual(a: str, b: str, ratio: float) -> Table:
    return {(a, b): ratio, (b, a): ratio}


def propose(space: Space, each: Job, rate: Rate | None, spec: str = "interference:goal=work", must_place: bool = False):
    place = registry.create("place", spec)
    return place.propose(each, SpaceTrial(space, each, rate=rate, must_place=must_place))


def card_of(answer: Placement | Refusal) -> int:
    assert isinstance(answer, Placement), answer
    return int(answer.parts[0].cards[0, 0])


def put_on_cards(space: Space, *job_cards: tuple[Job, int]) -> Space:
    for each, card in job_cards:
        SpaceTrial(space, each).put(SpaceTrial(space, each).groups[0], np.array([0]), np.array([[card]]))
    return space


# -- choice of a card -----------------------------------------------------------------------------------------------


def test_job_joins_the_card_with_the_least_loss():
    space = put_on_cards(make_space(2), (job("a1"), 0), (job("b1"), 1))
    assert card_of(propose(space, job("c1"), rates({**mutual("a", "c", 0.7), **mutual("b", "c", 0.8)}))) == 1


def test_loss_of_neighbours_counts_like_the_own_loss():
    space = put_on_cards(make_space(2), (job("a1"), 0), (job("b1"), 1))
    table = {("c", "a"): 1.0, ("a", "c"): 0.3, ("c", "b"): 0.8, ("b", "c"): 0.8}
    assert card_of(propose(space, job("c1"), rates(table))) == 1


def test_idle_card_is_preferred_unless_the_loss_is_below_join_loss():
    space = put_on_cards(make_space(2), (job("a1"), 0))
    assert card_of(propose(space.copy(), job("c1"), rates(mutual("a", "c", 0.9)))) == 1
    assert card_of(propose(space.copy(), job("c1"), rates(mutual("a", "c", 0.98)))) == 0
    assert (
        card_of(propose(space.copy(), job("c1"), rates(mutual("a", "c", 0.9)), "interference:goal=work,join_loss=0.3"))
        == 0
    )


def test_job_is_refused_with_the_reason_when_sharing_gains_nothing():
    space = put_on_cards(make_space(1), (job("a1"), 0))
    answer = propose(space, job("c1"), rates(mutual("a", "c", 0.5)))
    assert isinstance(answer, Refusal)
    assert answer.code is ReasonCode.INTERFERENCE
    assert "gpu0 with a: it would run at 50% of its speed alone" in answer.note
    assert space.sharers[0] == (job("a1"),)
    assert card_of(propose(space, job("c1"), rates(mutual("a", "c", 0.5)), "interference:goal=work,most_loss=1")) == 0


def test_must_place_takes_the_least_loss_but_never_a_rate_of_zero():
    space = put_on_cards(make_space(2), (job("a1"), 0), (job("b1"), 1))
    table = {**mutual("a", "c", 0.2), **mutual("b", "c", 0.3)}
    assert card_of(propose(space.copy(), job("c1"), rates(table), must_place=True)) == 1
    answer = propose(space, job("c1"), rates({**mutual("a", "c", 0.0), ("b", "c"): 0.0}), must_place=True)
    assert isinstance(answer, Refusal)
    assert "do not fit on one card" in answer.note


def test_best_neighbour_is_not_used_when_memory_is_short():
    space = put_on_cards(make_space(2), (job("a1", gib=15), 0), (job("b1"), 1))
    assert card_of(propose(space, job("c1", gib=2), rates(mutual("b", "c", 0.7)))) == 1


def test_third_job_is_judged_by_the_loss_of_both_neighbours():
    space = put_on_cards(make_space(2), (job("a1"), 0), (job("a2"), 0), (job("b1"), 1))
    table = {**mutual("a", "c", 0.8), **mutual("b", "c", 0.7)}
    assert card_of(propose(space, job("c1"), rates(table))) == 1


def test_weigh_slo_counts_the_loss_of_services_more():
    latency_slo = Slo(latency_us=1000)
    space = put_on_cards(make_space(2), (job("a1", slo=latency_slo), 0), (job("b1"), 1))
    table = {**mutual("a", "c", 0.8), **mutual("b", "c", 0.75)}
    assert card_of(propose(space.copy(), job("c1"), rates(table))) == 0
    assert card_of(propose(space.copy(), job("c1"), rates(table), "interference:goal=work,weigh=slo")) == 1
    # A batch job must not slow a service down this much, but a service may slow the batch job down.
    asymmetric = rates({("a", "c"): 0.4, ("c", "a"): 0.7})
    alone = put_on_cards(make_space(1), (job("a1", slo=latency_slo), 0))
    assert isinstance(propose(alone, job("c1"), asymmetric, "interference:goal=work,weigh=slo"), Refusal)
    beside = put_on_cards(make_space(1), (job("c1"), 0))
    assert card_of(propose(beside, job("a1", slo=latency_slo), asymmetric, "interference:goal=work,weigh=slo")) == 0


def test_weigh_size_counts_gangs_by_their_cards():
    wide_gang = Job("w1", (Role("w", 4, Request(share=Share(GIB))),), app="w")
    space = put_on_cards(make_space(2), (job("b1"), 1))
    put_on_cards(space, (wide_gang, 0))
    table = {**mutual("w", "c", 0.8), **mutual("b", "c", 0.7)}
    assert card_of(propose(space.copy(), job("c1"), rates(table))) == 0
    assert card_of(propose(space.copy(), job("c1"), rates(table), "interference:goal=work,weigh=size")) == 1


def test_rate_is_taken_for_the_model_of_each_card():
    space = put_on_cards(make_space(2, models=("A", "B")), (job("a1"), 0), (job("a2", app="a"), 1))

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return 0.9 if gpu == "B" else 0.6

    assert card_of(propose(space, job("c1"), rate)) == 1


def test_job_with_a_reservation_on_a_card_counts_as_a_neighbour():
    space = put_on_cards(make_space(2), (job("a1"), 0), (job("a2", app="a"), 1))
    reserved = put_on_cards(make_space(2), (job("b1"), 0))
    space.keep_least(reserved)
    assert card_of(propose(space, job("c1"), rates({**mutual("b", "c", 0.5), **mutual("a", "c", 0.9)}))) == 1


def test_rate_is_called_once_for_equal_neighbours():
    space = make_space(64)
    for card in range(64):
        put_on_cards(space, (job(f"a{card}", app="a"), card))
    calls = []

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        calls.append(own.id)
        return 0.9

    assert card_of(propose(space, job("c1"), rate)) == 0
    assert len(calls) == 2


def test_policy_without_a_rate_places_like_standalone():
    utilisation = {"a": 0.2, "b": 0.9}
    jobs = [
        Job(f"j{i}", job(f"j{i}").roles, app=app, profile=Profile(utilisation[app])) for i, app in enumerate("abababab")
    ]
    interference_space, reference_space = make_space(4), make_space(4)
    for each in jobs:
        assert card_of(propose(interference_space, each, None)) == card_of(
            propose(reference_space, each, None, "standalone")
        )
    assert registry.create("place", "interference").rank(jobs) == registry.create("place", "standalone").rank(jobs)


@pytest.mark.parametrize("spec", ["join_loss=-1", "most_loss=nan", "weigh=mine"])
def test_invalid_parameters_are_refused(spec: str):
    with pytest.raises(Invalid):
        registry.create("place", f"interference:{spec}")


# -- properties -----------------------------------------------------------------------------------------------------

tables = st.fixed_dictionaries({(a, b): st.sampled_from(RATIOS) for a in APPS for b in APPS})
arrivals = st.lists(st.tuples(st.sampled_from(APPS), st.integers(1, 9)), min_size=1, max_size=12)


@given(tables, arrivals, st.booleans())
def test_no_neighbours_at_rate_zero_and_no_memory_overcommit(table: Table, arriving, must_place: bool):
    space, rate = make_space(3), rates(table)
    for number, (app, gib) in enumerate(arriving):
        propose(space, job(f"{app}{number}", gib=gib), rate, must_place=must_place)
    assert (space.card_memory_free >= 0).all()
    for sharers in space.sharers.values():
        for index, own in enumerate(sharers):
            assert rate(own, [*sharers[:index], *sharers[index + 1 :]]) > 0 or len(sharers) == 1


@given(arrivals)
def test_policy_packs_like_binpack_when_no_job_loses_speed(arriving):
    interference_space, reference_space = make_space(4), make_space(4)
    for number, (app, gib) in enumerate(arriving):
        each = job(f"{app}{number}", gib=gib)
        ours, reference = propose(interference_space, each, rates({})), propose(reference_space, each, None, "binpack")
        assert isinstance(ours, Refusal) == isinstance(reference, Refusal)
        if isinstance(ours, Placement):
            assert card_of(ours) == card_of(reference)


@given(tables, st.lists(st.lists(st.sampled_from(APPS), max_size=3), min_size=1, max_size=4), st.sampled_from(APPS))
def test_choice_matches_a_search_over_all_cards(table: Table, neighbours_by_card: list[list[str]], app: str):
    space, rate, new = make_space(len(neighbours_by_card)), rates(table), job("new", app=app)
    for card, neighbours in enumerate(neighbours_by_card):
        put_on_cards(space, *((job(f"{name}{card}{i}", app=name), card) for i, name in enumerate(neighbours)))
    losses = [_loss(rate, new, [job(name) for name in neighbours]) for neighbours in neighbours_by_card]
    answer = propose(space, new, rate)
    shared = [loss for loss, neighbours in zip(losses, neighbours_by_card, strict=True) if neighbours]
    if [] in neighbours_by_card and min(shared, default=9.0) > 0.05:
        assert neighbours_by_card[card_of(answer)] == []
    elif min(losses) > 0.95:
        assert isinstance(answer, Refusal)
    else:
        assert losses[card_of(answer)] == pytest.approx(min(shared))


def _loss(rate: Rate, new: Job, neighbours: list[Job]) -> float:
    """1 plus the sum of rates before, minus the sum of rates after with the new job. 0: no job loses speed."""
    after = [rate(own, [*neighbours[:i], *neighbours[i + 1 :], new]) for i, own in enumerate(neighbours)]
    if neighbours and (rate(new, neighbours) <= 0 or min(after) <= 0):
        return float("inf")
    before = [rate(own, [*neighbours[:i], *neighbours[i + 1 :]]) for i, own in enumerate(neighbours)]
    return 1 + sum(before) - sum(after) - rate(new, neighbours)


# -- jobs that arrive together --------------------------------------------------------------------------------------


app_and_gib = st.tuples(st.sampled_from(APPS), st.sampled_from([0, 1, 2]))


@examples(200)
@given(tables, st.lists(app_and_gib, min_size=2, max_size=9))
def test_ranked_jobs_are_placed_in_the_best_pairing(table: Table, requested: list[tuple[str, int]]):
    """No pair shares almost without loss, so half of the jobs open the cards and the others join the best partners."""
    slow_table = {pair: min(max(ratio, 0.1), 0.9) for pair, ratio in table.items()}
    rate = rates(slow_table)
    jobs = [half_card_job(f"j{i}", app, gib) for i, (app, gib) in enumerate(requested)]
    ranked = registry.create("place", "interference:goal=work").rank(jobs, rate, "A")
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)
    space = make_space(-(-len(jobs) // 2))
    for each in ranked:
        assert isinstance(propose(space, each, rate, "interference:goal=work,most_loss=inf"), Placement)
    pairs = [tuple(job.app for job in sharers) for sharers in space.sharers.values()]
    total = sum(_time(slow_table, *pair) for pair in pairs if len(pair) == 2)
    assert total == pytest.approx(_least_time(slow_table, tuple(app for app, _ in requested)))


def test_indifferent_jobs_leave_good_partners_to_jobs_that_need_them():
    """b is equally slow beside every job, so it must not use the card of the c that a needs."""
    table = {(x, y): 0.25 if {x, y} == {"a", "c"} else 0.1 for x in "abc" for y in "abc"}
    jobs = [half_card_job(f"j{i}", app) for i, app in enumerate("abccab")]
    space = make_space(3)
    for each in registry.create("place", "interference:goal=work").rank(jobs, rates(table), "A"):
        propose(space, each, rates(table), "interference:goal=work,most_loss=inf")
    assert sorted("".join(sorted(job.app for job in sharers)) for sharers in space.sharers.values()) == [
        "ac",
        "ac",
        "bb",
    ]


def half_card_job(name: str, app: str, gib: int = 0) -> Job:
    """A job with half of the SMs of a card, so at most two fit on one."""
    return Job(name, (Role("w", 1, Request(share=Share(gib * GIB, 500))),), app=app)


def _time(table: Table, first: str, second: str) -> float:
    return 4 / (table[first, second] + table[second, first])


def _least_time(table: Table, apps: tuple[str, ...]) -> float:
    if len(apps) < 2:
        return 0.0
    first, rest = apps[0], apps[1:]
    paired = [_time(table, first, other) + _least_time(table, rest[:i] + rest[i + 1 :]) for i, other in enumerate(rest)]
    return min([*paired, *([_least_time(table, rest)] if len(apps) % 2 else [])])


def test_many_jobs_are_paired_without_exhaustive_search():
    jobs = [job(f"{app}{i}") for i in range(20) for app in "ab"]
    ranked = in_order_of_pairs(jobs, rates({("a", "a"): 0.5, ("b", "b"): 0.5}), "A", lambda each: 1.0)
    assert [each.app for each in ranked[:20]] == ["a"] * 20
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)


# -- goals: ends or work ---------------------------------------------------------------------------------------------


def propose_beside(neighbours: list[Job], ratio: float, left: dict[str, int], waiting: int = 1) -> Placement | Refusal:
    """Propose the job "new" for cards with one job each; every pair of jobs has the same rate."""
    space = make_space(len(neighbours))
    for card, neighbour in enumerate(neighbours):
        SpaceTrial(space, neighbour).put(SpaceTrial(space, neighbour).groups[0], np.array([0]), np.array([[card]]))
    new = job("new")
    trial = SpaceTrial(space, new, rate=lambda own, others, gpu="": ratio if others else 1.0,
                  left_us=lambda each: left.get(each.id), waiting=waiting)  # fmt: skip
    return registry.create("place", "interference").propose(new, trial)


@pytest.mark.parametrize(("ratio", "shares"), [(0.6, False), (0.7, True)])
def test_equal_jobs_share_only_if_they_end_earlier_than_in_sequence(ratio: float, shares: bool):
    """Together both end at 1 / ratio, in sequence at 1 and 2. The means are equal at a ratio of 2/3."""
    for left in ({}, {"a1": 5_000_000, "new": 5_000_000}):
        assert isinstance(propose_beside([job("a1")], ratio, left), Placement) is shares


def test_short_job_joins_a_long_one_at_a_loss_instead_of_waiting():
    left = {"a1": 1_000_000_000, "new": 1_000_000}
    assert isinstance(propose_beside([job("a1")], 0.3, left), Placement)
    assert isinstance(propose_beside([job("a1")], 0.3, {**left, "new": 1_000_000_000}), Refusal)


def test_job_waits_for_the_first_idle_card_unless_other_jobs_wait_too():
    left = {"a1": 1_000_000_000, "b1": 2_000_000, "new": 1_000_000}
    neighbours = [job("a1"), job("b1")]
    assert isinstance(propose_beside(neighbours, 0.3, left), Refusal)
    assert isinstance(propose_beside(neighbours, 0.3, left, waiting=2), Placement)


def test_long_job_does_not_join_a_job_that_is_nearly_done():
    left = {"a1": 1_000_000, "new": 1_000_000_000}
    assert isinstance(propose_beside([job("a1")], 0.5, left), Refusal)


def test_neighbours_of_unknown_length_count_as_long_as_the_new_job():
    assert isinstance(propose_beside([job("a1")], 0.5, {"new": 1_000_000}), Refusal)
    assert isinstance(propose_beside([job("a1")], 0.8, {"new": 1_000_000}), Placement)


@given(st.lists(st.sampled_from(APPS), min_size=2, max_size=8), tables)
def test_rank_by_ends_keeps_every_job(apps: list[str], table: Table):
    rate = rates({pair: min(max(table[min(pair), max(pair)], 0.1), 1.0) for pair in table})
    jobs = [Job(f"j{i}", (Role("w", 1, Request(share=Share(0, 500))),), app=app) for i, app in enumerate(apps)]
    ranked = registry.create("place", "interference").rank(jobs, rate, "A")
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)
