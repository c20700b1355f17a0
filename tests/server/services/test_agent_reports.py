"""AgentReports: merging the reports of several nodes, silent agents and clock skew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.hang.hang import HangRules
from gpusquad.server.errors import Forbidden, Unavailable
from gpusquad.server.schemas.agents import AgentSamples
from gpusquad.server.services.cluster.agent_reports import SILENT_TICKS, AgentReports, _by_our_clock
from gpusquad.server.services.cluster.agent_watch import KEEP_CARDS, STORE_INTERVAL_US, RunningGang
from gpusquad.server.services.sharing.card_reports import ReportedDivides
from gpusquad.store import people, samples
from gpusquad.store.people import TenantRow
from tests.server.services.world import SECOND_US, World, kinds, last_cause

TICK_S = 5
RULES = HangRules(silent_s=60, stop_after_s=30)


class FakeWatcher:
    """Records messages. Knows nodes a and b, and by default one gang on both."""

    def __init__(self, *runs: RunningGang) -> None:
        self.messages: list[dict[str, Any]] = []
        self.runs = runs or (RunningGang("J", 1, {"a": frozenset({"a/0", "a/1"}), "b": frozenset({"b/0"})}),)

    def hear(self, message: Any) -> None:
        self.messages.append(message)

    def running(self) -> tuple[RunningGang, ...]:
        return self.runs

    def node_of(self, card: str) -> str | None:
        return card[0] if card[0] in "ab" else None


class Clock:
    def __init__(self) -> None:
        self.at_us = 1000 * SECOND_US

    def __call__(self) -> int:
        return self.at_us

    def wait(self, seconds: float) -> None:
        self.at_us += round(seconds * SECOND_US)


def report(*cards: str, at_us: int = 0, busy: float | None = 0.0, runs: Any = (), **more: Any) -> dict[str, Any]:
    """Return a report as the router passes it on."""
    sampled = [{"id": card, "utilisation_ratio": busy} for card in cards]
    return AgentSamples.model_validate(
        {"kind": "samples", "at_us": at_us, "cards": sampled, "runs": runs, **more}
    ).model_dump()


def task_report(*cards: str, job: str = "J", attempt: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"job": job, "attempt": attempt, "cards": list(cards), **more}


def take_from_both_nodes(reports: AgentReports, a: dict[str, Any], b: dict[str, Any]) -> None:
    reports.take("a", report("a/0", "a/1", runs=[task_report("a/0", "a/1", **a)]))
    reports.take("b", report("b/0", "b/1", runs=[task_report("b/0", **b)]))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher() -> FakeWatcher:
    return FakeWatcher()


@pytest.fixture
def reports(clock: Clock, watcher: FakeWatcher) -> AgentReports:
    made = AgentReports(clock, TICK_S)
    made.attach(watcher)
    return made


def merged_run(reports: AgentReports, watcher: FakeWatcher) -> dict[str, Any]:
    reports.step()
    [run] = watcher.messages[-1]["runs"]
    return run


def test_reports_of_a_gang_are_merged_into_one_run(reports: AgentReports, watcher: FakeWatcher):
    take_from_both_nodes(
        reports,
        {"gpu_ratio": 0.9, "cpu_ratio": 2.0, "rss_bytes": 10, "log_bytes": 5},
        {"gpu_ratio": 0.3, "cpu_ratio": 0.5, "rss_bytes": 20, "log_bytes": 7},
    )
    run = merged_run(reports, watcher)
    assert (run["job"], run["attempt"], run["unknown"]) == ("J", 1, False)
    assert run["gpu_ratio"] == pytest.approx((0.9 + 0.9 + 0.3) / 3), "the mean over its cards"
    assert (run["cpu_ratio"], run["rss_bytes"], run["log_bytes"]) == (2.5, 30, 12)
    assert [card["id"] for card in watcher.messages[-1]["cards"]] == ["a/0", "a/1", "b/0", "b/1"]


def test_merged_run_has_the_first_tasks_step_and_the_latest_activity(reports: AgentReports, watcher: FakeWatcher):
    at_us = 77 * SECOND_US
    a = task_report("a/0", "a/1", step=3, total=10, progress_at_us=at_us - 9, last_output_us=at_us - 1)
    b = task_report("b/0", step=8, total=9, progress_at_us=at_us - 4, last_output_us=at_us - 6)
    reports.take("b", report("b/0", "b/1", at_us=at_us, runs=[b]))
    reports.take("a", report("a/0", "a/1", at_us=at_us, runs=[a]))
    run, now_us = merged_run(reports, watcher), reports._now_us()
    assert (run["step"], run["total"]) == (3, 10)
    assert (run["last_output_us"], run["progress_at_us"]) == (now_us - 1, now_us - 4)


def test_merged_value_is_unknown_when_one_node_does_not_know_it(reports: AgentReports, watcher: FakeWatcher):
    take_from_both_nodes(reports, {"gpu_ratio": 0.0, "cpu_ratio": 1.0}, {"gpu_ratio": None, "cpu_ratio": None})
    run = merged_run(reports, watcher)
    assert (run["gpu_ratio"], run["cpu_ratio"], run["unknown"]) == (None, None, False)


@pytest.mark.parametrize(
    "b",
    [
        None,
        report("b/0", "b/1"),
        report("b/0", "b/1", runs=[task_report("b/0", attempt=0)]),
        report("b/0", "b/1", runs=[task_report("b/0", "b/1")]),
        report("b/0", "b/1", runs=[task_report("b/1")]),
        report("b/0", "b/1", runs=[task_report("b/0", job="K")]),
        report("b/1", runs=[task_report("b/0")]),
    ],
    ids=["silent", "no run", "an earlier attempt", "more cards", "other cards", "another job", "card not reported"],
)
def test_run_is_unknown_and_not_idle_when_a_nodes_report_is_missing(
    reports: AgentReports, watcher: FakeWatcher, b: dict[str, Any] | None
):
    reports.take("a", report("a/0", "a/1", runs=[task_report("a/0", "a/1", gpu_ratio=0.0)]))
    if b is not None:
        reports.take("b", b)
    run = merged_run(reports, watcher)
    assert (run["unknown"], run["gpu_ratio"]) == (True, None)


def test_pods_without_attempt_belong_to_the_running_attempt(reports: AgentReports, watcher: FakeWatcher):
    take_from_both_nodes(reports, {"attempt": None}, {"attempt": 1})
    assert not merged_run(reports, watcher)["unknown"]


def test_attempt_with_live_pods_counts_when_several_are_reported(reports: AgentReports, watcher: FakeWatcher):
    """The service may have lost its store and restarted the attempt numbers."""
    ended = task_report("a/0", "a/1", attempt=1, live_pods=0, gpu_ratio=0.0)
    live = task_report("a/0", "a/1", attempt=4, gpu_ratio=0.6)
    reports.take("a", report("a/0", "a/1", runs=[ended, live]))
    reports.take("b", report("b/0", "b/1", runs=[task_report("b/0", attempt=4, gpu_ratio=0.6)]))
    assert merged_run(reports, watcher)["gpu_ratio"] == pytest.approx(0.6)


def test_merged_run_has_the_oldest_report_time_and_is_sent_once(
    reports: AgentReports, watcher: FakeWatcher, clock: Clock
):
    started_us = clock.at_us
    take_from_both_nodes(reports, {}, {})
    clock.wait(TICK_S)
    reports.take("a", report("a/0", "a/1", runs=[task_report("a/0", "a/1")]))
    assert merged_run(reports, watcher)["at_us"] == started_us
    clock.wait(1)
    reports.take("a", report("a/0", "a/1", runs=[task_report("a/0", "a/1")]))
    reports.step()
    assert watcher.messages[-1]["runs"] == [], "no new report from b: no time has passed for the gang"
    reports.take("b", report("b/0", "b/1", runs=[task_report("b/0")]))
    assert merged_run(reports, watcher)["at_us"] == clock.at_us


def test_silent_node_and_its_cards_are_dropped(reports: AgentReports, watcher: FakeWatcher, clock: Clock):
    take_from_both_nodes(reports, {"gpu_ratio": 0.0}, {"gpu_ratio": 0.0})
    assert not merged_run(reports, watcher)["unknown"]
    for _ in range(SILENT_TICKS + 1):
        clock.wait(TICK_S)
        reports.take("a", report("a/0", "a/1", runs=[task_report("a/0", "a/1", gpu_ratio=0.0)]))
    run = merged_run(reports, watcher)
    assert (run["unknown"], run["at_us"]) == (True, clock.at_us)
    assert [card["id"] for card in watcher.messages[-1]["cards"]] == ["a/0", "a/1"]


def test_report_with_a_card_of_another_node_is_refused_entirely(reports: AgentReports, watcher: FakeWatcher):
    with pytest.raises(Forbidden, match="'a/0' does not belong to node b"):
        reports.take("b", report("b/0", "a/0", runs=[task_report("b/0")]))
    reports.step()
    assert watcher.messages[-1]["cards"] == []


def test_cards_unknown_to_the_cluster_are_left_out(reports: AgentReports, watcher: FakeWatcher):
    reports.take("b", report("b/0", "new"))
    reports.step()
    assert [card["id"] for card in watcher.messages[-1]["cards"]] == ["b/0"]


@pytest.mark.parametrize(("rule", "allowed"), [("report", True), ("share", True), ("refuse", False), ("", False)])
def test_agents_rule_decides_whether_a_card_with_unmanaged_processes_is_shared(
    reports: AgentReports, rule: str, allowed: bool
):
    divides = ReportedDivides(reports)
    assert not divides.allows_unmanaged("a/0"), "no report says that shares are enforced on it"
    message = report("a/0")
    message["cards"][0]["divided"] = {"policy": "equal", "rule": rule}
    reports.take("a", message)
    assert divides.allows_unmanaged("a/0") == divides.allows_unmanaged("a/0.1of2") == allowed


def test_unheld_process_is_passed_on_as_unheld(reports: AgentReports, watcher: FakeWatcher):
    message = report("a/0")
    message["cards"][0]["processes"] = [{"pid": 5, "job": "J", "attempt": 1, "unheld": True}]
    assert AgentSamples.model_validate(message).cards[0].processes[0].unheld
    reports.take("a", message)
    reports.step()
    assert watcher.messages[-1]["cards"][0]["processes"][0]["unheld"]


def test_report_is_refused_before_a_watcher_is_attached(clock: Clock):
    with pytest.raises(Unavailable):
        AgentReports(clock, TICK_S).take("a", report("a/0"))


@given(skew_us=st.integers(-(10**15), 10**15), ago_us=st.integers(-(10**12), 10**12))
def test_clock_skew_does_not_change_the_age_of_activity(skew_us: int, ago_us: int):
    received_us = 2 * 10**15
    at_us = received_us + skew_us
    run = _by_our_clock({"last_output_us": at_us - ago_us, "progress_at_us": None}, at_us, received_us)
    assert run == {"last_output_us": received_us - max(0, ago_us), "progress_at_us": None}


# -- with the real watcher -------------------------------------------------------------------------------------------


class Gang:
    """A job with four cards on two nodes, in a tenant that stops hung jobs."""

    def __init__(self, folder: Path) -> None:
        self.world = world = World(folder, "2x2", rules=RULES)
        with world.database.write() as c:
            people.put_tenant(c, TenantRow("default", on_hang="stop"))
        world.scheduler.reload_tenants()
        self.job = world.submit(name="gang", count=2, gpus=2, estimate=10_000)
        world.engine.run_us["gang"] = 10**12
        world.at(SECOND_US)
        assert world.state(self.job) == "running"
        self.cards = {node.id: [card.id for card in node.cards] for node in world.scheduler.node_service.nodes()}
        self.reports = AgentReports(world.clock.now_us, TICK_S)
        self.reports.attach(world.scheduler.watcher)

    def pass_time(self, seconds: int, busy: dict[str, float | None]) -> None:
        """Advance the time while the nodes in `busy` report their cards. Other nodes are silent."""
        for _ in range(0, seconds, TICK_S):
            self.world.at(self.world.clock.at_us + TICK_S * SECOND_US)
            for node, ratio in busy.items():
                cards = self.cards[node]
                runs = [task_report(*cards, job=self.job, attempt=0, gpu_ratio=ratio, waits="stuck")]
                self.reports.take(node, report(*cards, busy=ratio, runs=runs))
            self.reports.step()
            self.world.settle()

    @property
    def story(self) -> list[str]:
        return kinds(self.world, self.job)


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path)


def test_gang_is_reported_hung_and_stopped_when_idle_on_all_nodes(gang: Gang):
    gang.pass_time(70, {"n0": 0.0, "n1": 0.0})
    assert gang.story.count("hung") == 1
    gang.pass_time(40, {"n0": 0.0, "n1": 0.0})
    assert gang.world.state(gang.job) in ("stopping", "failed")
    with gang.world.database.read():
        assert "hung by rule silent" in str(gang.world.scheduler.row(gang.job).stop or last_cause(gang.world, gang.job))


def test_gang_is_not_hung_when_one_node_is_busy(gang: Gang):
    gang.pass_time(200, {"n0": 0.0, "n1": 0.5})
    assert "hung" not in gang.story


def test_gang_is_not_hung_while_an_agent_is_silent(gang: Gang):
    gang.pass_time(20, {"n0": 0.5, "n1": 0.5})
    gang.pass_time(300, {"n0": 0.0})
    assert "hung" not in gang.story
    gang.pass_time(300, {})
    assert "hung" not in gang.story
    assert all(card.sample is None for card in gang.world.scheduler.node_service.cards()), "unknown, not the last value"
    gang.pass_time(50, {"n0": 0.0, "n1": 0.0})
    assert "hung" not in gang.story, "time without reports does not count"
    gang.pass_time(20, {"n0": 0.0, "n1": 0.0})
    assert "hung" in gang.story


def test_hung_gang_is_not_stopped_while_an_agent_is_silent(gang: Gang):
    gang.pass_time(70, {"n0": 0.0, "n1": 0.0})
    gang.pass_time(300, {"n0": 0.0})
    assert gang.world.state(gang.job) == "running"


def test_samples_are_shown_on_cards(gang: Gang):
    gang.pass_time(TICK_S, {"n0": 0.25})
    found = {card.id: card.sample for card in gang.world.scheduler.node_service.cards()}
    shown = [found[card] for card in gang.cards["n0"]]
    assert [sample and sample["utilisation_ratio"] for sample in shown] == [0.25, 0.25]


@pytest.mark.parametrize(("cards", "stored"), [(2, 3), (KEEP_CARDS - 1, 3), (2 * KEEP_CARDS, 1)])
def test_samples_are_stored_less_often_with_many_cards(tmp_path: Path, cards: int, stored: int):
    world = World(tmp_path, "1x1")
    for number in range(1, 4):
        world.at(number * STORE_INTERVAL_US)
        sampled = [{"id": f"c{card}"} for card in range(cards)]
        world.scheduler.watcher.hear({"kind": "samples", "at_us": world.clock.at_us, "cards": sampled, "runs": []})
    with world.database.read() as c:
        assert len(samples.of_card(c, "c0", 0, 10**15)) == stored
