"""A member of a new service cannot take precedence over others, whatever way it tries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.running import RunningService

FORBIDDEN = 4


class Member:
    """The command line with the token of a member."""

    def __init__(self, service: RunningService, folder: Path) -> None:
        http = service.client.http
        http.post("users", body={"name": "ann", "tenant": "default", "role": "member"})
        token = http.post("tokens", body={"user": "ann", "label": "test"})["token"]
        self._folder = folder
        self._environment = {
            **os.environ, "GPUSQUAD_URL": service.client.http.url, "GPUSQUAD_TOKEN": token,
            "GPUSQUAD_HOME": str(folder / "no-home"), "COLUMNS": "200",
        }  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpusquad", *words]
        return subprocess.run(
            command, env=self._environment, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def member(service: RunningService, tmp_path: Path) -> Member:
    folder = tmp_path / "member"
    folder.mkdir()
    return Member(service, folder)


def test_member_cannot_be_urgent_in_a_new_service(service: RunningService, member: Member, tmp_path: Path) -> None:
    blocker = service.submit(name="blocker", gpus=8, command=["sleep", "600"])
    service.wait(blocker, "running")
    job = json.loads(member.run("submit", "--json", "--gpus", "8", "--name", "mine", "--", "true").stdout)["jobs"][0][
        "id"
    ]
    file = tmp_path / "member" / "job.yaml"
    file.write_text("version: 1\ngpus: 1\ncommand: 'true'\npriority: ${p}\nsweep: {p: [normal, 1000000]}\n")
    small = ("-g", "1", "--", "true")
    ways = {
        "priority": [
            ("submit", "--priority", "urgent", *small), ("submit", "-p", "1000000", *small),
            ("submit", "-p", "1", *small), ("submit", str(file)), ("whatif", "-p", "high", *small),
            ("update", job, "--priority", "urgent"), ("update", job, "--priority", "2147483647"),
            ("resubmit", job, "--priority", "urgent"),
        ],
        "lane": [("submit", "--lane", "large", *small), ("update", job, "--lane", "large")],
    }  # fmt: skip
    for field, commands in ways.items():
        for words in commands:
            done = member.run(*words)
            assert done.returncode != 0, (words, done.stdout)
            if words[0] != "resubmit":  # which has no such option
                assert (done.returncode, f"{field}: " in done.stderr) == (FORBIDDEN, True), (words, done.stderr)
                assert "gpusquad user set ann --" in done.stderr
    shown = service.client.jobs.get(job)
    assert (shown["priority"], shown["lane"]) == ("normal", "")
    assert [one["id"] for one in service.client.jobs.find(state="pending")["items"]] == [job]
    for words in (("user", "set", "ann", "--max-priority", "urgent"), ("tenant", "set", "default", "--max-priority",
                  "urgent"), ("policy", "set", "--preempt", "priority")):  # fmt: skip
        assert member.run(*words).returncode == FORBIDDEN
    service.client.jobs.cancel(blocker)
