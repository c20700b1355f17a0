"""Runs the commands of a page in one shell, against its own service, and compares the output."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import LEFT_OUT, Command, blocks, commands

NODE, HOME = "gpu1", "~/.gpusquad"
"""Names of the machine and of the service's home folder on the pages."""
TIMEOUT_S = 120
CONFIG = "[server]\nport = 0\n[cluster]\nsimulate = 8\n"
_END = re.compile(r"\0(\d+)\0\n")
_DAY = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?=\d\d:\d\d)")
"""Near midnight, times have a day that the page does not show."""
_WHOLE_ID = re.compile(r"\b01[0-9a-hjkmnp-tv-z]{24}\b")
_ID_ON_A_PAGE = re.compile(r"\b(?=[a-z]*\d)(?=\d*[a-z])[0-9a-hjkmnp-tv-z]{8}\b")


@dataclass(frozen=True)
class CommandResult:
    """Result of one command."""

    command: Command
    code: int
    output: str


def run_page(page: Path, home: Path, work: Path) -> Iterator[CommandResult]:
    """Run every command of the page, in order. Files that the page shows are written first."""
    work.mkdir(exist_ok=True)
    for block in blocks(page, "yaml", "python"):
        if block.file_name:
            (work / block.file_name).write_text(block.text, encoding="utf-8")
    listed = [command for block in blocks(page, "console") for command in commands(block)]
    script = "".join(f"{command.text}\nprintf '\\0%d\\0\\n' $?\n" for command in listed)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUSQUAD_")} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GPUSQUAD_HOME": str(home), "COLUMNS": "120",
    }  # fmt: skip
    process = subprocess.run(["bash"], input=script, cwd=work, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
    parts = _END.split(process.stdout)
    outputs, codes = parts[0::2], parts[1::2]
    assert len(codes) == len(listed), process.stdout
    for command, output, code in zip(listed, outputs, codes, strict=False):
        yield CommandResult(command, int(code), output)


def missing(shown: Sequence[str], output: str, home: Path) -> str | None:
    """First line on the page that is missing from the output, or out of order."""
    lines = iter([_normalised(line) for line in _anonymous(output, home).splitlines()])
    for line in shown:
        if line.strip() in ("", LEFT_OUT):
            continue
        expected = _normalised(_ID_ON_A_PAGE.sub("ID", line))
        if not any(expected == output_line for output_line in lines):
            return line
    return None


def _anonymous(output: str, home: Path) -> str:
    output = output.replace(str(home), HOME)
    for job_id in _job_ids(home):
        output = output.replace(job_id, "ID").replace(job_id[-8:], "ID")
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", NODE, output)


def _normalised(line: str) -> str:
    """The line without what differs each time: numbers, times, widths, and starting or running."""
    line = _WHOLE_ID.sub("ID", line)
    line = _DAY.sub("", line)
    line = re.sub(r"\d+(?:[.,:]\d+)*", "#", line)
    line = re.sub(r"\bnow\b|# \w+ ago\b|\bin # \w+\b", "SOON", line)
    line = re.sub(r"\bstarting\b", "running", line)
    line = re.sub(r"([─█])\1*", r"\1", line)
    return " ".join(line.split())


def _job_ids(home: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{home / 'gpusquad.db'}?mode=ro", uri=True)
    try:
        return [row[0] for row in connection.execute("SELECT id FROM jobs")]
    finally:
        connection.close()
