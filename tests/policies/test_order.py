"""Order policies: the contract of every order, and the rule of each one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role, Share, Slo
from gpusquad.model.policy import OrderPolicy
from gpusquad.model.priority import PRIORITY_CLASSES
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderTenant, RunTimePrediction

ORDERS = registry.names("order")
BUILT_IN = {"fifo", "sjf", "srpt", "las", "drf", "fairshare", "slo", "urgent"}
HOUR = 3600
DAY = 24 * HOUR


def _parameters(name: str) -> set[str]:
    return {f.name for f in dataclasses.fields(registry.find("order", name))}


TIME_INDEPENDENT = [n for n in ORDERS if registry.find("order", n).varies in {"never", "with_service"}]
FIXED = [n for n in ORDERS if registry.find("order", n).varies == "never"]
# Orders with one of these parameters bound waits. Drf does not need to: each start lowers the precedence of its tenant.
AGEING = [n for n in ORDERS if _parameters(n) & {"max_wait_s", "age_s"}]


@dataclass
class FakeView:
    """An ``OrderView`` of fixed values; missing values are zero."""

    now_us: int = 0
    gpus: int = 8
    guard_until_us: int = 0
    jobs: Sequence[Job] = ()
    predictions: dict[str, RunTimePrediction] = field(default_factory=dict)
    done_us: dict[str, int] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=dict)
    tenants: dict[str, OrderTenant] = field(default_factory=dict)

    @property
    def due_until_us(self) -> int:
        return max(self.now_us, self.guard_until_us)

    def prediction(self, job: Job) -> RunTimePrediction:
        if job.id in self.predictions:
            return self.predictions[job.id]
        if job.estimate_us is None:
            return RunTimePrediction(1, 1, source="none")  # a placeholder that would go first if it were used
        return RunTimePrediction(job.estimate_us, job.estimate_us)

    def remaining_us(self, job: Job) -> int:
        return max(0, self.prediction(job).mid_us - self.done_us.get(job.id, 0))

    def served_gpu_s(self, job: Job) -> float:
        return self.served.get(job.id, 0.0)

    def tenant(self, name: str) -> OrderTenant:
        return self.tenants.get(name) or OrderTenant(name, 1.0, 0.0, 0.0)

    def waiting(self) -> Sequence[Job]:
        return self.jobs


def job(name: str, at_s: float = 0, estimate_s: float | None = HOUR, gpus: int = 1, **rest: Any) -> Job:
    estimate_us = None if estimate_s is None else int(estimate_s * US_PER_S)
    role = Role("worker", gpus, Request(gpus=1))
    return Job(name, (role,), submitted_us=int(at_s * US_PER_S), estimate_us=estimate_us, **rest)


def view_at(seconds: float, **rest: Any) -> FakeView:
    return FakeView(now_us=int(seconds * US_PER_S), **rest)


def ranked(spec: str, jobs: Sequence[Job], view: FakeView) -> str:
    """Job ids in order; as in the core, equal keys keep the order of arrival."""
    order = registry.create("order", spec)
    return " ".join(j.id for j in sorted(jobs, key=lambda j: order.key(j, view)))


slos = st.one_of(
    st.none(),
    st.builds(Slo, deadline_us=st.integers(0, 10**6) | st.none(), latency_us=st.sampled_from([None, 1000])),
)
shapes = st.sampled_from(
    [
        Request(gpus=1),
        Request(gpus=8),
        Request(cpu_milli=1000),
        Request(share=Share(0, 250)),
        Request(share=Share(1, 0)),
    ]
)


@st.composite
def views(draw: st.DrawFn) -> FakeView:
    """Views with a few jobs of every kind, some of them running, and their tenants."""
    times = st.integers(0, 10**6)
    jobs = [
        Job(
            id=f"j{i}",
            roles=(Role("worker", draw(st.integers(1, 4)), draw(shapes)),),
            submitted_us=draw(st.integers(0, 3)) * 1000,
            tenant=draw(st.sampled_from("abc")),
            priority=draw(st.sampled_from(sorted(PRIORITY_CLASSES))),
            estimate_us=draw(st.none() | times),
            slo=draw(slos),
        )
        for i in range(draw(st.integers(1, 8)))
    ]
    ratios = st.floats(0, 1)
    tenants = {n: OrderTenant(n, draw(st.sampled_from([0.0, 0.5, 2.0])), draw(ratios), draw(times) / 7) for n in "abc"}
    served = {j.id: draw(times) / 3 for j in jobs if draw(st.booleans())}
    done = {j.id: draw(times) for j in jobs}
    return FakeView(draw(st.integers(3000, 10**12)), jobs=tuple(jobs), done_us=done, served=served, tenants=tenants)


def test_all_built_in_orders_are_registered():
    assert set(ORDERS) >= BUILT_IN


@pytest.mark.parametrize("name", ORDERS)
class TestContract:
    def test_order_has_summary_and_valid_declarations(self, name: str):
        policy_class = registry.find("order", name)
        assert policy_class.varies in {"never", "with_service", "with_time", "when_due"}
        assert (policy_class.varies == "when_due") == (policy_class.due_us is not OrderPolicy.due_us)
        (described,) = (d for d in registry.describe("order") if d.name == name)
        assert described.summary.endswith(".")
        order = registry.create("order", name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            order.anything = 1

    @given(view=views())
    def test_keys_are_a_total_order(self, name: str, view: FakeView):
        """Any two keys are comparable, and only fifo has ties (resolved by arrival)."""
        order = registry.create("order", name)
        keys = [order.key(j, view) for j in view.jobs]
        assert all(isinstance(key, tuple) for key in keys)
        for key in keys:
            assert not any(isinstance(part, float) and math.isnan(part) for part in key)
        for first, second in itertools.combinations(keys, 2):
            assert (first < second) + (second < first) + (first == second) == 1
        if name != "fifo":
            assert len(set(keys)) == len(keys)

    @given(view=views(), shuffle=st.randoms(use_true_random=False))
    def test_keys_depend_on_the_view_alone(self, name: str, view: FakeView, shuffle: Any):
        order = registry.create("order", name)
        before = [order.key(j, view) for j in view.jobs]
        shuffled = list(view.jobs)
        shuffle.shuffle(shuffled)
        keys_again = {j.id: registry.create("order", name).key(j, view) for j in shuffled}
        assert [keys_again[j.id] for j in view.jobs] == before


@pytest.mark.parametrize("name", TIME_INDEPENDENT)
@given(view=views(), later=st.integers(0, 10**12))
def test_keys_of_time_independent_orders_do_not_change_with_time(name: str, view: FakeView, later: int):
    order = registry.create("order", name)
    after = dataclasses.replace(view, now_us=view.now_us + later)
    assert [order.key(j, view) for j in view.jobs] == [order.key(j, after) for j in view.jobs]


@pytest.mark.parametrize("name", FIXED)
@given(view=views(), served=st.integers(0, 10**6))
def test_keys_of_fixed_orders_do_not_change_with_service(name: str, view: FakeView, served: int):
    order = registry.create("order", name)
    after = dataclasses.replace(view, served={j.id: served for j in view.jobs}, tenants={})
    assert [order.key(j, view) for j in view.jobs] == [order.key(j, after) for j in view.jobs]


@pytest.mark.parametrize("name", [*AGEING, "fifo"])
@pytest.mark.parametrize("case", ["no estimate", "no SLO", "missed deadline", "tight deadline"])
def test_old_job_goes_first_within_four_days(name: str, case: str):
    """A stream of jobs that every rule prefers does not keep an old job from the front for long."""
    slo = {"missed deadline": Slo(deadline_us=0), "tight deadline": Slo(deadline_us=3 * DAY * US_PER_S)}.get(case)
    estimate_s = None if case == "no estimate" else DAY
    victim = job("old", estimate_s=estimate_s, priority="low", slo=slo, tenant="big")
    tenants = {"big": OrderTenant("big", 0.5, 0.9, 1e9)}
    order = registry.create("order", name)
    for day in range(5):
        # New jobs are just submitted, short, of high priority, with an SLO, and of a tenant without use.
        new = job("new", at_s=day * DAY + 1, estimate_s=1, priority="high", slo=Slo(latency_us=1), tenant="small")
        view = view_at(day * DAY + 2, jobs=(victim, new), tenants=tenants)
        if order.key(victim, view) < order.key(new, view):
            return
    pytest.fail("still not first after four days")


class TestFifo:
    def test_order_is_by_submission_time(self):
        assert ranked("fifo", [job("c", 3), job("a", 1), job("b", 2)], view_at(5)) == "a b c"

    def test_held_job_counts_from_its_release(self):
        held = job("held", 1, held_until_us=4 * US_PER_S)
        assert ranked("fifo", [held, job("a", 3), job("b", 5)], view_at(6)) == "a held b"

    def test_ties_keep_the_order_of_arrival(self):
        assert ranked("fifo", [job("9", 1), job("10", 1)], view_at(5)) == "9 10"

    def test_ties_by_work_put_the_least_gpu_time_first(self):
        jobs = [job("none", 1, None), job("big", 1, 10, gpus=8), job("long", 1, 60), job("late", 2, 1)]
        assert ranked("fifo:ties=work", jobs, view_at(5)) == "long big none late"

    def test_unknown_tie_rule_is_refused(self):
        with pytest.raises(Invalid, match="ties"):
            registry.create("order", "fifo:ties=luck")


class TestShortestFirst:
    @pytest.mark.parametrize("name", ["sjf", "srpt"])
    def test_shortest_first_and_no_estimate_last(self, name: str):
        jobs = [job("none", 0, None), job("long", 1, 100), job("short", 2, 10), job("same", 1, 10)]
        assert ranked(name, jobs, view_at(5)) == "same short long none"

    @pytest.mark.parametrize("name", ["sjf", "srpt", "las", "fairshare", "slo"])
    def test_overdue_jobs_go_first_by_submission_time(self, name: str):
        jobs = [job("new", 200, 1), job("second", 2, 500), job("first", 1, 1000)]
        assert ranked(f"{name}:max_wait_s=100", jobs, view_at(201)) == "first second new"

    def test_exactly_max_wait_is_not_overdue(self):
        jobs = [job("old", 0, 500), job("new", 99, 1)]
        assert ranked("sjf:max_wait_s=100", jobs, view_at(100)) == "new old"
        assert ranked("sjf:max_wait_s=100", jobs, view_at(100.000001)) == "old new"

    def test_infinite_max_wait_turns_ageing_off(self):
        assert ranked("sjf:max_wait_s=inf", [job("old", 0, 500), job("new", 1e9, 1)], view_at(1e9)) == "new old"

    def test_infinite_max_wait_turns_ageing_off_for_gangs_of_all_cards(self):
        jobs = [job("old", 0, 500, gpus=8), job("new", 1e9, 1)]
        assert ranked("merit:max_wait_s=inf,wide=1", jobs, view_at(1e9)) == "new old"

    def test_prediction_is_used_when_the_estimate_is_missing(self):
        view = view_at(5, predictions={"seen": RunTimePrediction(5 * US_PER_S, 9 * US_PER_S, "history")})
        assert ranked("sjf", [job("short", 1, 10), job("seen", 2, None)], view) == "seen short"

    def test_srpt_uses_the_remaining_time(self):
        jobs = [job("fresh", 1, 50), job("nearly", 2, 100)]
        view = view_at(95, done_us={"nearly": 90 * US_PER_S}, served={"nearly": 90})
        assert ranked("srpt", jobs, view) == "nearly fresh"
        assert ranked("sjf", jobs, view) == "fresh nearly"

    def test_run_time_does_not_count_as_waiting(self):
        """A job that ran for three days is not overdue; a job that waited for three days is."""
        jobs = [job("long", 0, 9 * DAY, gpus=4), job("new", 3 * DAY, 60)]
        after_running = view_at(3 * DAY, served={"long": 3 * DAY * 4.0})
        assert ranked("srpt", jobs, after_running) == "new long"
        assert ranked("srpt", jobs, view_at(3 * DAY)) == "long new"

    @given(gpus=st.integers(1, 64), ran_us=st.integers(0, 10**13), wait_us=st.integers(1, 10**6))
    def test_overdue_job_stays_overdue_while_it_runs(self, gpus: int, ran_us: int, wait_us: int):
        """Otherwise a job that started because of its wait would be preempted at once."""
        order = registry.create("order", f"srpt:max_wait_s={(wait_us - 1) / US_PER_S}")
        view = FakeView(wait_us + ran_us, served={"a": ran_us / US_PER_S * gpus})
        assert order.key(job("a", gpus=gpus), view)[0] == 0


class TestMaximumWait:
    """Of a job that was held, or ran and failed, before it became eligible."""

    @pytest.mark.parametrize("name", ["sjf", "srpt", "merit", "las", "fairshare", "slo"])
    def test_time_before_the_release_is_no_wait(self, name: str):
        held, view = job("held", 0, HOUR, held_until_us=1000 * US_PER_S), view_at(1050)
        never, later, overdue = (
            registry.create("order", f"{name}:max_wait_s={wait_s}{',own_runs=0' if name == 'merit' else ''}")
            for wait_s in ("inf", 60, 40)
        )
        assert never.key(held, view) == later.key(held, view) > overdue.key(held, view)

    def test_run_before_the_retry_does_not_count_against_the_wait_after_it(self):
        retried = job("retried", 0, HOUR, held_until_us=1000 * US_PER_S, ran_before_us=900 * US_PER_S)
        short = job("short", 1001, 1)
        view = view_at(1101, served={"retried": 900.0})
        assert ranked("sjf:max_wait_s=100", [short, retried], view) == "retried short"
        assert ranked("sjf:max_wait_s=102", [short, retried], view) == "short retried"


class TestLas:
    def test_least_served_job_goes_first(self):
        jobs = [job("much", 1), job("some", 2), job("none", 3)]
        view = view_at(9, served={"much": 2 * HOUR, "some": HOUR})
        assert ranked("las", jobs, view) == "none some much"

    def test_order_within_a_quantum_is_by_submission_time(self):
        view = view_at(9, served={"a": 99, "c": 100})
        assert ranked("las:quantum_s=100", [job("c", 0), job("b", 2), job("a", 1)], view) == "a b c"

    def test_estimate_has_no_effect(self):
        assert ranked("las", [job("a", 1, None), job("b", 2, 1)], view_at(9)) == "a b"


class TestTenants:
    def test_drf_puts_the_least_weighted_dominant_share_first(self):
        tenants = {"a": OrderTenant("a", 1, 0.3, 0), "b": OrderTenant("b", 2, 0.5, 0), "c": OrderTenant("c", 1, 0.4, 0)}
        jobs = [job("a1", 1, tenant="a"), job("c1", 2, tenant="c"), job("b2", 4, tenant="b"), job("b1", 3, tenant="b")]
        assert ranked("drf", jobs, view_at(9, tenants=tenants)) == "b1 b2 a1 c1"

    def test_drf_next_accounts_for_each_start(self):
        """Starts change the shares: a has half the weight of b, so b starts twice as often."""
        waiting = [job(f"{t}{i}", i, tenant=t) for i in range(6) for t in "ab"]
        held, weight, started = {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 2.0}, ""
        order = registry.create("order", "drf")
        assert order.changes_with_each_start
        for _ in range(6):
            view = view_at(9, jobs=waiting, tenants={t: OrderTenant(t, weight[t], held[t], 0) for t in "ab"})
            chosen = order.next(view)
            assert chosen is min(waiting, key=lambda j, v=view: order.key(j, v))
            waiting.remove(chosen)
            held[chosen.tenant] += 1 / 16
            started += chosen.tenant
        assert started == "abbabb"
        assert order.next(view_at(9)) is None

    @pytest.mark.parametrize("name", ["drf", "fairshare"])
    def test_tenant_without_weight_comes_last(self, name: str):
        tenants = {"none": OrderTenant("none", 0, 0, 0), "busy": OrderTenant("busy", 1, 1, 1e9)}
        jobs = [job("guest", 1, tenant="none"), job("member", 2, tenant="busy")]
        assert ranked(name, jobs, view_at(9, tenants=tenants)) == "member guest"

    def test_fairshare_puts_the_least_weighted_use_first(self):
        tenants = {
            "a": OrderTenant("a", 1, 0, 300),
            "b": OrderTenant("b", 10, 0, 1000),
            "c": OrderTenant("c", 1, 0, 200),
        }
        jobs = [job("a", 1, tenant="a"), job("b", 2, tenant="b"), job("c", 3, tenant="c")]
        assert ranked("fairshare:step_gpu_s=100", jobs, view_at(9, tenants=tenants)) == "b c a"

    def test_fairshare_use_within_one_step_counts_as_equal(self):
        tenants = {"a": OrderTenant("a", 1, 0, 140), "b": OrderTenant("b", 1, 0, 110)}
        jobs = [job("b", 2, tenant="b"), job("a", 1, tenant="a")]
        assert ranked("fairshare:step_gpu_s=100", jobs, view_at(9, tenants=tenants)) == "a b"
        assert ranked("fairshare:step_gpu_s=10", jobs, view_at(9, tenants=tenants)) == "b a"


class TestSlo:
    @staticmethod
    def deadline_job(name: str, deadline_s: float, at_s: float = 0, estimate_s: float | None = 10) -> Job:
        return job(name, at_s, estimate_s, slo=Slo(deadline_us=int(deadline_s * US_PER_S)))

    def test_order_is_services_then_latest_start_then_other_jobs(self):
        jobs = [
            job("plain", 1),
            self.deadline_job("early", 100, estimate_s=10),
            self.deadline_job("tight", 110, estimate_s=50),  # later deadline, but must start sooner
            job("service", 5, slo=Slo(availability_ratio=0.99)),
        ]
        assert ranked("slo", jobs, view_at(9)) == "service tight early plain"

    def test_missed_deadline_loses_its_precedence(self):
        jobs = [self.deadline_job("missed", 15), job("plain", 1), self.deadline_job("good", 100)]
        assert ranked("slo", jobs, view_at(5)) == "missed good plain"
        assert ranked("slo", jobs, view_at(6)) == "good missed plain"  # now ordered like other jobs, by submission time
        assert ranked("slo:missed=keep", jobs, view_at(6)) == "missed good plain"

    def test_latency_slo_takes_precedence_over_a_deadline(self):
        both = job("both", 1, slo=Slo(deadline_us=1, latency_us=1000))
        assert ranked("slo", [self.deadline_job("due", 100), both], view_at(9)) == "both due"

    def test_job_with_a_far_deadline_does_not_age(self):
        """An older job with a far deadline waits behind a newer one with a nearer deadline."""
        jobs = [self.deadline_job("far", 9 * DAY), self.deadline_job("near", 3 * DAY, at_s=2 * DAY)]
        assert ranked("slo", jobs, view_at(2 * DAY)) == "near far"

    def test_deadline_without_estimate_is_missed_when_it_passes(self):
        view_before, view_after = view_at(100), view_at(101)
        jobs = [job("plain", 0), self.deadline_job("unknown", 100, 1, estimate_s=None)]
        assert ranked("slo", jobs, view_before) == "unknown plain"
        assert ranked("slo", jobs, view_after) == "plain unknown"


class TestUrgent:
    def test_order_is_by_priority_then_submission_time(self):
        jobs = [job(f"{p}{i}", i, priority=p) for i in (2, 1) for p in ("low", "normal", "high", "urgent")]
        assert ranked("urgent", jobs, view_at(9)) == "urgent1 urgent2 high1 high2 normal1 normal2 low1 low2"

    def test_waiting_raises_the_priority_by_one_class_per_age_s(self):
        jobs = [job("old", 0, priority="low"), job("normal", 50), job("high", 50, priority="high")]
        assert ranked("urgent:age_s=100", jobs, view_at(99)) == "high normal old"
        assert ranked("urgent:age_s=100", jobs, view_at(100)) == "high old normal"
        assert ranked("urgent:age_s=100", jobs, view_at(200)) == "old high normal"

    def test_integers_are_between_the_classes(self):
        jobs = [job("normal", 0), job("some", 1, priority="70"), job("high", 2, priority="high"),
                job("more", 3, priority="1001")]  # fmt: skip
        assert ranked("urgent", jobs, view_at(4)) == "more high some normal"

    def test_no_number_starves_a_class_below_it(self):
        jobs = [job("old", 0, priority="low"), *(job(f"b{i}", i * 10, priority="999999") for i in range(25, 40))]
        assert ranked("urgent:age_s=100", jobs, view_at(299)).startswith("b")
        assert ranked("urgent:age_s=100", jobs, view_at(300)).startswith("old")

    def test_waiting_never_raises_a_job_to_urgent(self):
        jobs = [job("old", 0), job("now", 9 * DAY, priority="urgent")]
        assert ranked("urgent:age_s=1", jobs, view_at(9 * DAY)) == "now old"


@pytest.mark.parametrize(
    "spec",
    [
        *(f"merit:own_runs={bad}" for bad in ("-1", "nan", "inf")),
        *(f"{name}:max_wait_s={bad}" for name in ("sjf", "srpt", "las", "fairshare", "slo") for bad in ("-1", "nan")),
        *(
            f"{spec}={bad}"
            for spec in ("las:quantum_s", "fairshare:step_gpu_s", "urgent:age_s")
            for bad in ("0", "nan")
        ),
    ],
)
def test_invalid_parameters_are_refused_by_name(spec: str):
    parameter = spec.split(":")[1].split("=")[0]
    with pytest.raises(Invalid, match=parameter):
        registry.create("order", spec)
