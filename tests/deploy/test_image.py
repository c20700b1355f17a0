"""Tests of the image's Dockerfile. No image is built."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"


@dataclass(frozen=True)
class Step:
    instruction: str
    text: str


def steps() -> list[Step]:
    lines = [line for line in DOCKERFILE.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    instructions = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [Step(*line.strip().split(maxsplit=1)) for line in instructions]


def arguments_of(instruction: str) -> list[str]:
    return [step.text for step in steps() if step.instruction == instruction]


def test_base_images_are_pinned_by_tag():
    bases = [text.split()[0] for text in arguments_of("FROM")]
    assert len(bases) >= 2
    for base in bases:
        tag = base.rpartition("/")[2].partition(":")[2]
        assert re.match(r"\d", tag), f"{base} has no version"


def test_image_does_not_run_as_root():
    last = max(number for number, step in enumerate(steps()) if step.instruction == "FROM")
    [user] = [step.text for step in steps()[last:] if step.instruction == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), (
        "must be numeric, because Kubernetes cannot check that a named user is not root"
    )
    after = [step.instruction for step in steps()[last:]]
    assert "RUN" not in after[after.index("USER") :]


def test_chart_runs_the_image_as_its_user():
    values = (REPOSITORY / "deploy" / "helm" / "gpusquad" / "values.yaml").read_text("utf-8")
    [user] = arguments_of("USER")
    assert re.search(rf"^  uid: {user.partition(':')[0]}\b", values, re.MULTILINE)


def test_dockerfile_downloads_only_packages():
    assert arguments_of("ADD") == []
    assert not re.search(r"\b(curl|wget|git clone)\b|https?://", " ".join(step.text for step in steps()))


def test_image_has_the_wheel_with_the_extras_of_server_and_agent():
    text = " ".join(arguments_of("RUN"))
    assert re.search(r"pip wheel .*--no-deps .*\.(\s|$)", text)
    installed = re.search(r"gpusquad-\*\.whl\)\[([\w,]+)\]", text)
    assert installed
    extras = set(installed[1].split(","))
    assert extras == {"server", "kubernetes", "postgresql"}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert extras <= set(project["optional-dependencies"])


def test_shim_is_compiled_before_the_wheel_is_built():
    """The shim is built under its expected name before the wheel is."""
    text = " ".join(arguments_of("RUN"))
    assert text.index("build.compile_library(build.SOURCES, build.SOURCES / f'libgpusquad-{machine()}.so')") < (
        text.index("pip wheel")
    )


def test_entrypoint_forwards_signals():
    assert arguments_of("ENTRYPOINT") == ['["/usr/bin/tini", "--"]']


@pytest.mark.parametrize("source", ["pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src", "web"])
def test_build_context_has_exactly_the_copied_files(source: str):
    lines = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text("utf-8").split("\n")
    assert "*" in lines
    assert f"!{source}" in lines
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {name.rstrip("/") for text in arguments_of("COPY") if "--from" not in text for name in text.split()[:-1]}
    assert copied == sent
