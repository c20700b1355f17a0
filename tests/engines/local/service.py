"""A service in little, for tests that kill it: launches the gangs it is given, and says so before each.

service.py HOME: reads one JSON object a line ({"job", "attempt", "commands"}) and writes "JOB ATTEMPT" a line, as a
store would commit before the engine is told. Every report follows as a line that begins with an asterisk.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gpusquad.core.ports import Report
from gpusquad.engines.local.engine import LocalEngine
from tests.engines.harness import launch


def main(home: Path) -> None:
    def say(text: str) -> None:
        os.write(1, f"{text}\n".encode())

    def on_report(report: Report) -> None:
        say(f"* {type(report).__name__} {report.job_id} {report.attempt}")

    engine = LocalEngine(home, on_report)
    for line in sys.stdin:
        told = json.loads(line)
        say(f"{told['job']} {told['attempt']}")
        engine.launch(launch(told["job"], *told["commands"], attempt=told["attempt"], grace_s=5.0))


main(Path(sys.argv[1]))
