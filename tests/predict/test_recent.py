"""Tests for the predictor that uses the last runs of the same user."""

import pytest

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun

ROLES = (Role("w", 1, Request(gpus=1)),)


def job(user: str = "ana", estimate_us: int | None = None, tenant: str = "t") -> Job:
    return Job("j", ROLES, tenant=tenant, user=user, estimate_us=estimate_us)


@pytest.fixture
def recent():
    return registry.create("predictor", "recent")


def test_prediction_is_the_mean_of_the_users_last_two_runs(recent):
    for run_us in (1000, 10, 30):
        recent.learn(PastRun(job(), run_us))
    prediction = recent.predict(job())
    assert (prediction.at(0.5), prediction.at(0.9), prediction.source) == (20, 30, "history")


def test_estimate_caps_the_median_and_is_the_high_quantile(recent):
    recent.learn(PastRun(job(), 10))
    recent.learn(PastRun(job(), 30))
    assert (recent.predict(job(estimate_us=15)).at(0.5), recent.predict(job(estimate_us=15)).at(0.9)) == (15, 15)
    assert (recent.predict(job(estimate_us=90)).at(0.5), recent.predict(job(estimate_us=90)).at(0.9)) == (20, 90)


def test_prediction_uses_the_estimate_or_the_tenant_before_two_runs(recent):
    assert recent.predict(job()).source == "none"
    assert recent.predict(job(estimate_us=50)) == recent.predict(job("bo", 50))
    assert (recent.predict(job(estimate_us=50)).at(0.5), recent.predict(job(estimate_us=50)).source) == (50, "user")
    recent.learn(PastRun(job(), 40))
    assert (recent.predict(job("bo")).at(0.5), recent.predict(job("bo")).source) == (40, "tenant")
    assert recent.predict(job(tenant="other")).source == "none"


def test_jobs_without_a_user_are_predicted_from_their_tenant(recent):
    recent.learn(PastRun(job(""), 10))
    recent.learn(PastRun(job(""), 20))
    assert recent.predict(job("")).at(0.5) == 15


def test_last_sets_the_number_of_runs():
    predictor = registry.create("predictor", "recent:last=1")
    predictor.learn(PastRun(job(), 7))
    assert predictor.predict(job()).at(0.5) == 7
    with pytest.raises(Invalid, match="less than one"):
        registry.create("predictor", "recent:last=0")


def test_reloaded_predictor_predicts_the_same(recent):
    recent.learn(PastRun(job(), 10))
    recent.learn(PastRun(job(), 30))
    restored = registry.create("predictor", "recent")
    restored.load(recent.dump())
    assert [restored.predict(job(user)) for user in ("ana", "bo")] == [
        recent.predict(job(user)) for user in ("ana", "bo")
    ]
