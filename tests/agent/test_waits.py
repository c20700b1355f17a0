"""What real processes wait for."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import pytest

from gpusquad.agent.stacks import read_stacks
from gpusquad.agent.waits import WaitReader

PATIENCE_S = 30.0
PIPE = "import os, tempfile; name = tempfile.mkdtemp() + '/pipe'; os.mkfifo(name)\n"
EXPORTER = (
    "import http.server as h, threading\ns = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)\n"
    "t = threading.Thread(target=s.serve_forever, daemon=True); t.start(); a = threading.Lock()\n"
)
LISTEN = ("import socket, tempfile; s = socket.socket(socket.AF_UNIX); s.bind(tempfile.mkdtemp() + '/s'); "
          "s.listen()\n")  # fmt: skip
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
        "semaphore of its workers": "import multiprocessing as m; m.Semaphore(0).acquire()",
        "own pipe": "import os, select; select.select([os.pipe()[0]], [], [])",
        "socket pair with a worker": "import multiprocessing as m\na, b = m.Pipe()\n"
                  "m.Process(target=b.recv, daemon=True).start()\na.recv()",
        "pool": "import multiprocessing as m\na, b = m.Lock(), m.Lock()\na.acquire()\n"
                "m.get_context('fork').Pool(2, initializer=a.acquire).map(print, [1])",
        "event loop": "import asyncio; asyncio.run(asyncio.Event().wait())",
        "lock of a file that it holds itself": "import fcntl, tempfile; name = tempfile.mktemp()\n"
                "a, b = open(name, 'w'), open(name, 'w'); fcntl.flock(a, 2); fcntl.flock(b, 2)",
        "lock of workers that were spawned": "import multiprocessing as m; lock = m.get_context('spawn').Lock()\n"
                                             "lock.acquire(); lock.acquire()",
        "manager": "import multiprocessing as m, threading\nmanager = m.Manager(); lock = threading.Lock()\n"
                   "lock.acquire(); lock.acquire()",
        "sleep for ever": "import time; time.sleep(1e9)",
    },
    "outside": {
        "named pipe, opened": f"{PIPE}open(name)",
        "named pipe, read": f"{PIPE}os.read(os.open(name, os.O_RDWR), 1)",
        "named pipe, polled": f"{PIPE}import select; select.select([os.open(name, os.O_RDWR)], [], [])",
        "named pipe, read by a thread": f"{PIPE}import threading\n"
                "t = threading.Thread(target=open, args=(name,)); t.start(); t.join()",
        "named pipe, in an event loop": f"{PIPE}import asyncio; loop = asyncio.new_event_loop()\n"
                "loop.add_reader(os.open(name, os.O_RDWR), print); loop.run_forever()",
        "named pipe, read by a worker": f"{PIPE}import multiprocessing as m\n"
                "w = m.get_context('fork').Process(target=open, args=(name,)); q = m.Queue(); w.start(); q.get()",
        "changes of files": "import ctypes, os; libc = ctypes.CDLL(None); file = libc.inotify_init()\n"
                "libc.inotify_add_watch(file, b'/proc/self', 2); os.read(file, 99)",
        "signal": "import signal, threading; signals = {signal.SIGUSR1}\nsignal.pthread_sigmask(0, signals)\n"
                  "t = threading.Thread(target=signal.sigwait, args=(signals,)); t.start(); t.join()",
        "datagrams": "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); s.recv(1)",
        "datagram server": "import socketserver as s\n"
                           "s.UDPServer(('127.0.0.1', 0), s.BaseRequestHandler).serve_forever()",
        "news of the kernel": "import socket; s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)\n"
                              "s.bind((0, 1)); s.recv(1)",
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
        "unix socket": f"{LISTEN}s.accept()",
        "unix socket, in a thread": f"{LISTEN}import threading\n"
                "t = threading.Thread(target=s.accept); t.start(); t.join()",
        "unix socket server": "import socketserver as s, tempfile\ns.ThreadingUnixStreamServer("
                "tempfile.mkdtemp() + '/s', s.BaseRequestHandler).serve_forever()",
        "unix socket, by a worker": f"{LISTEN}import multiprocessing as m\n"
                "w = m.get_context('fork').Process(target=s.accept); q = m.Queue(); w.start(); q.get()",
        "unix socket, in an event loop": "import asyncio, tempfile\nasync def main():\n"
                "    s = await asyncio.start_unix_server(print, tempfile.mkdtemp() + '/s'); await s.serve_forever()\n"
                "asyncio.run(main())",
    },
    "stopped": {"itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"},
    "running": {"loop": "while True: pass"},
}  # fmt: skip
CASES = [(kind, name, code) for kind, programs in PROGRAMS.items() for name, code in programs.items()]
Start = Callable[..., int]
OUTPUTS: dict[int, IO[bytes]] = {}
ERRORS: dict[int, IO[bytes]] = {}


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str, **options: object) -> int:
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **options)  # type: ignore[call-overload]
        started.append(process)
        if process.stdout is not None:
            OUTPUTS[process.pid] = process.stdout
        if process.stderr is not None:
            ERRORS[process.pid] = process.stderr
        return process.pid

    yield begin
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    OUTPUTS.clear()
    ERRORS.clear()


def family(pid: int) -> list[int]:
    """The process and everything below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def families(pids: Iterable[int]) -> list[int]:
    return [pid for root in pids for pid in family(root)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def kind_of(pid: int, expected: str, *, is_gang: bool = False) -> str:
    return until(lambda: WaitReader().read(family(pid), is_gang=is_gang).kind, expected)


def until_detail(pids: list[int], expected: str, *, is_gang: bool = False) -> str:
    return until(lambda: _part(WaitReader().read(pids, is_gang=is_gang).detail, expected), expected)


def _part(text: str, expected: str) -> str:
    return expected if expected in text else text


def besides(pid: int, expected: str) -> str:
    def kind() -> str:
        found = WaitReader().read(family(pid), is_gang=False).besides
        return "" if found is None else found.kind

    return until(kind, expected)


def until(kind: Callable[[], str], expected: str) -> str:
    """Read until it is the expected one: a program needs a while to reach the place where it waits."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := kind()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


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


def test_lock_that_a_program_gave_to_a_child_that_sleeps_for_ever_is_never_free(start: Start, tmp_path: Path):
    lock = str(tmp_path / "lock")
    take = f"fcntl.flock(open({lock!r}, 'w'), fcntl.LOCK_EX)"
    code = f"import fcntl, subprocess, time; child = subprocess.Popen(['flock', {lock!r}, 'sleep', 'SLEEP'])\n"
    code += f"while subprocess.run(['flock', '-n', {lock!r}, 'true']).returncode == 0: time.sleep(0.05)\n{take}"
    pid = start(code.replace("SLEEP", "infinity"))
    assert kind_of(pid, "stuck") == "stuck"
    detail = WaitReader().read(family(pid), is_gang=False).detail
    assert f"python (pid {pid}) waits for a lock of a file that flock (pid " in detail
    (tmp_path / "lock").unlink()
    assert kind_of(start(code.replace("SLEEP", "3600")), "sleeping") == "sleeping"


def test_lock_that_another_program_of_the_run_holds_for_a_while_is_free_later(start: Start, tmp_path: Path):
    code = f"import fcntl, time; file = open({str(tmp_path / 'lock')!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
    code += "print(flush=True); time.sleep(950)"
    holder = start(code, stdout=subprocess.PIPE)
    OUTPUTS[holder].readline()
    pids = [holder, start(code)]
    assert until_detail(pids[1:] + pids[:1], "which sleeps") == "which sleeps"
    assert WaitReader().read(pids, is_gang=False).kind == "sleeping"


def test_rank_whose_peers_are_gone_names_what_it_waits_for(start: Start):
    port = free_port()
    code = f"import socket; socket.create_server(('127.0.0.1', {port})).accept()"
    pid = start(code, env={**os.environ, "MASTER_PORT": str(port)})
    expected = "no other task of its gang"
    assert until_detail([pid], expected, is_gang=True) == expected
    assert WaitReader().read([pid], is_gang=True).kind == "unknown"


def test_pipe_that_only_a_forgotten_program_holds_open_never_ends(start: Start):
    left = "sleep infinity & echo $! >&2"
    pid = start(f"import subprocess; subprocess.run({left!r}, shell=True, stdout=-1)", stderr=subprocess.PIPE)
    sleeper = int(ERRORS[pid].readline())
    try:
        assert until(lambda: WaitReader().read([pid, sleeper], is_gang=False).kind, "stuck") == "stuck"
        expected = f"while sleep (pid {sleeper}) sleeps for ever"
        assert until_detail([*family(pid), sleeper], expected) == expected
    finally:
        os.kill(sleeper, signal.SIGKILL)


@pytest.mark.parametrize("code", [
    "import os; os.execvp('sleep', ['sleep', 'infinity'])",
    "import subprocess; subprocess.run(['sleep', 'infinity'], capture_output=True)",
    "import subprocess; subprocess.run(['sh', '-c', 'sleep infinity | cat'])",
])  # fmt: skip
def test_placeholder_that_sleeps_for_ever_is_left_alone(start: Start, code: str):
    assert kind_of(start(code), "sleeping") == "sleeping"


def test_gang_waits_for_a_task_that_sleeps_for_a_while(start: Start):
    waits = "import threading; threading.Event().wait()"
    for code, expected in (("import time; time.sleep(950)", "sleeping"), (waits, "stuck")):
        pids = [start(code), start(waits)]
        assert until(lambda pids=pids: WaitReader().read(families(pids), is_gang=True).kind, expected) == expected
    assert until(lambda: WaitReader().read([pids[0]], is_gang=True).kind, "stuck") == "stuck"


SERVERS = {
    "thread": f"{EXPORTER}threading.Event().wait()",
    "event loop": "import asyncio\nasync def main():\n    await asyncio.to_thread(int)\n"
                  "    s = await asyncio.start_server(lambda r, w: None, '127.0.0.1', 0); await s.serve_forever()\n"
                  "asyncio.run(main())",
}  # fmt: skip


@pytest.mark.parametrize("code", SERVERS.values(), ids=SERVERS)
def test_replicas_of_a_gang_that_wait_for_requests_are_services(start: Start, code: str):
    pids = [start(code), start(code)]
    found = until(lambda: WaitReader().read(families(pids), is_gang=True).kind, "service")
    assert found == "service"


MEETS = (
    "import socket, threading; a = socket.create_server(('127.0.0.1', 0)); print(a.getsockname()[1], flush=True)\n"
    "c = a.accept()[0]; threading.Thread(target=a.accept, daemon=True).start()\n"
)
JOINS = (
    "import socket, sys, threading; c = socket.create_connection(('127.0.0.1', int(sys.stdin.readline())))\n"
    "b = socket.create_server(('127.0.0.1', 0)); threading.Thread(target=b.accept, daemon=True).start()\n"
)


def test_ranks_that_are_connected_and_wait_for_further_connections_are_no_services(start: Start):
    first = start(f"{MEETS}threading.Event().wait()", stdout=subprocess.PIPE)
    other = start(f"{JOINS}threading.Event().wait()", stdin=OUTPUTS[first])
    assert until(lambda: WaitReader().read(families([first, other]), is_gang=True).kind, "stuck") == "stuck"


def test_rank_that_waits_at_the_meeting_point_of_its_gang_is_no_service(start: Start):
    code = f"{EXPORTER}print(s.server_port, flush=True); threading.Event().wait()"
    port = str(free_port())
    pid = start(code.replace("1', 0", f"1', {port}"), env={**os.environ, "MASTER_PORT": port})
    assert kind_of(pid, "stuck", is_gang=True) == "stuck"


def test_connection_to_somebody_else_is_a_wait_for_the_network(start: Start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        pid = start(f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)")
        other, _ = server.accept()
        with other:
            assert kind_of(pid, "network") == "network"


def test_program_that_reads_commands_from_its_input_waits_for_people(start: Start):
    assert kind_of(start("input()", stdin=subprocess.PIPE), "outside") == "outside"


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_connection_to_a_program_on_the_same_machine_is_a_wait_for_it(start: Start, tmp_path: Path, kind: str):
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as server:
        server.bind(str(tmp_path / "s"))
        if kind == "SOCK_STREAM":
            server.listen()
        pid = start(f"import socket; s = socket.socket(socket.AF_UNIX, socket.{kind})\n"
                    f"s.connect({str(tmp_path / 's')!r}); s.recv(1)")  # fmt: skip
        assert kind_of(pid, "outside") == "outside"


@pytest.mark.parametrize("lock", ["flock", "lockf"])
def test_lock_that_another_program_holds_is_a_wait_for_it(start: Start, tmp_path: Path, lock: str):
    import fcntl

    with open(tmp_path / "lock", "w") as file:
        getattr(fcntl, lock)(file, fcntl.LOCK_EX)
        pid = start(f"import fcntl; fcntl.{lock}(open({str(tmp_path / 'lock')!r}, 'w'), fcntl.LOCK_EX)")
        assert kind_of(pid, "outside") == "outside"


def test_message_that_another_program_may_send_is_a_wait_for_it(start: Start):
    libc = ctypes.CDLL(None)
    messages, semaphores = libc.msgget(0, 0o600), libc.semget(0, 1, 0o600)
    named = f"/gpusquad-test-{os.getpid()}".encode()
    begin = "import ctypes; libc = ctypes.CDLL(None); libc.sem_open.restype = ctypes.c_void_p\n"
    try:
        for call in (
            f"libc.msgrcv({messages}, ctypes.create_string_buffer(99), 10, 0, 0)",
            f"libc.semop({semaphores}, bytes([0, 0, 255, 255, 0, 0]), 1)",
            f"libc.sem_wait(ctypes.c_void_p(libc.sem_open({named!r}, {os.O_CREAT}, 0o600, 0)))",
        ):
            assert kind_of(start(begin + call), "outside") == "outside", call
    finally:
        libc.msgctl(messages, 0, None)
        libc.semctl(semaphores, 0, 0)
        libc.sem_unlink(named)


def test_unix_sockets_of_a_gang_may_be_for_its_other_tasks(start: Start):
    assert kind_of(start(f"{LISTEN}s.accept()"), "outside", is_gang=True) == "outside"


def test_service_tells_what_it_waits_for_besides_requests(start: Start):
    pid = start(f"{EXPORTER}a.acquire(); a.acquire()")
    assert kind_of(pid, "service") == "service"
    assert besides(pid, "stuck") == "stuck"
    assert besides(start(f"{EXPORTER}t.join()"), "stuck") == "stuck", "the same to the kernel: its output has to tell"
    assert besides(start(f"{EXPORTER}import time; time.sleep(3600)"), "sleeping") == "sleeping"


def test_service_that_somebody_uses_is_visited(start: Start):
    pid = start(f"{EXPORTER}print(s.server_port, flush=True); a.acquire(); a.acquire()", stdout=subprocess.PIPE)
    assert kind_of(pid, "service") == "service"
    port = int(OUTPUTS[pid].readline())
    assert not WaitReader().read(family(pid), is_gang=False).is_visited
    with socket.create_connection(("127.0.0.1", port)):
        assert besides(pid, "network") == "network"
        assert WaitReader().read(family(pid), is_gang=False).is_visited


def test_ranks_of_a_launcher_are_judged_and_not_the_launcher(start: Start, tmp_path: Path):
    launcher = tmp_path / "torchrun"
    launcher.write_text(
        "import subprocess, sys, time\n"
        f"rank = subprocess.Popen([sys.executable, '-c', {PROGRAMS['stuck']['lock']!r}])\n"
        "while rank.poll() is None: time.sleep(0.05)\n"
    )
    pid = start(f"import os, sys; os.execv(sys.executable, [sys.executable, {str(launcher)!r}])")
    assert kind_of(pid, "stuck") == "stuck"


def test_files_count_where_system_calls_are_hidden(start: Start, monkeypatch: pytest.MonkeyPatch):
    def hidden(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("gpusquad.agent.outside.read_call", hidden)
    monkeypatch.setattr("gpusquad.agent.wait_times.read_call", hidden)
    assert kind_of(start(PROGRAMS["stuck"]["socket pair with a worker"]), "stuck") == "stuck"
    for name in ("named pipe, opened", "named pipe, read", "named pipe, read by a worker"):
        assert kind_of(start(PROGRAMS["outside"][name]), "outside") == "outside", name
    assert kind_of(start(PROGRAMS["service"]["unix socket, by a worker"]), "service") == "service"
    assert kind_of(start("input()", stdin=subprocess.PIPE), "outside") == "outside"


def test_program_that_was_stopped_is_named(start: Start):
    pid = start(PROGRAMS["stopped"]["itself"])
    assert until(lambda: WaitReader().stopped(family(pid)), f"python (pid {pid})") == f"python (pid {pid})"


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
