"""The predictor that looks at what the same person ran last."""

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


def test_the_mean_of_the_users_last_two_runs(recent):
    for run_us in (1000, 10, 30):
        recent.learn(PastRun(job(), run_us))
    forecast = recent.predict(job())
    assert (forecast.at(0.5), forecast.at(0.9), forecast.source) == (20, 30, "history")


def test_the_estimate_caps_the_middle_and_is_the_high(recent):
    recent.learn(PastRun(job(), 10))
    recent.learn(PastRun(job(), 30))
    assert (recent.predict(job(estimate_us=15)).at(0.5), recent.predict(job(estimate_us=15)).at(0.9)) == (15, 15)
    assert (recent.predict(job(estimate_us=90)).at(0.5), recent.predict(job(estimate_us=90)).at(0.9)) == (20, 90)


def test_before_there_are_two_runs_the_estimate_then_the_tenant_then_nothing(recent):
    assert recent.predict(job()).source == "none"
    assert recent.predict(job(estimate_us=50)) == recent.predict(job("bo", 50))
    assert (recent.predict(job(estimate_us=50)).at(0.5), recent.predict(job(estimate_us=50)).source) == (50, "user")
    recent.learn(PastRun(job(), 40))
    assert (recent.predict(job("bo")).at(0.5), recent.predict(job("bo")).source) == (40, "tenant")
    assert recent.predict(job(tenant="other")).source == "none"


def test_jobs_without_a_user_learn_from_their_tenant(recent):
    recent.learn(PastRun(job(""), 10))
    recent.learn(PastRun(job(""), 20))
    assert recent.predict(job("")).at(0.5) == 15


def test_parameters():
    one = registry.create("predictor", "recent:last=1")
    one.learn(PastRun(job(), 7))
    assert one.predict(job()).at(0.5) == 7
    with pytest.raises(Invalid, match="less than one"):
        registry.create("predictor", "recent:last=0")


def test_what_was_learned_can_be_kept(recent):
    recent.learn(PastRun(job(), 10))
    recent.learn(PastRun(job(), 30))
    other = registry.create("predictor", "recent")
    other.load(recent.dump())
    assert [other.predict(job(who)) for who in ("ana", "bo")] == [recent.predict(job(who)) for who in ("ana", "bo")]
