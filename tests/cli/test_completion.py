"""What the shell offers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusquad.cli import _complete
from tests.canned.jobs import HOSTILE, job

GPUSQUAD = Path(sys.executable).with_name("gpusquad")


def offered(line: str, shell: str = "bash") -> list[str]:
    """As a shell asks, with the cursor at the end of the line."""
    words = line.split(" ")
    environment = os.environ | {
        "_GPUSQUAD_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
    }  # fmt: skip
    done = subprocess.run([GPUSQUAD], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_verbs():
    assert offered("gpusquad wha") == ["whatif"]
    assert {"why", "when", "wait", "whatif"} <= set(offered("gpusquad w"))
    assert offered("gpusquad policy pre") == ["preview"]


def test_options():
    assert "--share-memory" in offered("gpusquad submit --sh")


def test_jobs_by_name_and_id(service):
    found = offered("gpusquad why ")
    assert {"llama-finetune", "0004bxdf", "sweep-lr-0.1"} <= set(found)
    assert offered("gpusquad cancel llama") == ["llama-finetune"]
    assert offered("gpusquad logs -f 0004") == ["0004bxdf"]
    assert service.requests_to("GET", "/jobs")[0].query["state"][:2] == ["held", "pending"]


def test_hostile_names_are_not_offered(service):
    """Shells evaluate what they are offered."""
    bad = ["$(touch x)", "`id`", "a b", "-rf", "a;b", "a'b", HOSTILE]
    service.set_answers("GET", "/jobs", {"items": [job(0.0, n, name) for n, name in enumerate(bad)], "next": None})
    for shell in ("bash", "zsh", "fish"):
        told = "\n".join(offered("gpusquad why ", shell))
        assert not any(sign in told.replace("_arguments '*: :((", "").replace("))'", "") for sign in "$`;()<>'")
    assert offered("gpusquad why ") == [f"{n:04d}bxdf" for n in range(len(bad))]


def test_other_things(service):
    assert offered("gpusquad drain n") == ["n0", "n1", "n2", "n3"]
    assert offered("gpusquad cordon n0/") == [f"n0/{n}" for n in range(8)]
    assert offered("gpusquad queue --tenant v") == ["vision"]
    assert offered("gpusquad queue --state pre") == ["preempting"]
    assert offered("gpusquad update x --priority u") == ["urgent"]
    assert offered("gpusquad policy set f") == ["fifo", "fair"]
    assert offered("gpusquad policy set --card 0 p") == ["priority"]
    assert offered("gpusquad policy show --card n0/") == [f"n0/{n}" for n in range(8)]
    assert offered("gpusquad secret remove ") == ["WANDB_API_KEY"]


def test_a_name_that_two_have_is_not_offered(service):
    twins = [job(0.0, n, "twin") for n in (1, 2)]
    service.set_answers("GET", "/jobs", {"items": twins, "next": None})
    assert [value for value, _ in _complete.jobs("")] == ["0001bxdf", "0002bxdf"]


def test_node_with_one_card_is_offered_in_the_singular(service):
    service.set_answers("GET", "/nodes", {"items": [{"id": "n0", "cards": [{}]}, {"id": "n1", "cards": [{}, {}]}]})
    assert _complete.nodes("") == [("n0", "1 card"), ("n1", "2 cards")]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense", ""])
def test_without_a_service_nothing_is_offered(monkeypatch, tmp_path, url):
    monkeypatch.setenv("GPUSQUAD_URL", url)
    monkeypatch.setenv("GPUSQUAD_HOME", str(tmp_path))
    assert _complete.jobs("") == _complete.nodes("") == _complete.modes("") == []


def test_a_service_that_answers_nonsense(service):
    service.set_answers("GET", "/jobs", {"items": [{}], "next": None})
    assert _complete.jobs("") == []
