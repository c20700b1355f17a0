"""Tests that the row dataclasses match the tables."""

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
    inbox,
    jobs,
    marks,
    notices,
    people,
    policy,
    promises,
    run_forecasts,
    samples,
    settings,
)
from gpusquad.store.tables import metadata

ROW_CLASSES = {
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
    "inbox": inbox.InboxRow,
    "notice_rules": notices.RuleRow,
    "notices": notices.NoticeRow,
    "settings": settings.SettingRow,
    "promises": promises.PromiseRow,
}


@pytest.mark.parametrize("table", ROW_CLASSES)
def test_row_class_has_the_columns_of_its_table_in_order(table):
    assert [field.name for field in fields(ROW_CLASSES[table])] == [column.name for column in metadata.tables[table].c]


def test_every_table_has_a_row_class():
    assert set(metadata.tables) - set(ROW_CLASSES) == {"job_waits", "start_forecasts"}


def test_final_and_unfinished_states_match_the_job_states():
    assert set(jobs.FINAL_STATES) == FINAL
    assert set(jobs.UNFINISHED_STATES) == set(JobState) - FINAL
