"""Verbs load when they are used, and only what they need."""

import json
import subprocess
import sys

import pytest

from gpusquad.cli._fast_parse import install_fast_parser
from gpusquad.cli._verbs import verbs

REPORT = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.argv = ["gpusquad", *sys.argv[1:]]
from gpusquad.cli import main
main()
"""


def modules(*words: str) -> set[str]:
    """What a verb has imported by the time it is done."""
    done = subprocess.run([sys.executable, "-c", REPORT, *words], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_programs_wait_for_no_tables(service):
    loaded = modules("queue", "--json")
    assert not loaded & {"rich", "numpy", "pydantic", "textual", "yaml", "gpusquad.core", "gpusquad.cli.submit"}


def test_people_wait_for_nothing_else(service):
    loaded = modules("queue")
    assert "rich.table" in loaded
    assert not loaded & {"numpy", "pydantic", "textual", "yaml", "rich.progress", "rich.markdown", "gpusquad.core"}


def test_submitting_waits_for_no_validation(service):
    loaded = modules("submit", "-q", "-g", "1", "--", "true")
    assert not loaded & {"rich", "numpy", "pydantic", "yaml"}


def test_the_overview_loads_no_verb():
    loaded = modules("--help")
    assert not {f"gpusquad.cli.{name}" for name in verbs()} & loaded


@pytest.mark.parametrize("name", verbs())
def test_every_verb_loads_and_explains_itself(gsq, name):
    shown = gsq(name, "--help").stdout
    assert f"gpusquad {name}" in " ".join(shown.split()) or f" {name} " in shown


def test_the_overview_has_every_verb_in_its_panel(gsq):
    shown = gsq("--help").stdout
    assert all(f"│ {name} " in shown for name in verbs())
    assert [shown.index(f"─ {panel} ─") for panel in ("Jobs", "Cluster", "Admin", "Simulation")] == sorted(
        shown.index(f"─ {panel} ─") for panel in ("Jobs", "Cluster", "Admin", "Simulation")
    )


def test_a_verb_that_is_none_is_told_what_was_meant(gsq):
    assert "queue" in gsq("queu", code=2).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [(("queue", "--limit", "0"), "--limit"), (("queue", "--limit", "x"), "--limit"), (("why",), "JOB"),
     (("usage", "--by", "cat"), "--by"), (("user", "add", "x", "--role", "king"), "--role"),
     (("queue", "--lim", "1"), "--lim"), (("why", "a", "b"), "b")],
)  # fmt: skip
def test_bad_values_are_still_refused(gsq, words, told):
    assert told in gsq(*words, code=2).stderr


def test_quick_values_are_as_typer_reads_them(gsq, service):
    """The same words once with the quick way and once without."""
    command = verbs()["queue"].load()
    quick = install_fast_parser(verbs()["queue"].load())
    words = ["--limit", "7", "--state", "held", "--state", "pending", "--tenant", "t", "--mine"]
    assert quick.make_context("q", list(words)).params == command.make_context("q", list(words)).params
    assert quick.make_context("q", []).params == command.make_context("q", []).params
