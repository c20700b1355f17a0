"""Kinds of notices, and which rules receive them."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.server.notify.rules import (
    KINDS,
    LONG_WAIT_US,
    MUCH_LATER_US,
    check_kinds,
    is_news,
    kind_of,
    receivers,
)
from gpusquad.spec.model import Notice
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.notices import RuleRow


def rule(user="ann", kinds=("failed",), number=1):
    return RuleRow(number, user, list(kinds), "slack://x", "", 0)


@pytest.mark.parametrize(
    ("event", "state", "attempt", "kind"),
    [
        ("pending", "pending", 0, "queued"),
        ("running", "running", 0, "started"),
        ("running", "running", 3, "started"),
        ("succeeded", "succeeded", 0, "finished"),
        ("failed", "failed", 0, "failed"),
        ("timed_out", "timed_out", 0, "failed"),
        ("cancelled", "cancelled", 0, "cancelled"),
        ("preempting", "preempting", 0, "preempted"),
        ("lost", "lost", 0, "lost"),
        ("hung", "running", 0, "hung"),
        ("overrun", "running", 0, "overrun"),
        ("start_late", "pending", 0, "start_late"),
        ("retry", "held", 1, "retried"),
        ("suspected", "held", 1, "held"),
        ("eta_moved", "pending", 0, "eta_moved"),
        # One preemption gives one notice: its end and the requeueing give none.
        ("preempted", "pending", 1, None),
        ("requeued", "pending", 1, None),
        ("pending", "pending", 1, None),
        # These events give no notice, whatever the state.
        ("updated", "running", 0, None),
        ("held", "held", 0, None),
        ("starting", "starting", 0, None),
        ("from a later version", "running", 0, None),
    ],
)
def test_event_has_its_kind_of_notice(event, state, attempt, kind):
    assert kind_of(event, state, attempt) == kind


def test_job_that_is_held_for_a_reason_is_reported():
    assert kind_of("held", "held", 0, None, "no node has 16 GPUs") == "held"
    assert kind_of("held", "held", 0, None, "") is None, "its user submitted it with dependencies"


def test_overrun_found_by_hang_detection_is_no_hang():
    assert kind_of("hung", "running", 0, {"rule": "overrun"}) == "overrun"
    assert kind_of("hung", "running", 0, {"rule": "nan", "action": "warn"}) == "hung"


def test_stop_of_a_hang_is_one_notice_with_the_end_of_its_attempt():
    assert kind_of("hung", "running", 0, {"rule": "nan", "action": "stop"}) is None


def test_loss_after_others_is_one_notice_at_the_end_of_its_attempt():
    assert kind_of("lost", "lost", 1, {"losses": 2}) is None
    assert kind_of("retry", "held", 2, {"losses": 2, "wait_us": 1}) == "lost"
    assert kind_of("requeued", "pending", 2, {"losses": 2}) == "lost"


def test_every_kind_is_reachable():
    others = ("hung", "overrun", "eta_moved", "start_late", "retry")
    made = {kind_of(event, state, 0, None, "why") for state in JobState for event in [*JobState, *others]}
    assert made - {None} == set(KINDS)


def test_rules_of_other_users_get_no_notices():
    mine, other = rule("ann", ["failed"], 1), rule("bob", ["failed"], 2)
    assert receivers("failed", "ann", None, [mine, other]) == [mine]
    assert receivers("started", "ann", None, [mine, other]) == []


def test_event_is_sent_once_to_a_channel_with_two_rules():
    first, second = rule("ann", ["failed"], 1), rule("ann", ["failed", "lost"], 2)
    assert receivers("failed", "ann", None, [first, second]) == [first]


JOB = JobRow("j", "train", "vision", "ann", submitted_us=0)
NOW_US = 10**9


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        ("finished", {}, True),
        ("queued", {}, False),
        ("preempted", {}, False),
        ("started", {"at_us": LONG_WAIT_US}, True),
        ("started", {"at_us": LONG_WAIT_US - 1}, False),
        ("started", {"attempt": 1}, False),
        ("cancelled", {"kind": "cancelled", "actor": "ann"}, False),
        ("cancelled", {"kind": "cancelled", "actor": "root"}, True),
        ("held", {"kind": "held", "actor": "ann", "cause": "held by ann"}, False),
        ("held", {"kind": "held", "actor": "root", "cause": "held by root"}, True),
        ("held", {"kind": "held", "actor": "ann", "cause": "no node has 16 GPUs"}, True),
        ("eta_moved", {"data": {"before_us": NOW_US + 60, "start_us": NOW_US + 61 + MUCH_LATER_US}}, True),
        ("eta_moved", {"data": {"before_us": NOW_US + 60, "start_us": NOW_US + 60 + MUCH_LATER_US}}, False),
        ("eta_moved", {"data": {"before_us": 10**11, "start_us": 10**11 + 2 * MUCH_LATER_US}}, False),
    ],
)
def test_inbox_gets_what_a_user_wants_to_know(kind, event, expected):
    fields = {"id": 1, "job_id": "j", "at_us": NOW_US, "kind": kind, "state": "running", "attempt": 0} | event
    assert is_news(kind, JOB, EventRow(**fields)) == expected


def test_inbox_also_gets_the_kinds_that_the_job_file_names():
    job = replace(JOB, spec={"notify": ["started"]})
    assert is_news("started", job, EventRow(1, "j", 1, "running", "running", 0))
    assert is_news("finished", job, EventRow(1, "j", 1, "succeeded", "succeeded", 0))


def test_job_with_notify_gets_only_those_kinds():
    mine = rule("ann", ["failed"])
    assert receivers("started", "ann", ["started"], [mine]) == [mine]
    assert receivers("failed", "ann", ["started"], [mine]) == []
    assert receivers("failed", "ann", [], [mine]) == [mine]


def test_job_file_may_name_final_states():
    assert receivers("finished", "ann", ["succeeded"], [rule("ann", ["failed"])])
    assert receivers("failed", "ann", ["timed_out"], [rule("ann", ["started"])])
    assert check_kinds(["succeeded", "delayed"]) == ["eta_moved", "finished"]


def test_every_notice_of_a_job_file_is_a_kind():
    assert check_kinds(list(get_args(Notice)))


def test_kinds_are_deduplicated_and_ordered():
    assert check_kinds(["failed", "queued", "failed"]) == ["queued", "failed"]


@pytest.mark.parametrize("kinds", [[], None, "failed", ["boom"], [1], [["failed"]], {}])
def test_invalid_kinds_are_refused_with_the_valid_ones(kinds):
    with pytest.raises(Invalid, match="eta_moved"):
        check_kinds(kinds)


@given(st.text(), st.text(), st.integers())
def test_any_event_has_a_kind_or_none(event, state, attempt):
    assert kind_of(event, state, attempt) in {None, *KINDS}
