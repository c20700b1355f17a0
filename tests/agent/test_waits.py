"""What real processes wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusquad.agent.stacks import read_stacks
from gpusquad.agent.waits import WaitReader

PATIENCE_S = 30.0
PROGRAMS = {
    "stuck": {
        "lock": "import threading; a = threading.Lock(); a.acquire(); a.acquire()",
        "thread": "import threading; a = threading.Lock(); a.acquire()\n"
                  "t = threading.Thread(target=a.acquire); t.start(); t.join()",
        "worker": "import multiprocessing as m, time; q = m.Queue()\n"
                  "m.Process(target=time.sleep, args=(1e6,), daemon=True).start(); q.get()",
        "worker asked repeatedly": "import multiprocessing as m, time; q = m.Queue()\n"
                  "m.Process(target=time.sleep, args=(1e6,), daemon=True).start()\n"
                  "while True:\n try: q.get(timeout=5)\n except Exception: pass",
        "named pipe": "import os, tempfile; name = tempfile.mkdtemp() + '/pipe'; os.mkfifo(name); open(name)",
        "sleep for ever": "import time; time.sleep(1e9)",
    },
    "sleeping": {
        "sleep": "import time; time.sleep(3600)",
        "short sleeps": "import time\nwhile True: time.sleep(1)",
        "asyncio": "import asyncio; asyncio.run(asyncio.sleep(3600))",
        "event": "import threading; threading.Event().wait(3600)",
        "signal": "import signal; signal.pause()",
        "other program": "import subprocess; subprocess.run(['sleep', '3600'], capture_output=True)",
        "thread that looks again": "import threading, time\ndef look():\n while True: time.sleep(5)\n"
                                   "t = threading.Thread(target=look); t.start(); t.join()",
        "pipeline": "import subprocess; subprocess.run(['sh', '-c', 'sleep 3600 | cat'])",
        "shell": "import subprocess; subprocess.run(['sleep', '3600'])",
    },
    "service": {
        "main": "import http.server as h; h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler).serve_forever()",
        "thread": "import http.server as h, threading\n"
                  "s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)\n"
                  "t = threading.Thread(target=s.serve_forever); t.start(); t.join()",
    },
    "stopped": {"itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"},
    "running": {"loop": "while True: pass"},
}  # fmt: skip
CASES = [(kind, name, code) for kind, programs in PROGRAMS.items() for name, code in programs.items()]
Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str, **options: object) -> int:
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **options)  # type: ignore[call-overload]
        started.append(process)
        return process.pid

    yield begin
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def family(pid: int) -> list[int]:
    """The process and everything below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def kind_of(pid: int, expected: str, *, is_gang: bool = False) -> str:
    """Read until it is the expected one: a program needs a while to reach the place where it waits."""
    deadline, kind = time.monotonic() + PATIENCE_S, ""
    while time.monotonic() < deadline:
        kind = WaitReader().read(family(pid), is_gang=is_gang).kind
        if kind == expected:
            break
        time.sleep(0.05)
    return kind


@pytest.mark.parametrize(("kind", "name", "code"), CASES, ids=[f"{kind}: {name}" for kind, name, _ in CASES])
def test_program_waits(start: Start, kind: str, name: str, code: str):
    assert kind_of(start(code), kind) == kind


def test_program_at_a_terminal_is_idle_on_purpose(start: Start):
    here, there = os.openpty()
    try:
        assert kind_of(start("input()", stdin=there), "terminal") == "terminal"
    finally:
        os.close(here)
        os.close(there)


def test_program_that_keeps_another_at_a_terminal_is_idle_on_purpose(start: Start):
    assert kind_of(start("import pty, sys; pty.spawn([sys.executable, '-i', '-q'])"), "terminal") == "terminal"


def test_tasks_of_a_gang_that_listen_for_each_other_are_no_service(start: Start):
    code = "import socket, threading; s = socket.create_server(('127.0.0.1', 0)); threading.Event().wait()"
    pid = start(code)
    assert kind_of(pid, "service") == "service"
    assert kind_of(pid, "stuck", is_gang=True) == "stuck"


def test_connection_to_somebody_else_is_a_wait_for_the_network(start: Start):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        pid = start(f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)")
        other, _ = server.accept()
        with other:
            assert kind_of(pid, "network") == "network"


def test_processes_that_are_gone_tell_nothing():
    assert WaitReader().read([2**22 - 1], is_gang=False).kind == "unknown"
    assert WaitReader().stopped([2**22 - 1]) == ""


def test_stack_of_a_python_program_names_the_place_without_its_command_line(start: Start, tmp_path: Path):
    script = tmp_path / "hangs.py"
    script.write_text("import time\ndef stuck_here():\n    time.sleep(1e6)\nstuck_here()\n")
    process = subprocess.Popen([sys.executable, str(script), "--secret=hunter2"], start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        lines: tuple[str, ...] = ()
        while not any("stuck_here" in line for line in lines) and time.monotonic() < deadline:
            lines = read_stacks([process.pid])
        assert any("stuck_here (hangs.py:3)" in line for line in lines)
        assert not any("hunter2" in line for line in lines)
    finally:
        process.kill()
        process.wait()


def test_stack_of_other_programs_is_unknown():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert read_stacks([process.pid]) == ()
        process.kill()
