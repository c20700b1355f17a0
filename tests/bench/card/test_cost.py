"""Tests of the bench of the shim's overhead: the launch program on the stand-in driver, and the table."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.card import cost
from bench.card.clock import Deadline
from bench.card.cost import SOURCE, Options, launched
from bench.card.cost_table import cost_tables, shown
from bench.card.place import Lost, Place
from bench.card.programs import built
from bench.card.rows import RowFile
from gpusquad.gpu.build import library
from tests.gpu.standin.running import new_card

KERNEL = "nothing:1:0"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(SOURCE, tmp_path_factory.mktemp("program"))


def test_launches_are_timed_with_and_without_the_library(program: Path, tmp_path: Path, c_builds: Path) -> None:
    card = new_card(tmp_path / "card", c_builds / "driver")
    options = Options(Place(), image=KERNEL + "\n", count=300)
    for extra_env in ({}, {"LD_PRELOAD": str(library())}):
        found = launched(program, {**card.environment(), **extra_env}, options, tmp_path)
        assert found["sustained_ns"] > 0
        assert found["burst_ns"] > 0
    names = [line.name for line in card.lines()]
    assert set(names) == {"nothing"}
    assert len(names) == 2 * (256 + 300 + 512)  # warm-up, sustained, and two bursts


def test_rounds_of_launches_are_stored_with_every_way(
    place: Place, tmp_path: Path, c_builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in new_card(tmp_path / "card", c_builds / "driver").environment().items():
        if name.startswith(("STANDIN_", "LD_")):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(cost, "ROUNDS", 2)
    monkeypatch.setattr(cost, "WORKLOADS", ())
    file = RowFile(tmp_path / "c.jsonl")
    options = Options(replace(place, device="cuda"), image=KERNEL + "\n", count=256)
    cost.run(file, {"sitting": "s"}, options, Deadline(10))
    assert [row["kind"] for row in file.rows] == ["round", "round"]
    assert all(set(row["found"]) == set(cost.WAYS) for row in file.rows)
    assert [table.what for table in cost_tables(file.rows)] == ["launches", "launches, host alone"]


def test_missing_driver_is_reported(program: Path, tmp_path: Path) -> None:
    with pytest.raises(Lost, match="libnowhere"):
        launched(program, dict(os.environ), Options(Place(), driver="libnowhere.so.1"), tmp_path)


def rounds(what: str, with_library: float, count: int = 5) -> list[dict]:
    base = [100.0, 110.0, 90.0, 105.0, 95.0][:count]
    return [
        {"bench": "cost", "kind": "round", "what": what, "setup": "x",
         "found": {"without": speed, "library": speed * with_library, "library and daemon": speed * with_library}}
        for speed in base
    ]  # fmt: skip


@pytest.mark.parametrize(("ratio", "words"), [(0.997, "aim met"), (0.992, "floor met"), (0.98, "floor missed")])
def test_cost_is_judged_by_the_lower_bound(ratio: float, words: str) -> None:
    found = cost_tables(rounds("googlenet", ratio))[0]
    assert found.words == words
    assert found.library.value == pytest.approx(ratio)


def test_launches_have_no_bar_and_few_rounds_give_no_verdict() -> None:
    ns = {"sustained_ns": 2000.0, "burst_ns": 1000.0}
    with_shim = {"sustained_ns": 2020.0, "burst_ns": 1020.0}
    row = {"bench": "cost", "kind": "round", "what": "launches", "setup": "x",
           "found": {"without": ns, "library": with_shim, "library and daemon": with_shim}}  # fmt: skip
    tables = cost_tables([row] * 3)
    assert [table.words for table in tables] == ["told, without a bar"] * 2
    assert tables[1].daemon.value == pytest.approx(1000 / 1020)
    assert cost_tables(rounds("matmul", 1.0, count=2))[0].words == "too few rounds"
    assert "| launches | 500,000 |" in shown(tables)


def test_interval_around_the_bar_gives_no_verdict() -> None:
    unsteady = [*rounds("googlenet", 1.02), *rounds("googlenet", 0.97)]
    assert cost_tables(unsteady)[0].words.startswith("not decided")
