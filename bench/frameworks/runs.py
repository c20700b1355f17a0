"""Runs all cases in one service and judges what came of each."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from bench.frameworks.cases import Case, job_of
from bench.running import FINAL, RunningService
from gpusquad.agent.tracker import Tracker
from gpusquad.client.errors import ApiError

TAIL_LINES = 25
_POLL_S = 0.5
MISSING, _NOT_RUN = "missing", "not run"


@dataclass
class Outcome:
    """What came of one case."""

    case: Case
    state: str = _NOT_RUN
    problem: str = _NOT_RUN
    """Empty: as expected."""
    job_id: str = ""
    took_s: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list)
    progress: str = ""
    """The last that gpusquad read in the log of task 0."""
    tails: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        case = self.case
        return {
            "framework": case.framework, "case": case.name, "command": list(case.command), "count": case.count,
            "on": case.on, "world": case.world, "state": self.state, "problem": self.problem,
            "took_s": round(self.took_s, 1), "results": self.results, "progress": self.progress, "tails": self.tails,
        }  # fmt: skip


def versions(python: str) -> dict[str, str]:
    """Of the packages in the programs' environment. Missing ones are absent."""
    names = ["torch", "lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "jax", "tensorflow"]
    program = (
        "import importlib.metadata as m, importlib.util as u, json, sys\n"
        "found = {'python': sys.version.split()[0]}\n"
        f"for name in {names!r}:\n"
        "    if u.find_spec(name):\n"
        "        try: found[name] = m.version(name)\n"
        "        except m.PackageNotFoundError: found[name] = 'unknown'\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def run_all(
    service: RunningService,
    outcomes: list[Outcome],
    known: dict[str, str],
    python: str,
    limit_s: float,
    deadline: float,
) -> None:
    """Fills in the outcomes. All jobs are submitted at once, and the scheduler decides their order."""
    waiting = []
    for outcome in outcomes:
        missing = [need for need in outcome.case.needs if not any(name in known for name in need.split("|"))]
        if missing:
            outcome.state, outcome.problem = MISSING, f"not installed: {', '.join(missing)}"
            continue
        try:
            outcome.job_id = service.submit(**job_of(outcome.case, python, limit_s))
            waiting.append(outcome)
        except ApiError as error:
            outcome.problem = f"refused: {error}"
    while waiting and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        waiting = [outcome for outcome in waiting if not _ended(service, outcome)]
    for outcome in waiting:
        _give_up(service, outcome)


def _ended(service: RunningService, outcome: Outcome) -> bool:
    try:
        job = service.client.jobs.get(outcome.job_id)
        if job["state"] not in FINAL:
            return False
        outcome.state = job["state"]
        _read(service, outcome)
    except (ApiError, OSError) as error:  # one missing answer must not cost the results of the others
        print(f"{outcome.case.framework}, {outcome.case.name}: {error}", flush=True)
        return False
    outcome.problem = _problem(outcome, job.get("cause") or "")
    print(f"{outcome.case.framework}, {outcome.case.name}: {outcome.problem or 'ok'}", flush=True)
    return True


def _give_up(service: RunningService, outcome: Outcome) -> None:
    try:
        outcome.state = service.client.jobs.get(outcome.job_id)["state"]
        outcome.problem = "the bench ran out of time"
        _read(service, outcome)
        service.client.jobs.cancel(outcome.job_id)
    except (ApiError, OSError) as error:
        outcome.problem += f"; {error}"


def _read(service: RunningService, outcome: Outcome) -> None:
    texts = []
    for task in range(outcome.case.count):
        try:
            texts.append(service.text(outcome.job_id, task))
        except ApiError:
            texts.append("")
    outcome.tails = ["\n".join(text.replace("\r", "\n").splitlines()[-TAIL_LINES:]) for text in texts]
    outcome.results = [found for text in texts for found in _results(text)]
    job = service.client.jobs.get(outcome.job_id)
    if job["started_s"] and job["ended_s"]:
        outcome.took_s = job["ended_s"] - job["started_s"]
    tracker = Tracker()
    tracker.feed(texts[0].encode(), 0)
    tracker.settle(0)
    if tracker.progress is not None:
        outcome.progress = f"{tracker.progress.step}/{tracker.progress.total or '?'}"


def _results(text: str) -> list[dict[str, Any]]:
    """Two processes of a launcher may write into one line."""
    decoder, found = json.JSONDecoder(), []
    for part in text.split("RESULT ")[1:]:
        try:
            found.append(decoder.raw_decode(part)[0])
        except ValueError:
            continue
    return found


def _problem(outcome: Outcome, cause: str) -> str:
    case, results = outcome.case, outcome.results
    if outcome.state != "succeeded":
        return f"{outcome.state}: {cause}"
    worlds = {result["world"] for result in results}
    if worlds != {case.world}:
        return f"world size {sorted(worlds)}, expected {case.world}"
    if sorted(result["rank"] for result in results) != list(range(case.world)):
        return f"ranks {sorted(result['rank'] for result in results)}"
    weights = [result["weights"] for result in results]
    if max(weights) - min(weights) > 1e-3 * abs(max(weights)):
        return f"the processes trained different models: {weights}"
    return ""
