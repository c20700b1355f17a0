"""Tests of the stage with real processes: start in each way, crashes and cleanup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.card import ways
from bench.card.leftovers import new_folder, sweep
from bench.card.place import Lost, Place
from bench.card.stage import Stage, Tenant
from bench.card.ways import Seat, at_percent

DAEMONS = (ways.SQUADS, ways.ALONE)
ITERATE = ("iterate", {"length_s": 0.05, "instants": True})
WAYS = (ways.PLAIN, ways.MPS, ways.LOW, at_percent(70), ways.FIXED, ways.FIXED_LOW, ways.FIXED_ALONE, ways.SQUADS,
        ways.SQUADS_LOW, ways.ALONE, ways.SHIM)  # fmt: skip


def test_each_way_has_its_environment_and_all_processes_end(place: Place, tmp_path: Path) -> None:
    with Stage(place, [Tenant("a", "sleeps"), Tenant("b", "sleeps")]) as stage:
        seats = [Seat("a", way) for way in WAYS]
        assert stage.ready(seats) == {}
        found = {seat.way: stage.built[seat]["env"] for seat in seats}
        assert found[ways.PLAIN] == found[ways.MPS] == {}
        assert found[ways.LOW] == {"CUDA_MPS_CLIENT_PRIORITY": "1"}
        assert found[at_percent(70)] == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "70"}
        assert set(found[ways.SHIM]) == {"LD_PRELOAD"}
        assert found[ways.FIXED]["GPUSQUAD_TENANT"].endswith("fixed-pool/tenants/0")
        assert found[ways.FIXED_ALONE]["GPUSQUAD_TENANT"].endswith("fixed-alone/tenants/0")
        assert found[ways.SQUADS]["GPUSQUAD_TENANT"].endswith("squads-pool/tenants/0")
        assert found[ways.ALONE]["GPUSQUAD_TENANT"].endswith("squads-alone/tenants/0")
        low = {way for way, env in found.items() if "CUDA_MPS_CLIENT_PRIORITY" in env}
        assert low == {ways.LOW, ways.FIXED_LOW, ways.SQUADS_LOW}
        stage.change("b", weight=2.0)
        assert [client["id"] for client in stage.ask({"do": "status"})["tenants"]] == ["a", "b"]
        assert [client["id"] for client in stage.ask({"do": "status"}, ways.ALONE)["tenants"]] == ["a"]
        sliced = {way: stage.ask({"do": "status"}, way)["tenants"][0]["is_time_sliced"] for way in DAEMONS}
        assert sliced == {ways.SQUADS: False, ways.ALONE: True}
        stage.masks({"a": 3, "b": 12})
        answers = stage.together({seats[0]: ITERATE, Seat("b", ways.PLAIN): ITERATE}, 20.0)
        assert all(answer["count"] for answer in answers.values())
    assert list((tmp_path / "shm").iterdir()) == []
    assert "quit" in (tmp_path / "asked").read_text()


def test_crashed_process_is_restarted_a_limited_number_of_times(place: Place) -> None:
    with Stage(place, [Tenant("a", "dies"), Tenant("b", "sleeps")]) as stage:
        requests = {Seat("a", ways.PLAIN): ("iterate", {"length_s": 5.0}), Seat("b", ways.PLAIN): ITERATE}
        for _ in range(2):
            with pytest.raises(Lost, match="a-plain"):
                stage.together(requests, 20.0)
        with pytest.raises(Lost, match="too often"):
            stage.together(requests, 20.0)
        assert stage.together({Seat("b", ways.PLAIN): ITERATE}, 20.0)


def test_request_refused_by_the_daemon_is_reported(place: Place) -> None:
    with Stage(place, [Tenant("a", "sleeps")]) as stage, pytest.raises(Lost, match="nosuch"):
        stage.ask({"do": "policy", "policy": "nosuch"})


def test_leftovers_of_a_killed_bench_are_removed_and_those_of_a_live_one_kept(place: Place, tmp_path: Path) -> None:
    shared = tmp_path / "shm"
    code = "import sys; from pathlib import Path; from bench.card.leftovers import new_folder;"
    code += "(new_folder(Path(sys.argv[1])) / 'mps').mkdir()"
    subprocess.run([sys.executable, "-c", code, str(shared)], check=True, cwd=Path(__file__).parents[3])
    own_folder = new_folder(shared)
    assert len(list(shared.iterdir())) == 2
    sweep(shared, "0")
    assert list(shared.iterdir()) == [own_folder]
    assert "quit" in (tmp_path / "asked").read_text()
