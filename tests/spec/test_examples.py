"""Tests that the example job files are valid and that their commands run without a GPU."""

import os
import subprocess
from pathlib import Path

import pytest

from gpusquad.spec.check import check
from gpusquad.spec.convert import task_commands, to_job
from gpusquad.spec.expand import expand
from gpusquad.spec.yaml_file import load

FOLDER = Path(__file__).parents[2] / "examples/jobs"
FILES = sorted(FOLDER.glob("*.yaml"))
QUICK = {"pause": 0, "steps": 2, "requests": 2}
RANKS = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "CUDA_VISIBLE_DEVICES": ""}


def specs_of(path: Path):
    file = check(load(path))
    return expand(file, {name: value for name, value in QUICK.items() if name in file.params})


def test_expected_example_files_exist():
    assert {path.stem for path in FILES} >= {"hello", "train", "sweep", "share", "checkpoint", "pipeline-train"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_example_converts_to_a_job(path):
    for spec in specs_of(path):
        assert to_job(spec, "job", 0, "default", "ada").tasks == len(task_commands(spec))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_example_refers_to_an_existing_schema_file(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).is_file()


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "checkpoint"], ids=lambda path: path.name)
def test_example_command_succeeds(path):
    task = task_commands(specs_of(path)[0])[0]
    done = subprocess.run(task.command, env=os.environ | RANKS | task.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_examples_use_the_features_they_are_named_after():
    by_name = {path.stem: specs_of(path) for path in FILES}
    assert len(by_name["sweep"]) == 20
    assert len({spec.name for spec in by_name["sweep"]}) == 20
    assert len(task_commands(by_name["train"][0])) == 4
    assert by_name["share"][0].share is not None
    assert by_name["checkpoint"][0].checkpoint is not None
    assert by_name["pipeline-train"][0].after[0].job == by_name["pipeline-prepare"][0].name
    assert by_name["pipeline-report"][0].after[0].job == by_name["pipeline-train"][0].name
