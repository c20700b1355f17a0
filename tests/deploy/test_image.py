"""The recipe of the image keeps to what we promise of it. Nothing is built here."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
RECIPE = REPOSITORY / "deploy" / "Dockerfile"


@dataclass(frozen=True)
class Step:
    word: str
    text: str


def steps() -> list[Step]:
    lines = [line for line in RECIPE.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [Step(*line.strip().split(maxsplit=1)) for line in whole]


def of(word: str) -> list[str]:
    return [step.text for step in steps() if step.word == word]


def test_every_base_is_pinned_by_a_tag():
    bases = [text.split()[0] for text in of("FROM")]
    assert len(bases) >= 2
    for base in bases:
        tag = base.rpartition("/")[2].partition(":")[2]
        assert re.match(r"\d", tag), f"{base} has no version"


def test_it_does_not_run_as_root():
    last = max(number for number, step in enumerate(steps()) if step.word == "FROM")
    [user] = [step.text for step in steps()[last:] if step.word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number: Kubernetes cannot tell that a name is not root"
    after = [step.word for step in steps()[last:]]
    assert "RUN" not in after[after.index("USER") :]


def test_the_chart_runs_it_as_the_same_user():
    values = (REPOSITORY / "deploy" / "helm" / "gpusquad" / "values.yaml").read_text("utf-8")
    [user] = of("USER")
    assert re.search(rf"^  uid: {user.partition(':')[0]}\b", values, re.MULTILINE)


def test_nothing_is_fetched_but_packages():
    assert of("ADD") == []
    assert not re.search(r"\b(curl|wget|git clone)\b|https?://", " ".join(step.text for step in steps()))


def test_it_holds_the_wheel_of_this_repository_with_what_server_and_agent_need():
    text = " ".join(of("RUN"))
    assert re.search(r"pip wheel .*--no-deps .*\.(\s|$)", text)
    named = re.search(r"gpusquad-\*\.whl\)\[([\w,]+)\]", text)
    assert named
    extras = set(named[1].split(","))
    assert extras == {"server", "kubernetes", "postgresql"}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert extras <= set(project["optional-dependencies"])


def test_no_node_needs_a_compiler():
    """The library for shared cards is built, under the name that is looked for, before the wheel is made of it all."""
    text = " ".join(of("RUN"))
    assert text.index("build.compile_library(build.SOURCES, build.SOURCES / f'libgpusquad-{machine()}.so')") < (
        text.index("pip wheel")
    )


def test_signals_reach_it():
    assert of("ENTRYPOINT") == ['["/usr/bin/tini", "--"]']


@pytest.mark.parametrize("source", ["pyproject.toml", "README.md", "LICENSE", "src"])
def test_what_is_copied_is_sent_to_the_builder_and_nothing_else(source: str):
    lines = (RECIPE.parent / "Dockerfile.dockerignore").read_text("utf-8").split("\n")
    assert "*" in lines
    assert f"!{source}" in lines
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {name.rstrip("/") for text in of("COPY") if "--from" not in text for name in text.split()[:-1]}
    assert copied == sent
