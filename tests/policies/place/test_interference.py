"""Placing by who slows whom: beside whom, alone, or not yet."""

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


def machine(cards: int, gib: int = 16, models: Sequence[str] = ("A",)) -> Space:
    made = tuple(Card(f"gpu{i}", models[i % len(models)], gib * GIB) for i in range(cards))
    return Space(ClusterArrays(Cluster((Node("n", made, 64_000, 512 * GIB),))))


def rates(table: Table) -> Rate:
    """The product over the neighbours; what the table does not name slows nobody."""

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return float(np.prod([table.get((own.app, other.app), 1.0) for other in others]))

    return rate


def both(a: str, b: str, ratio: float) -> Table:
    return {(a, b): ratio, (b, a): ratio}


def propose(space: Space, each: Job, rate: Rate | None, spec: str = "interference:goal=work", must_place: bool = False):
    place = registry.create("place", spec)
    return place.propose(each, SpaceTrial(space, each, rate=rate, must_place=must_place))


def card_of(answer: Placement | Refusal) -> int:
    assert isinstance(answer, Placement), answer
    return int(answer.parts[0].cards[0, 0])


def seat(space: Space, *on: tuple[Job, int]) -> Space:
    for each, card in on:
        SpaceTrial(space, each).put(SpaceTrial(space, each).groups[0], np.array([0]), np.array([[card]]))
    return space


# -- what it chooses ------------------------------------------------------------------------------------------------


def test_it_joins_those_who_lose_least_with_it():
    space = seat(machine(2), (job("a1"), 0), (job("b1"), 1))
    assert card_of(propose(space, job("c1"), rates({**both("a", "c", 0.7), **both("b", "c", 0.8)}))) == 1


def test_what_the_neighbours_lose_counts_as_much_as_its_own_loss():
    space = seat(machine(2), (job("a1"), 0), (job("b1"), 1))
    table = {("c", "a"): 1.0, ("a", "c"): 0.3, ("c", "b"): 0.8, ("b", "c"): 0.8}
    assert card_of(propose(space, job("c1"), rates(table))) == 1


def test_an_idle_card_is_better_than_any_but_a_small_loss():
    space = seat(machine(2), (job("a1"), 0))
    assert card_of(propose(space.copy(), job("c1"), rates(both("a", "c", 0.9)))) == 1
    assert card_of(propose(space.copy(), job("c1"), rates(both("a", "c", 0.98)))) == 0
    assert (
        card_of(propose(space.copy(), job("c1"), rates(both("a", "c", 0.9)), "interference:goal=work,join_loss=0.3"))
        == 0
    )


def test_it_refuses_where_sharing_gains_nothing_and_says_why():
    space = seat(machine(1), (job("a1"), 0))
    answer = propose(space, job("c1"), rates(both("a", "c", 0.5)))
    assert isinstance(answer, Refusal)
    assert answer.code is ReasonCode.INTERFERENCE
    assert "gpu0 with a: it would run at 50% of its speed alone" in answer.note
    assert space.sharers[0] == (job("a1"),)
    assert card_of(propose(space, job("c1"), rates(both("a", "c", 0.5)), "interference:goal=work,most_loss=1")) == 0


def test_who_insists_takes_the_best_of_the_bad_but_never_what_does_not_fit():
    space = seat(machine(2), (job("a1"), 0), (job("b1"), 1))
    table = {**both("a", "c", 0.2), **both("b", "c", 0.3)}
    assert card_of(propose(space.copy(), job("c1"), rates(table), must_place=True)) == 1
    answer = propose(space, job("c1"), rates({**both("a", "c", 0.0), ("b", "c"): 0.0}), must_place=True)
    assert isinstance(answer, Refusal)
    assert "do not fit on one card" in answer.note


def test_memory_forbids_the_best_neighbour():
    space = seat(machine(2), (job("a1", gib=15), 0), (job("b1"), 1))
    assert card_of(propose(space, job("c1", gib=2), rates(both("b", "c", 0.7)))) == 1


def test_a_third_is_judged_by_what_it_takes_from_both():
    space = seat(machine(2), (job("a1"), 0), (job("a2"), 0), (job("b1"), 1))
    table = {**both("a", "c", 0.8), **both("b", "c", 0.7)}
    assert card_of(propose(space, job("c1"), rates(table))) == 1


def test_services_and_higher_classes_count_more_where_it_says_so():
    served = Slo(latency_us=1000)
    space = seat(machine(2), (job("a1", slo=served), 0), (job("b1"), 1))
    table = {**both("a", "c", 0.8), **both("b", "c", 0.75)}
    assert card_of(propose(space.copy(), job("c1"), rates(table))) == 0
    assert card_of(propose(space.copy(), job("c1"), rates(table), "interference:goal=work,weigh=slo")) == 1
    # A batch job may not cost a service so much, but the other way round it may.
    bad = rates({("a", "c"): 0.4, ("c", "a"): 0.7})
    alone = seat(machine(1), (job("a1", slo=served), 0))
    assert isinstance(propose(alone, job("c1"), bad, "interference:goal=work,weigh=slo"), Refusal)
    beside = seat(machine(1), (job("c1"), 0))
    assert card_of(propose(beside, job("a1", slo=served), bad, "interference:goal=work,weigh=slo")) == 0


def test_gangs_count_by_their_cards_where_it_says_so():
    wide = Job("w1", (Role("w", 4, Request(share=Share(GIB))),), app="w")
    space = seat(machine(2), (job("b1"), 1))
    seat(space, (wide, 0))
    table = {**both("w", "c", 0.8), **both("b", "c", 0.7)}
    assert card_of(propose(space.copy(), job("c1"), rates(table))) == 0
    assert card_of(propose(space.copy(), job("c1"), rates(table), "interference:goal=work,weigh=size")) == 1


def test_cards_of_another_model_are_judged_apart():
    space = seat(machine(2, models=("A", "B")), (job("a1"), 0), (job("a2", app="a"), 1))

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return 0.9 if gpu == "B" else 0.6

    assert card_of(propose(space, job("c1"), rate)) == 1


def test_who_was_promised_a_part_of_the_card_counts_as_there():
    space = seat(machine(2), (job("a1"), 0), (job("a2", app="a"), 1))
    later = seat(machine(2), (job("b1"), 0))
    space.keep_least(later)
    assert card_of(propose(space, job("c1"), rates({**both("b", "c", 0.5), **both("a", "c", 0.9)}))) == 1


def test_equal_companies_are_asked_about_once():
    space = machine(64)
    for card in range(64):
        seat(space, (job(f"a{card}", app="a"), card))
    asked = []

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        asked.append(own.id)
        return 0.9

    assert card_of(propose(space, job("c1"), rate)) == 0
    assert len(asked) == 2


def test_without_a_rate_it_is_standalone():
    busy = {"a": 0.2, "b": 0.9}
    jobs = [Job(f"j{i}", job(f"j{i}").roles, app=app, profile=Profile(busy[app])) for i, app in enumerate("abababab")]
    here, there = machine(4), machine(4)
    for each in jobs:
        assert card_of(propose(here, each, None)) == card_of(propose(there, each, None, "standalone"))
    assert registry.create("place", "interference").rank(jobs) == registry.create("place", "standalone").rank(jobs)


@pytest.mark.parametrize("spec", ["join_loss=-1", "most_loss=nan", "weigh=mine"])
def test_parameters_are_checked(spec: str):
    with pytest.raises(Invalid):
        registry.create("place", f"interference:{spec}")


# -- what always holds ----------------------------------------------------------------------------------------------

tables = st.fixed_dictionaries({(a, b): st.sampled_from(RATIOS) for a in APPS for b in APPS})
arrivals = st.lists(st.tuples(st.sampled_from(APPS), st.integers(1, 9)), min_size=1, max_size=12)


@given(tables, arrivals, st.booleans())
def test_never_two_that_do_not_fit_and_never_more_memory_than_there_is(table: Table, arrive, must_place: bool):
    space, rate = machine(3), rates(table)
    for number, (app, gib) in enumerate(arrive):
        propose(space, job(f"{app}{number}", gib=gib), rate, must_place=must_place)
    assert (space.card_memory_free >= 0).all()
    for sharers in space.sharers.values():
        for place, own in enumerate(sharers):
            assert rate(own, [*sharers[:place], *sharers[place + 1 :]]) > 0 or len(sharers) == 1


@given(arrivals)
def test_where_nobody_loses_anything_it_packs_like_binpack(arrive):
    here, there = machine(4), machine(4)
    for number, (app, gib) in enumerate(arrive):
        each = job(f"{app}{number}", gib=gib)
        mine, theirs = propose(here, each, rates({})), propose(there, each, None, "binpack")
        assert isinstance(mine, Refusal) == isinstance(theirs, Refusal)
        if isinstance(mine, Placement):
            assert card_of(mine) == card_of(theirs)


@given(tables, st.lists(st.lists(st.sampled_from(APPS), max_size=3), min_size=1, max_size=4), st.sampled_from(APPS))
def test_one_newcomer_goes_where_trying_every_card_says(table: Table, companies: list[list[str]], app: str):
    space, rate, new = machine(len(companies)), rates(table), job("new", app=app)
    for card, company in enumerate(companies):
        seat(space, *((job(f"{one}{card}{i}", app=one), card) for i, one in enumerate(company)))
    losses = [_loss(rate, new, [job(one) for one in company]) for company in companies]
    answer = propose(space, new, rate)
    shared = [loss for loss, company in zip(losses, companies, strict=True) if company]
    if [] in companies and min(shared, default=9.0) > 0.05:
        assert companies[card_of(answer)] == []
    elif min(losses) > 0.95:
        assert isinstance(answer, Refusal)
    else:
        assert losses[card_of(answer)] == pytest.approx(min(shared))


def _loss(rate: Rate, new: Job, company: list[Job]) -> float:
    """Speed of all before, less speed of all after, and one for the newcomer that was expected to add as much."""
    after = [rate(one, [*company[:i], *company[i + 1 :], new]) for i, one in enumerate(company)]
    if company and (rate(new, company) <= 0 or min(after) <= 0):
        return float("inf")
    before = [rate(one, [*company[:i], *company[i + 1 :]]) for i, one in enumerate(company)]
    return 1 + sum(before) - sum(after) - rate(new, company)


# -- jobs that arrive together --------------------------------------------------------------------------------------


asked = st.tuples(st.sampled_from(APPS), st.sampled_from([0, 1, 2]))
"""A workload and its GiB."""


@examples(200)
@given(tables, st.lists(asked, min_size=2, max_size=9))
def test_ranked_jobs_find_the_partners_of_the_best_pairing(table: Table, asked: list[tuple[str, int]]):
    """Where nobody joins another for next to nothing, half of them open the cards and the rest finds its partners,
    whoever is as good as another."""
    slow = {pair: min(max(ratio, 0.1), 0.9) for pair, ratio in table.items()}
    rate = rates(slow)
    jobs = [halves(f"j{i}", app, gib) for i, (app, gib) in enumerate(asked)]
    ranked = registry.create("place", "interference:goal=work").rank(jobs, rate, "A")
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)
    space = machine(-(-len(jobs) // 2))
    for each in ranked:
        assert isinstance(propose(space, each, rate, "interference:goal=work,most_loss=inf"), Placement)
    pairs = [tuple(job.app for job in on) for on in space.sharers.values()]
    made = sum(_time(slow, *pair) for pair in pairs if len(pair) == 2)
    assert made == pytest.approx(_least_time(slow, tuple(app for app, _ in asked)))


def test_partners_that_are_as_good_as_others_leave_the_only_good_ones_to_those_who_need_them():
    """b is as slow beside everybody: it must not take the card of the c that a needs."""
    table = {(x, y): 0.25 if {x, y} == {"a", "c"} else 0.1 for x in "abc" for y in "abc"}
    jobs = [halves(f"j{i}", app) for i, app in enumerate("abccab")]
    space = machine(3)
    for each in registry.create("place", "interference:goal=work").rank(jobs, rates(table), "A"):
        propose(space, each, rates(table), "interference:goal=work,most_loss=inf")
    assert sorted("".join(sorted(job.app for job in on)) for on in space.sharers.values()) == ["ac", "ac", "bb"]


def halves(name: str, app: str, gib: int = 0) -> Job:
    """No more than two of them fit on a card."""
    return Job(name, (Role("w", 1, Request(share=Share(gib * GIB, 500))),), app=app)


def _time(table: Table, one: str, other: str) -> float:
    return 4 / (table[one, other] + table[other, one])


def _least_time(table: Table, apps: tuple[str, ...]) -> float:
    if len(apps) < 2:
        return 0.0
    first, rest = apps[0], apps[1:]
    paired = [_time(table, first, other) + _least_time(table, rest[:i] + rest[i + 1 :]) for i, other in enumerate(rest)]
    return min([*paired, *([_least_time(table, rest)] if len(apps) % 2 else [])])


def test_many_jobs_are_paired_without_trying_all_ways():
    jobs = [job(f"{app}{i}") for i in range(20) for app in "ab"]
    ranked = in_order_of_pairs(jobs, rates({("a", "a"): 0.5, ("b", "b"): 0.5}), "A", lambda each: 1.0)
    assert [each.app for each in ranked[:20]] == ["a"] * 20
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)


# -- the goal: ends, or work -----------------------------------------------------------------------------------------


def ask(company: list[Job], ratio: float, left: dict[str, int], waiting: int = 1) -> Placement | Refusal:
    """A newcomer "new" to cards that have one job each, all as fast beside it as it is beside them."""
    space = machine(len(company))
    for card, one in enumerate(company):
        SpaceTrial(space, one).put(SpaceTrial(space, one).groups[0], np.array([0]), np.array([[card]]))
    new = job("new")
    trial = SpaceTrial(space, new, rate=lambda own, others, gpu="": ratio if others else 1.0,
                  left_us=lambda each: left.get(each.id), waiting=waiting)  # fmt: skip
    return registry.create("place", "interference").propose(new, trial)


@pytest.mark.parametrize(("ratio", "shares"), [(0.6, False), (0.7, True)])
def test_two_of_one_length_share_only_if_they_end_earlier_than_in_turns(ratio: float, shares: bool):
    """Together both end at 1 / ratio; in turns at 1 and 2. The mean is the same at two thirds."""
    for left in ({}, {"a1": 5_000_000, "new": 5_000_000}):
        assert isinstance(ask([job("a1")], ratio, left), Placement) is shares


def test_a_short_job_joins_a_long_one_at_a_loss_rather_than_wait_for_its_end():
    left = {"a1": 1_000_000_000, "new": 1_000_000}
    assert isinstance(ask([job("a1")], 0.3, left), Placement)
    assert isinstance(ask([job("a1")], 0.3, {**left, "new": 1_000_000_000}), Refusal)


def test_it_waits_for_the_card_that_is_idle_first_unless_as_many_others_wait():
    left = {"a1": 1_000_000_000, "b1": 2_000_000, "new": 1_000_000}
    company = [job("a1"), job("b1")]
    assert isinstance(ask(company, 0.3, left), Refusal)
    assert isinstance(ask(company, 0.3, left, waiting=2), Placement)


def test_whoever_is_nearly_done_is_not_held_up_for():
    left = {"a1": 1_000_000, "new": 1_000_000_000}
    assert isinstance(ask([job("a1")], 0.5, left), Refusal)


def test_of_endless_neighbours_it_is_believed_that_they_take_as_long_as_the_newcomer():
    assert isinstance(ask([job("a1")], 0.5, {"new": 1_000_000}), Refusal)
    assert isinstance(ask([job("a1")], 0.8, {"new": 1_000_000}), Placement)


@given(st.lists(st.sampled_from(APPS), min_size=2, max_size=8), tables)
def test_ranked_for_ends_they_end_no_later_than_by_the_best_pairing_or_turns(apps: list[str], table: Table):
    rate = rates({pair: min(max(table[min(pair), max(pair)], 0.1), 1.0) for pair in table})
    jobs = [Job(f"j{i}", (Role("w", 1, Request(share=Share(0, 500))),), app=app) for i, app in enumerate(apps)]
    ranked = registry.create("place", "interference").rank(jobs, rate, "A")
    assert sorted(each.id for each in ranked) == sorted(each.id for each in jobs)
