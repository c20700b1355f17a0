"""Tests of supervising an agent process, with the real agent and with small scripts."""

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
    """Start an AgentProcess around a script; its messages go to ``agent.messages``."""
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


def receive(agent, kind, wanted=lambda message: True):
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


def test_agent_reports_and_ends_when_closed(start, tmp_path):
    agent = start(arguments=["--simulate", "1", "--every", "0.05", "--home", str(tmp_path)])
    assert receive(agent, "inventory")["node"]["cards"][0]["id"] == "SIM-0"
    agent.tell_runs([{"job": "J1", "attempt": 0, "folder": str(tmp_path), "cards": ["SIM-0"], "pids": []}])
    assert receive(agent, "samples", lambda m: m["runs"])["runs"][0]["job"] == "J1"
    agent.close()
    assert not agent._keeping.is_alive()
    assert not agent._telling.is_alive()


def test_killed_agent_is_replaced_and_receives_the_runs_again(start):
    agent = start(ECHO)
    first = receive(agent, "inventory")["pid"]
    agent.tell_runs([{"job": "J1"}])
    receive(agent, "told", lambda m: m["runs"])
    os.kill(first, signal.SIGKILL)
    again = receive(agent, "inventory")
    second = again["pid"]
    assert second != first
    # With --expect, the new agent reports cards that it does not find as missing.
    assert again["arguments"][-2:] == ["--expect", "GPU-a,GPU-b"]
    assert receive(agent, "told", lambda m: m["pid"] == second)["runs"] == [{"job": "J1"}]


def test_runs_set_before_the_start_are_sent(start):
    agent = start(ECHO)
    agent.tell_runs([{"job": "J1"}])
    assert receive(agent, "told", lambda m: m["runs"])["runs"] == [{"job": "J1"}]


def test_close_ends_the_agent_and_can_be_repeated(start):
    agent = start(ECHO)
    pid = receive(agent, "inventory")["pid"]
    agent.close()
    assert is_gone(pid)
    agent.close()
    agent.tell_runs([])


def test_invalid_output_lines_are_logged_and_skipped(start, caplog):
    script = r"""
import sys
sys.stdout.buffer.write(b"hello\n\xff\xfe\n[]\n{}\n" + b"[" * 9999 + b'\n{"kind": "fine"}\n')
sys.stdout.flush()
sys.stdin.read()
"""
    with caplog.at_level(logging.WARNING):
        receive(start(script), "fine")
    assert sum("no message" in record.message for record in caplog.records) == 5


def test_message_callback_is_called_again_after_it_failed(start, caplog):
    messages = queue.Queue()

    def fail(message):
        messages.put(message)
        raise RuntimeError("not today")

    agent = start(ECHO, on_message=fail)
    assert messages.get(timeout=60)["kind"] == "inventory"
    agent.tell_runs([])
    assert messages.get(timeout=60)["kind"] == "told"


def test_agent_is_restarted_when_it_exits_at_start(start, tmp_path, caplog):
    flag = tmp_path / "ready"
    script = f"""
import os, sys
if not os.path.exists({str(flag)!r}):
    open({str(flag)!r}, "w").close()
    sys.exit(1)
print('{{"kind": "fine"}}', flush=True)
sys.stdin.read()
"""
    receive(start(script), "fine")


def test_missing_program_does_not_end_the_restart_thread():
    agent = AgentProcess(lambda message: None, [], command=["/no/such/program"], patience=QUICK)
    assert agent._keeping.is_alive()
    agent.close()
    assert not agent._keeping.is_alive()


def test_stuck_agent_is_replaced_without_blocking(start):
    """The agent neither writes nor reads, and the runs sent to it do not fit into the pipe."""
    script = """
import os, signal
print('{"kind": "here", "pid": %d}' % os.getpid(), flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: signal.pause()
"""
    agent = start(
        script, patience=AgentTimeouts(first_restart_s=0.01, longest_restart_s=0.05, silence_s=0.3, close_s=0.3)
    )
    first = receive(agent, "here")["pid"]
    agent.tell_runs([{"job": "J" * 1000} for _ in range(1000)])
    assert receive(agent, "here")["pid"] != first
    assert is_gone(first)
    agent.close()
    assert not agent._keeping.is_alive()


def test_agent_can_be_closed_from_its_message_callback(start):
    closed = queue.Queue()
    agent = start(ECHO, on_message=lambda message: (agent.close(), closed.put(message)))
    closed.get(timeout=60)
    agent._keeping.join(60)
    assert not agent._keeping.is_alive()


def test_agent_is_killed_with_its_server(tmp_path):
    """A stopped agent cannot see the end of its input; the kernel kills it with its parent."""
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
