"""What the bench makes of measured rows; the networks themselves need PyTorch."""

import json
from pathlib import Path

import pytest

from bench import analytical


def row(error=0.0, bound_by="card", **changes):
    plain = {
        "model": "net", "precision": "fp32", "training": True, "issue_us": 100.0, "error": error, "bound_by": bound_by,
        "memory_error": error / 10, "reserved_error": error, "card_error": error,
    }  # fmt: skip
    return {**plain, **changes}


def by_name(done):
    return {each["name"]: each for each in analytical.claims(done)}


def test_bars_are_over_all_rows():
    found = by_name([row(0.05)] * 5 + [row(-0.08)] * 4 + [row(0.5, "host")] * 3)
    assert found["error of the step time, median (12 rows)"]["ok"]
    assert not found["error of the step time, 90th percentile"]["ok"]
    assert found["error of the step time where the card is the slower, 90th percentile"]["value"] == pytest.approx(8)
    assert found["rows with peak memory within 10 %"]["value"] == 100


def test_the_hosts_pace_is_judged_by_steps_that_ask_the_same_of_it():
    equal = [row(issue_us=us) for us in (100.0, 130.0, 110.0)]
    assert analytical.host_spread([*equal, row(model="other", issue_us=900.0)]) == pytest.approx(30)
    assert analytical.host_spread([row()]) == 0


@pytest.mark.parametrize(("level", "value"), [(0, 1), (0.5, 2.5), (1, 4)])
def test_quantiles_lie_between_values(level, value):
    assert analytical.quantile([3, 1, 4, 2], level) == value


def test_recorded_rows_can_be_compared_with_the_shipped_card():
    torch = pytest.importorskip("torch")
    rows = json.loads((Path(analytical.__file__).parent / "analytical_models" / "h200-rows.json").read_text("utf-8"))
    small = [each for each in rows if each["model"] == "alexnet" and each["batch"] == 128]
    done = analytical.compare(small, analytical.find_card("NVIDIA H200"))
    assert len(done) == 4
    assert max(abs(each["memory_error"]) for each in done) < 0.1
    assert max(abs(each["device_us"] / each["step_us"] - 1) for each in done) < 0.25
    assert not torch.cuda.is_initialized()
