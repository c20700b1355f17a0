"""The documentation is complete and names only what exists."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from gpusquad.app.config import Config
from gpusquad.cli import _exit
from gpusquad.cli._verbs import verbs
from gpusquad.core.hang.hang import HangRules
from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.frameworks import Gang
from gpusquad.engines.local import environment
from gpusquad.server.app import PREFIX, all_routes
from gpusquad.spec.job_parts import (
    CheckpointSpec,
    DependencySpec,
    OfflineEstimateSpec,
    ProfileSpec,
    RetrySpec,
    SecretSpec,
    ShareSpec,
    SloSpec,
)
from gpusquad.spec.model import JobFile
from gpusquad.spec.roles import RoleSpec
from tests.docs.pages import GUIDE, PAGES, REPOSITORY, anchors, blocks, links

CURRENT = [page for page in PAGES if page.parent.name != "adr"]


def words_in_backticks(page: str) -> set[str]:
    """Words in backticks on a page of the guide."""
    return set(re.findall(r"`([^`\s]+)`", (GUIDE / page).read_text("utf-8")))


def test_administration_page_lists_every_setting_with_its_default() -> None:
    documented = tomllib.loads(next(blocks(GUIDE / "administration.md", "toml")).text)
    defaults = Config().model_dump() | {"hang": asdict(HangRules())}
    del defaults["cluster"]["simulate"]  # TOML cannot express "not set", so the page has it in a comment
    assert Config.model_validate(documented).model_dump(exclude={"cluster": {"simulate"}}) == defaults
    assert {name: set(values) for name, values in documented.items()} == {
        name: set(defaults_of_section) for name, defaults_of_section in defaults.items()
    }


def test_job_files_page_lists_every_field() -> None:
    parts = (
        JobFile,
        RoleSpec,
        ShareSpec,
        SloSpec,
        ProfileSpec,
        CheckpointSpec,
        OfflineEstimateSpec,
        RetrySpec,
        DependencySpec,
        SecretSpec,
    )
    fields = {info.alias or name for part in parts for name, info in part.model_fields.items()}
    page = (GUIDE / "job-files.md").read_text("utf-8")
    assert [name for name in sorted(fields) if not re.search(rf"`{name}`|\b{name}:", page)] == []


def test_job_files_page_lists_exactly_the_variables_of_a_task() -> None:
    task = TaskLaunch(0, "task", 0, "gpu1", ("SIM-0",), ("true",))
    launch = Launch("job", 0, "", "default", "ann", (task,), "", 1.0, simulated=True)
    gang = environment.gang_of(launch, Path("home"), [1, 2])
    found = environment.variables(launch, task, Path("home"), gang, {}, str)
    documented = [word for word in words_in_backticks("job-files.md") if re.fullmatch(r"[A-Z][A-Z_]+", word)]
    own = {word for word in documented if word in found or word.startswith(("GPUSQUAD_", "CUDA_", "NVIDIA_"))}
    own -= {"CUDA_HOME"}  # passed on from the service
    assert own - {"GPUSQUAD_"} == set(found)


def test_frameworks_page_lists_exactly_the_variables_of_a_gang() -> None:
    tasks = [
        TaskLaunch(rank, "task", rank, "gpu1", cards, ("true",)) for rank, cards in enumerate((("a",), ("b", "c")))
    ]
    launch = Launch("job", 0, "", "default", "ann", tuple(tasks), "", 1.0)
    gang = environment.gang_of(launch, Path("home"), [1, 2, 3])
    assert isinstance(gang, Gang)
    found = {name for rank in (0, 1) for name in gang.variables(rank)}
    page = (GUIDE / "frameworks.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert {name for line in table for name in re.findall(r"`([A-Z][A-Z_]+)`", line.split("|")[1])} == found


def test_command_line_page_lists_every_verb() -> None:
    assert set(verbs()) <= words_in_backticks("command-line.md")


def test_command_line_page_lists_exactly_the_exit_codes() -> None:
    codes = {value for name, value in vars(_exit).items() if name.isupper() and isinstance(value, int)}
    page = (GUIDE / "command-line.md").read_text("utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes


def test_api_page_lists_exactly_the_endpoints() -> None:
    existing = {
        f"{method} {path.removeprefix(PREFIX).replace(':path', '')}"
        for path, route in all_routes()
        for method in route.methods or ()
    }
    page = (GUIDE / "api.md").read_text("utf-8")
    documented = set(re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`", page))
    assert documented == existing


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_of_a_page_resolve(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target
