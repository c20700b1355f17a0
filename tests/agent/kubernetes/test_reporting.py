"""Tests of the reports of a node's agent: their content, the log files behind them, and sending."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.inventory import CardProcess, CardReading, JobProcess
from gpusquad.agent.kubernetes.agent import AgentSettings, NodeAgent
from gpusquad.agent.kubernetes.api import AgentAccess, KubeApi
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.reporting import MAX_PROCESSES, PATH, NodeReporter, ReportBuilder
from gpusquad.agent.self_test import CardTests
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.server.schemas import agents as schema
from tests.agent.kubernetes.fake_kubelet import pod

NOW_US = 2_000_000_000_000_000


def bound_pod(name: str, *cards: str, job: str = "J", attempt: str = "1", **more: Any) -> Pod:
    """A running pod of a job, as the scheduler binds it."""
    annotations = {JOB: job, ATTEMPT: attempt} if job else {}
    return pod(name, [Container("main", len(cards))], {"main": cards} if job else None, annotations=annotations,
               is_started=True, **more)  # fmt: skip


def snapshot(readings: list[CardReading], pods: list[Pod], owners: dict[int, str] | None = None, cpu_ratio: float = 0.5,
         listed: dict[str, tuple[str, ...]] | None = None) -> NodeSnapshot:  # fmt: skip
    owners = owners or {}
    processes = [JobProcess(pid, "p", key, 0, (), cpu_ratio, 100) for pid, key in owners.items()]
    slots = {bound.name: tuple(sorted(bound.pinned_cards)) for bound in pods if bound.pin} | (listed or {})
    pod_resources = [
        ListedPod("default", name, {"main": tuple(f"{card}::0" for card in cards)}) for name, cards in slots.items()
    ]
    return NodeSnapshot(NOW_US, readings, processes, owners, pods, pod_resources)


def card(name: str, *processes: CardProcess, busy: float | None = 0.5, **more: Any) -> CardReading:
    return CardReading(name, utilisation_ratio=busy, power_w=100.0, processes=tuple(processes), throttle=(), **more)


def message_of(snapshot: NodeSnapshot, logs: Path | None = None) -> dict[str, Any]:
    message = ReportBuilder(logs).message(snapshot)
    schema.AgentSamples.model_validate_json(json.dumps(message))  # the service accepts it
    return message


def test_snapshot_becomes_a_samples_message():
    process = CardProcess(7, 5 * 2**30, 0.4, "python")
    message = message_of(snapshot([card("A", process), card("B", busy=0.0)], [bound_pod("p", "A")], {7: "default/p"}))
    [first, second] = message["cards"]
    assert (message["kind"], message["at_us"]) == ("samples", NOW_US)
    assert (first["utilisation_ratio"], first["idle_power_w"], second["processes"]) == (0.5, 100.0, [])
    assert first["processes"] == [
        {"pid": 7, "memory_bytes": 5 * 2**30, "name": "python", "job": "J", "attempt": 1, "unheld": False}
    ]  # fmt: skip
    message["runs"][0]["disk_bytes"] = None  # there is a process with this number
    assert message["runs"] == [
        {"job": "J", "attempt": 1, "cards": ["A"], "live_pods": 1, "last_output_us": None, "log_bytes": 0,
         "step": None, "total": None, "progress_at_us": None, "reported_us": None, "new_us": None,
             "repeated": 0, "troubles": 0, "crashes": 0, "succeeds": False,
         "retry_us": None, "retries": 0, "alike_us": None, "alike": 0, "same_step": 0,
         "same_step_us": None, "longest_step_us": None, "improved_us": None, "ahead_us": None, "falls": 0,
             "restarts": 0, "nan_us": None, "nan_lines": 0, "nan_doubtful": False, "has_losses": False, "waits": None,
         "waits_detail": "", "stopped_us": None, "stopped_detail": "", "disk_bytes": None,
         "cpu_ratio": 0.5, "rss_bytes": 100, "gpu_ratio": 0.4}
    ]  # fmt: skip


def test_message_has_exactly_the_fields_of_the_schema():
    process = CardProcess(7, 1, 0.4)
    message = message_of(snapshot([card("A", process)], [bound_pod("p", "A")], {7: "default/p"}))
    assert message.keys() == schema.AgentSamples.model_fields.keys()
    assert message["cards"][0].keys() | {"divided", "self_test"} == schema.CardSample.model_fields.keys()
    assert message["runs"][0].keys() == schema.RunSample.model_fields.keys()
    assert message["cards"][0]["processes"][0].keys() == schema.ProcessSample.model_fields.keys()


def test_pods_of_a_gang_are_reported_as_one_run():
    owners = {7: "default/p-0", 8: "default/p-1"}
    readings = [card("A", CardProcess(7, 1, 1.0)), card("B", CardProcess(8, 1, 0.0))]
    [run] = message_of(snapshot(readings, [bound_pod("p-0", "A"), bound_pod("p-1", "B")], owners))["runs"]
    assert (run["cards"], run["gpu_ratio"], run["cpu_ratio"], run["rss_bytes"]) == (["A", "B"], 0.5, 1.0, 200)


def test_attempts_are_separate_runs_and_an_unknown_attempt_is_none():
    pods = [
        bound_pod("old", "A", attempt="1", has_ended=True),
        bound_pod("new", "A", attempt="2"),
        bound_pod("p", "B", job="K", attempt=""),
    ]
    runs = message_of(snapshot([card("A"), card("B")], pods))["runs"]
    reported = [(run["job"], run["attempt"], run["live_pods"]) for run in runs]
    assert reported == [("J", 2, 1), ("J", 1, 0), ("K", None, 1)]


def test_gpu_ratio_of_a_run_excludes_its_neighbours():
    readings = [card("A", CardProcess(7, 1, 0.0), CardProcess(8, 1, 0.9), busy=0.9)]
    pods = [bound_pod("p", "A"), bound_pod("q", "A", job="K")]
    runs = message_of(snapshot(readings, pods, {7: "default/p", 8: "default/q"}))["runs"]
    assert {run["job"]: run["gpu_ratio"] for run in runs} == {"J": 0.0, "K": 0.9}


def test_ratios_are_unknown_when_the_agent_sees_no_processes():
    """Without the host's pid namespace, the driver lists no process, or pids that belong to no pod."""
    for processes in ((), (CardProcess(4242, 2**30, 0.9, ""),)):
        message = message_of(snapshot([card("A", *processes, busy=1.0)], [bound_pod("p", "A")]))
        assert (message["runs"][0]["gpu_ratio"], message["runs"][0]["cpu_ratio"]) == (None, None)
        assert message["cards"][0]["processes"] == [], "it is not reported as unmanaged either"


def test_unmanaged_processes_are_reported_but_other_pods_are_not():
    """The scheduler sees cards of other pods from their pods."""
    readings = [card("A", CardProcess(7, 1), CardProcess(99, 2**30, None, "miner")), card("B", CardProcess(8, 2**30))]
    pods = [bound_pod("p", "A"), bound_pod("other", job="")]
    message = message_of(snapshot(readings, pods, {7: "default/p", 8: "default/other"}, listed={"other": ("B",)}))
    reported = {reading["id"]: [(p["pid"], p["job"]) for p in reading["processes"]] for reading in message["cards"]}
    assert reported == {"A": [(99, None), (7, "J")], "B": []}


def test_invalid_job_or_attempt_annotation_is_ignored():
    for job, attempt in (("", "1"), ("x" * 300, "1"), ("a b", "1"), ("a\n", "1")):
        assert bound_pod("p", "A", job=job, attempt=attempt).run is None
    for attempt in ("-1", "x", "1" * 30, "²", " 1"):
        assert bound_pod("p", "A", attempt=attempt).run == ("J", None)


def test_only_the_largest_processes_of_a_card_are_reported():
    crowd = [CardProcess(pid, pid * 2**20, None, "a\x00b" * 200) for pid in range(1, MAX_PROCESSES + 50)]
    message = message_of(snapshot([card("A", *crowd)], []))
    reported = message["cards"][0]["processes"]
    assert (len(reported), reported[0]["pid"]) == (MAX_PROCESSES, MAX_PROCESSES + 49)
    assert all(process["name"].isprintable() for process in reported)


def test_idle_power_is_the_lowest_of_all_readings():
    builder = ReportBuilder(None)
    builder.note([CardReading("A", power_w=60.0)])
    [reported] = builder.message(snapshot([card("A")], []))["cards"]
    assert reported["idle_power_w"] == 60.0


# -- logs ------------------------------------------------------------------------------------------------------------


def write(folder: Path, *lines: str, file: str = "0.log", name: str = "p", container: str = "main") -> Path:
    path = folder / f"default_{name}_uid-of-{name}" / container / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.writelines(f"2026-11-15T10:00:00.000000000Z stdout {line}\n" for line in lines)
    return path


def set_mtime(path: Path, time_us: int) -> None:
    os.utime(path, ns=(time_us * 1000, time_us * 1000))


def run_of(builder: ReportBuilder, *pods: Pod) -> dict[str, Any]:
    [run] = builder.message(snapshot([card("A")], list(pods)))["runs"]
    return run


def test_output_time_and_progress_come_from_the_logs(tmp_path: Path):
    builder, own_pod = ReportBuilder(tmp_path), bound_pod("p", "A")
    assert run_of(builder, own_pod)["last_output_us"] is None
    path = write(tmp_path, "F starting", "F step 3/10")
    set_mtime(path, NOW_US - 5_000_000)
    run = run_of(builder, own_pod)
    assert (run["last_output_us"], run["step"], run["total"]) == (NOW_US - 5_000_000, 3, 10)
    assert run["progress_at_us"] == NOW_US - 5_000_000
    set_mtime(write(tmp_path, "F still here"), NOW_US - 1_000_000)
    run = run_of(builder, own_pod)
    assert (run["last_output_us"], run["progress_at_us"]) == (NOW_US - 1_000_000, NOW_US - 5_000_000)
    assert run["log_bytes"] == path.stat().st_size


def test_partial_log_lines_are_joined(tmp_path: Path):
    write(tmp_path, "P  45%|###   | 4", "F 5/100 [00:10<00:12, 4.5it/s]")
    assert (run_of(ReportBuilder(tmp_path), bound_pod("p", "A"))["step"]) == 45


def test_incomplete_log_line_is_read_when_it_is_complete(tmp_path: Path):
    builder, path = ReportBuilder(tmp_path), write(tmp_path, "F step 1/9")
    with path.open("a") as log:
        log.write("2026-11-15T10:00:00Z stdout F step 2")
    assert run_of(builder, bound_pod("p", "A"))["step"] == 1
    with path.open("a") as log:
        log.write("/9\n")
    assert run_of(builder, bound_pod("p", "A"))["step"] == 2


def test_rotated_or_restarted_log_is_read_from_its_start(tmp_path: Path):
    builder, path = ReportBuilder(tmp_path), write(tmp_path, "F step 1/9", "F " + "x" * 1000)
    assert run_of(builder, bound_pod("p", "A"))["step"] == 1
    path.rename(path.with_name("0.log.20261115-100000"))
    write(tmp_path, "F step 2/9")
    assert run_of(builder, bound_pod("p", "A"))["step"] == 2
    write(tmp_path, "F step 3/9", file="1.log")
    assert run_of(builder, bound_pod("p", "A"))["step"] == 3


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path):
    write(tmp_path, "F step 1/9", *["F " + "x" * 500] * 100, "F step 7/9")
    assert run_of(ReportBuilder(tmp_path), bound_pod("p", "A"))["step"] == 7


def test_links_and_folders_are_not_read_as_logs(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("2026 stdout F step 1/9\n")
    folder = write(tmp_path, "F step 2/9").parent
    (folder / "1.log").symlink_to(secret)
    assert run_of(ReportBuilder(tmp_path), bound_pod("p", "A"))["step"] is None
    (folder / "2.log").mkdir()
    assert run_of(ReportBuilder(tmp_path), bound_pod("p", "A"))["step"] is None


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_arbitrary_log_bytes_give_a_valid_report(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]):
    folder = tmp_path_factory.mktemp("logs")
    builder, path = ReportBuilder(folder), write(folder)
    for piece in pieces:
        with path.open("ab") as log:
            log.write(piece)
        schema.AgentSamples.model_validate(builder.message(snapshot([card("A")], [bound_pod("p", "A")])))


# -- sending ---------------------------------------------------------------------------------------------------------


class FakeService:
    """Gives the configured answers and records the reports."""

    def __init__(self) -> None:
        self.answers: Sequence[Exception | None] = ()
        self.received: list[dict[str, Any]] = []

    def __call__(self, path: str, content: dict[str, Any]) -> object:
        assert path == PATH
        error, *self.answers = self.answers or (None,)
        if error is not None:
            raise error
        self.received.append(content)
        return {}


def reporter_to(service: FakeService) -> tuple[NodeReporter, EventCounters]:
    counts = EventCounters()
    return NodeReporter(service, ReportBuilder(None), counts, every_s=5.0, dice=lambda: 0.5), counts


@pytest.mark.parametrize(
    ("answer", "tested"), [({"tests": ["SIM-0"]}, ["SIM-0"]), ({}, []), ({"tests": "SIM-0"}, []), (None, [])]
)
def test_cards_that_the_service_names_are_tested_and_reported(tmp_path, answer: object, tested: list[str]):
    inventory = SimulatedInventory(2, tmp_path)
    tests = CardTests(inventory.tester, in_background=lambda run: run())
    builder = ReportBuilder(None, tests=tests)
    NodeReporter(lambda path, content: answer, builder, EventCounters(), every_s=5.0, tests=tests).send(
        snapshot([], [])
    )
    assert [name for name, _ in tests.step((), lambda name: True) + tests.step((), lambda name: True)] == tested
    reported = builder.message(snapshot([card("SIM-0"), card("SIM-1")], []))["cards"]
    assert [one["id"] for one in reported if one.get("self_test")] == tested
    schema.AgentSamples.model_validate(builder.message(snapshot([card("SIM-0")], [])))


def test_report_delay_grows_during_failures_and_is_reset_afterwards():
    service = FakeService()
    reporter, counts = reporter_to(service)
    service.answers = [ApiUnreachable("away")] * 3 + [ApiRefused(429, message="too fast")] * 5 + [None]
    pauses = [reporter.send(snapshot([], [])) for _ in range(9)]
    assert pauses == [5.0, 5.0, 5.0, 8.0, 16.0, 32.0, 60.0, 60.0, 5.0]
    assert (counts["reports"], counts["reports_failed"]) == (1, 8)
    service.answers = [ApiUnreachable("away")]
    assert reporter.send(snapshot([], [])) == 5.0, "the delay starts again"


def test_repeated_failure_is_logged_once(caplog: pytest.LogCaptureFixture):
    service = FakeService()
    reporter, _ = reporter_to(service)
    service.answers = [ApiUnreachable("away")] * 5 + [ApiRefused(403, message="no")] * 5
    for _ in range(11):
        reporter.send(snapshot([], []))
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.why for record in warnings] == ["away", "403: no"]  # pyright: ignore[reportAttributeAccessIssue]


def test_reporter_continues_after_a_report_that_cannot_be_built():
    service = FakeService()
    reporter, counts = reporter_to(service)
    assert reporter.send(snapshot([None], [])) >= 5.0  # type: ignore[list-item]
    reporter.send(snapshot([], []))
    assert (len(service.received), counts["reports_failed"]) == (1, 1)


def test_only_the_newest_snapshot_is_queued():
    reporter, _ = reporter_to(FakeService())
    for number in range(5):
        reporter.give(NodeSnapshot(number, [], [], {}, [], []))
    newest = reporter._take()
    assert newest is not None
    assert newest.at_us == 4
    assert reporter._newest is None
    reporter.stop()
    assert reporter._take() is None


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """An HTTP server: its URL, and the tokens and bodies that it received."""
    received: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received.append((self.headers["Authorization"], body))
            self.send_response(200)
            self.send_header("Content-Length", "11")
            self.end_headers()
            self.wfile.write(b'{"ok":true}')

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http_server.server_port}", received
    http_server.shutdown()
    http_server.server_close()


def test_token_is_read_for_each_report(tmp_path: Path, server: tuple[str, list[tuple[str, str]]]):
    url, received = server
    token = tmp_path / "token"
    api = KubeApi(AgentAccess(url, token_file=str(token)))
    reporter = NodeReporter(api.post, ReportBuilder(None), EventCounters(), every_s=5.0)
    reporter.send(snapshot([], []))
    assert received == [], "no token, no report"
    for text in ("first", "second"):
        token.write_text(f"{text}\n")
        assert reporter.send(snapshot([card("A")], [])) == 5.0
    assert [bearer for bearer, _ in received] == ["Bearer first", "Bearer second"]
    assert schema.AgentSamples.model_validate_json(received[0][1]).cards[0].id == "A"


def test_token_is_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    token = tmp_path / "token"
    token.write_text("a-secret\nwith-a-line-break")
    for url in ("http://127.0.0.1:1", "http://localhost:1"):
        NodeReporter(
            KubeApi(AgentAccess(url, token_file=str(token))).post, ReportBuilder(None), EventCounters(), 5.0
        ).send(snapshot([], []))
    assert "cannot report" in caplog.text
    assert "a-secret" not in caplog.text
    assert not any("a-secret" in str(vars(record)) for record in caplog.records)


def test_agent_reports_its_cards_when_a_server_is_set(tmp_path: Path, server: tuple[str, list[tuple[str, str]]]):
    url, received = server
    (tmp_path / "token").write_text("t")
    settings = AgentSettings(
        "n", tmp_path, server=url + "/", server_token=tmp_path / "token", report_every_s=0.1, logs=None
    )
    agent = NodeAgent(settings, SimulatedInventory(2, tmp_path), KubeApi(AgentAccess("http://127.0.0.1:1")))
    assert agent._reporter is not None
    agent._read_node()
    snapshot = agent._reporter._take()
    assert snapshot is not None
    agent._reporter.send(snapshot)
    assert [reading["id"] for reading in json.loads(received[0][1])["cards"]] == ["SIM-0", "SIM-1"]
    assert (
        NodeAgent(
            AgentSettings("n", tmp_path), SimulatedInventory(1, tmp_path), KubeApi(AgentAccess("http://x"))
        )._reporter
        is None
    )
