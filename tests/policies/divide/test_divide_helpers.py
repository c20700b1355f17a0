"""Helpers of the divide policies: SM groups, SLO predictions, compatibility."""

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
from tests.policies.divide.snapshots import CARD, FLAT, LINEAR, client, client_lists, service, sm_contention, with_rho


@given(fractions=st.lists(st.floats(0.0, 100.0), max_size=12), groups=st.integers(0, 20))
def test_all_groups_are_assigned_and_every_client_gets_one(fractions, groups):
    counts = apportioned(fractions, groups)
    assert len(counts) == len(fractions)
    assert sum(counts) == (groups if fractions and len(fractions) < groups else min(groups, len(fractions)))
    if len(fractions) <= groups:
        assert all(count >= 1 for count in counts)


@given(weights=st.lists(st.floats(1.0, 4.0), min_size=2, max_size=4))
def test_group_counts_follow_the_fractions(weights):
    counts = apportioned(weights, 60)
    exact = [60 * weight / sum(weights) for weight in weights]
    assert all(abs(count - expected) <= 1.0 for count, expected in zip(counts, exact, strict=True))


@given(
    before=st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.integers(0, 2**15 - 1)),
    counts=st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_masks_are_disjoint_and_have_the_requested_size(before, counts):
    assigned = masks([client(slot) for slot in range(3)], counts, CARD, before)
    assert [assigned[f"t{slot}"].bit_count() for slot in range(3)] == counts
    assert sum(assigned.values()) == assigned["t0"] | assigned["t1"] | assigned["t2"] < 1 << CARD.groups


def test_masks_change_as_little_as_possible():
    clients = [client(0), client(1)]
    first = masks(clients, [5, 10], CARD, {})
    second = masks(clients, [6, 9], CARD, first)
    assert (first["t0"] & second["t0"], first["t1"] & second["t1"]) == (first["t0"] & second["t0"], second["t1"])
    moved = (first["t1"] ^ second["t1"]).bit_count()
    assert moved == 1


def test_card_converts_groups_to_shares_and_checks_its_fields():
    assert CARD.share_milli(15) == 909, "120 of 132 SMs"
    assert CARD.share_milli(0) == 1000
    assert ShareableCard(4, 8).share_milli(1) == 250
    with pytest.raises(Invalid):
        ShareableCard(groups=65)
    with pytest.raises(Invalid):
        GpuClient(0, "a", weight=-1.0)


@given(client_lists(least=1, most=1), st.integers(0, 1000), st.integers(0, 1000))
def test_speed_never_falls_with_more_sms(clients, first, second):
    low, high = sorted((first, second))
    assert solo_speed(clients[0], low) <= solo_speed(clients[0], high) + 1e-9


def test_sm_need_follows_the_speed_curve():
    assert sm_need(client(0, curve=LINEAR)) == 1.0
    assert sm_need(client(0, curve=FLAT)) < 0.2
    assert solo_speed(client(0, curve=LINEAR), 375) == pytest.approx(0.375)


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 400.0))
def test_predicted_latency_falls_and_attainment_rises_with_speed(first, second, per_s):
    service_client = service(0, per_s=per_s)
    low, high = sorted((first, second))
    assert predicted_latency_us(service_client, high) <= predicted_latency_us(service_client, low) * (1 + 1e-6)
    assert predicted_attainment(service_client, low) <= predicted_attainment(service_client, high) * (1 + 1e-6)


def test_predicted_latency_is_the_tail_of_the_queue():
    """60 random requests of 3 ms per second: the 99th percentile is 6.1 ms (227 simulated requests: 6.1)."""
    assert predicted_latency_us(service(0, per_s=60.0), 1.0) == pytest.approx(6100, rel=0.05)
    assert predicted_latency_us(service(0, per_s=1.0), 1.0) == 3000


def test_attainment_is_infinite_when_there_are_no_statistics():
    assert predicted_attainment(client(0), 0.1) == predicted_attainment(client(0, slo=Slo(latency_us=1000)), 0.1) == inf
    with_two_slos = client(0, slo=Slo(deadline_us=1, throughput_per_s=5.0), deadline_in_us=400, remaining_us=100)
    assert predicted_attainment(with_two_slos, 0.5) == 2.0, "an SLO without statistics does not count"


def test_predicted_throughput_is_at_least_the_observed_one():
    stats = RequestStats(solo_per_s=30.0, active_per_s=300.0)  # the client counts other steps than the measurement
    assert predicted_attainment(client(0, slo=Slo(throughput_per_s=200.0), requests=stats), 1.0) == 1.5


def test_throughput_attainment_is_predicted_from_the_solo_rate():
    assert (
        predicted_attainment(client(0, slo=Slo(throughput_per_s=50.0), requests=RequestStats(solo_per_s=100.0)), 0.25)
        == 0.5
    )


def test_compatibility_of_clients_that_compete_for_sms():
    matrix = compatibility([client(0), client(1, curve=FLAT), client(2)], sm_contention)
    assert not matrix.fits(client(0), client(2)), "both need all SMs, so time-slicing is as good"
    assert matrix.fits(client(0), client(1))
    assert not matrix.all_fit([client(0), client(1), client(2)])
    assert matrix.pairs["t0", "t1"].own == matrix.pairs["t1", "t0"].other


def test_long_kernels_are_incompatible_with_a_short_latency_slo():
    long, latency_service = client(0, kernel_us=3000.0), service(1, latency_us=10_000)
    result = pairing(latency_service, long, with_rho(0.0))
    assert not result.fits
    assert "kernels of t0" in result.why
    assert pairing(latency_service, client(0, kernel_us=300.0), with_rho(0.0)).fits
