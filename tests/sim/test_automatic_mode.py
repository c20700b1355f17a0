"""An automatic mode in the simulator."""

from __future__ import annotations

import json
from dataclasses import replace

from typer.testing import CliRunner

from gpusquad.cli import app
from gpusquad.core.driver import Driver
from gpusquad.core.ports import JobSubmitted, PoliciesChanged
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Slo
from gpusquad.modes import AutomaticMode, load_mode
from gpusquad.sim.simulator import Scenario, simulate, user
from tests.strategies import gang

S, HOUR_S = 1_000_000, 3600


def simulated(jobs, mode="auto"):
    chosen = load_mode(mode)
    automatic = AutomaticMode(chosen, lambda mode: mode.policies()) if chosen.rules is not None else None
    result = simulate(Scenario(grid("1x2"), jobs, chosen.policies(), user, choose=automatic))
    return {o.job.id: (o.started_us or 0) // S for o in result.outcomes}, automatic.chosen if automatic else []


def day_with_deadlines():
    """Jobs of an hour on two cards, one more each half hour. From the tenth on, each second one has a deadline."""
    jobs = []
    for n in range(30):
        trace = gang(f"j{n:02}", 2, HOUR_S, n * HOUR_S // 2)
        if n >= 10 and n % 2:
            slo = Slo(deadline_us=trace.job.submitted_us + 4 * HOUR_S * S)
            trace = replace(trace, job=replace(trace.job, slo=slo))
        jobs.append(trace)
    return jobs


def met(starts, jobs):
    return sum(starts[t.job.id] * S + t.run_us <= t.job.slo.deadline_us for t in jobs if t.job.slo)


def test_mode_changes_when_deadlines_arrive_and_meets_them():
    jobs = day_with_deadlines()
    starts, chosen = simulated(jobs)
    assert [one.mode for one in chosen] == ["standard", "slo", "standard"]  # 12 hours after the last deadline was met
    assert chosen[2].at_us - chosen[1].at_us > 12 * HOUR_S * S
    assert 10 * HOUR_S // 2 <= chosen[1].at_us // S <= 7 * HOUR_S
    assert "deadline" in chosen[1].why
    assert met(starts, jobs) > met(simulated(jobs, "standard")[0], jobs)


def test_day_without_goals_is_as_in_the_default_mode():
    jobs = [gang(f"j{n}", 1 + n % 2, HOUR_S, n * HOUR_S // 3) for n in range(20)]
    starts, chosen = simulated(jobs)
    assert [one.mode for one in chosen] == ["standard"]
    assert starts == simulated(jobs, "standard")[0]


def state_with_a_promise() -> Driver:
    driver = Driver(SchedulerState(grid("1x2"), make_policies()), lambda now_us, decisions: None)
    for trace in (gang("runs", 2, 100), gang("head", 2, 300), gang("next", 2, 10, 1)):
        driver.apply(1, JobSubmitted(trace.job, user(trace)))
        driver.decide(1)
    assert driver.state.committed_us["head"] == 1 + 100 * S
    return driver


def test_promised_start_survives_a_change_that_keeps_the_order():
    driver = state_with_a_promise()
    driver.apply(2, PoliciesChanged(make_policies("fifo", "easy:reservations=4"), "another plan"))
    assert driver.state.committed_us == {"head": 1 + 100 * S}
    assert driver.state.replan_cause == "another plan"
    driver.decide(2)
    assert driver.state.timeline.reservations["head"].open_until_us <= 1 + 100 * S


def test_promised_start_is_dropped_when_the_new_order_lets_others_go_first():
    driver = state_with_a_promise()
    driver.apply(2, PoliciesChanged(make_policies("sjf")))
    assert "head" not in driver.state.committed_us


def test_simulate_reports_the_modes_and_why(tmp_path):
    trace = tmp_path / "day.jsonl"
    rows = [
        {"id": t.job.id, "submitted": t.job.submitted_us / S, "gpus": 2, "run": HOUR_S}
        | ({"slo": {"deadline": t.job.slo.deadline_us / S}} if t.job.slo else {})
        for t in day_with_deadlines()
    ]
    trace.write_text("\n".join(json.dumps(row) for row in rows))
    words = ["simulate", str(trace), "--cluster", "1x2", "--compare", "auto,standard"]
    told = CliRunner().invoke(app, words)
    assert "auto: slo from" in told.stdout, told.output
    plain = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    auto, standard = plain["results"]
    assert [one["mode"] for one in auto["modes"]] == ["standard", "slo", "standard"]
    assert standard["modes"] == []
