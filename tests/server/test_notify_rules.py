"""Kinds of notices, and which rules receive them."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.server.notify.rules import KINDS, check_kinds, kind_of, receivers
from gpusquad.spec.model import Notice
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
        ("eta_moved", "pending", 0, "eta_moved"),
        # One preemption gives one notice: its end and the requeueing give none.
        ("preempted", "pending", 1, None),
        ("requeued", "pending", 1, None),
        ("pending", "pending", 1, None),
        # These events give no notice, whatever the state.
        ("updated", "running", 0, None),
        ("held", "held", 0, None),
        ("starting", "starting", 0, None),
        ("retry", "held", 1, None),
        ("from a later version", "running", 0, None),
    ],
)
def test_event_has_its_kind_of_notice(event, state, attempt, kind):
    assert kind_of(event, state, attempt) == kind


def test_every_kind_is_reachable():
    made = {kind_of(event, state, 0) for state in JobState for event in [*JobState, "hung", "eta_moved"]}
    assert made - {None} == set(KINDS)


def test_rules_of_other_users_get_no_notices():
    mine, other = rule("ann", ["failed"], 1), rule("bob", ["failed"], 2)
    assert receivers("failed", "ann", None, [mine, other]) == [mine]
    assert receivers("started", "ann", None, [mine, other]) == []


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
