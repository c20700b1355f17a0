"""Real processes on a stage: how each is started, what happens when one dies, and that nothing is left."""

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


def test_each_way_is_started_as_it_must_be_and_all_are_let_go(place: Place, tmp_path: Path) -> None:
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
        assert [one["id"] for one in stage.ask({"do": "status"})["tenants"]] == ["a", "b"]
        assert [one["id"] for one in stage.ask({"do": "status"}, ways.ALONE)["tenants"]] == ["a"]
        sliced = {way: stage.ask({"do": "status"}, way)["tenants"][0]["is_time_sliced"] for way in DAEMONS}
        assert sliced == {ways.SQUADS: False, ways.ALONE: True}
        stage.masks({"a": 3, "b": 12})
        answers = stage.together({seats[0]: ITERATE, Seat("b", ways.PLAIN): ITERATE}, 20.0)
        assert all(answer["count"] for answer in answers.values())
    assert list((tmp_path / "shm").iterdir()) == []
    assert "quit" in (tmp_path / "asked").read_text()


def test_whoever_dies_is_started_again_but_not_for_ever(place: Place) -> None:
    with Stage(place, [Tenant("a", "dies"), Tenant("b", "sleeps")]) as stage:
        asked = {Seat("a", ways.PLAIN): ("iterate", {"length_s": 5.0}), Seat("b", ways.PLAIN): ITERATE}
        for _ in range(2):
            with pytest.raises(Lost, match="a-plain"):
                stage.together(asked, 20.0)
        with pytest.raises(Lost, match="too often"):
            stage.together(asked, 20.0)
        assert stage.together({Seat("b", ways.PLAIN): ITERATE}, 20.0)


def test_a_question_that_the_daemon_refuses_is_told(place: Place) -> None:
    with Stage(place, [Tenant("a", "sleeps")]) as stage, pytest.raises(Lost, match="nosuch"):
        stage.ask({"do": "policy", "policy": "nosuch"})


def test_what_a_killed_bench_left_is_swept_and_what_a_living_one_has_is_not(place: Place, tmp_path: Path) -> None:
    shared = tmp_path / "shm"
    code = "import sys; from pathlib import Path; from bench.card.leftovers import new_folder;"
    code += "(new_folder(Path(sys.argv[1])) / 'mps').mkdir()"
    subprocess.run([sys.executable, "-c", code, str(shared)], check=True, cwd=Path(__file__).parents[3])
    ours = new_folder(shared)
    assert len(list(shared.iterdir())) == 2
    sweep(shared, "0")
    assert list(shared.iterdir()) == [ours]
    assert "quit" in (tmp_path / "asked").read_text()
