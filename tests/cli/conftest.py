"""The command line against a service that is not there."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from gpusquad.cli import app
from tests.fake_service import TOKEN, FakeService, running


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[FakeService]:
    """Found by the environment, as users' services are."""
    fake = FakeService()
    with running(fake) as url:
        monkeypatch.setenv("GPUSQUAD_URL", url)
        monkeypatch.setenv("GPUSQUAD_TOKEN", TOKEN)
        monkeypatch.setenv("GPUSQUAD_HOME", str(tmp_path))
        monkeypatch.setenv("COLUMNS", "140")
        yield fake


@pytest.fixture
def gsq() -> Callable[..., Any]:
    """Runs ``gpusquad`` with these words and expects an exit code."""

    def run(*words: object, code: int = 0, stdin: str | None = None) -> Any:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        assert result.exit_code == code, (result.output, result.stderr, result.exception)
        return result

    return run
