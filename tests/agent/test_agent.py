"""Tests of the agent as a separate process, with simulated cards."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from gpusquad.agent.simulated import FAULTS_FILE

BUSY = "while True: pass"


class AgentSession:
    """An agent process, with the server's end of its pipes."""

    def __init__(self, *arguments, home, parent=None):
        command = [sys.executable, "-P", "-m", "gpusquad.agent", "--every", "0.05", "--home", str(home), *arguments]
        self.process = subprocess.Popen(
            command + ([] if parent is None else ["--parent", str(parent)]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def send(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        return json.loads(line)

    def receive_until(self, wanted):
        while True:
            message = self.receive()
            if wanted(message):
                return message

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(ValueError):  # already closed
            self.process.stdout.read()
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def agent(tmp_path):
    session = AgentSession("--simulate", "2", "--recover-after", "0.1", home=tmp_path)
    yield session
    session.process.kill()
    session.end()


@pytest.fixture
def job(tmp_path):
    """A busy process of attempt 4 of job J1, with its folder."""
    folder = tmp_path / "runs" / "J1" / "4"
    (folder / "logs").mkdir(parents=True)
    (folder / "progress").mkdir()
    environment = {**os.environ, "GPUSQUAD_JOB": "J1", "GPUSQUAD_ATTEMPT": "4", "GPUSQUAD_CARDS": "SIM-1"}
    process = subprocess.Popen([sys.executable, "-c", BUSY], env=environment)
    yield {"job": "J1", "attempt": 4, "folder": str(folder), "cards": ["SIM-1"], "pids": [process.pid]}
    process.kill()
    process.wait()


def test_agent_reports_the_inventory_and_ends_with_its_input(agent):
    first = agent.receive()
    assert (first["kind"], first["simulated"]) == ("inventory", True)
    assert [card["id"] for card in first["node"]["cards"]] == ["SIM-0", "SIM-1"]
    assert first["node"]["cpu_milli"] > 0
    assert agent.receive()["kind"] == "samples"
    assert agent.end() == 0


def test_agent_samples_a_run(agent, job, tmp_path):
    agent.send({"runs": [job]})
    busy = agent.receive_until(lambda m: m["kind"] == "samples" and m["cards"][1]["utilisation_ratio"])
    (process,) = busy["cards"][1]["processes"]
    assert (process["pid"], process["job"], process["attempt"]) == (job["pids"][0], "J1", 4)
    assert busy["cards"][1]["memory_used_bytes"] > 0
    assert busy["cards"][0]["utilisation_ratio"] == 0
    (run,) = busy["runs"]
    assert (run["job"], run["attempt"], run["step"], run["log_bytes"]) == ("J1", 4, None, 0)
    assert run["cpu_ratio"] > 0
    assert run["gpu_ratio"] > 0

    log = tmp_path / "runs" / "J1" / "4" / "logs" / f"0.{0:020d}.log"
    log.write_bytes(b"\xff step 45/100\n")
    sample = agent.receive_until(lambda m: m["kind"] == "samples" and m["runs"][0]["step"] is not None)["runs"][0]
    assert (sample["step"], sample["total"], sample["log_bytes"]) == (45, 100, len(log.read_bytes()))
    assert sample["last_output_us"] == log.stat().st_mtime_ns // 1000

    agent.send({"runs": []})
    assert agent.receive_until(lambda m: m["kind"] == "samples" and not m["runs"])["cards"][1]["processes"] == []


def test_card_fails_and_recovers_when_the_fault_file_changes(agent, tmp_path):
    agent.receive_until(lambda m: m["kind"] == "card_ok" and m["card"] == "SIM-0")
    (tmp_path / FAULTS_FILE).write_text('{"SIM-0": "Xid 79"}')
    fault = agent.receive_until(lambda m: m["kind"] == "card_fault")
    assert (fault["card"], fault["cause"]) == ("SIM-0", "Xid 79")
    (tmp_path / FAULTS_FILE).unlink()
    assert agent.receive_until(lambda m: m["kind"] == "card_ok")["card"] == "SIM-0"


@pytest.mark.parametrize(
    "line", [b"\n", b"{\n", b"[]\n", b'{"runs": 5}\n', b'{"runs": [{}]}\n', b"\xff\xfe\n", b"[" * 9999 + b"\n"]
)
def test_invalid_input_lines_are_ignored(agent, job, line):
    agent.send(line)
    agent.send({"runs": [job]})
    agent.receive_until(lambda m: m["kind"] == "samples" and m["runs"])


def test_sampler_handles_a_run_whose_folder_and_processes_are_gone(agent):
    agent.send({"runs": [{"job": "J9", "attempt": 0, "folder": "/no/such", "cards": ["SIM-7"], "pids": [2**22 + 5]}]})
    message = agent.receive_until(lambda m: m["kind"] == "samples" and m["runs"])
    assert message["runs"][0]["rss_bytes"] == 0


def test_agent_ignores_sigint(agent):
    agent.receive()
    agent.process.send_signal(signal.SIGINT)
    agent.receive_until(lambda m: m["kind"] == "samples")
    assert agent.end() == 0


def test_agent_ends_when_its_output_is_closed(agent):
    agent.receive()
    agent.process.stdout.close()
    assert agent.process.wait(timeout=60) == 0


def test_agent_exits_at_once_when_its_parent_is_dead(tmp_path):
    orphan = AgentSession("--simulate", "1", home=tmp_path, parent=2**22 + 5)
    assert orphan.process.stdout.read() == b""
    assert orphan.end() == 0


def test_wrong_number_of_cards_is_rejected_with_a_message(tmp_path):
    wrong = AgentSession("--simulate", "-1", home=tmp_path)
    assert b"not a number of cards" in wrong.process.stderr.read()
    assert wrong.end() == 2
