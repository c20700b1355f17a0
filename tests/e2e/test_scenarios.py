"""Tests of user scenarios on one machine: a real service, real processes and simulated cards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.running import PATIENCE_S, RunningService
from gpusquad.client.errors import ApiError

pytestmark = pytest.mark.slow
HANG_CONFIG = "[hang]\nsilent_s = 2\nstop_after_s = 1\n[cluster]\nsample_every_s = 0.2\n"


def test_job_runs_and_its_log_is_kept(service: RunningService) -> None:
    job_id = service.submit(name="hello", gpus=2, command="echo hello; echo cards=$GPUSQUAD_CARDS")
    job = service.wait(job_id)
    assert job["state"] == "succeeded"
    cards = job["placement"][0]["cards"]
    assert len(cards) == 2
    assert service.text(job_id) == f"hello\ncards={','.join(cards)}\n"
    assert service.kinds(job_id) == ["pending", "starting", "running", "succeeded"]


def test_gang_starts_together_and_ends_when_one_task_fails(service: RunningService) -> None:
    """The job's result has the failed task and its exit code."""
    command = """
echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"
if [ "$RANK" = 2 ]; then
  while [ $(cat "$GPUSQUAD_CHECKPOINT_DIR"/here.* 2>/dev/null | wc -l) -lt 3 ]; do sleep 0.05; done
  exit 7
fi
echo here > "$GPUSQUAD_CHECKPOINT_DIR/here.$RANK"
sleep 600
"""
    job_id = service.submit(name="gang", count=4, command=command)
    job = service.wait(job_id)
    assert (job["state"], job["result"]["task"], job["result"]["exit_code"]) == ("failed", 2, 7)
    assert "2" in job["cause"]
    assert len({task["cards"][0] for task in job["placement"]}) == 4
    ports = {service.text(job_id, rank).split(":")[-1] for rank in range(4)}
    assert len(ports) == 1
    assert [service.text(job_id, rank).split()[1] for rank in range(4)] == ["0", "1", "2", "3"]


def test_elastic_job_of_one_task_gets_the_environment_of_a_gang(service: RunningService) -> None:
    """Its program is written for a gang, so it expects a rank. The program of a single task must not find one."""
    command = 'echo "rank=$RANK of=$WORLD_SIZE"'
    holder = service.submit(name="holds", gpus=7, command="while [ ! -e go ]; do sleep 0.05; done")
    service.wait(holder, "running")
    elastic = service.submit(name="elastic", min=1, count=2, max=2, command=command)
    assert service.wait(elastic)["state"] == "succeeded"
    assert service.text(elastic) == "rank=0 of=1\n"
    single = service.submit(name="single", command=command)
    assert service.wait(single)["state"] == "succeeded"
    assert service.text(single) == "rank= of=\n"
    (service.home / "go").touch()


def test_gang_starts_no_task_when_one_command_does_not_exist(service: RunningService) -> None:
    roles = [
        {"name": "good", "gpus": 1, "command": "touch ran"},
        {"name": "bad", "gpus": 1, "command": ["/no/such/program"]},
    ]
    job_id = service.client.jobs.submit({"roles": roles, "workdir": str(service.home)})["jobs"][0]["id"]
    job = service.wait(job_id)
    assert job["state"] == "failed"
    assert "/no/such/program" in job["cause"]
    assert not (service.home / "ran").exists()


def test_sweep_runs_all_its_jobs(service: RunningService) -> None:
    answer = service.client.jobs.submit({
        "name": "lr${lr}-s${seed}", "gpus": 1, "sweep": {"lr": [0.1, 0.2, 0.3, 0.4], "seed": [1, 2, 3, 4, 5]},
        "command": "echo ${lr} ${seed} ${sweep.index}", "workdir": str(service.home),
    })  # fmt: skip
    ids = [job["id"] for job in answer["jobs"]]
    assert len(set(ids)) == 20
    assert {service.wait(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert service.text(ids[-1]) == "0.4 5 19\n"
    usage = service.client.cluster.usage("tenant")
    assert usage[0]["jobs"] == 20


def test_hung_job_is_reported_and_stopped(make_service) -> None:
    service = make_service(config=HANG_CONFIG)
    code = "import threading; lock = threading.Lock(); lock.acquire(); print('working', flush=True); lock.acquire()"
    job_id = service.submit(name="hangs", command=[sys.executable, "-c", code])
    job = service.wait(job_id)
    assert job["state"] == "failed"
    assert "silent" in job["cause"]
    assert "waits for a lock" in job["cause"]
    events = service.kinds(job_id)
    assert events.index("hung") < events.index("stopping") < events.index("failed")
    stop = next(event for event in service.client.jobs.story(job_id) if (event["data"] or {}).get("action") == "stop")
    assert any("Thread" in line for line in stop["data"]["private"]), "the stack of each thread"


def test_preempted_job_continues_from_its_checkpoint(service: RunningService, repository: Path) -> None:
    service.client.policy.set({"preemption": {"by": "priority", "min_run_s": 0}})
    script = str(repository / "examples" / "checkpoint.py")
    low = service.submit(
        name="low", gpus=4, priority="low", estimate=60, checkpoint={"every": 1, "grace": 60},
        command=[sys.executable, script, "300", "0.05"],
    )  # fmt: skip
    service.wait(low, "running")
    progress = service.home / "runs" / low / "0" / "progress" / "0"
    deadline = time.monotonic() + PATIENCE_S
    while not progress.exists():  # the service reports no event for a step
        assert time.monotonic() < deadline
        time.sleep(0.02)
    high = service.submit(name="high", gpus=8, priority="high", estimate=5, command="echo now")
    assert service.wait(high)["state"] == "succeeded"
    job = service.wait(low)
    assert (job["state"], job["attempt"], job["preemptions"]) == ("succeeded", 1, 1)
    causes = {event["kind"]: event["cause"] for event in service.client.jobs.story(low)}
    assert "high" in causes["preempting"]
    first, second = (service.text(low, attempt=attempt).splitlines() for attempt in (0, 1))
    steps_done = int(first[-1].split()[3])
    assert 0 < steps_done < 300
    assert second == [f"begins at step {steps_done}", "ends at step 300 of 300"]


def test_jobs_continue_while_the_service_is_killed_and_are_adopted(make_service) -> None:
    service = make_service()
    running = service.submit(name="runs", command="echo before; while [ ! -e go ]; do sleep 0.05; done; echo after")
    pending = service.submit(name="waits", gpus=8, command="echo then")
    service.wait(running, "running")
    service.kill()
    (service.home / "go").touch()
    service.start().checked()
    assert service.wait(running)["state"] == "succeeded"
    assert service.text(running) == "before\nafter\n"
    assert service.wait(pending)["state"] == "succeeded"
    assert [service.client.jobs.get(job)["attempt"] for job in (running, pending)] == [0, 0]


def test_job_that_ended_while_the_service_was_down_has_its_actual_end_time(make_service) -> None:
    service = make_service()
    job_id = service.submit(command="while [ ! -e go ]; do sleep 0.05; done; touch gone")
    service.wait(job_id, "running")
    service.kill()
    (service.home / "go").touch()
    deadline = time.monotonic() + PATIENCE_S
    while not (service.home / "gone").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    ended_s = time.time()
    time.sleep(2.0)  # the service stays down
    service.start().checked()
    job = service.wait(job_id)
    assert job["state"] == "succeeded"
    assert job["ended_s"] < ended_s + 1.5


def test_killed_task_ends_its_gang_and_killed_agent_is_restarted(service: RunningService) -> None:
    job_id = service.submit(command="echo $$; sleep 600", count=2)
    service.wait(job_id, "running")
    pid = 0
    for event in service.client.logs.stream(job_id, task=0):
        pid = int(getattr(event, "text", "0"))
        break
    os.kill(pid, signal.SIGKILL)
    job = service.wait(job_id)
    assert (job["state"], job["result"]["signal"]) == ("failed", int(signal.SIGKILL))
    assert service.process is not None
    agent = subprocess.run(["pgrep", "-P", str(service.process.pid), "-f", "gpusquad.agent"], capture_output=True,
                           text=True, check=True).stdout.split()  # fmt: skip
    os.kill(int(agent[0]), signal.SIGKILL)
    assert service.wait(service.submit(command="true"))["state"] == "succeeded"


def test_broken_card_is_cordoned_and_its_job_moves_to_another_card(make_service) -> None:
    service = make_service(config="[cluster]\nsample_every_s = 0.2\n")
    job_id = service.submit(name="moves", command="while [ ! -e go ]; do sleep 0.05; done")
    card = service.wait(job_id, "running")["placement"][0]["cards"][0]
    (service.home / "sim-faults.json").write_text(json.dumps({card: "Xid 79, fallen off the bus"}))
    while "requeued" not in service.kinds(job_id):
        service.wait(job_id, "lost", "pending", "starting", "running")
    (service.home / "go").touch()
    job = service.wait(job_id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert job["placement"][0]["cards"] != [card]
    states = {c["id"]: c["state"] for node in service.client.cluster.nodes() for c in node["cards"]}
    assert states[card] == "cordoned"


def test_infeasible_job_is_refused_with_the_limit(service: RunningService) -> None:
    with pytest.raises(ApiError) as refused:
        service.submit(gpus=9, command="true")
    assert refused.value.code == "never_fits"
    assert "8" in refused.value.message


def test_log_of_a_job_is_limited_to_its_newest_lines(make_service) -> None:
    service = make_service(config="[logs]\ntask_bytes = 1000000\n")
    job_id = service.submit(command=[sys.executable, "-c", "for i in range(1_000_000): print(f'line {i:09}')"])
    assert service.wait(job_id)["state"] == "succeeded"
    log_bytes = sum(path.stat().st_size for path in (service.home / "runs" / job_id / "0" / "logs").iterdir())
    assert log_bytes < 3_000_000
    tail = service.client.logs.read(job_id, task=0, tail=1)
    assert tail.text == "line 000999999\n"


def test_secret_is_visible_only_to_the_task(service: RunningService) -> None:
    service.client.secrets.set("KEY", "hunter2-hunter2")
    job_id = service.submit(name="secretive", secrets=["KEY"], command='[ "$KEY" = hunter2-hunter2 ] && echo yes')
    assert service.wait(job_id)["state"] == "succeeded"
    assert service.text(job_id) == "yes\n"
    found = subprocess.run(["grep", "-rl", "hunter2", str(service.home)], capture_output=True, text=True, check=False)
    assert [Path(line).parent.parent.name for line in found.stdout.split()] == ["secrets"]


def test_commands_work_with_a_running_service(service: RunningService) -> None:
    def gpusquad(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "gpusquad", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE_S, cwd=service.home, check=False,
                              env=os.environ | {"GPUSQUAD_HOME": str(service.home)})  # fmt: skip

    submitted = gpusquad("submit", "--gpus", "2", "--name", "vgg", "--wait", "--", "sh", "-c", "echo trained")
    assert submitted.returncode == 0, submitted.stderr
    assert gpusquad("submit", "--gpus", "1", "--wait", "--", "false").returncode == 1
    assert gpusquad("submit", "--gpus", "99", "--", "true").returncode == 6
    (job,) = json.loads(gpusquad("history", "--state", "succeeded", "--json").stdout)["items"]
    assert gpusquad("logs", job["id"]).stdout == "trained\n"
    for arguments in (["queue"], ["top", "--once"], ["nodes"], ["usage"], ["policy", "show"], ["status"],
                  ["story", job["id"]], ["history"]):  # fmt: skip
        completed = gpusquad(*arguments)
        assert completed.returncode == 0, completed.stderr
        assert json.loads(gpusquad(*arguments, "--json").stdout)
