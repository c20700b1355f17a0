"""A training that also serves, services that only look like one, and what cannot be told."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.output_signs import OutputReading
from gpusquad.agent.quiet_runs import QuietRuns
from gpusquad.agent.run_files import RunFiles, RunReading
from gpusquad.agent.serving import ServedPorts, judge_service
from gpusquad.agent.waits import WaitReader, WaitReading

S = 1_000_000
PATIENCE_S = 30.0
STUCK = WaitReading("stuck", "python (pid 7) waits for a lock or another of its threads")
SERVICE = WaitReading("service", "python (pid 7) listens for requests", STUCK)
TRAINED = RunReading(
    step=20, total=100, progress_at_us=9 * S, output=OutputReading(has_losses=True, steps=20, ends_in_training=True)
)
PORTS = ServedPorts(listens_us=5 * S)


def trained(**facts: object) -> RunReading:
    return RunReading(**{"step": 20, "total": 100, "progress_at_us": 9 * S, "output": TRAINED.output, **facts})  # type: ignore[arg-type]


def test_training_that_listened_from_the_start_and_waits_for_itself_is_stuck():
    found = judge_service(SERVICE, TRAINED, PORTS)
    assert (found.kind, "step 20 of 100" in found.detail) == ("stuck", True)


@pytest.mark.parametrize("output", [
    OutputReading(),  # a model server
    OutputReading(steps=20, ends_in_training=True),  # draws a bar for each request
])  # fmt: skip
def test_service_without_losses_is_a_service(output: OutputReading):
    assert judge_service(SERVICE, trained(output=output), PORTS) is SERVICE


def test_training_that_has_reached_its_end_is_a_service():
    assert judge_service(SERVICE, trained(step=100), PORTS) is SERVICE


@pytest.mark.parametrize("reading", [
    trained(total=None),
    trained(output=OutputReading(has_losses=True, steps=9, ends_in_training=True)),  # "resumed at step 20/100 loss 0.3"
    trained(output=OutputReading(has_losses=True, steps=20)),  # "waiting for labels"
    trained(progress_at_us=4 * S),  # began to listen after its training
])  # fmt: skip
def test_training_that_may_serve_now_is_only_warned_of(reading: RunReading):
    assert judge_service(SERVICE, reading, PORTS).kind == "outside"


@pytest.mark.parametrize("kind", ["network", "outside", "sleeping", "disk", "running", "unknown"])
def test_training_that_waits_for_anything_else_is_only_warned_of(kind: str):
    found = WaitReading("service", "", WaitReading(kind))  # type: ignore[arg-type]
    assert judge_service(found, TRAINED, PORTS).kind == "outside"


def test_training_whose_ports_somebody_uses_is_only_warned_of():
    ports = PORTS.visited(WaitReading("service", is_visited=True)).visited(SERVICE)
    assert judge_service(SERVICE, TRAINED, ports).kind == "outside"


def test_others_are_left_as_they_are():
    for found in (STUCK, WaitReading("terminal"), WaitReading("service", "", WaitReading("service"))):
        assert judge_service(found, TRAINED, PORTS) is found


def test_only_a_training_is_asked_for_its_ports_and_no_more_once_it_listens():
    asked: list[int] = []

    def look(ports: ServedPorts, at_s: int, reading: RunReading, *, listens: bool) -> ServedPorts:
        def ask() -> bool:
            asked.append(at_s)
            return listens

        return ports.after(at_s * S, reading, ask)

    ports = look(ServedPorts(), 100, RunReading(), listens=True)
    for second in (101, 102, 161, 162, 177):
        ports = look(ports, second, TRAINED, listens=second == 177)
    ports = look(ports, 300, TRAINED, listens=False)
    assert (asked, ports.listens_us) == ([101, 102, 161, 177], 177 * S)


# -- real programs -------------------------------------------------------------------------------------------------

TRAINS = """
import http.server, threading, time
def listen():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
def train(last, total='/100'):
    for step in range(1, last + 1):
        print(f'step {step}{total} loss {1 / step:.3f}', flush=True)
        time.sleep(0.05)
def hang():
    lock = threading.Lock(); lock.acquire(); lock.acquire()
"""


@pytest.fixture
def waits_of(tmp_path: Path) -> Iterator[object]:
    started: list[subprocess.Popen[bytes]] = []

    def read(code: str) -> str:
        """What it waits for once its output has ended."""
        (tmp_path / "logs").mkdir()
        with open(tmp_path / "logs" / f"0.{0:020d}.log", "wb") as log:
            process = subprocess.Popen([sys.executable, "-c", TRAINS + code + "\nhang()"], stdout=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        started.append(process)
        files, quiet = RunFiles(tmp_path), QuietRuns(stacks=lambda _: (), quiet_s=1.0)
        processes = [JobProcess(process.pid, "python", "job", 0, (), None, 0)]
        deadline, kind = time.monotonic() + PATIENCE_S, None
        while kind is None and time.monotonic() < deadline:
            now_us = time.time_ns() // 1000
            kind = quiet.look(("job", 0), files.look(now_us), processes, now_us).waits
            time.sleep(0.02)
        return kind or ""

    yield read
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(("code", "expected"), [
    ("listen(); train(40)", "stuck"),
    ("train(40); listen()", "outside"),
    ("listen(); train(40); print('waiting for labels', flush=True)", "outside"),
    ("listen(); train(40, total='')", "outside"),
    ("listen(); train(100)", "service"),
    ("listen()", "service"),
    ("print('[2/3] starting the server', flush=True); listen()", "service"),
])  # fmt: skip
def test_program_that_trains_and_serves(waits_of, code: str, expected: str):
    assert waits_of(code) == expected


def test_loop_that_counts_its_attempts_is_looked_at(waits_of):
    code = "attempt = 0\nwhile True: attempt += 1; print(f'attempt {attempt}: retrying', flush=True); time.sleep(0.05)"
    assert waits_of(code) == "sleeping"


class Looks:
    """Looks at a program at instants that the test chooses."""

    def __init__(
        self, waits: WaitReader, process: subprocess.Popen[bytes], output: OutputReading | None = None
    ) -> None:
        self._reading = RunReading(output=output or OutputReading())
        self._quiet = QuietRuns(waits, stacks=lambda _: (), start=lambda work: work(), quiet_s=60.0)
        self._processes = [JobProcess(process.pid, "python", "job", 0, (), None, 0)]
        self.at(0)

    def at(self, second: int) -> str | None:
        return self._quiet.look(("job", 0), self._reading, self._processes, second * S).waits


@pytest.fixture
def program() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def kind_becomes(process: subprocess.Popen[bytes], expected: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while WaitReader().read([process.pid], is_gang=False).kind != expected and time.monotonic() < deadline:
        time.sleep(0.02)


def test_connection_that_was_seen_counts_for_minutes(program):
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = program(
            f"import socket, threading; c = socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))\n"
            "c.recv(1); c.close(); a = threading.Lock(); a.acquire(); a.acquire()"
        )
        looks = Looks(WaitReader(), process)
        with server.accept()[0]:
            kind_becomes(process, "network")
            assert looks.at(60) == "network"
        kind_becomes(process, "stuck")
        assert [looks.at(second) for second in (75, 200, 358)] == ["network"] * 3
        assert looks.at(700) == "stuck"


def test_short_connection_is_seen_between_two_looks(program):
    class Reader(WaitReader):
        has_connection = False

        def calls(self, pids: Iterable[int]) -> bool:
            return self.has_connection

    process, reader = program("import threading; a = threading.Lock(); a.acquire(); a.acquire()"), Reader()
    kind_becomes(process, "stuck")
    looks = Looks(reader, process)
    assert looks.at(60) == "stuck"
    reader.has_connection = True
    looks.at(63)
    reader.has_connection = False
    assert looks.at(75) == "network"


@pytest.mark.parametrize(("output", "expected"), [
    (OutputReading(repeated=30), "network"),
    (OutputReading(retries=30), "network"),
    (OutputReading(), "stuck"),
])  # fmt: skip
def test_loop_is_watched_between_two_looks(program, output: OutputReading, expected: str):
    class Reader(WaitReader):
        def calls(self, pids: Iterable[int]) -> bool:
            return False

        def calls_within(self, pids: Sequence[int], seconds: float) -> bool:
            return True

    process = program("import threading; a = threading.Lock(); a.acquire(); a.acquire()")
    kind_becomes(process, "stuck")
    looks = Looks(Reader(), process, output)
    assert [looks.at(60), looks.at(75)] == ["stuck", expected]


def test_requests_that_take_a_moment_are_seen(program):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as accepted:
                        time.sleep(0.05)
                        accepted.send(b"ok")
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        process = program(
            "import socket, time\nwhile True:\n"
            f"    with socket.create_connection(('127.0.0.1', {server.getsockname()[1]})) as c: c.recv(2)\n"
            "    time.sleep(0.5)"
        )
        assert WaitReader().calls_within([process.pid], PATIENCE_S)
        server.shutdown(socket.SHUT_RDWR)


def test_connections_that_are_refused_are_none(program):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = program(
        "import socket, time\nwhile True:\n"
        f"    try: socket.create_connection(('127.0.0.1', {port}))\n"
        "    except OSError: time.sleep(0.01)"
    )
    kind_becomes(process, "sleeping")
    assert not WaitReader().calls_within([process.pid], 1.0)


def test_only_a_connection_that_the_program_opened_is_a_call(program):
    reader = WaitReader()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        caller = program(f"import socket; c = socket.create_connection(('127.0.0.1', {port})); c.recv(1)")
        with server.accept()[0]:
            kind_becomes(caller, "network")
            assert reader.calls([caller.pid])
    called = program(f"import socket; s = socket.create_server(('127.0.0.1', {port})); c = s.accept()[0]; c.recv(1)")
    kind_becomes(called, "service")
    with socket.create_connection(("127.0.0.1", port)):
        deadline = time.monotonic() + PATIENCE_S
        while not reader.read([called.pid], is_gang=False).is_visited:
            assert time.monotonic() < deadline
        assert not reader.calls([called.pid])
