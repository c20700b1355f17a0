"""What the divides are made of: groups, goals, compatibility."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.squad import GpuClient, RequestStats, ShareableCard, sm_need, solo_speed
from gpusquad.policies.divide._compatibility import compatibility, pairing
from gpusquad.policies.divide._groups import apportioned, masks
from gpusquad.policies.divide._slo import predicted_attainment, predicted_latency_us
from tests.policies.divide.snapshots import CARD, FLAT, LINEAR, client, crowds, rivals, service, with_rho


@given(parts=st.lists(st.floats(0.0, 100.0), max_size=12), groups=st.integers(0, 20))
def test_groups_are_handed_out_whole_and_all(parts, groups):
    given = apportioned(parts, groups)
    assert len(given) == len(parts)
    assert sum(given) == (groups if parts and len(parts) < groups else min(groups, len(parts)))
    if len(parts) <= groups:
        assert all(count >= 1 for count in given)


@given(weights=st.lists(st.floats(1.0, 4.0), min_size=2, max_size=4))
def test_groups_follow_the_parts(weights):
    given = apportioned(weights, 60)
    exact = [60 * weight / sum(weights) for weight in weights]
    assert all(abs(count - due) <= 1.0 for count, due in zip(given, exact, strict=True))


@given(
    before=st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.integers(0, 2**15 - 1)),
    counts=st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_masks_are_disjoint_and_of_the_right_size(before, counts):
    chosen = masks([client(slot) for slot in range(3)], counts, CARD, before)
    assert [chosen[f"t{slot}"].bit_count() for slot in range(3)] == counts
    assert sum(chosen.values()) == chosen["t0"] | chosen["t1"] | chosen["t2"] < 1 << CARD.groups


def test_masks_keep_what_they_can():
    clients = [client(0), client(1)]
    first = masks(clients, [5, 10], CARD, {})
    second = masks(clients, [6, 9], CARD, first)
    assert (first["t0"] & second["t0"], first["t1"] & second["t1"]) == (first["t0"] & second["t0"], second["t1"])
    moved = (first["t1"] ^ second["t1"]).bit_count()
    assert moved == 1


def test_a_card_knows_its_shares():
    assert CARD.share_milli(15) == 909, "120 of 132 SMs"
    assert CARD.share_milli(0) == 1000
    assert ShareableCard(4, 8).share_milli(1) == 250
    with pytest.raises(Invalid):
        ShareableCard(groups=65)
    with pytest.raises(Invalid):
        GpuClient(0, "a", weight=-1.0)


@given(crowds(least=1, most=1), st.integers(0, 1000), st.integers(0, 1000))
def test_more_sms_are_never_slower(clients, one, other):
    low, high = sorted((one, other))
    assert solo_speed(clients[0], low) <= solo_speed(clients[0], high) + 1e-9


def test_need_of_sms():
    assert sm_need(client(0, curve=LINEAR)) == 1.0
    assert sm_need(client(0, curve=FLAT)) < 0.2
    assert solo_speed(client(0, curve=LINEAR), 375) == pytest.approx(0.375)


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 400.0))
def test_faster_is_never_later(one, other, per_s):
    tenant_ = service(0, per_s=per_s)
    low, high = sorted((one, other))
    assert predicted_latency_us(tenant_, high) <= predicted_latency_us(tenant_, low) * (1 + 1e-6)
    assert predicted_attainment(tenant_, low) <= predicted_attainment(tenant_, high) * (1 + 1e-6)


def test_the_tail_of_a_queue():
    """Requests of 3 ms at random, 60 a second: one in a hundred takes 6.1 ms (227 simulated ones: 6.1)."""
    assert predicted_latency_us(service(0, per_s=60.0), 1.0) == pytest.approx(6100, rel=0.05)
    assert predicted_latency_us(service(0, per_s=1.0), 1.0) == 3000


def test_goals_without_figures_are_not_foretold():
    assert predicted_attainment(client(0), 0.1) == predicted_attainment(client(0, slo=Slo(latency_us=1000)), 0.1) == inf
    both = client(0, slo=Slo(deadline_us=1, throughput_per_s=5.0), deadline_in_us=400, remaining_us=100)
    assert predicted_attainment(both, 0.5) == 2.0, "what nothing is known of does not count"


def test_alone_it_does_no_less_than_it_was_seen_to_do():
    seen = RequestStats(solo_per_s=30.0, active_per_s=300.0)  # it counts other steps than were measured
    assert predicted_attainment(client(0, slo=Slo(throughput_per_s=200.0), requests=seen), 1.0) == 1.5


def test_targets_with_figures_are_foretold():
    assert (
        predicted_attainment(client(0, slo=Slo(throughput_per_s=50.0), requests=RequestStats(solo_per_s=100.0)), 0.25)
        == 0.5
    )


def test_who_goes_together():
    matrix = compatibility([client(0), client(1, curve=FLAT), client(2)], rivals)
    assert not matrix.fits(client(0), client(2)), "both want all SMs and turns are as good"
    assert matrix.fits(client(0), client(1))
    assert not matrix.all_fit([client(0), client(1), client(2)])
    assert matrix.pairs["t0", "t1"].own == matrix.pairs["t1", "t0"].other


def test_a_long_kernel_does_not_go_with_a_short_target():
    long, urgent = client(0, kernel_us=3000.0), service(1, latency_us=10_000)
    found = pairing(urgent, long, with_rho(0.0))
    assert not found.fits
    assert "kernels of t0" in found.why
    assert pairing(urgent, client(0, kernel_us=300.0), with_rho(0.0)).fits
