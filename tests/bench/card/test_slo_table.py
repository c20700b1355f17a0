"""Tests of the SLO table: attainment from requests and steps."""

from __future__ import annotations

import pytest

from bench.card.curves import svg
from bench.card.place import Place
from bench.card.report import report
from bench.card.rows import RowFile
from bench.card.slo_table import by_thirds, curve, in_time, met_of, slo_tables, steady_met, verdict
from bench.card.slos import NAMES, Options, changing, conditions, masks_of, next_run
from bench.card.ways import FIXED

TENANTS = {
    "image": {"target_us": 10_000}, "text": {"target_us": 5_000},
    "steady": {"target_per_s": 10.0, "alone_per_s": 30.0}, "spare": {"alone_per_s": 20.0},
}  # fmt: skip


def row(condition: str = "gpusquad", late_image: int = 0, steady_per_s: int = 10) -> dict:
    """Return a run of twelve seconds with ten requests per second, ``late_image`` of them late for images."""
    image = [[100 * index, 20_000 if index % 10 < late_image else 4000] for index in range(120)]
    return {
        "bench": "slos", "kind": "run", "setup": "x", "condition": condition, "length_s": 12.0,
        "late": {"image": image, "text": [[100 * index, 4000] for index in range(120)]},
        "done_us": {
            "steady": [round(index * 1e6 / steady_per_s) for index in range(12 * steady_per_s)],
            "spare": [round(index * 1e6 / 5) for index in range(60)],
        },
    }  # fmt: skip


CALIBRATION = {"bench": "slos", "kind": "calibration", "setup": "x", "tenants": TENANTS, "curves": {}}


def test_attainment_is_the_fraction_of_requests_and_steps_in_time() -> None:
    assert met_of(row(late_image=1), TENANTS) == pytest.approx(
        {"image": 0.9, "text": 1.0, "steady": 1.0, "spare": 0.25}
    )
    assert met_of(row(steady_per_s=5), TENANTS)["steady"] == pytest.approx(0.5)


def test_surplus_in_one_window_does_not_offset_a_deficit_in_another() -> None:
    fast_then_none = [round(index * 1e6 / 40) for index in range(240)]  # 40 per second for six seconds, then none
    assert steady_met(fast_then_none, 10.0, 12.0) < 0.9


def test_attainment_by_thirds_covers_all_runs() -> None:
    late_in_the_middle = row()
    for request in late_in_the_middle["late"]["image"][40:60]:
        request[1] = 20_000
    found = by_thirds([row(), late_in_the_middle], TENANTS)
    assert found["image"] == pytest.approx([1.0, 0.75, 1.0])
    assert found["text"] == pytest.approx([1.0, 1.0, 1.0])
    assert by_thirds([], TENANTS)["image"] == [None, None, None]


def test_attainment_without_requests_is_none() -> None:
    assert in_time([], 10_000, 0, 1) is None
    assert [value for _, value in curve(row(), TENANTS, "steady")] == pytest.approx([1.0] * 45)


def test_verdict_needs_three_runs_and_names_equal_conditions() -> None:
    good, bad = [row(), row(), row()], [row("MPS", late_image=2)] * 3
    tables = slo_tables([CALIBRATION, *good, *bad])["x"]
    assert verdict(tables) == "gpusquad meets all three goals; each of the 1 static ones misses at least one"
    tables = slo_tables([CALIBRATION, *bad[:1], *good[:1], row("time slicing")])["x"]
    assert "all are met by time slicing" in verdict(tables)
    assert "fewer than three" in verdict(tables)
    assert verdict(slo_tables([CALIBRATION, *bad])["x"]).startswith("no verdict")
    assert slo_tables([CALIBRATION, {**row(), "failed": "it died"}])["x"][0].runs == 0


def test_isolated_condition_has_its_own_verdict() -> None:
    tables = slo_tables([CALIBRATION, *[row()] * 3, *[row("gpusquad isolated", late_image=2)] * 3, *[row("MPS")] * 3])
    assert verdict(tables["x"]) == "gpusquad meets all three goals; gpusquad isolated misses a goal; all are met by MPS"


def test_condition_with_the_fewest_runs_is_next_until_all_have_three(tmp_path) -> None:
    options = Options(Place(device="cpu"), tiny=True)
    file = RowFile(tmp_path / "s.jsonl")
    run_conditions = {"MPS": (), "gpusquad": ()}
    order = []
    while found := next_run(file, options, run_conditions):
        order.append(found)
        file.add({**row(found[0]), "setup": options.setup})
    assert order == [(name, repeat) for repeat in range(3) for name in run_conditions]
    assert next_run(file, options, {"time slicing": ()}) == ("time slicing", 0)
    assert next_run(file, options, {}) is None


def test_load_changes_by_thirds_and_is_deterministic() -> None:
    arrival_times = changing("image", 200.0, 30.0, "seed")
    counts = [sum(third <= at_s / 10 < third + 1 for at_s in arrival_times) for third in range(3)]
    assert counts[1] / counts[0] == pytest.approx(2, rel=0.15)
    assert counts[2] / counts[0] == pytest.approx(1, rel=0.15)
    assert arrival_times == sorted(arrival_times) == changing("image", 200.0, 30.0, "seed")


def test_static_splits_are_disjoint_and_within_the_card() -> None:
    for name, run_ways in conditions().items():
        assert len(run_ways) == len(NAMES)
        if run_ways[0] == FIXED:
            masks = list(masks_of(name).values())
            assert sum(mask.bit_count() for mask in masks) == sum(masks).bit_count() <= 15


def test_report_draws_the_curves(tmp_path) -> None:
    text, data = report([CALIBRATION, row(), row("<MPS>", late_image=2)], tmp_path)
    assert "## Goals" in text
    assert data["Goals"]["x"][0]["meets_all"]
    svg_text = (tmp_path / "slos.svg").read_text()
    assert svg_text.count("<g ") == 2
    assert "&lt;MPS&gt;" in svg_text
    assert svg([]).startswith("<svg")


def test_report_continues_when_one_section_fails(tmp_path) -> None:
    broken = {"bench": "pairs", "kind": "block"}
    failed = {"bench": "slos", "kind": "run", "setup": "x", "condition": "MPS", "failed": "it died"}
    text, _ = report([broken, CALIBRATION, row(), failed], tmp_path)
    assert "could not be worked out: KeyError" in text
    assert "## Goals" in text
    assert "- slos x MPS: it died" in text
