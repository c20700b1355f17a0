"""Adding an order, plan or place policy is one file: write it, import it, choose it by name. No other file changes."""

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
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.registry import register


@register("order", "widest")
@dataclass(frozen=True)
class Widest(OrderPolicy):
    """Gangs with the most GPUs go first, in steps of this many."""

    varies: ClassVar[Varies] = "never"

    step: int = 1

    def key(self, job: Job, view: OrderView) -> tuple:
        return (-(job.gpus // self.step), job.submitted_us)
'''

PLAN = '''
"""First fit."""

from dataclasses import dataclass

from gpusquad.model.policy import PlanPolicy
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "firstfit")
@dataclass(frozen=True)
class FirstFit(PlanPolicy):
    """Every job that fits starts, without reservations."""

    depth: int = 100

    def walk(self, session: PlanSession) -> None:
        for number, job in enumerate(session.in_order()):
            if number == self.depth:
                break
            session.start(job)
'''

PLACE = '''
"""Last node first."""

from dataclasses import dataclass

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import Refusal, Trial
from gpusquad.registry import register


@register("place", "backwards")
@dataclass(frozen=True)
class Backwards(PlacePolicy):
    """Fills nodes from the last to the first, except this many at the end."""

    skip: int = 0

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        for group in trial.groups:
            nodes = np.flatnonzero(trial.space.room(group.request))[::-1][self.skip :]
            if not trial.fill(group, nodes):
                return trial.refuse(group)
        return trial.done()
'''

FILES = {("order", "widest"): ORDER, ("plan", "firstfit"): PLAN, ("place", "backwards"): PLACE}


@pytest.fixture
def policy_files(tmp_path: Path):
    for (kind, name), text in FILES.items():
        path = tmp_path / f"{kind}_{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    yield
    for kind, name in FILES:
        registry.forget(kind, name)
        del sys.modules[f"{kind}_{name}"]


JOBS = [{"id": "first", "gpus": 4, "submitted": 0}, {"id": "one", "gpus": 1, "submitted": 1},
        {"id": "four", "gpus": 4, "submitted": 2}, {"id": "three", "gpus": 3, "submitted": 3}]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(job | {"run": 100}) for job in JOBS))
    return path


def rows(trace: Path, *options: str, cluster: str = "1x4") -> list[dict[str, str]]:
    """Rows of the simulated jobs by start."""
    out = trace.with_suffix(".csv")
    arguments = ["simulate", str(trace), "--cluster", cluster, *options, "--jobs-out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    head, *lines = [line.split(",") for line in out.read_text().splitlines()]
    return [dict(zip(head, line, strict=True)) for line in sorted(lines, key=lambda line: float(line[2]))]


def starts(trace: Path, *options: str) -> list[str]:
    """Jobs in the order in which they start."""
    return [next(iter(row.values())) for row in rows(trace, *options)]


def listed(kind: str) -> str:
    return CliRunner().invoke(app, ["policies", kind]).stdout


@pytest.mark.usefixtures("policy_files")
def test_order_policy_in_one_file_is_listed_and_schedules(trace):
    assert starts(trace, "--order", "fifo", "--plan", "none") == ["first", "one", "four", "three"]
    widest = starts(trace, "--order", "widest", "--plan", "none")
    assert widest == ["first", "four", "one", "three"]  # the last two fit together
    assert starts(trace, "--order", "widest:step=8", "--plan", "none") == ["first", "one", "four", "three"]
    assert "Gangs with the most GPUs go first" in listed("order")


@pytest.mark.usefixtures("policy_files")
def test_plan_policy_in_one_file_is_listed_and_schedules(trace):
    assert starts(trace, "--plan", "firstfit") == ["first", "one", "three", "four"]
    assert starts(trace, "--plan", "firstfit:depth=1") == starts(trace, "--plan", "none")
    assert "Every job that fits starts, without reservations" in listed("plan")


@pytest.mark.usefixtures("policy_files")
def test_place_policy_in_one_file_is_listed_and_schedules(trace):
    assert starts(trace, "--place", "backwards") == starts(trace, "--place", "binpack")
    assert len(rows(trace, "--place", "backwards:skip=1", cluster="2x4")) == len(JOBS)
    assert "Fills nodes from the last to the first" in listed("place")


@pytest.mark.usefixtures("policy_files")
def test_mode_file_accepts_a_policy_in_one_file(tmp_path):
    mode = tmp_path / "wide.toml"
    mode.write_text('order = "widest:step=2"\nplan = "firstfit"\nplace = "backwards"\n')
    names = load_mode(mode).policies().names
    assert (names["order"], names["plan"], names["place"]) == ("widest:step=2", "firstfit", "backwards")


@pytest.mark.parametrize(("kind", "name"), list(FILES))
def test_policy_does_not_exist_without_its_file(kind: str, name: str):
    assert name not in registry.names(kind)
