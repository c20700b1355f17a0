"""Tests for the analytical benchmark on measured rows."""

from statistics import median

import pytest

from bench import analytical


def row(error=0.0, bound_by="card", **changes):
    plain = {
        "model": "net", "precision": "fp32", "training": True, "issue_us": 100.0, "error": error, "bound_by": bound_by,
        "memory_error": error / 10, "reserved_error": error, "card_error": error,
    }  # fmt: skip
    return {**plain, **changes}


def claims_by_name(done):
    return {each["name"]: each for each in analytical.claims(done)}


def test_claims_use_all_rows():
    found = claims_by_name([row(0.05)] * 5 + [row(-0.08)] * 4 + [row(0.5, "host")] * 3)
    assert found["error of the step time, median (12 rows)"]["ok"]
    assert not found["error of the step time, 90th percentile"]["ok"]
    assert found["error of the step time where the card is the slower, 90th percentile"]["value"] == pytest.approx(8)
    assert found["rows with peak memory within 10 %"]["value"] == 100


def test_host_spread_compares_equal_steps_only():
    equal = [row(issue_us=us) for us in (100.0, 130.0, 110.0)]
    assert analytical.host_spread([*equal, row(model="other", issue_us=900.0)]) == pytest.approx(30)
    assert analytical.host_spread([row()]) == 0


@pytest.mark.parametrize(("level", "value"), [(0, 1), (0.5, 2.5), (1, 4)])
def test_quantile_interpolates_between_values(level, value):
    assert analytical.quantile([3, 1, 4, 2], level) == value


def test_row_is_the_mean_of_its_visits():
    first = {"step_us": 10.0, "mean_us": 11.0, "issue_us": 9.0, "pace_us": 300.0}
    later = {"step_us": 20.0, "mean_us": 21.0, "issue_us": 19.0, "pace_us": 500.0}
    found = analytical._over_visits({"model": "net", **first, "visits": [later]})
    assert (found["step_us"], found["issue_us"], found["pace_us"]) == (15, 14, 400)
    assert found["visits"] == [first, later]
    assert analytical._over_visits({"model": "net", **first})["step_us"] == 10


def test_recorded_rows_include_the_measured_host():
    rows, card = analytical.recorded()
    assert len({row["model"] for row in rows}) >= 10
    assert {row["training"] for row in rows} == {True, False}
    assert card.host["pace"] > 0
    assert not analytical.find_card("NVIDIA H200").to_dict()["host"], "the shipped card has no host measurements"


@pytest.mark.parametrize("model", ["alexnet", "resnet18", "gpt2-small"])
def test_estimates_of_recorded_rows_are_within_the_bars(model):
    torch = pytest.importorskip("torch")
    rows, card = analytical.recorded()
    done = analytical.compare([each for each in rows if each["model"] == model], card)
    errors = [abs(each["error"]) for each in done]
    assert len(done) == 16
    assert {each["bound_by"] for each in done} == {"card", "host"}
    assert median(errors) < analytical.TIME_BARS[0]
    assert analytical.quantile(errors, 0.9) < analytical.TIME_BARS[1]
    assert max(abs(each["memory_error"]) for each in done) < 0.1
    assert not torch.cuda.is_initialized()
