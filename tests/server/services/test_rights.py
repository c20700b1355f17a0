"""Who may use which priorities and lanes."""

from __future__ import annotations

import pytest

from gpusquad.model.job import Job, Request, Role
from gpusquad.model.priority import PRIORITY_CLASSES
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.errors import Forbidden
from gpusquad.server.services.jobs.rights import Rights, check_rights, rights_of
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import jobs, people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, World

MEMBER = Who("ann", "default", "member", frozenset({"read", "submit"}))
GIB = 2**30
PLAIN = Job("job", (Role("task", 1, Request(gpus=1)),), 0)
GRANTED = TenantRow("default", max_priority="high", may_choose_lane=True)


def member(max_priority: str | None = None, may_choose_lane: bool | None = None) -> Who:
    return Who("ann", "default", "member", frozenset({"read", "submit"}), max_priority, may_choose_lane)


@pytest.mark.parametrize(
    ("who", "tenant", "rights"),
    [
        (member(), None, ("normal", False)),
        (member(), TenantRow("default"), ("normal", False)),
        (member(), GRANTED, ("high", True)),
        (member("urgent"), GRANTED, ("urgent", True)),
        (member("low", False), GRANTED, ("low", False)),
        (member("normal", True), TenantRow("default"), ("normal", True)),
        (ADA, TenantRow("default"), (None, True)),
        (Who("ada", "default", "admin", max_priority="low"), TenantRow("default"), (None, True)),
        (Who("ada", "default", "admin", frozenset({"read", "submit"})), TenantRow("default"), ("normal", False)),
    ],
)
def test_own_rights_precede_those_of_the_tenant(who: Who, tenant: TenantRow | None, rights: tuple) -> None:
    assert rights_of(who, tenant) == Rights(*rights)


@pytest.mark.parametrize("most", [*PRIORITY_CLASSES, None])
@pytest.mark.parametrize("priority", PRIORITY_CLASSES)
def test_priority_is_allowed_up_to_the_maximum(priority: str, most: str | None) -> None:
    order = list(PRIORITY_CLASSES)
    assert Rights(most, False).allows_priority(priority) is (most is None or order.index(priority) <= order.index(most))


@pytest.mark.parametrize(("priority", "most", "is_allowed"), [("1", "normal", False), ("0", "normal", True),
    ("999", "high", True), ("1001", "high", False), ("70", "70", True), ("high", "70", False), ("-1", "low", False),
    ("2000000", "urgent", False), ("2000000", None, True)])  # fmt: skip
def test_integers_are_compared_with_the_maximum(priority: str, most: str | None, is_allowed: bool) -> None:
    assert Rights(most, False).allows_priority(priority) is is_allowed


def test_refusal_has_field_cause_and_cure() -> None:
    job = Job("job", PLAIN.roles, 0, priority="urgent")
    with pytest.raises(Forbidden) as refused:
        check_rights(Rights("normal", False), MEMBER, job)
    assert (refused.value.status, refused.value.field) == (403, "priority")
    assert refused.value.message == "urgent is above your maximum, which is normal"
    assert refused.value.cure == (
        "use priority normal or lower, or ask an administrator to run gpusquad user set ann --max-priority urgent"
    )
    with pytest.raises(Forbidden) as refused:
        check_rights(Rights("normal", False), MEMBER, Job("job", PLAIN.roles, 0, lane="large"))
    assert refused.value.field == "lane"
    assert "gpusquad user set ann --may-choose-lane yes" in refused.value.cure


def test_values_that_a_job_has_already_may_stay() -> None:
    before = Job("job", PLAIN.roles, 0, priority="urgent", lane="large", name="a")
    check_rights(Rights("normal", False), MEMBER, Job("job", PLAIN.roles, 0, priority="urgent", lane="large"), before)
    check_rights(Rights("normal", False), MEMBER, PLAIN, before)
    with pytest.raises(Forbidden):
        check_rights(Rights("normal", False), MEMBER, Job("job", PLAIN.roles, 0, priority="high"), before)


# -- in the scheduler ----------------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path, "1x2")


def grant(world: World, **rights) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", **rights))
    world.scheduler.reload_tenants()


def test_submission_above_the_right_is_refused(world: World) -> None:
    for file in ({"priority": "high"}, {"priority": "urgent"}, {"lane": "large"}):
        with pytest.raises(Forbidden):
            world.submit(MEMBER, **file)
    for priority in ("low", "normal"):
        world.submit(MEMBER, priority=priority)
    world.submit(ADA, priority="urgent", lane="large")


def test_grant_to_the_tenant_applies_at_once(world: World) -> None:
    grant(world, max_priority="high", may_choose_lane=True)
    world.submit(MEMBER, priority="high", lane="large")
    with pytest.raises(Forbidden, match="maximum, which is high"):
        world.submit(MEMBER, priority="urgent")


def test_maximum_below_the_default_refuses_the_default(world: World) -> None:
    grant(world, max_priority="low")
    with pytest.raises(Forbidden, match="normal is above your maximum, which is low"):
        world.submit(MEMBER)
    world.submit(MEMBER, priority="low")


def test_one_point_of_a_sweep_above_the_right_refuses_all(world: World) -> None:
    with pytest.raises(Forbidden):
        world.submit(MEMBER, priority="${p}", sweep={"p": ["normal", "urgent"]})
    with world.database.read() as c:
        assert jobs.unfinished(c) == []


def test_update_above_the_right_changes_nothing(world: World) -> None:
    running, pending = world.submit(MEMBER, gpus=2, name="old"), world.submit(MEMBER, gpus=2, name="old")
    world.settle()
    for job in (running, pending):
        for change in (JobChange(priority="urgent", name="new"), JobChange(lane="large", name="new")):
            with pytest.raises(Forbidden):
                world.scheduler.update(job, change, MEMBER)
        row = world.scheduler.row(job)
        assert (row.name, row.priority, row.lane) == ("old", "normal", "")
        world.scheduler.update(job, JobChange(priority="low"), MEMBER)
        world.scheduler.update(job, JobChange(priority="urgent", lane="large"), ADA)
        row = world.scheduler.update(job, JobChange(priority="urgent", lane="large", name="new"), MEMBER)
        assert (row.name, row.priority, row.lane) == ("new", "urgent", "large")


def test_refused_update_restores_the_memory_quota(world: World) -> None:
    job = world.submit(MEMBER, gpus=None, share={"memory": "6GiB"})
    world.settle()
    with pytest.raises(Forbidden):
        world.scheduler.update(job, JobChange(memory=GIB, priority="high"), MEMBER)
    assert [memory for *_, memory in world.engine.resized] == [GIB, 6 * GIB]


def test_what_if_above_the_right_is_refused(world: World) -> None:
    (spec,) = expand(check({"command": "x", "gpus": 1, "estimate": 1, "priority": "urgent"}))
    with pytest.raises(Forbidden, match="maximum"):
        world.scheduler.queries.what_if(spec, MEMBER)
    assert world.scheduler.queries.what_if(spec, ADA).starts_now
