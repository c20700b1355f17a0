"""Reports of many nodes as one message: parts of a gang, silent agents, clocks that differ."""

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
from tests.server.services.world import SECOND_US, World, kinds, last

TICK_S = 5
RULES = HangRules(silent_s=60, stop_after_s=30)


class Heard:
    """A watcher that keeps what it hears. Two nodes of two cards, and one gang on all of them."""

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
    """As the router hands it on."""
    told = [{"id": card, "utilisation_ratio": busy} for card in cards]
    return AgentSamples.model_validate(
        {"kind": "samples", "at_us": at_us, "cards": told, "runs": runs, **more}
    ).model_dump()


def part(*cards: str, job: str = "J", attempt: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"job": job, "attempt": attempt, "cards": list(cards), **more}


def both(reports: AgentReports, a: dict[str, Any], b: dict[str, Any]) -> None:
    reports.take("a", report("a/0", "a/1", runs=[part("a/0", "a/1", **a)]))
    reports.take("b", report("b/0", "b/1", runs=[part("b/0", **b)]))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def reports(clock: Clock, heard: Heard) -> AgentReports:
    made = AgentReports(clock, TICK_S)
    made.attach(heard)
    return made


def told(reports: AgentReports, heard: Heard) -> dict[str, Any]:
    reports.step()
    [run] = heard.messages[-1]["runs"]
    return run


def test_parts_of_a_gang_are_one_run(reports: AgentReports, heard: Heard):
    both(
        reports,
        {"gpu_ratio": 0.9, "cpu_ratio": 2.0, "rss_bytes": 10, "log_bytes": 5},
        {"gpu_ratio": 0.3, "cpu_ratio": 0.5, "rss_bytes": 20, "log_bytes": 7},
    )
    run = told(reports, heard)
    assert (run["job"], run["attempt"], run["unknown"]) == ("J", 1, False)
    assert run["gpu_ratio"] == pytest.approx((0.9 + 0.9 + 0.3) / 3), "the mean over its cards"
    assert (run["cpu_ratio"], run["rss_bytes"], run["log_bytes"]) == (2.5, 30, 12)
    assert [card["id"] for card in heard.messages[-1]["cards"]] == ["a/0", "a/1", "b/0", "b/1"]


def test_the_first_task_says_how_far_the_run_is_and_any_sign_of_life_counts(reports: AgentReports, heard: Heard):
    at_us = 77 * SECOND_US
    a = part("a/0", "a/1", step=3, total=10, progress_at_us=at_us - 9, last_output_us=at_us - 1)
    b = part("b/0", step=8, total=9, progress_at_us=at_us - 4, last_output_us=at_us - 6)
    reports.take("b", report("b/0", "b/1", at_us=at_us, runs=[b]))
    reports.take("a", report("a/0", "a/1", at_us=at_us, runs=[a]))
    run, now_us = told(reports, heard), reports._now_us()
    assert (run["step"], run["total"]) == (3, 10)
    assert (run["last_output_us"], run["progress_at_us"]) == (now_us - 1, now_us - 4)


def test_what_is_not_known_of_one_part_is_not_known_of_the_whole(reports: AgentReports, heard: Heard):
    both(reports, {"gpu_ratio": 0.0, "cpu_ratio": 1.0}, {"gpu_ratio": None, "cpu_ratio": None})
    run = told(reports, heard)
    assert (run["gpu_ratio"], run["cpu_ratio"], run["unknown"]) == (None, None, False)


@pytest.mark.parametrize(
    "b",
    [
        None,
        report("b/0", "b/1"),
        report("b/0", "b/1", runs=[part("b/0", attempt=0)]),
        report("b/0", "b/1", runs=[part("b/0", "b/1")]),
        report("b/0", "b/1", runs=[part("b/1")]),
        report("b/0", "b/1", runs=[part("b/0", job="K")]),
        report("b/1", runs=[part("b/0")]),
    ],
    ids=["silent", "no run", "an earlier attempt", "more cards", "other cards", "another job", "card not reported"],
)
def test_a_run_of_which_a_part_is_missing_is_unknown_and_not_idle(
    reports: AgentReports, heard: Heard, b: dict[str, Any] | None
):
    reports.take("a", report("a/0", "a/1", runs=[part("a/0", "a/1", gpu_ratio=0.0)]))
    if b is not None:
        reports.take("b", b)
    run = told(reports, heard)
    assert (run["unknown"], run["gpu_ratio"]) == (True, None)


def test_pods_that_do_not_say_their_attempt_are_of_the_one_that_runs(reports: AgentReports, heard: Heard):
    both(reports, {"attempt": None}, {"attempt": 1})
    assert not told(reports, heard)["unknown"]


def test_of_several_attempts_the_one_that_lives_counts(reports: AgentReports, heard: Heard):
    """The service may have lost its store, and count from the beginning again."""
    over = part("a/0", "a/1", attempt=1, live_pods=0, gpu_ratio=0.0)
    lives = part("a/0", "a/1", attempt=4, gpu_ratio=0.6)
    reports.take("a", report("a/0", "a/1", runs=[over, lives]))
    reports.take("b", report("b/0", "b/1", runs=[part("b/0", attempt=4, gpu_ratio=0.6)]))
    assert told(reports, heard)["gpu_ratio"] == pytest.approx(0.6)


def test_a_run_is_as_old_as_its_oldest_part_and_not_told_twice(reports: AgentReports, heard: Heard, clock: Clock):
    began_us = clock.at_us
    both(reports, {}, {})
    clock.wait(TICK_S)
    reports.take("a", report("a/0", "a/1", runs=[part("a/0", "a/1")]))
    assert told(reports, heard)["at_us"] == began_us
    clock.wait(1)
    reports.take("a", report("a/0", "a/1", runs=[part("a/0", "a/1")]))
    reports.step()
    assert heard.messages[-1]["runs"] == [], "b has said nothing new: no time has passed for the gang"
    reports.take("b", report("b/0", "b/1", runs=[part("b/0")]))
    assert told(reports, heard)["at_us"] == clock.at_us


def test_a_silent_node_is_dropped_and_its_cards_with_it(reports: AgentReports, heard: Heard, clock: Clock):
    both(reports, {"gpu_ratio": 0.0}, {"gpu_ratio": 0.0})
    assert not told(reports, heard)["unknown"]
    for _ in range(SILENT_TICKS + 1):
        clock.wait(TICK_S)
        reports.take("a", report("a/0", "a/1", runs=[part("a/0", "a/1", gpu_ratio=0.0)]))
    run = told(reports, heard)
    assert (run["unknown"], run["at_us"]) == (True, clock.at_us)
    assert [card["id"] for card in heard.messages[-1]["cards"]] == ["a/0", "a/1"]


def test_cards_of_another_node_are_refused_whole(reports: AgentReports, heard: Heard):
    with pytest.raises(Forbidden, match="'a/0' does not belong to node b"):
        reports.take("b", report("b/0", "a/0", runs=[part("b/0")]))
    reports.step()
    assert heard.messages[-1]["cards"] == []


def test_cards_that_the_cluster_does_not_show_yet_are_left_out(reports: AgentReports, heard: Heard):
    reports.take("b", report("b/0", "new"))
    reports.step()
    assert [card["id"] for card in heard.messages[-1]["cards"]] == ["b/0"]


@pytest.mark.parametrize(("rule", "admits"), [("report", True), ("share", True), ("refuse", False), ("", False)])
def test_whether_others_join_a_card_beside_a_stranger_is_the_rule_of_its_agent(
    reports: AgentReports, rule: str, admits: bool
):
    divides = ReportedDivides(reports)
    assert not divides.allows_unmanaged("a/0"), "nobody said that anybody is kept to a part of it"
    message = report("a/0")
    message["cards"][0]["divided"] = {"policy": "equal", "rule": rule}
    reports.take("a", message)
    assert divides.allows_unmanaged("a/0") == divides.allows_unmanaged("a/0.1of2") == admits


def test_a_process_that_nothing_holds_is_handed_on_as_such(reports: AgentReports, heard: Heard):
    message = report("a/0")
    message["cards"][0]["processes"] = [{"pid": 5, "job": "J", "attempt": 1, "unheld": True}]
    assert AgentSamples.model_validate(message).cards[0].processes[0].unheld
    reports.take("a", message)
    reports.step()
    assert heard.messages[-1]["cards"][0]["processes"][0]["unheld"]


def test_before_the_start_nothing_is_taken(clock: Clock):
    with pytest.raises(Unavailable):
        AgentReports(clock, TICK_S).take("a", report("a/0"))


@given(skew_us=st.integers(-(10**15), 10**15), ago_us=st.integers(-(10**12), 10**12))
def test_a_clock_that_differs_moves_no_sign_of_life(skew_us: int, ago_us: int):
    received_us = 2 * 10**15
    at_us = received_us + skew_us
    run = _by_our_clock({"last_output_us": at_us - ago_us, "progress_at_us": None}, at_us, received_us)
    assert run == {"last_output_us": received_us - max(0, ago_us), "progress_at_us": None}


# -- with a real watcher ---------------------------------------------------------------------------------------------


class Gang:
    """A job of four cards on two nodes, in a tenant that stops what hangs."""

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
        """Nodes report how busy their cards are; those not named say nothing."""
        for _ in range(0, seconds, TICK_S):
            self.world.at(self.world.clock.at_us + TICK_S * SECOND_US)
            for node, ratio in busy.items():
                cards = self.cards[node]
                runs = [part(*cards, job=self.job, attempt=0, gpu_ratio=ratio)]
                self.reports.take(node, report(*cards, busy=ratio, runs=runs))
            self.reports.step()
            self.world.settle()

    @property
    def story(self) -> list[str]:
        return kinds(self.world, self.job)


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path)


def test_a_gang_that_is_idle_on_all_nodes_is_warned_of_and_stopped(gang: Gang):
    gang.pass_time(70, {"n0": 0.0, "n1": 0.0})
    assert gang.story.count("hung") == 1
    gang.pass_time(40, {"n0": 0.0, "n1": 0.0})
    assert gang.world.state(gang.job) in ("stopping", "failed")
    with gang.world.database.read():
        assert "hung by rule silent" in str(gang.world.scheduler.row(gang.job).stop or last(gang.world, gang.job))


def test_a_gang_that_works_on_one_node_is_left_alone(gang: Gang):
    gang.pass_time(200, {"n0": 0.0, "n1": 0.5})
    assert "hung" not in gang.story


def test_a_silent_agent_never_makes_a_gang_look_hung(gang: Gang):
    gang.pass_time(20, {"n0": 0.5, "n1": 0.5})
    gang.pass_time(300, {"n0": 0.0})
    assert "hung" not in gang.story
    gang.pass_time(300, {})
    assert "hung" not in gang.story
    assert all(card.sample is None for card in gang.world.scheduler.node_service.cards()), "unknown, not the last value"
    gang.pass_time(50, {"n0": 0.0, "n1": 0.0})
    assert "hung" not in gang.story, "what nobody saw does not count"
    gang.pass_time(20, {"n0": 0.0, "n1": 0.0})
    assert "hung" in gang.story


def test_a_silent_agent_stays_no_stop_that_was_due(gang: Gang):
    gang.pass_time(70, {"n0": 0.0, "n1": 0.0})
    gang.pass_time(300, {"n0": 0.0})
    assert gang.world.state(gang.job) == "running"


def test_samples_show_on_the_cards(gang: Gang):
    gang.pass_time(TICK_S, {"n0": 0.25})
    found = {card.id: card.sample for card in gang.world.scheduler.node_service.cards()}
    shown = [found[card] for card in gang.cards["n0"]]
    assert [sample and sample["utilisation_ratio"] for sample in shown] == [0.25, 0.25]


@pytest.mark.parametrize(("cards", "kept"), [(2, 3), (KEEP_CARDS - 1, 3), (2 * KEEP_CARDS, 1)])
def test_of_many_cards_samples_are_kept_less_often(tmp_path: Path, cards: int, kept: int):
    world = World(tmp_path, "1x1")
    for number in range(1, 4):
        world.at(number * STORE_INTERVAL_US)
        told = [{"id": f"c{card}"} for card in range(cards)]
        world.scheduler.watcher.hear({"kind": "samples", "at_us": world.clock.at_us, "cards": told, "runs": []})
    with world.database.read() as c:
        assert len(samples.of_card(c, "c0", 0, 10**15)) == kept
