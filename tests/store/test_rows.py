"""Dataclasses and tables say the same."""

from dataclasses import fields

import pytest

from gpusquad.core.transitions import FINAL, JobState
from gpusquad.store import (
    attempts,
    audit,
    card_divides,
    events,
    forecasts,
    goal_samples,
    jobs,
    marks,
    notices,
    people,
    policy,
    run_forecasts,
    samples,
    settings,
)
from gpusquad.store.tables import metadata

PAIRS = {
    "jobs": jobs.JobRow,
    "events": events.EventRow,
    "attempts": attempts.AttemptRow,
    "tenants": people.TenantRow,
    "users": people.UserRow,
    "tokens": people.TokenRow,
    "audit": audit.AuditRow,
    "policies": policy.PolicyRow,
    "card_divides": card_divides.CardDivideRow,
    "marks": marks.MarkRow,
    "goal_samples": goal_samples.GoalSample,
    "samples": samples.SampleRow,
    "forecasts": forecasts.ForecastRow,
    "run_forecasts": run_forecasts.RunForecastRow,
    "notice_rules": notices.RuleRow,
    "notices": notices.NoticeRow,
    "settings": settings.SettingRow,
}


@pytest.mark.parametrize("table", PAIRS)
def test_a_row_has_the_columns_of_its_table_in_their_order(table):
    assert [field.name for field in fields(PAIRS[table])] == [column.name for column in metadata.tables[table].c]


def test_every_table_has_its_row():
    assert set(metadata.tables) - set(PAIRS) == {"job_waits"}


def test_the_states_are_those_of_the_state_table():
    assert set(jobs.FINAL_STATES) == FINAL
    assert set(jobs.UNFINISHED_STATES) == set(JobState) - FINAL
