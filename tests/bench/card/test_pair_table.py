"""Tests of the table of pairs and its verdicts."""

from __future__ import annotations

import pytest

from bench.card import pair_plan as plan
from bench.card.pair_calibration import best, split_masks
from bench.card.pair_table import PairTable, Verdict, pair_tables, shown

WORK_US, PER_S = 2000.0, 100.0  # busy for a fifth of the time


def rows(ours_ms: float, ours_steps: float, priority_ms: float, priority_steps: float, requests: int = 4000,
         repeats: int = 3, isolated_ms: float | None = None) -> list[dict]:  # fmt: skip
    """Return rows in which a tenth of the requests take twice as long and repeats differ. The isolated condition is
    included if ``isolated_ms`` is given, with the same training speed."""
    head = {"bench": "pairs", "sitting": "s", "pair": "p", "setup": "x", "per_s": PER_S}
    found: list[dict] = [{**head, "kind": "calibration", "work_us": WORK_US}]
    conditions = {
        plan.ALONE: (10.0, None), plan.TRAINING_ALONE: (None, 20.0), plan.PRIORITY: (priority_ms, priority_steps),
        plan.OURS: (ours_ms, ours_steps),
    }  # fmt: skip
    if isolated_ms:
        conditions[plan.ISOLATED] = (isolated_ms, ours_steps)
    for repeat in range(repeats):
        for condition, (ms, steps) in conditions.items():
            late = [round(1000 * ms * (1 + repeat / 10) * (2 if index % 10 == 0 else 1)) for index in range(requests)] \
                if ms else []  # fmt: skip
            row = {**head, "kind": "block", "condition": condition, "repeat": repeat, "late_us": late}
            row["length_s"] = requests / PER_S
            found.append(row if steps is None else {**row, "steps_per_s": steps})
    return found


def table(ours_ms: float, ours_steps: float, priority_ms: float, priority_steps: float, requests: int = 4000,
          repeats: int = 3) -> PairTable:  # fmt: skip
    return pair_tables(rows(ours_ms, ours_steps, priority_ms, priority_steps, requests, repeats))[0]


def test_rounds_of_concurrent_calls_are_distinguished() -> None:
    first = rows(10.4, 16.0, 11.0, 15.0)
    second = [{**row, "sitting": "another"} for row in first]
    cells = {cell.condition: cell for cell in pair_tables([*first, *second])[0].cells}
    assert (cells[plan.OURS].repeats, cells[plan.OURS].requests, cells[plan.OURS].failed) == (6, 24_000, 0)


def verdict_under_mps(found: PairTable) -> Verdict:
    """Return the verdict on the condition under MPS."""
    return next(verdict for verdict in found.verdicts if verdict.condition == plan.OURS)


def test_table_has_percentiles_ratios_and_busy_ratio() -> None:
    found = table(10.4, 16.0, 11.0, 15.0)
    cells = {cell.condition: cell for cell in found.cells}
    assert found.busy_ratio == pytest.approx(0.2)
    assert found.training_per_s == 20.0
    assert cells[plan.OURS].requests == 12_000
    assert cells[plan.OURS].p99_ratio.value == pytest.approx(1.04, rel=0.01)
    assert cells[plan.OURS].training_ratio.value == pytest.approx(0.8)
    assert cells[plan.ALONE].p50_ms == pytest.approx(11.0, rel=0.01)


@pytest.mark.parametrize(
    ("ours_ms", "ours_steps", "floor", "aim"),
    [
        (10.4, 16.0, True, True),
        (10.8, 16.0, True, False),  # the tail is within 1.10, not within 1.05
        (10.4, 15.0, True, False),  # training 0.75: more than 0.9 of 0.8, less than 0.95 of it
        (10.4, 14.0, False, False),
        (11.2, 16.0, False, False),
    ],
)
def test_verdict_has_floor_and_aim(ours_ms: float, ours_steps: float, floor: bool, aim: bool) -> None:
    verdict = verdict_under_mps(table(ours_ms, ours_steps, 12.0, 10.0))
    assert (verdict.floor, verdict.aim, verdict.behind_priority) == (floor, aim, False)


def test_floor_is_missed_when_worse_than_mps_priority_in_both() -> None:
    verdict = verdict_under_mps(table(10.4, 16.0, 10.2, 17.0))
    assert verdict.behind_priority
    assert verdict.floor is False
    assert "behind" in verdict.words
    assert verdict_under_mps(table(10.4, 16.0, 10.2, 15.0)).floor


@pytest.mark.parametrize(
    ("ours_ms", "isolated_ms", "passes", "by"),
    [
        (11.5, 10.4, True, ("gpusquad isolated",)),
        (10.4, 11.5, True, ("gpusquad",)),
        (10.4, 10.4, True, ("gpusquad", "gpusquad isolated")),
        (11.5, 11.5, False, ()),
        (11.5, None, None, ()),  # isolated may still pass
        (10.4, None, True, ("gpusquad",)),
    ],
)
def test_pair_passes_when_one_gpusquad_condition_passes(
    ours_ms: float, isolated_ms: float | None, passes: bool | None, by: tuple[str, ...]
) -> None:
    found = pair_tables(rows(ours_ms, 16.0, 12.0, 10.0, isolated_ms=isolated_ms))[0]
    assert (found.passes, found.passed_by) == (passes, by)
    text = shown([found])
    assert ("**The pair: passes, by " + " and by ".join(by) in text) == bool(by)
    assert f"one of them meets the floor in {len(by[:1])} of 1 pairs" in text
    assert found.plain()["passes"] is passes


@pytest.mark.parametrize(("requests", "repeats"), [(3000, 3), (6000, 2)])
def test_too_few_measurements_give_no_verdict(requests: int, repeats: int) -> None:
    verdict = verdict_under_mps(table(10.4, 16.0, 11.0, 15.0, requests=requests, repeats=repeats))
    assert (verdict.floor, verdict.aim) == (None, None)
    assert verdict.words.startswith("no verdict")


def test_failed_blocks_and_other_setups_are_shown_but_not_counted() -> None:
    found = rows(10.4, 16.0, 11.0, 15.0)
    other = {**found[-1], "setup": "old"}
    failed = {**found[-1], "repeat": 9, "late_us": [], "failed": "it died"}
    del failed["steps_per_s"]
    found_table = pair_tables([other, *found[:-1], failed, found[-1]])[0]
    cell = next(cell for cell in found_table.cells if cell.condition == plan.OURS)
    assert (cell.failed, cell.repeats, found_table.left_out) == (1, 3, 1)
    text = shown([found_table])
    assert "1 blocks failed" in text
    assert "1 blocks of another setup" in text


def test_rounds_without_solo_block_are_left_out_of_the_ratio() -> None:
    found = [row for row in rows(10.4, 16.0, 11.0, 15.0) if (row.get("condition"), row.get("repeat")) != ("alone", 2)]
    cell = next(cell for cell in pair_tables(found)[0].cells if cell.condition == plan.OURS)
    assert (cell.p99_ratio.blocks, cell.training_ratio.blocks) == (2, 3)


def later(found: list[dict], ours: str = plan.OURS, priority: str = plan.PRIORITY) -> list[dict]:
    """Return the blocks as those of a later call, with other conditions; both solo conditions are measured again."""
    names = {plan.OURS: ours, plan.PRIORITY: priority}
    blocks = [{**row, "sitting": "later", "repeat": 3 + row["repeat"]} for row in found if row["kind"] == "block"]
    return [{**row, "condition": names.get(row["condition"], row["condition"])} for row in blocks]


def test_conditions_in_separate_rounds_are_reported() -> None:
    found = rows(10.4, 16.0, 11.0, 15.0)
    found_table = pair_tables([*found, *later(found, ours=plan.UNDER_MPS, priority=plan.SLICED)])[0]
    assert found_table.apart == "MPS priority, gpusquad in 3 rounds; time slicing, MPS in 3 others"
    assert f"Not all in the same rounds: {found_table.apart}; each beside alone of its own rounds" in shown(
        [found_table]
    )


def test_further_and_interrupted_rounds_count_as_the_same_rounds() -> None:
    found = rows(10.4, 16.0, 11.0, 15.0)
    more = later(found)
    cut_off = [row for row in more if (row["condition"], row["repeat"]) != (plan.OURS, 5)]
    for found_table in pair_tables([*found, *more]) + pair_tables([*found, *cut_off]):
        assert found_table.apart == ""
        assert "Not all in the same rounds" not in shown([found_table])


def test_several_rounds_without_a_condition_are_reported() -> None:
    found = rows(10.4, 16.0, 11.0, 15.0)
    fewer = [row for row in later(found) if row["condition"] != plan.PRIORITY]
    assert pair_tables([*found, *fewer])[0].apart == "MPS priority, gpusquad in 3 rounds; gpusquad in 3 others"


def test_single_round_of_a_call_is_reported() -> None:
    found = rows(10.4, 16.0, 11.0, 15.0)
    once = [row for row in later(found) if row["condition"] != plan.PRIORITY and row["repeat"] == 3]
    assert pair_tables([*found, *once])[0].apart == "MPS priority, gpusquad in 3 rounds; gpusquad in 1 other"


def test_best_percentage_keeps_the_tail_and_has_the_fastest_training() -> None:
    tried = {30: {"p99_us": 10.0, "steps_per_s": 5.0}, 60: {"p99_us": 10.9, "steps_per_s": 8.0},
             90: {"p99_us": 20.0, "steps_per_s": 10.0}}  # fmt: skip
    assert best(tried, 10.0) == 60
    assert best(tried, 5.0) == 30  # none is within bounds: the one with the least latency
    assert best({}, 5.0) is None


def test_split_is_disjoint_and_covers_all_groups() -> None:
    masks = split_masks(15, 4)
    assert masks["latency"] & masks["training"] == 0
    assert masks["latency"] | masks["training"] == (1 << 15) - 1
    assert masks["latency"].bit_count() == 4
