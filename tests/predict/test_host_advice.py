"""Tests for advice on the CPU and main memory of a task."""

from __future__ import annotations

import pytest

from gpusquad.model.job import OfflineEstimate, Request, Share
from gpusquad.predict.host_advice import (
    FAIR_SHARE,
    GIB,
    MIB,
    HostRoom,
    cpu_advice,
    memory_advice,
    rounded_bytes,
    size_text,
)
from gpusquad.predict.similar_runs import groups_of
from tests.predict.similar_jobs import job, run_summary

NODE = HostRoom(96_000, 512 * GIB, share_cpu_milli=12_000, share_memory_bytes=64 * GIB, core_memory_bytes=5 * GIB)
OWN, _, SCRIPT = groups_of(job(command="python3 train.py"))


def runs(count: int = 3, **columns):
    return [run_summary(number=number, **columns) for number in range(count)]


@pytest.mark.parametrize(
    ("request_", "cpu_milli", "memory_bytes"),
    [
        (Request(gpus=1), 12_000, 64 * GIB),
        (Request(gpus=2), 24_000, 128 * GIB),
        (Request(share=Share(sm_milli=250)), 3_000, 16 * GIB),
        (Request(share=Share(memory_bytes=GIB)), 1_000, GIB),
        (Request(cpu_milli=1), 1_000, GIB),
        (Request(cpu_milli=2_000), 1_000, 10 * GIB),
    ],
)
def test_fair_share_of_a_node_is_advised_without_evidence(request_, cpu_milli, memory_bytes):
    asks = job(request=request_)
    cpu, memory = cpu_advice(asks, None, [], NODE), memory_advice(asks, None, [], NODE)
    assert cpu is not None
    assert memory is not None
    assert (cpu.value, cpu.source) == (cpu_milli, FAIR_SHARE)
    assert (memory.value, memory.source) == (memory_bytes, FAIR_SHARE)


@pytest.mark.parametrize(
    ("request_", "cpu_milli"),
    [
        (Request(gpus=1), 250),
        (Request(gpus=8), 2_000),
        (Request(share=Share(sm_milli=250)), 250),
        (Request(cpu_milli=1), 1_000),
    ],
)
def test_fair_share_is_less_than_a_core_where_cards_outnumber_cores(request_, cpu_milli):
    few = HostRoom(2_000, 16 * GIB, share_cpu_milli=250, share_memory_bytes=2 * GIB, core_memory_bytes=8 * GIB)
    found = cpu_advice(job(request=request_), None, [], few)
    assert found is not None
    assert found.value == cpu_milli
    least = cpu_advice(job(), None, [], HostRoom(500, GIB, share_cpu_milli=7, share_memory_bytes=GIB))
    assert least is not None
    assert least.value == 100


def test_nothing_is_advised_if_the_nodes_are_unknown_too():
    assert cpu_advice(job(), None, [], HostRoom()) is None
    assert memory_advice(job(), None, [], HostRoom()) is None


def test_cpu_fits_nearly_all_past_runs_with_a_margin():
    seen = [run_summary(number=number, cpu_milli=milli) for number, milli in enumerate([2000] * 19 + [9000])]
    found = cpu_advice(job(), OWN, seen, NODE)
    assert found is not None
    assert found.source == "history"
    assert 2400 <= found.value < 9000


def test_throttled_run_gets_more_cpu_up_to_the_fair_share():
    found = cpu_advice(job(), OWN, runs(cpu_milli=1990, cpu_limit_milli=2000), NODE)
    assert found is not None
    assert found.value == 4000
    assert "used all of 2 cores" in found.why
    found = cpu_advice(job(), OWN, runs(cpu_milli=8900, cpu_limit_milli=9000), NODE)
    assert found is not None
    assert found.value == 12_000


def test_memory_is_above_the_peak_of_past_runs_and_at_most_that_of_a_node():
    found = memory_advice(job(), OWN, runs(10, host_memory_bytes=10 * GIB), NODE)
    assert found is not None
    assert 10 * GIB < found.value <= 13 * GIB
    found = memory_advice(job(), OWN, runs(10, host_memory_bytes=500 * GIB), NODE)
    assert found is not None
    assert found.value == NODE.memory_bytes


def test_run_that_was_killed_for_lack_of_memory_raises_the_next_request():
    killed = [run_summary(how="failed", host_memory_bytes=2 * GIB)]
    found = memory_advice(job(), OWN, killed, NODE)
    assert found is not None
    assert found.value > 2 * GIB


def test_offline_estimate_counts_until_two_similar_runs_are_known():
    asks = job(expected=OfflineEstimate(cpu_milli=3000, host_memory_bytes=4 * GIB))
    few, many = runs(1, cpu_milli=500, host_memory_bytes=GIB), runs(3, cpu_milli=500, host_memory_bytes=GIB)
    for known, source in ((few, "estimate"), (many, "history")):
        cpu, memory = cpu_advice(asks, OWN, known, NODE), memory_advice(asks, OWN, known, NODE)
        assert cpu is not None
        assert memory is not None
        assert (cpu.source, memory.source) == (source, source)
    assert cpu_advice(asks, OWN, few, NODE).value == 3000
    assert memory_advice(asks, OWN, few, NODE).value == 5 * GIB


def test_memory_that_a_run_was_killed_at_is_doubled_whatever_the_estimate():
    """As long as fewer than two runs have shown what it really needs."""
    asks = job(expected=OfflineEstimate(host_memory_bytes=100 * MIB))
    killed = run_summary(how="failed", number=1, needed_bytes=256 * MIB)
    completed = [run_summary(number=number, host_memory_bytes=300 * MIB) for number in (2, 3)]
    for known, at_least in (([killed], 256), ([killed, completed[0]], 300), ([killed, *completed], 300)):
        found = memory_advice(asks, OWN, known, NODE)
        assert found is not None
        assert found.value >= at_least * MIB
        assert found.source == "history"
    found = memory_advice(asks, OWN, [killed], NODE)
    assert found is not None
    assert (found.value, "killed" in found.why) == (256 * MIB, True)
    small = HostRoom(1000, 200 * MIB)
    assert memory_advice(asks, OWN, [killed], small).value == 200 * MIB
    assert memory_advice(asks, SCRIPT, [killed], NODE).source == "estimate"


def test_memory_of_a_single_kill_long_ago_counts_no_longer():
    long_ago = run_summary(how="failed", number=0, needed_bytes=64 * GIB)
    found = memory_advice(job(), OWN, [long_ago, *(run_summary(number=n, host_memory_bytes=GIB) for n in (1, 2))], NODE)
    assert found is not None
    assert found.value < 2 * GIB


def test_estimate_that_a_run_exceeded_does_not_count():
    asks = job(expected=OfflineEstimate(host_memory_bytes=100 * MIB))
    found = memory_advice(asks, OWN, runs(1, host_memory_bytes=300 * MIB), NODE)
    assert found is not None
    assert found.source == "history"
    assert found.value > 300 * MIB


def test_runs_of_the_same_script_do_not_outweigh_an_estimate():
    asks = job(expected=OfflineEstimate(host_memory_bytes=4 * GIB))
    assert SCRIPT.weight < OWN.weight
    found = memory_advice(asks, SCRIPT, runs(9, host_memory_bytes=GIB), NODE)
    assert found is not None
    assert found.source == "estimate"


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1, "64MiB"), (300 * MIB, "320MiB"), (GIB, "1GiB"), (GIB + 1, "1280MiB"), (9 * GIB + 1, "10GiB")],
)
def test_sizes_are_rounded_up_to_readable_ones(amount, text):
    assert size_text(rounded_bytes(amount)) == text
