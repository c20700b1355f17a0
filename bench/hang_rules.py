"""Which real programs are stopped by default, by which rule, after how long? And is a healthy one?

Starts a service with default settings and 26 simulated cards, and runs the 24 programs of ``bench.hangs`` at once for
up to 18 minutes. Programs that use the card itself are in ``bench.hangs.card``, which needs a GPU.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.claims import claim
from bench.hangs.programs import HEALTHY, MISBEHAVING, PRELUDE, Program
from bench.running import FINAL, RunningService

NAME = "hang_rules"
SUMMARY = "programs that loop or hang are stopped by default, and none that only looks like it"

MINUTES = 18.0
MOST_S = 15 * 60.0
MARGIN_S = 45.0
"""A rule counts from the last sign of life, which a program gives a little after its start."""


def run(minutes: float = MINUTES, speed: float = 1.0, config: str = "") -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        verdicts = play(Path(folder), minutes * 60, speed, config)
    return claims_of(verdicts, MOST_S / speed + MARGIN_S)


def play(folder: Path, seconds: float, speed: float, config: str,
         programs: tuple[Program, ...] = MISBEHAVING + HEALTHY, *options: str) -> list[dict[str, Any]]:  # fmt: skip
    """Run the programs and tell how each one ended."""
    with socket.create_server(("127.0.0.1", 0)) as slow:
        threading.Thread(target=_serve_slowly, args=(slow,), daemon=True).start()
        service = RunningService(folder / "home", "--simulate", "26", *options, config=config).start().checked()
        try:
            environment = {"SPEED": str(speed), "SLOW_PORT": str(slow.getsockname()[1])}
            jobs = {program.name: _submit(service, program, environment) for program in programs}
            end = time.monotonic() + seconds
            while time.monotonic() < end and not _all_decided(service, programs, jobs):
                time.sleep(1)
            return [_verdict(service, program, jobs[program.name]) for program in programs]
        finally:
            service.end()


def _submit(service: RunningService, program: Program, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", PRELUDE + program.code]
    return service.submit(name=program.name, command=command, env=environment, **program.job)


def _all_decided(service: RunningService, programs: tuple[Program, ...], jobs: dict[str, str]) -> bool:
    """Healthy programs run to the end of the time, or to their own."""
    states = [service.client.jobs.get(jobs[program.name])["state"] for program in programs]
    return all(state in FINAL for state in states)


def _verdict(service: RunningService, program: Program, job_id: str) -> dict[str, Any]:
    job, story = service.client.jobs.get(job_id), service.client.jobs.story(job_id)
    began_s = next((event["at_s"] for event in story if event["kind"] == "running"), None)
    hung = [event for event in story if event["kind"] == "hung"]
    stops = [event for event in hung if event["data"].get("action") == "stop"]
    ended_s = story[-1]["at_s"] if job["state"] in FINAL else None
    return {
        "program": program.name, "state": job["state"], "cause": job["cause"],
        "rule": stops[0]["data"]["rule"] if stops else None,
        "warned": sorted({event["data"]["rule"] for event in hung}),
        "evidence": (stops or hung or [{}])[0].get("cause", ""),
        "lines": len((stops or [{"data": {}}])[0]["data"].get("private", ())),
        "stopped_after_s": None if not stops or began_s is None else round(stops[0]["at_s"] - began_s),
        "ended_after_s": None if ended_s is None or began_s is None else round(ended_s - began_s),
        "right": _is_right(program, job["state"], stops[0]["data"]["rule"] if stops else None),
    }  # fmt: skip


def _is_right(program: Program, state: str, rule: str | None) -> bool:
    if program.ends is not None:
        return state == program.ends and rule is None
    return rule == program.rule and (rule is not None or state not in ("failed", "cancelled"))


def claims_of(verdicts: list[dict[str, Any]], most_s: float) -> list[dict]:
    for one in verdicts:
        print(f"{one['program']:22} {one['state']:10} {one['rule'] or '-':9} {one['stopped_after_s'] or '-'!s:>6} s "
              f"warned: {', '.join(one['warned']) or '-':18} {one['evidence'][:110]}", file=sys.stderr)  # fmt: skip
    bad, healthy = {p.name for p in MISBEHAVING}, {p.name for p in HEALTHY}
    wrong_bad = sum(not one["right"] for one in verdicts if one["program"] in bad)
    wrong_healthy = sum(not one["right"] for one in verdicts if one["program"] in healthy)
    slowest = max((one["stopped_after_s"] or 0 for one in verdicts), default=0)
    return [
        claim("misbehaving programs of 12 that were not dealt with as they should be", wrong_bad, "", "lower", bar=0),
        claim("healthy programs of 12 that were stopped", wrong_healthy, "", "lower", bar=0, baseline=0),
        claim("longest time until a program was stopped", slowest, "s", "lower", bar=most_s),
    ]


def _serve_slowly(server: socket.socket) -> None:
    """A little data every twenty seconds."""
    try:
        connection, _ = server.accept()
        with connection:
            while True:
                connection.sendall(b"x" * 100)
                time.sleep(20)
    except OSError:
        return
