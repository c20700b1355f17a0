"""Tests of mode files with a deprecated name: accepted with one warning, with the same meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.modes import load_mode, read


@pytest.fixture(autouse=True)
def no_warning_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_warned", set())
    monkeypatch.setattr(registry, "_warned", set())


def mode_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_promise_is_a_deprecated_name_of_reservation(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    expected = load_mode(mode_file(tmp_path, "[predict]\nreservation = 0.7\n"))
    assert expected.uses.reservation == 0.7
    assert caplog.messages == []
    path = mode_file(tmp_path, "[predict]\npromise = 0.7\n")
    assert load_mode(path) == load_mode(path) == expected
    assert caplog.messages == ["mode mine.predict.promise is deprecated; rename it to reservation"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("promise = 0.7\nreservation = 0.7", "promise"),
        ('promise = "high"', "promise"),
        ('reservation = "high"', "reservation"),
        ("promise = 1.5", "reservation"),
        ("reservation = 1.5", "reservation"),
    ],
)
def test_invalid_reservation_quantile_is_refused(tmp_path: Path, text: str, field: str):
    with pytest.raises(Invalid) as caught:
        load_mode(mode_file(tmp_path, f"[predict]\n{text}\n"))
    assert caught.value.field == f"mode mine.predict.{field}"


def test_mode_file_may_name_a_deprecated_policy(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    mode = load_mode(mode_file(tmp_path, 'divide = "promised:squad_us=3000"\n'))
    assert registry.create("divide", mode.divide) == registry.create("divide", "guaranteed:squad_us=3000")
    assert caplog.messages == ["divide 'promised' is deprecated; use 'guaranteed'"]
