"""Keeping an agent alive, with real processes: the agent itself and small impostors."""

import logging
import os
import queue
import select
import signal
import subprocess
import sys

import pytest

from gpusquad.agent.agent_process import AgentProcess, AgentTimeouts

QUICK = AgentTimeouts(first_restart_s=0.01, longest_restart_s=0.05, silence_s=60.0)

ECHO = """
import json, os, sys
cards = [{"id": "GPU-a"}, {"id": "GPU-b"}]
inventory = {"kind": "inventory", "simulated": False, "node": {"cards": cards}}
print(json.dumps({**inventory, "pid": os.getpid(), "arguments": sys.argv[1:]}), flush=True)
for line in sys.stdin:
    runs = json.loads(line)["runs"]
    print(json.dumps({"kind": "told", "pid": os.getpid(), "runs": runs}), flush=True)
"""


@pytest.fixture
def start():
    """Starts AgentProcess around a script; messages come out of its queue."""
    started = []

    def start(script=None, arguments=(), patience=QUICK, on_message=None):
        messages = queue.Queue()
        command = {} if script is None else {"command": (sys.executable, "-c", script)}
        agent = AgentProcess(on_message or messages.put, arguments, patience=patience, **command)
        agent.messages = messages
        started.append(agent)
        return agent

    yield start
    for agent in started:
        agent.close()


def hear(agent, kind, wanted=lambda message: True):
    while True:
        message = agent.messages.get(timeout=60)
        if message["kind"] == kind and wanted(message):
            return message


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_real_agent_reports_and_ends(start, tmp_path):
    agent = start(arguments=["--simulate", "1", "--every", "0.05", "--home", str(tmp_path)])
    assert hear(agent, "inventory")["node"]["cards"][0]["id"] == "SIM-0"
    agent.tell_runs([{"job": "J1", "attempt": 0, "folder": str(tmp_path), "cards": ["SIM-0"], "pids": []}])
    assert hear(agent, "samples", lambda m: m["runs"])["runs"][0]["job"] == "J1"
    agent.close()
    assert not agent._keeping.is_alive()
    assert not agent._telling.is_alive()


def test_killed_agent_is_replaced_and_receives_the_runs_again(start):
    agent = start(ECHO)
    first = hear(agent, "inventory")["pid"]
    agent.tell_runs([{"job": "J1"}])
    hear(agent, "told", lambda m: m["runs"])
    os.kill(first, signal.SIGKILL)
    again = hear(agent, "inventory")
    second = again["pid"]
    assert second != first
    assert again["arguments"][-2:] == ["--expect", "GPU-a,GPU-b"]  # so that it misses those it does not find
    assert hear(agent, "told", lambda m: m["pid"] == second)["runs"] == [{"job": "J1"}]


def test_runs_set_before_the_start_are_sent(start):
    agent = start(ECHO)
    agent.tell_runs([{"job": "J1"}])
    assert hear(agent, "told", lambda m: m["runs"])["runs"] == [{"job": "J1"}]


def test_closing_ends_the_agent(start):
    agent = start(ECHO)
    pid = hear(agent, "inventory")["pid"]
    agent.close()
    assert is_gone(pid)
    agent.close()
    agent.tell_runs([])


def test_lines_that_are_no_messages_are_logged_and_skipped(start, caplog):
    script = r"""
import sys
sys.stdout.buffer.write(b"hello\n\xff\xfe\n[]\n{}\n" + b"[" * 9999 + b'\n{"kind": "fine"}\n')
sys.stdout.flush()
sys.stdin.read()
"""
    with caplog.at_level(logging.WARNING):
        hear(start(script), "fine")
    assert sum("no message" in record.message for record in caplog.records) == 5


def test_a_listener_that_fails_is_called_again(start, caplog):
    messages = queue.Queue()

    def fail(message):
        messages.put(message)
        raise RuntimeError("not today")

    agent = start(ECHO, on_message=fail)
    assert messages.get(timeout=60)["kind"] == "inventory"
    agent.tell_runs([])
    assert messages.get(timeout=60)["kind"] == "told"


def test_an_agent_that_cannot_start_is_tried_again(start, tmp_path, caplog):
    flag = tmp_path / "ready"
    script = f"""
import os, sys
if not os.path.exists({str(flag)!r}):
    open({str(flag)!r}, "w").close()
    sys.exit(1)
print('{{"kind": "fine"}}', flush=True)
sys.stdin.read()
"""
    hear(start(script), "fine")


def test_missing_program_does_not_end_the_search():
    agent = AgentProcess(lambda message: None, [], command=["/no/such/program"], patience=QUICK)
    assert agent._keeping.is_alive()
    agent.close()
    assert not agent._keeping.is_alive()


def test_stuck_agent_is_replaced_without_blocking(start):
    """It neither speaks nor reads; what is told it does not fit into the pipe."""
    script = """
import os, signal
print('{"kind": "here", "pid": %d}' % os.getpid(), flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: signal.pause()
"""
    agent = start(
        script, patience=AgentTimeouts(first_restart_s=0.01, longest_restart_s=0.05, silence_s=0.3, close_s=0.3)
    )
    first = hear(agent, "here")["pid"]
    agent.tell_runs([{"job": "J" * 1000} for _ in range(1000)])
    assert hear(agent, "here")["pid"] != first
    assert is_gone(first)
    agent.close()
    assert not agent._keeping.is_alive()


def test_an_agent_closed_by_its_own_message_ends(start):
    closed = queue.Queue()
    agent = start(ECHO, on_message=lambda message: (agent.close(), closed.put(message)))
    closed.get(timeout=60)
    agent._keeping.join(60)
    assert not agent._keeping.is_alive()


def test_the_agent_dies_with_a_killed_server(tmp_path):
    """Also one that does not notice the end of its input; the kernel sees to that."""
    server = f"""
import sys, time
from gpusquad.agent.agent_process import AgentProcess
arguments = ["--simulate", "1", "--home", {str(tmp_path)!r}]
agent = AgentProcess(lambda message: print(agent._agent.pid, flush=True), arguments)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        watched = os.pidfd_open(pid)
        os.kill(pid, signal.SIGSTOP)  # it can no longer read
        process.kill()
    ready, _, _ = select.select([watched], [], [], 60)
    os.close(watched)
    assert ready
