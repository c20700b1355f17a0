"""``python -m bench.frameworks --out FOLDER``: unchanged programs of PyTorch, Lightning, accelerate, Hugging Face,
DeepSpeed and JAX as jobs of a real service with default settings. README.md says how to run it with a card.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.frameworks.cases import CASES
from bench.frameworks.runs import MISSING, Outcome, run_all, versions
from bench.running import RunningService
from bench.scoreboard import machine


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every program that could run did as expected."""
    options = _parser().parse_args(arguments)
    deadline = time.monotonic() + options.minutes * 60
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service and its jobs end
    known = versions(options.python)
    outcomes = [Outcome(case) for case in CASES if options.only in case.framework.lower()]
    models: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = _python_path(Path(options.wheels) if options.wheels else None, Path(folder) / "site")
        simulate = ["--simulate", str(options.simulate)] if options.simulate else []
        service = RunningService(Path(folder) / "home", *simulate).start(environment={"PYTHONPATH": path})
        if not service.is_up:
            print(f"the service did not start:\n{service.log()}", file=sys.stderr)
            return 2
        try:
            models |= {card["model"] for node in service.client.cluster.nodes() for card in node["cards"]}
            run_all(service, outcomes, known, options.python, options.limit, deadline)
        finally:  # also after a signal: what was found so far
            _write(Path(options.out), outcomes, known, models, service.log())
            service.end()
    return 0 if all(not one.problem or one.state == MISSING for one in outcomes) else 1


def _write(out: Path, outcomes: Sequence[Outcome], known: dict[str, str], models: set[str], log: str) -> None:
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "cards": sorted(models),
        "versions": known, "cases": [outcome.as_dict() for outcome in outcomes],
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "frameworks.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (out / "server.log").write_text(log, encoding="utf-8")
    table = markdown(found, outcomes)
    (out / "frameworks.md").write_text(table, encoding="utf-8")
    print(table, flush=True)


def markdown(found: dict, outcomes: Sequence[Outcome]) -> str:
    """The table, and the end of the log of every case that failed."""
    cards = ", ".join(found["cards"]) or "no cards"
    lines = [
        f"{found['at']}, {cards}; " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        "",
        "| framework | job | tasks | processes | device | s | progress read | result |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        devices = ", ".join(sorted({result["device"] for result in one.results}))
        shown = one.problem.partition("\n")[0][:200].replace("|", "\\|") or "ok"
        lines.append(
            f"| {one.case.framework} | {one.case.name} | {one.case.count} | {len(one.results)} | {devices} | "
            f"{one.took_s:.1f} | {one.progress} | {shown} |"
        )
    for one in outcomes:
        if one.problem and one.tails:
            lines += ["", f"## {one.case.framework}, {one.case.name}: {one.problem}"]
            lines += [f"\n```text\n{tail}\n```" for tail in one.tails]
    return "\n".join(lines) + "\n"


def _python_path(wheels: Path | None, site: Path) -> str:
    """For the service only: jobs do not inherit it. A wheel of a package without scripts is complete once unpacked."""
    parts = ["src", "."]
    if wheels is not None:
        found = sorted(wheels.glob("*.whl"))
        if not found:
            sys.exit(f"--wheels: no wheel in {wheels}")
        for wheel in found:
            with zipfile.ZipFile(wheel) as file:
                file.extractall(site)
        parts.append(str(site))
    return os.pathsep.join([*(os.path.abspath(part) for part in parts[:2]), *parts[2:]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.frameworks", description=__doc__)
    parser.add_argument("--out", required=True, help="folder for frameworks.json and frameworks.md")
    parser.add_argument("--minutes", type=float, default=7.0, help="time for all programs (default 7)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each program (default 120)")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs (default: this one)")
    parser.add_argument("--wheels", default="", help="folder of wheels that the service needs and this Python lacks")
    parser.add_argument("--simulate", type=int, default=0, help="this many simulated cards; programs run on the CPU")
    parser.add_argument("--only", default="", help="only frameworks with this in their name, in lower case")
    return parser


if __name__ == "__main__":
    sys.exit(main())
