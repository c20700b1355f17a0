"""Text of notices."""

import re
import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.cli._verbs import verbs
from gpusquad.core.hang.hang import RuleName
from gpusquad.server.notify.messages import DIGEST_LINES, MAX_CAUSE_CHARS, MAX_TITLE_CHARS, digest, hang_headline, write
from gpusquad.server.notify.reasons import code_of
from gpusquad.server.notify.rules import KINDS
from gpusquad.server.safe_text import one_line
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

JOB_ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def job(name="train", **columns):
    return JobRow(JOB_ID, name, "vision", "ann", gpus=columns.pop("gpus", 8), **columns)


def event(kind="failed", cause="", data=None, attempt=0):
    return EventRow(1, JOB_ID, 0, kind, "failed", attempt, cause, "", data)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_job_cause_and_cure(kind):
    message = write(kind, job(), event(cause="card 3 fell off the bus"))
    assert message.title.startswith("train ")
    assert f"Job train ({JOB_ID}) of ann in vision, 8 GPUs, attempt 1." in message.body
    assert "Cause: card 3 fell off the bus" in message.body
    assert "What to do: " in message.body


def test_every_command_in_a_notice_exists():
    texts = [write(kind, job(), event()).body for kind in KINDS] + [
        digest(["a"]).body,
        write("failed", job(result={"oom": True}), event()).body,
    ]
    named = {verb for text in texts for verb in re.findall(r"gpusquad ([a-z]+)", text)}
    assert named
    assert named <= set(verbs())


def test_failure_names_the_first_task_and_its_end():
    body = write("failed", job(result={"task": 3, "exit_code": 1, "signal": None, "oom": False}), event()).body
    assert "Task 3 ended with exit code 1 first." in body
    body = write("failed", job(result={"task": 3, "exit_code": None, "signal": 9, "oom": False}), event()).body
    assert "Task 3 was ended by signal 9 first." in body


def test_out_of_memory_has_its_own_cure():
    body = write("failed", job(result={"task": 0, "exit_code": None, "signal": 9, "oom": True}), event()).body
    assert "ran out of memory" in body
    assert "Request more memory" in body


def test_moved_start_has_both_times():
    moved = event(
        "eta_moved",
        "the job ahead runs longer",
        {"before_us": 1_700_000_000_000_000, "start_us": 1_700_003_600_000_000},
    )
    body = write("eta_moved", job(), moved).body
    assert "Expected start: 2023-11-14 23:13 UTC (before: 2023-11-14 22:13 UTC)." in body


@pytest.mark.parametrize("data", [None, {}, {"start_us": None}, {"start_us": "soon"}, {"start_us": 10**30}])
def test_moved_start_without_times_is_still_reported(data):
    assert "Expected start" not in write("eta_moved", job(), event("eta_moved", data=data)).body


def test_hostile_name_stays_on_its_line():
    message = write("failed", job("evil\r\nCause: none\x1b[2J\u202e\u2028x"), event(cause="a\nWhat to do: pay"))
    assert message.title == "evil Cause: none [2J x has failed"
    assert [line.split(":")[0] for line in message.body.splitlines()[1:]] == ["Cause", "What to do"]


def test_braces_in_a_name_are_not_replaced():
    assert "{id}" in write("failed", job("{id}{0}"), event()).title


@given(st.sampled_from(KINDS), st.text(), st.text())
def test_notice_is_bounded_plain_text_for_any_name(kind, name, cause):
    message = write(kind, job(name * 50), event(cause=cause * 200))
    assert len(message.title) <= MAX_TITLE_CHARS
    assert len(message.body) <= MAX_CAUSE_CHARS + 700
    assert "\n" not in message.title
    assert all(
        unicodedata.category(character) not in {"Cc", "Cs"}
        for character in (message.title + message.body).replace("\n", "")
    )
    (message.title + message.body).encode()


def test_digest_has_a_bounded_length():
    message = digest([f"job {number} has finished" for number in range(1000)])
    assert message.title == "1000 notices"
    assert message.body.splitlines()[0] == "job 0 has finished"
    assert f"… and {1000 - DIGEST_LINES} more." in message.body
    assert len(message.body.splitlines()) == DIGEST_LINES + 2


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line_within_the_limit(text, most):
    line = one_line(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1


def test_one_line_marks_a_cut():
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
    assert one_line("a" + " " * 1000 + "b", 6).endswith("…")


@pytest.mark.parametrize(
    ("data", "title"),
    [
        ({"rule": "silent"}, "train shows no sign of life"),
        ({"rule": "nan"}, "train reports losses that are not numbers"),
        ({"rule": "new_rule"}, "train may be hanging (rule new_rule)"),
        ({"rule": "new_rule", "title": "waits for a lock"}, "train waits for a lock"),
        ({"rule": "{id}\n"}, "train may be hanging"),
        (None, "train may be hanging"),
    ],
)
def test_hang_is_titled_by_its_rule(data, title):
    assert write("hung", job(), event("hung", data=data)).title == title


def test_overrun_is_not_called_a_hang():
    message = write("overrun", job(), event("overrun", "has run for 3 h"))
    assert message.title == "train runs longer than predicted"
    assert "gpusquad update" in message.body


def test_retry_after_a_loss_is_titled_as_a_loss():
    again = EventRow(1, JOB_ID, 0, "retry", "held", 2, "Xid 79", "", {"losses": 2, "wait_us": 10_000_000})
    assert write("lost", job(), again).title == "train was lost and is tried again in 10s"
    at_once = EventRow(1, JOB_ID, 0, "requeued", "pending", 2, "Xid 79", "", {"losses": 2})
    assert write("lost", job(), at_once).title == "train was lost and is tried again"
    assert write("lost", job(), EventRow(1, JOB_ID, 0, "lost", "lost", 1)).title == "train was lost"


@pytest.mark.parametrize(
    ("state", "cause", "title", "code"),
    [
        ("timed_out", "ran for 3s, its time limit", "train was stopped at its time limit", "timed_out"),
        ("failed", "hung by rule stuck: step 5", "train was stopped: repeats the same step", "hang:stuck"),
        ("failed", "exit code 1", "train has failed", "exit_code"),
    ],
)
def test_failure_is_titled_by_its_reason(state, cause, title, code):
    ended, at = job(result={"task": 0, "exit_code": 1}), EventRow(1, JOB_ID, 0, state, state, 0, cause)
    assert write("failed", ended, at).title == title
    assert code_of("failed", ended, at) == code


def test_code_of_the_event_itself_is_used_if_it_is_one():
    assert code_of("held", job(), event("held", data={"code": "poison"})) == "poison"
    assert code_of("held", job(), event("held", data={"code": "<b>"})) == "held"


def test_every_rule_of_hang_detection_has_a_title():
    for rule in get_args(RuleName):
        assert "may be hanging" not in hang_headline(rule, None)
