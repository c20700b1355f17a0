from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.kubernetes.standings import ESTIMATE, KNOWN, PRIORITY, standing_of
from gpusquad.model.job import PRIORITY_CLASSES
from gpusquad.model.known import known_text
from gpusquad.model.standing import Standing


@pytest.mark.parametrize(
    ("number", "word", "expected"),
    [(-5, "", "low"), (0, "", "normal"), (1, "", "high"), (999_999, "", "high"), (1_000_000, "", "urgent"),
     (-5, "urgent", "urgent"), (2_000_000, "low", "low"), (7, "no such word", "high")],
)  # fmt: skip
def test_our_word_goes_before_the_number_of_the_class(number: int, word: str, expected: str):
    standing = standing_of(Pod("n", "p", "u", annotations={PRIORITY: word}, priority=number))
    assert standing == Standing(priority=PRIORITY_CLASSES[expected])


@pytest.mark.parametrize(("text", "expected"), [("2h", 7_200_000_000), ("90s", 90_000_000), ("0s", None), ("x", None)])
def test_what_is_left_at_the_start_is_the_estimate(text: str, expected: int | None):
    assert standing_of(Pod("n", "p", "u", annotations={ESTIMATE: text})).remaining_us == expected


def test_what_the_scheduler_knew_of_its_speed_comes_with_the_pod():
    known = Standing(app="vgg16", curve=((500, 0.6), (1000, 1.0)), beside={"cnn": 0.5}, costs={"cnn": 0.7})
    assert standing_of(Pod("n", "p", "u", annotations={KNOWN: known_text(known)})) == known
    assert known_text(Standing(weight=2.0)) == ""
    assert known_text(replace(known, beside={f"{n}" * 60: 0.5 for n in range(1000)})) == ""


@pytest.mark.parametrize("text", [
    "{", "[]", "{}", '{"app": 7}', '{"app": "a", "curve": [[0, 1]]}', '{"app": "a", "beside": {"b": -1}}',
    '{"app": "a", "costs": [1]}', '{"app": "' + "a" * 70_000 + '"}', "[" * 60_000,
    '{"app": "a", "beside": {"b": 1' + "0" * 400 + "}}", '{"app": "a", "curve": [[1' + "0" * 400 + ", 1]]}",
    '{"app": "' + "a" * 300 + '"}', '{"app": "a\\nb"}', '{"app": "a", "costs": {"": 0.0}}',
])  # fmt: skip
def test_what_cannot_be_read_of_its_speed_is_not_known(text: str):
    assert standing_of(Pod("n", "p", "u", annotations={KNOWN: text})) == Standing()


@given(st.dictionaries(st.sampled_from([PRIORITY, ESTIMATE, KNOWN]), st.text()), st.integers(-(2**31), 2**31 - 1))
def test_nothing_that_users_can_write_makes_it_fail(said: dict[str, str], number: int):
    assert standing_of(Pod("n", "p", "u", annotations=said, priority=number)).priority in PRIORITY_CLASSES.values()
