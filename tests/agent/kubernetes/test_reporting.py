"""What the agent of a node reports, and how it is sent."""

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
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.server.schemas import agents as schema
from tests.agent.kubernetes.fake_kubelet import pod

NOW_US = 2_000_000_000_000_000


def bound(name: str, *cards: str, job: str = "J", attempt: str = "1", **more: Any) -> Pod:
    """A pod of a job, as the scheduler binds it."""
    annotations = {JOB: job, ATTEMPT: attempt} if job else {}
    return pod(name, [Container("main", len(cards))], {"main": cards} if job else None, annotations=annotations,
               is_started=True, **more)  # fmt: skip


def look(readings: list[CardReading], pods: list[Pod], owners: dict[int, str] | None = None, cores: float = 0.5,
         listed: dict[str, tuple[str, ...]] | None = None) -> NodeSnapshot:  # fmt: skip
    owners = owners or {}
    processes = [JobProcess(pid, "p", key, 0, (), cores, 100) for pid, key in owners.items()]
    slots = {one.name: tuple(sorted(one.pinned_cards)) for one in pods if one.pin} | (listed or {})
    told = [
        ListedPod("default", name, {"main": tuple(f"{card}::0" for card in cards)}) for name, cards in slots.items()
    ]
    return NodeSnapshot(NOW_US, readings, processes, owners, pods, told)


def card(name: str, *processes: CardProcess, busy: float | None = 0.5, **more: Any) -> CardReading:
    return CardReading(name, utilisation_ratio=busy, power_w=100.0, processes=tuple(processes), throttle=(), **more)


def message_of(what: NodeSnapshot, logs: Path | None = None) -> dict[str, Any]:
    made = ReportBuilder(logs).message(what)
    schema.AgentSamples.model_validate_json(json.dumps(made))  # what the service takes
    return made


def test_a_look_is_the_message_that_the_service_wants():
    process = CardProcess(7, 5 * 2**30, 0.4, "python")
    made = message_of(look([card("A", process), card("B", busy=0.0)], [bound("p", "A")], {7: "default/p"}))
    [first, second] = made["cards"]
    assert (made["kind"], made["at_us"]) == ("samples", NOW_US)
    assert (first["utilisation_ratio"], first["idle_power_w"], second["processes"]) == (0.5, 100.0, [])
    assert first["processes"] == [
        {"pid": 7, "memory_bytes": 5 * 2**30, "name": "python", "job": "J", "attempt": 1, "unheld": False}
    ]  # fmt: skip
    assert made["runs"] == [
        {"job": "J", "attempt": 1, "cards": ["A"], "live_pods": 1, "last_output_us": None, "log_bytes": 0,
         "step": None, "total": None, "progress_at_us": None, "cpu_ratio": 0.5, "rss_bytes": 100, "gpu_ratio": 0.4}
    ]  # fmt: skip


def test_every_field_is_one_that_the_service_knows():
    process = CardProcess(7, 1, 0.4)
    made = message_of(look([card("A", process)], [bound("p", "A")], {7: "default/p"}))
    assert made.keys() == schema.AgentSamples.model_fields.keys()
    assert made["cards"][0].keys() | {"divided"} == schema.CardSample.model_fields.keys()
    assert made["runs"][0].keys() == schema.RunSample.model_fields.keys()
    assert made["cards"][0]["processes"][0].keys() == schema.ProcessSample.model_fields.keys()


def test_pods_of_one_gang_are_one_run():
    owners = {7: "default/p-0", 8: "default/p-1"}
    readings = [card("A", CardProcess(7, 1, 1.0)), card("B", CardProcess(8, 1, 0.0))]
    [run] = message_of(look(readings, [bound("p-0", "A"), bound("p-1", "B")], owners))["runs"]
    assert (run["cards"], run["gpu_ratio"], run["cpu_ratio"], run["rss_bytes"]) == (["A", "B"], 0.5, 1.0, 200)


def test_attempts_are_told_apart_and_one_that_is_not_known_is_left_open():
    pods = [
        bound("old", "A", attempt="1", has_ended=True),
        bound("new", "A", attempt="2"),
        bound("p", "B", job="K", attempt=""),
    ]
    runs = message_of(look([card("A"), card("B")], pods))["runs"]
    told = [(run["job"], run["attempt"], run["live_pods"]) for run in runs]
    assert told == [("J", 2, 1), ("J", 1, 0), ("K", None, 1)]


def test_neighbours_on_a_card_are_not_counted_as_the_runs():
    readings = [card("A", CardProcess(7, 1, 0.0), CardProcess(8, 1, 0.9), busy=0.9)]
    pods = [bound("p", "A"), bound("q", "A", job="K")]
    runs = message_of(look(readings, pods, {7: "default/p", 8: "default/q"}))["runs"]
    assert {run["job"]: run["gpu_ratio"] for run in runs} == {"J": 0.0, "K": 0.9}


def test_an_agent_that_sees_no_processes_says_that_it_does_not_know():
    """Without the machine's process ids: the driver then names none, or such that nobody can find."""
    for processes in ((), (CardProcess(4242, 2**30, 0.9, ""),)):
        made = message_of(look([card("A", *processes, busy=1.0)], [bound("p", "A")]))
        assert (made["runs"][0]["gpu_ratio"], made["runs"][0]["cpu_ratio"]) == (None, None)
        assert made["cards"][0]["processes"] == [], "it is no stranger's either"


def test_strangers_are_told_but_pods_of_others_are_not():
    """The scheduler counts cards of other pods by their pods."""
    readings = [card("A", CardProcess(7, 1), CardProcess(99, 2**30, None, "miner")), card("B", CardProcess(8, 2**30))]
    pods = [bound("p", "A"), bound("other", job="")]
    made = message_of(look(readings, pods, {7: "default/p", 8: "default/other"}, listed={"other": ("B",)}))
    told = {one["id"]: [(p["pid"], p["job"]) for p in one["processes"]] for one in made["cards"]}
    assert told == {"A": [(99, None), (7, "J")], "B": []}


def test_users_may_write_what_they_like():
    for job, attempt in (("", "1"), ("x" * 300, "1"), ("a b", "1"), ("a\n", "1")):
        assert bound("p", "A", job=job, attempt=attempt).run is None
    for attempt in ("-1", "x", "1" * 30, "²", " 1"):
        assert bound("p", "A", attempt=attempt).run == ("J", None)


def test_of_a_crowd_on_one_card_the_largest_are_told():
    crowd = [CardProcess(pid, pid * 2**20, None, "a\x00b" * 200) for pid in range(1, MAX_PROCESSES + 50)]
    made = message_of(look([card("A", *crowd)], []))
    told = made["cards"][0]["processes"]
    assert (len(told), told[0]["pid"]) == (MAX_PROCESSES, MAX_PROCESSES + 49)
    assert all(process["name"].isprintable() for process in told)


def test_the_lowest_power_is_that_of_all_looks():
    samples = ReportBuilder(None)
    samples.note([CardReading("A", power_w=60.0)])
    [told] = samples.message(look([card("A")], []))["cards"]
    assert told["idle_power_w"] == 60.0


# -- logs ------------------------------------------------------------------------------------------------------------


def write(folder: Path, *lines: str, file: str = "0.log", name: str = "p", container: str = "main") -> Path:
    path = folder / f"default_{name}_uid-of-{name}" / container / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.writelines(f"2026-11-15T10:00:00.000000000Z stdout {line}\n" for line in lines)
    return path


def at(path: Path, time_us: int) -> None:
    os.utime(path, ns=(time_us * 1000, time_us * 1000))


def runs_of(samples: ReportBuilder, *pods: Pod) -> dict[str, Any]:
    [run] = samples.message(look([card("A")], list(pods)))["runs"]
    return run


def test_logs_tell_when_it_wrote_and_how_far_it_is(tmp_path: Path):
    samples, mine = ReportBuilder(tmp_path), bound("p", "A")
    assert runs_of(samples, mine)["last_output_us"] is None
    path = write(tmp_path, "F starting", "F step 3/10")
    at(path, NOW_US - 5_000_000)
    run = runs_of(samples, mine)
    assert (run["last_output_us"], run["step"], run["total"]) == (NOW_US - 5_000_000, 3, 10)
    assert run["progress_at_us"] == NOW_US - 5_000_000
    at(write(tmp_path, "F still here"), NOW_US - 1_000_000)
    run = runs_of(samples, mine)
    assert (run["last_output_us"], run["progress_at_us"]) == (NOW_US - 1_000_000, NOW_US - 5_000_000)
    assert run["log_bytes"] == path.stat().st_size


def test_a_line_in_pieces_is_one_line(tmp_path: Path):
    write(tmp_path, "P  45%|###   | 4", "F 5/100 [00:10<00:12, 4.5it/s]")
    assert (runs_of(ReportBuilder(tmp_path), bound("p", "A"))["step"]) == 45


def test_half_a_line_waits_for_its_end(tmp_path: Path):
    samples, path = ReportBuilder(tmp_path), write(tmp_path, "F step 1/9")
    with path.open("a") as log:
        log.write("2026-11-15T10:00:00Z stdout F step 2")
    assert runs_of(samples, bound("p", "A"))["step"] == 1
    with path.open("a") as log:
        log.write("/9\n")
    assert runs_of(samples, bound("p", "A"))["step"] == 2


def test_a_log_that_was_rotated_or_begins_again_is_read_on(tmp_path: Path):
    samples, path = ReportBuilder(tmp_path), write(tmp_path, "F step 1/9", "F " + "x" * 1000)
    assert runs_of(samples, bound("p", "A"))["step"] == 1
    path.rename(path.with_name("0.log.20261115-100000"))
    write(tmp_path, "F step 2/9")
    assert runs_of(samples, bound("p", "A"))["step"] == 2
    write(tmp_path, "F step 3/9", file="1.log")
    assert runs_of(samples, bound("p", "A"))["step"] == 3


def test_of_a_lot_only_the_end_is_read(tmp_path: Path):
    write(tmp_path, "F step 1/9", *["F " + "x" * 500] * 100, "F step 7/9")
    assert runs_of(ReportBuilder(tmp_path), bound("p", "A"))["step"] == 7


def test_links_and_folders_are_no_logs(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("2026 stdout F step 1/9\n")
    folder = write(tmp_path, "F step 2/9").parent
    (folder / "1.log").symlink_to(secret)
    assert runs_of(ReportBuilder(tmp_path), bound("p", "A"))["step"] is None
    (folder / "2.log").mkdir()
    assert runs_of(ReportBuilder(tmp_path), bound("p", "A"))["step"] is None


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_no_log_breaks_a_report(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]):
    folder = tmp_path_factory.mktemp("logs")
    samples, path = ReportBuilder(folder), write(folder)
    for piece in pieces:
        with path.open("ab") as log:
            log.write(piece)
        schema.AgentSamples.model_validate(samples.message(look([card("A")], [bound("p", "A")])))


# -- sending ---------------------------------------------------------------------------------------------------------


class Service:
    """Answers as told, and keeps what it got."""

    def __init__(self) -> None:
        self.answers: Sequence[Exception | None] = ()
        self.got: list[dict[str, Any]] = []

    def __call__(self, path: str, content: dict[str, Any]) -> object:
        assert path == PATH
        error, *self.answers = self.answers or (None,)
        if error is not None:
            raise error
        self.got.append(content)
        return {}


def reporter_to(service: Service) -> tuple[NodeReporter, EventCounters]:
    counts = EventCounters()
    return NodeReporter(service, ReportBuilder(None), counts, every_s=5.0, dice=lambda: 0.5), counts


def test_pauses_grow_while_it_fails_and_are_as_agreed_again_after():
    service = Service()
    reporter, counts = reporter_to(service)
    service.answers = [ApiUnreachable("away")] * 3 + [ApiRefused(429, message="too fast")] * 5 + [None]
    pauses = [reporter.send(look([], [])) for _ in range(9)]
    assert pauses == [5.0, 5.0, 5.0, 8.0, 16.0, 32.0, 60.0, 60.0, 5.0]
    assert (counts["reports"], counts["reports_failed"]) == (1, 8)
    service.answers = [ApiUnreachable("away")]
    assert reporter.send(look([], [])) == 5.0, "from the start again"


def test_trouble_is_told_once(caplog: pytest.LogCaptureFixture):
    service = Service()
    reporter, _ = reporter_to(service)
    service.answers = [ApiUnreachable("away")] * 5 + [ApiRefused(403, message="no")] * 5
    for _ in range(11):
        reporter.send(look([], []))
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.why for record in warnings] == ["away", "403: no"]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_report_that_cannot_be_made_is_no_end():
    service = Service()
    reporter, counts = reporter_to(service)
    assert reporter.send(look([None], [])) >= 5.0  # type: ignore[list-item]
    reporter.send(look([], []))
    assert (len(service.got), counts["reports_failed"]) == (1, 1)


def test_only_the_newest_look_waits():
    reporter, _ = reporter_to(Service())
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
    """A real one: its address, and the tokens and bodies that it got."""
    got: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((self.headers["Authorization"], body))
            self.send_response(200)
            self.send_header("Content-Length", "11")
            self.end_headers()
            self.wfile.write(b'{"ok":true}')

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}", got
    found.shutdown()
    found.server_close()


def test_the_token_is_read_again_for_each_report(tmp_path: Path, server: tuple[str, list[tuple[str, str]]]):
    url, got = server
    token = tmp_path / "token"
    api = KubeApi(AgentAccess(url, token_file=str(token)))
    reporter = NodeReporter(api.post, ReportBuilder(None), EventCounters(), every_s=5.0)
    reporter.send(look([], []))
    assert got == [], "no token, no report"
    for text in ("first", "second"):
        token.write_text(f"{text}\n")
        assert reporter.send(look([card("A")], [])) == 5.0
    assert [bearer for bearer, _ in got] == ["Bearer first", "Bearer second"]
    assert schema.AgentSamples.model_validate_json(got[0][1]).cards[0].id == "A"


def test_no_token_gets_into_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    token = tmp_path / "token"
    token.write_text("a-secret\nwith-a-line-break")
    for url in ("http://127.0.0.1:1", "http://localhost:1"):
        NodeReporter(
            KubeApi(AgentAccess(url, token_file=str(token))).post, ReportBuilder(None), EventCounters(), 5.0
        ).send(look([], []))
    assert "cannot report" in caplog.text
    assert "a-secret" not in caplog.text
    assert not any("a-secret" in str(vars(record)) for record in caplog.records)


def test_an_agent_looks_and_reports(tmp_path: Path, server: tuple[str, list[tuple[str, str]]]):
    url, got = server
    (tmp_path / "token").write_text("t")
    settings = AgentSettings(
        "n", tmp_path, server=url + "/", server_token=tmp_path / "token", report_every_s=0.1, logs=None
    )
    agent = NodeAgent(settings, SimulatedInventory(2, tmp_path), KubeApi(AgentAccess("http://127.0.0.1:1")))
    assert agent._reporter is not None
    agent._read_node()
    taken = agent._reporter._take()
    assert taken is not None
    agent._reporter.send(taken)
    assert [one["id"] for one in json.loads(got[0][1])["cards"]] == ["SIM-0", "SIM-1"]
    assert (
        NodeAgent(
            AgentSettings("n", tmp_path), SimulatedInventory(1, tmp_path), KubeApi(AgentAccess("http://x"))
        )._reporter
        is None
    )
