"""Adding a policy is one file: write it, import it, choose it by name. No other file changes."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpusquad import registry
from gpusquad.cli import app
from gpusquad.modes import load_mode

ORDER = '''
"""Widest first."""

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.views import OrderView
from gpusquad.registry import register


@register("order", "widest")
@dataclass(frozen=True)
class Widest:
    """Gangs with the most GPUs go first, as far as steps of this many tell them apart."""

    varies: ClassVar[str] = "never"

    step: int = 1

    def key(self, job: Job, view: OrderView) -> tuple:
        return (-(job.gpus // self.step), job.submitted_us)
'''


@pytest.fixture
def widest(tmp_path: Path):
    path = tmp_path / "widest.py"
    path.write_text(ORDER)
    spec = importlib.util.spec_from_file_location("widest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["widest"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield
    registry.forget("order", "widest")
    del sys.modules["widest"]


def starts(trace: Path, order: str) -> list[str]:
    """Jobs in the order in which they start."""
    rows = trace.with_suffix(".csv")
    result = CliRunner().invoke(
        app, ["simulate", str(trace), "--cluster", "1x4", "--order", order, "--plan", "none", "--jobs-out", str(rows)]
    )
    assert result.exit_code == 0, result.output
    lines = [line.split(",") for line in rows.read_text().splitlines()[1:]]
    return [line[0] for line in sorted(lines, key=lambda line: float(line[2]))]


@pytest.mark.usefixtures("widest")
def test_it_is_listed_and_schedules(tmp_path):
    trace = tmp_path / "trace.jsonl"
    jobs = [{"id": "first", "gpus": 4, "submitted": 0}, {"id": "one", "gpus": 1, "submitted": 1},
            {"id": "four", "gpus": 4, "submitted": 2}, {"id": "three", "gpus": 3, "submitted": 3}]  # fmt: skip
    trace.write_text("\n".join(json.dumps(job | {"run": 100}) for job in jobs))
    assert starts(trace, "fifo") == ["first", "one", "four", "three"]
    assert starts(trace, "widest") == ["first", "four", "one", "three"]  # the last two fit together
    assert starts(trace, "widest:step=8") == starts(trace, "fifo")
    assert "Gangs with the most GPUs go first" in CliRunner().invoke(app, ["policies", "order"]).stdout


@pytest.mark.usefixtures("widest")
def test_a_mode_may_name_it(tmp_path):
    mode = tmp_path / "wide.toml"
    mode.write_text('order = "widest:step=2"\n')
    assert load_mode(mode).policies().names["order"] == "widest:step=2"


def test_without_the_file_there_is_no_such_policy():
    assert "widest" not in registry.names("order")
