"""Tests of the order in which pairs and conditions are measured."""

from __future__ import annotations

from bench.card import pair_plan as plan
from bench.card.arrivals import Load
from bench.card.models import EXTRA
from bench.card.pair_plan import ALONE, CONDITIONS, OURS, PRIORITY, TRAINING_ALONE, Pair
from bench.card.ways import needs_daemon, needs_mps

ONE, OTHER = Pair("one", "s", Load(100), "t"), Pair("other", "s", Load(100), "t")
FEW = (ALONE, TRAINING_ALONE, OURS)
LENGTH_S = 5.0


def block(pair: Pair, condition: str, repeat: int, requests: int = 4000, **more: object) -> dict:
    head = {"bench": "pairs", "kind": "block", "sitting": "s", "pair": pair.name, "setup": pair.setup(LENGTH_S)}
    late_us = [] if condition == TRAINING_ALONE else [1] * requests
    return {**head, "condition": condition, "repeat": repeat, "late_us": late_us, **more}


def rounds(pair: Pair, count: int, requests: int = 4000) -> list[dict]:
    return [block(pair, condition, repeat, requests) for repeat in range(count) for condition in FEW]


def is_complete(rows: list[dict], pair: Pair) -> bool:
    return plan.is_full(rows, pair, pair.setup(LENGTH_S), FEW)


def test_pair_is_complete_with_enough_requests_and_repeats() -> None:
    assert not is_complete([], ONE)
    assert not is_complete(rounds(ONE, 2, 5000), ONE)  # enough requests, in two repeats
    assert not is_complete(rounds(ONE, 3, 3000), ONE)
    assert is_complete(rounds(ONE, 3), ONE)
    assert not is_complete(rounds(OTHER, 3), ONE)


def test_pair_with_the_fewest_rounds_is_next_and_complete_ones_are_left_out() -> None:
    rows = [*rounds(ONE, 2), *rounds(OTHER, 1)]
    assert plan.emptiest_first(rows, [ONE, OTHER], LENGTH_S, FEW) == [OTHER, ONE]
    assert plan.emptiest_first([*rows, *rounds(OTHER, 3)], [ONE, OTHER], LENGTH_S, FEW) == [ONE]
    assert plan.emptiest_first([], [ONE, OTHER], LENGTH_S, FEW) == [ONE, OTHER]


def test_rows_of_another_setup_do_not_count() -> None:
    assert ONE.setup(5.0) != ONE.setup(6.0)
    rows = [{**row, "setup": "other"} for row in rounds(ONE, 3)]
    assert not is_complete(rows, ONE)
    assert plan.next_repeat(rows, ONE, ONE.setup(LENGTH_S)) == 0


def test_interrupted_round_is_skipped_and_missing_conditions_go_first() -> None:
    setup = ONE.setup(LENGTH_S)
    rows = [*rounds(ONE, 1), block(ONE, ALONE, 1), block(ONE, TRAINING_ALONE, 1)]
    assert plan.next_repeat(rows, ONE, setup) == 2
    assert plan.round_order(rows, ONE, setup, FEW, 2)[0] == OURS


def test_orders_differ_between_rounds_and_have_all_conditions() -> None:
    setup = ONE.setup(LENGTH_S)
    orders = [tuple(plan.round_order([], ONE, setup, CONDITIONS, repeat)) for repeat in range(6)]
    assert len(set(orders)) > 1
    assert all(sorted(order) == sorted(CONDITIONS) for order in orders)


def test_failing_condition_does_not_stop_the_others() -> None:
    setup = ONE.setup(LENGTH_S)
    failures = [block(ONE, OURS, repeat, 0, failed="it died") for repeat in range(plan.MAX_FAILURES)]
    good = [row for row in rounds(ONE, 3) if row["condition"] != OURS]
    assert plan.hopeful(failures[:1], ONE, setup, FEW) == list(FEW)
    assert OURS not in plan.hopeful(failures, ONE, setup, FEW)
    assert is_complete([*failures, *good], ONE)
    assert OURS in plan.hopeful([*failures, block(ONE, OURS, 9)], ONE, setup, FEW)
    later = {"bench": "pairs", "kind": "sitting", "sitting": "another call"}
    assert OURS in plan.hopeful([*failures, later], ONE, setup, FEW)


def test_each_condition_has_its_clients_and_ways() -> None:
    assert [str(seat) for seat in plan.seats_of(ALONE, 70)] == ["latency-plain"]
    assert [str(seat) for seat in plan.seats_of(TRAINING_ALONE, 70)] == ["training-plain"]
    assert [str(seat) for seat in plan.seats_of(plan.PERCENT, 70)] == ["latency-mps", "training-mps70"]
    assert [str(seat) for seat in plan.seats_of(PRIORITY, 70)] == ["latency-mps", "training-mps-low"]
    isolated = plan.seats_of(plan.ISOLATED, 70)
    assert [str(seat) for seat in isolated] == ["latency-squads-alone", "training-squads-alone"]
    assert not any(needs_mps(seat.way) for seat in isolated)
    assert [needs_mps(seat.way) for seat in plan.seats_of(plan.MIXED, 70)] == [False, True]


def test_pairs_have_both_kinds_of_arrivals() -> None:
    assert len(plan.PAIRS) >= 6
    assert {pair.load.kind for pair in plan.PAIRS} == {"poisson", "bursty"}
    assert len({pair.name for pair in plan.PAIRS}) == len(plan.PAIRS)
    assert all(pair.service in EXTRA for pair in plan.PAIRS)


def test_judged_conditions_are_those_with_a_daemon() -> None:
    judged = [name for name in plan.ALL_CONDITIONS if any(needs_daemon(seat.way) for seat in plan.seats_of(name, 70))]
    assert judged == list(plan.DAEMON_WAYS)
    assert all(plan.ways_of(name, 70)[0] == way for name, way in plan.DAEMON_WAYS.items())
