"""The plan: nothing missing, nothing twice, what matters first."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.cells import CellWorkload, MeasurementCell, SeriesSpec, pairs, plan, remaining, splits, triples

NAMES = ("a", "b", "c", "d", "e")
wanted = st.builds(
    SeriesSpec,
    st.integers(1, 5).map(lambda count: NAMES[:count]),
    st.integers(1, 4),
    triples=st.integers(0, 12),
    splits_milli=st.sampled_from([(), (500,), (250, 500, 750)]),
    seed=st.integers(0, 9),
)


@given(wanted)
def test_every_turn_comes_once(wanted: SeriesSpec) -> None:
    turns = plan(wanted)
    assert max(Counter((turn.cell, turn.repeat) for turn in turns).values()) == 1
    count = len(wanted.workloads)
    base = [turn for turn in turns if turn.stage == "base"]
    assert len(base) == wanted.repeats * (count + count * (count + 1) // 2)


@given(wanted)
def test_alone_first_then_pairs_then_repeats_in_order(wanted: SeriesSpec) -> None:
    turns = plan(wanted)
    count = len(wanted.workloads)
    assert {len(turn.cell.parts) for turn in turns[:count]} == {1}
    assert {turn.cell.workloads[0] for turn in turns[:count]} == set(wanted.workloads)
    repeats = [turn.repeat for turn in turns if turn.stage == "base"]
    assert repeats == sorted(repeats)
    assert [turn.stage for turn in turns] == sorted((turn.stage for turn in turns), key=("base triples splits").find)


@given(wanted)
def test_the_seed_decides_the_order(wanted: SeriesSpec) -> None:
    assert plan(wanted) == plan(wanted)


def test_repeats_are_shuffled_each_anew() -> None:
    turns = plan(SeriesSpec(NAMES, repeats=3))
    second, third = ([turn.cell for turn in turns if turn.repeat == repeat] for repeat in (1, 2))
    assert second != third
    assert set(second) == set(third)


@given(wanted, st.data())
def test_what_is_done_or_has_no_room_does_not_come_again(wanted: SeriesSpec, data: st.DataObject) -> None:
    turns = plan(wanted)
    done = {(turn.cell, turn.repeat) for turn in data.draw(st.lists(st.sampled_from(turns)))}
    full = {turn.cell for turn in data.draw(st.lists(st.sampled_from(turns), max_size=3))}
    left = remaining(turns, done, full)
    assert not any((turn.cell, turn.repeat) in done or turn.cell in full for turn in left)
    assert len(left) == sum((turn.cell, turn.repeat) not in done and turn.cell not in full for turn in turns)


def test_pairs_have_their_twins() -> None:
    assert [cell.workloads for cell in pairs(("a", "b"))] == [("a", "a"), ("a", "b"), ("b", "b")]


@given(st.integers(0, 12), st.integers(0, 9))
def test_triples_use_all_about_as_often(count: int, seed: int) -> None:
    found = triples(NAMES, count, random.Random(seed))
    assert len(set(found)) == min(count, 10)
    times = Counter(dict.fromkeys(NAMES, 0))
    times.update(name for cell in found for name in cell.workloads)
    assert max(times.values()) - min(times.values()) <= 2


def test_splits_divide_the_whole_and_tell_twins_once() -> None:
    cells = splits(SeriesSpec(("a", "b"), splits_milli=(250, 500, 750)))
    divided = [cell for cell in cells if len(cell.parts) == 2]
    assert all(sum(cell.sm_milli) == 1000 for cell in divided)
    assert [cell.sm_milli for cell in divided if cell.workloads == ("a", "a")] == [(250, 750), (500, 500)]
    assert [cell.sm_milli for cell in divided if cell.workloads == ("a", "b")] == [(250, 750), (500, 500), (750, 250)]
    assert {cell.sm_milli[0] for cell in cells if cell.workloads == ("b",)} == {250, 500, 750}


def test_only_the_named_are_split_in_pairs() -> None:
    cells = splits(SeriesSpec(("a", "b"), splits_milli=(500,), split_workloads=("b",)))
    assert MeasurementCell((CellWorkload("a", 500),)) in cells
    assert [cell.workloads for cell in cells if len(cell.parts) == 2] == [("b", "b")]


def test_a_cell_says_what_it_is() -> None:
    assert str(MeasurementCell((CellWorkload("a"), CellWorkload("b", 125)))) == "a + b 12.5 %"
