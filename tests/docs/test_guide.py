"""What the guide tells people to type works, and comes out as the guide shows it."""

from __future__ import annotations

import shutil
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

from bench.running import RunningService
from gpusquad.app import background
from gpusquad.app.config import Config
from gpusquad.client.errors import ApiError
from gpusquad.server.notify.channels import AllowList
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.spec.yaml_file import load
from tests.docs.pages import GUIDE, REPOSITORY, Block, all_blocks
from tests.docs.typed import CONFIG, missing, type_page


@pytest.fixture
def home(tmp_path: Path):
    """Of a service that the page starts itself, or that runs already."""
    service = RunningService(tmp_path / "home", config=CONFIG)
    yield service
    if service.process is None:
        _stop_what_the_page_started(service)
    service.end()


def _stop_what_the_page_started(service: RunningService) -> None:
    """Unless it has done that itself, as pages should."""
    with suppress(ApiError):
        service.client.people.me()
        background.stop(service.home)


def assert_page_works(page: Path, service: RunningService) -> None:
    work = service.home.parent / "work"
    shutil.copytree(REPOSITORY / "examples", work / "examples")
    seen = 0
    for typed in type_page(page, service.home, work):
        seen += 1
        where = f"{page.name}:{typed.command.line}: $ {typed.command.text}\n{typed.output}"
        assert typed.code == 0, where
        assert (line := missing(typed.command.shown, typed.output, service.home)) is None, f"{where}\nmissing: {line}"
    assert seen


def test_the_quickstart_works_as_it_stands(home: RunningService) -> None:
    assert_page_works(GUIDE / "quickstart.md", home)


def test_the_readme_works_as_it_stands(home: RunningService) -> None:
    assert_page_works(REPOSITORY / "README.md", home)


def test_the_page_on_the_command_line_works_as_it_stands(home: RunningService) -> None:
    home.start().checked()
    assert_page_works(GUIDE / "command-line.md", home)


def test_the_page_on_what_to_ask_for_works_as_it_stands(home: RunningService) -> None:
    home.start().checked()
    assert_page_works(GUIDE / "recommend.md", home)


def test_the_page_on_predictions_works_as_it_stands(home: RunningService) -> None:
    home.start().checked()
    assert_page_works(GUIDE / "predictions.md", home)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_page_on_the_api_works_as_it_stands(home: RunningService) -> None:
    home.start().checked()
    assert_page_works(GUIDE / "api.md", home)


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_every_job_file_in_the_docs_is_accepted(block: Block) -> None:
    file = check(load(block.text))
    left_open = {name: 1 for name, value in file.params.items() if value is None}
    assert expand(file, left_open)


@pytest.mark.parametrize("block", all_blocks("toml"), ids=str)
def test_every_configuration_in_the_docs_is_accepted(block: Block) -> None:
    config = Config.model_validate(tomllib.loads(block.text))
    config.hang_rules()
    AllowList.parse(config.notify.channels)
