"""A minimal service, for tests that kill it: writes the key of each gang before launching it.

service.py HOME: reads one JSON object per line ({"job", "attempt", "commands"}) and writes a line "JOB ATTEMPT", as a
store commits before the engine is called. Every report follows as a line that starts with an asterisk.
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
    def write_line(text: str) -> None:
        os.write(1, f"{text}\n".encode())

    def on_report(report: Report) -> None:
        write_line(f"* {type(report).__name__} {report.job_id} {report.attempt}")

    engine = LocalEngine(home, on_report)
    for line in sys.stdin:
        order = json.loads(line)
        write_line(f"{order['job']} {order['attempt']}")
        engine.launch(launch(order["job"], *order["commands"], attempt=order["attempt"], grace_s=5.0))


main(Path(sys.argv[1]))
