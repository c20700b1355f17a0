"""The commands of the guide work and print what the guide shows."""

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
from tests.docs.page_runner import CONFIG, missing, run_page
from tests.docs.pages import GUIDE, REPOSITORY, Block, all_blocks


@pytest.fixture
def page_service(tmp_path: Path):
    """Service that is not started: the commands of the page start it, or the test does."""
    service = RunningService(tmp_path / "home", config=CONFIG)
    yield service
    if service.process is None:
        _stop_service_of_the_page(service)
    service.end()


def _stop_service_of_the_page(service: RunningService) -> None:
    """Stop the service that the page started, unless the page stopped it."""
    with suppress(ApiError):
        service.client.people.me()
        background.stop(service.home)


def assert_page_works(page: Path, service: RunningService) -> None:
    work = service.home.parent / "work"
    shutil.copytree(REPOSITORY / "examples", work / "examples")
    executed = 0
    for result in run_page(page, service.home, work):
        executed += 1
        where = f"{page.name}:{result.command.line}: $ {result.command.text}\n{result.output}"
        assert result.code == 0, where
        assert (line := missing(result.command.shown, result.output, service.home)) is None, f"{where}\nmissing: {line}"
    assert executed, "the page has no commands"


def test_quickstart_commands_print_what_is_shown(page_service: RunningService) -> None:
    assert_page_works(GUIDE / "quickstart.md", page_service)


def test_readme_commands_print_what_is_shown(page_service: RunningService) -> None:
    assert_page_works(REPOSITORY / "README.md", page_service)


def test_command_line_commands_print_what_is_shown(page_service: RunningService) -> None:
    page_service.start().checked()
    assert_page_works(GUIDE / "command-line.md", page_service)


def test_recommend_commands_print_what_is_shown(page_service: RunningService) -> None:
    page_service.start().checked()
    assert_page_works(GUIDE / "recommend.md", page_service)


def test_predictions_commands_print_what_is_shown(page_service: RunningService) -> None:
    page_service.start().checked()
    assert_page_works(GUIDE / "predictions.md", page_service)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_api_commands_print_what_is_shown(page_service: RunningService) -> None:
    page_service.start().checked()
    assert_page_works(GUIDE / "api.md", page_service)


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_yaml_blocks_are_valid_job_files(block: Block) -> None:
    file = check(load(block.text))
    required = {name: 1 for name, value in file.params.items() if value is None}
    assert expand(file, required)


@pytest.mark.parametrize("block", all_blocks("toml"), ids=str)
def test_toml_blocks_are_valid_configurations(block: Block) -> None:
    config = Config.model_validate(tomllib.loads(block.text))
    config.hang_rules()
    AllowList.parse(config.notify.channels)
