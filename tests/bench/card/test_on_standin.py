"""Tests of the stage on a stand-in card: real launches through the shim, limited by grants and by the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import pair_plan as plan
from bench.card.arrivals import Load
from bench.card.levels import levels, shown
from bench.card.pair_blocks import Timing, run_block
from bench.card.pair_calibration import split_masks
from bench.card.pair_plan import LATENCY, TRAINING, Pair
from bench.card.pairs import brief
from bench.card.place import Place
from bench.card.solo import saturated_per_s
from bench.card.stage import Stage, Tenant
from bench.card.training import FIRST, SECOND
from bench.card.ways import FIXED, FIXED_ALONE, Seat
from gpusquad.gpu.region.pages import Grant
from tests.gpu.standin.running import Card, new_card

PAIR = Pair("asks / trains", "asks", Load(50), "trains")
TIMING = Timing(lead_in_s=0.1, length_s=0.4, tail_s=0.1)


@pytest.fixture
def card(place: Place, tmp_path: Path, c_builds: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    standin_card = new_card(tmp_path / "card", c_builds / "driver", mode="mps")
    for name, value in standin_card.environment().items():
        if name.startswith(("STANDIN_", "LD_")):
            monkeypatch.setenv(name, value)
    return standin_card


def stage_of(place: Place) -> Stage:
    return Stage(place, [Tenant(LATENCY, PAIR.service, facts={"priority": 1}), Tenant(TRAINING, PAIR.training)])


def used_by(card: Card, pid: int, since: int) -> int:
    """Return a mask of the SMs that kernels of a process used from this line on."""
    used = 0
    for line in card.lines()[since:]:
        used |= line.used if line.pid == pid else 0
    return used


@pytest.mark.slow
def test_grant_without_mps_applies_only_to_processes_without_mps(place: Place, card: Card) -> None:
    with stage_of(place) as stage:
        seats = [Seat(TRAINING, FIXED), Seat(TRAINING, FIXED_ALONE)]
        assert stage.ready(seats) == {}
        stage.grants({TRAINING: Grant(mask=0b11)}, FIXED_ALONE)
        before = len(card.lines())
        for seat in seats:
            assert saturated_per_s(stage, seat, 0.2) > 0
        used = [used_by(card, stage.said[seat]["pid"], before).bit_count() for seat in seats]
        launched = [stage.page(TRAINING, seat.way).launches for seat in seats]
    assert used == [place.sms, 2 * place.sms_per_group]
    assert all(launched)


@pytest.mark.slow
def test_static_split_limits_each_client_to_its_own_sms(place: Place, card: Card) -> None:
    with stage_of(place) as stage:
        seats = [Seat(LATENCY, FIXED), Seat(TRAINING, FIXED)]
        stage.masks(split_masks(place.groups, 4))
        assert stage.ready(seats) == {}
        before = len(card.lines())
        row = run_block(stage, PAIR, plan.STATIC, 0, "seed", TIMING)
        pids = {seat.tenant: stage.said[seat]["pid"] for seat in seats}
    assert row["late_us"]
    assert row["steps_per_s"] > 0
    used = {name: used_by(card, pid, before) for name, pid in pids.items()}
    assert used[LATENCY]
    assert used[TRAINING]
    assert used[LATENCY] & used[TRAINING] == 0


@pytest.mark.slow
def test_daemon_divides_the_card_between_both_clients(place: Place, card: Card) -> None:
    with stage_of(place) as stage:
        seats = plan.seats_of(plan.OURS, 0)
        assert stage.ready(seats) == {}
        stage.change(
            LATENCY, slo={"latency_us": 5000}, work_us=600.0, solo_per_s=1000.0, curve=[[500, 1.0], [1000, 1.0]]
        )
        row = run_block(stage, PAIR, plan.OURS, 0, "seed", TIMING)
        status = brief(stage.ask({"do": "status"}))
    assert len(row["late_us"]) > 5
    assert row["steps_per_s"] > 0
    assert not status["failure"]
    assert status["squads"]
    assert all(tenant["attained_us"] > 0 for tenant in status["tenants"])


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "sliced"), [(plan.ISOLATED, [True, True]), (plan.MIXED, [True, False])])
def test_each_daemon_condition_has_its_own_daemon(place: Place, card: Card, condition: str, sliced: list[bool]) -> None:
    """Processes of the same clients under MPS are idle. Each daemon knows only its own."""
    with stage_of(place) as stage:
        names = (plan.OURS, condition)
        assert stage.ready([seat for name in names for seat in plan.seats_of(name, 0)]) == {}
        row = run_block(stage, PAIR, condition, 0, "seed", TIMING)
        status = {name: stage.ask({"do": "status"}, plan.DAEMON_WAYS[name])["tenants"] for name in names}
    assert len(row["late_us"]) > 5
    assert row["steps_per_s"] > 0
    assert all(tenant["attained_us"] > 0 for tenant in status[condition])
    assert [tenant["is_time_sliced"] for tenant in status[condition]] == sliced
    assert [tenant["processes"] for tenants in status.values() for tenant in tenants] == [1] * 4


@pytest.mark.slow
def test_higher_priority_runs_first_and_client_priority_outranks_streams(place: Place, card: Card) -> None:
    """On the stand-in, which behaves as the bench expects of a card."""
    found = levels(place, ("trains", "trains"), seconds=1.0, rounds=1)
    (parts,) = zip(*found["conditions"].values(), strict=True)
    equal, lower, raised, both_lower, client_first, lower_first = ({**ratios} for ratios in parts)
    assert equal[FIRST] == pytest.approx(equal[SECOND], rel=0.3)
    for ratios in (lower, raised, both_lower):
        assert ratios[FIRST] > 2 * ratios[SECOND]
    for ratios in (client_first, lower_first):
        assert ratios[SECOND] > 2 * ratios[FIRST]
    assert shown(found).count("\n") == 2 + len(found["conditions"]) - 1
