"""The commands of the README work, and every claim names the bench that measures it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpusquad.modes
from bench.card.__main__ import BENCHES as CARD_BENCHES
from bench.scoreboard import benches
from gpusquad import registry

README = Path(__file__).parents[1] / "README.md"
CLAIMS = README.parent / "docs" / "benchmarks" / "README.md"
_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def runnable() -> list[list[str]]:
    """Blocks in which every line is a gpusquad command. Blocks with other commands (make, bench) are not run here."""
    blocks = [_commands(body) for body in _BLOCK.findall(README.read_text(encoding="utf-8"))]
    return [block for block in blocks if block and all(_is_ours(line) for line in block)]


def _commands(body: str) -> list[str]:
    joined = body.replace("\\\n", " ")
    return [line.removeprefix("$ ").strip() for line in joined.splitlines() if line.strip()]


def _is_ours(line: str) -> bool:
    return line.startswith(("gpusquad ", ".venv/bin/gpusquad "))


def test_readme_has_runnable_blocks():
    assert len(runnable()) >= 3


@pytest.mark.parametrize("block", runnable(), ids=lambda block: block[0].partition("#")[0].strip())
def test_readme_commands_succeed(block, tmp_path, repository):
    shutil.copytree(repository / "examples", tmp_path / "examples")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in block:
        command = shlex.split(line, comments=True)
        command[0] = "gpusquad"
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_every_claim_names_an_existing_bench():
    programs = {f"bench.{program.parent.name}" for program in (README.parent / "bench").glob("*/__main__.py")}
    known = set(benches()) | {f"bench.card {name}" for name in CARD_BENCHES} | programs
    named = [row[3].strip("`") for row in claim_rows(CLAIMS, "## All claims")]
    assert len(named) >= 26
    assert set(named) <= known


def test_readme_claims_are_rows_of_the_claims_page():
    all_claims = [row[:3] for row in claim_rows(CLAIMS, "## All claims")]
    shown = claim_rows(README, "## Measured")
    assert len(shown) >= 8
    assert [row for row in shown if row not in all_claims] == []


def claim_rows(page: Path, heading: str) -> list[list[str]]:
    """Rows of the table under a heading, without its header."""
    section = page.read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_readme_policy_table_names_every_policy_and_mode():
    table = README.read_text(encoding="utf-8").partition("## Policies")[2].partition("## ")[0]
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("|")}
    known = {kind: registry.names(kind) for kind in ("order", "plan", "place", "divide")} | {"mode": included_modes()}
    missing = [f"{kind} {name}" for kind, names in known.items() for name in names if f"`{name}`" not in rows[kind]]
    assert not missing


def included_modes() -> list[str]:
    return sorted(path.stem for path in Path(gpusquad.modes.__file__).parent.glob("*.toml"))
