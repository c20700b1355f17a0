"""The place policy ``measured``: measured interference decides, and binpack where it is unknown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import Refusal
from gpusquad.predict.interference import InterferenceTable
from tests.policies.place.test_interference import GIB, job, make_space, mutual, rates
from tests.strategies import examples


@dataclass
class PartlyKnown:
    """Rates of which only those between some applications are known; the others are predicted as harmful."""

    rate: Rate
    apps: Collection[str]

    def __call__(self, own: Job, others, gpu: str = "", /) -> float:
        if all(self.knows(own, other) for other in others):
            return self.rate(own, others, gpu)
        return 0.3

    def knows(self, own: Job, other: Job, gpu: str = "", /) -> bool:
        return own.app in self.apps and other.app in self.apps


def cards_of(space: Space, each: Job, rate: Rate | None, place: str = "measured") -> list[int] | Refusal:
    """Where the job goes. It is placed there."""
    outcome = registry.create("place", place).propose(each, SpaceTrial(space, each, rate=rate))
    return outcome.all_cards() if isinstance(outcome, Placement) else outcome


def test_job_avoids_a_measured_bad_neighbour_and_joins_an_unmeasured_one():
    space = make_space(3)
    rate = PartlyKnown(rates(mutual("a", "b", 0.5)), "ab")
    assert cards_of(space, job("a1", gib=6), rate) == [0]
    assert cards_of(space, job("x1", gib=4), rate) == [0], "binpack: the fullest card"
    assert cards_of(space, job("b1", gib=6), rate) == [0], "one of its neighbours there is unknown"
    assert cards_of(space, job("a2", gib=6), rate) == [1]
    assert cards_of(space, job("b2", gib=6), rate) == [2], "measured: half the speed beside a2"


def test_job_joins_a_measured_good_neighbour_before_a_fuller_card():
    space = make_space(3)
    rate = PartlyKnown(rates({}), "ab")
    assert cards_of(space, job("x1", gib=12), rate) == [0]
    assert cards_of(space, job("a1", gib=6), rate) == [1]
    assert cards_of(space, job("b1", gib=1), rate) == [1]


def test_job_waits_if_every_card_has_a_measured_neighbour_with_which_sharing_brings_no_gain():
    space = make_space(1)
    rate = PartlyKnown(rates(mutual("a", "b", 0.4)), "ab")
    cards_of(space, job("a1"), rate)
    refusal = cards_of(space, job("b1"), rate)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ReasonCode.INTERFERENCE


def test_predicted_rates_of_a_table_are_not_known():
    space, table = make_space(2), InterferenceTable()
    assert cards_of(space, job("a1"), table) == [0]
    assert cards_of(space, job("b1"), table) == [0]


@examples(100)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(1, 3), st.sampled_from("ab")),
                  min_size=1, max_size=10),
    rate=st.sampled_from([None, InterferenceTable(), PartlyKnown(rates({}), "")]),
)  # fmt: skip
def test_placement_is_that_of_binpack_without_measurements(jobs: list[tuple[int, int, int, str]], rate: Rate | None):
    one, other = make_space(4), make_space(4)
    made = []
    for number, (gib, gpus, count, app) in enumerate(jobs):
        request = Request(share=Share(gib * GIB)) if gib else Request(gpus=gpus)
        made.append(Job(f"j{number}", (Role("w", count, request),), app=app))
    for each in made:
        expected = cards_of(other, each, rate, "binpack")
        found = cards_of(one, each, rate)
        assert isinstance(found, Refusal) == isinstance(expected, Refusal)
        assert isinstance(found, Refusal) or found == expected
    ranks = [registry.create("place", name).rank(made, rate, "A") for name in ("measured", "binpack")]
    assert ranks[0] == ranks[1]


def test_rank_puts_measured_pairs_before_unmeasured_jobs():
    rate = PartlyKnown(rates({**mutual("a", "a", 0.5), **mutual("b", "b", 0.5)}), "ab")
    jobs = [job("a1"), job("a2"), job("x1", gib=9), job("b1"), job("b2")]
    ranked = [each.id for each in registry.create("place", "measured").rank(jobs, rate, "A")]
    assert ranked[-1] == "x1"
    space = make_space(3)
    for each in registry.create("place", "measured").rank(jobs, rate, "A")[:-1]:
        cards_of(space, each, rate)
    together = {tuple(sorted(sharer.app for sharer in sharers)) for sharers in space.sharers.values() if sharers}
    assert together == {("a", "b")}
