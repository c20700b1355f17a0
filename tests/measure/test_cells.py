"""Tests for planning the cells of a series."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.cells import CellWorkload, MeasurementCell, SeriesSpec, pairs, plan, remaining, splits, triples

NAMES = ("a", "b", "c", "d", "e")
series_specs = st.builds(
    SeriesSpec,
    st.integers(1, 5).map(lambda count: NAMES[:count]),
    st.integers(1, 4),
    triples=st.integers(0, 12),
    splits_milli=st.sampled_from([(), (500,), (250, 500, 750)]),
    seed=st.integers(0, 9),
)


@given(series_specs)
def test_plan_has_every_cell_repeat_once(spec: SeriesSpec) -> None:
    entries = plan(spec)
    assert max(Counter((entry.cell, entry.repeat) for entry in entries).values()) == 1
    count = len(spec.workloads)
    base = [entry for entry in entries if entry.stage == "base"]
    assert len(base) == spec.repeats * (count + count * (count + 1) // 2)


@given(series_specs)
def test_plan_starts_with_solos_and_orders_repeats_and_stages(spec: SeriesSpec) -> None:
    entries = plan(spec)
    count = len(spec.workloads)
    assert {len(entry.cell.parts) for entry in entries[:count]} == {1}
    assert {entry.cell.workloads[0] for entry in entries[:count]} == set(spec.workloads)
    repeats = [entry.repeat for entry in entries if entry.stage == "base"]
    assert repeats == sorted(repeats)
    assert [entry.stage for entry in entries] == sorted(
        (entry.stage for entry in entries), key=("base triples splits").find
    )


@given(series_specs)
def test_plan_is_deterministic(spec: SeriesSpec) -> None:
    assert plan(spec) == plan(spec)


def test_each_repeat_has_its_own_order() -> None:
    entries = plan(SeriesSpec(NAMES, repeats=3))
    second, third = ([entry.cell for entry in entries if entry.repeat == repeat] for repeat in (1, 2))
    assert second != third
    assert set(second) == set(third)


@given(series_specs, st.data())
def test_remaining_omits_done_and_not_fitting_cells(spec: SeriesSpec, data: st.DataObject) -> None:
    entries = plan(spec)
    done = {(entry.cell, entry.repeat) for entry in data.draw(st.lists(st.sampled_from(entries)))}
    not_fitting = {entry.cell for entry in data.draw(st.lists(st.sampled_from(entries), max_size=3))}
    left = remaining(entries, done, not_fitting)
    assert not any((entry.cell, entry.repeat) in done or entry.cell in not_fitting for entry in left)
    assert len(left) == sum(
        (entry.cell, entry.repeat) not in done and entry.cell not in not_fitting for entry in entries
    )


def test_pairs_include_equal_workloads() -> None:
    assert [cell.workloads for cell in pairs(("a", "b"))] == [("a", "a"), ("a", "b"), ("b", "b")]


@given(st.integers(0, 12), st.integers(0, 9))
def test_triples_use_all_workloads_about_equally(count: int, seed: int) -> None:
    found = triples(NAMES, count, random.Random(seed))
    assert len(set(found)) == min(count, 10)
    uses = Counter(dict.fromkeys(NAMES, 0))
    uses.update(name for cell in found for name in cell.workloads)
    assert max(uses.values()) - min(uses.values()) <= 2


def test_splits_sum_to_the_card_and_list_symmetric_pairs_once() -> None:
    cells = splits(SeriesSpec(("a", "b"), splits_milli=(250, 500, 750)))
    divided = [cell for cell in cells if len(cell.parts) == 2]
    assert all(sum(cell.sm_milli) == 1000 for cell in divided)
    assert [cell.sm_milli for cell in divided if cell.workloads == ("a", "a")] == [(250, 750), (500, 500)]
    assert [cell.sm_milli for cell in divided if cell.workloads == ("a", "b")] == [(250, 750), (500, 500), (750, 250)]
    assert {cell.sm_milli[0] for cell in cells if cell.workloads == ("b",)} == {250, 500, 750}


def test_only_split_workloads_are_split_in_pairs() -> None:
    cells = splits(SeriesSpec(("a", "b"), splits_milli=(500,), split_workloads=("b",)))
    assert MeasurementCell((CellWorkload("a", 500),)) in cells
    assert [cell.workloads for cell in cells if len(cell.parts) == 2] == [("b", "b")]


def test_cell_text_names_workloads_and_shares() -> None:
    assert str(MeasurementCell((CellWorkload("a"), CellWorkload("b", 125)))) == "a + b 12.5 %"
