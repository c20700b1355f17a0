"""Tests of settings in ``config.toml`` with a deprecated name: accepted with a warning, with the same meaning."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpusquad.app.config import Config, load_config
from gpusquad.model.errors import Invalid

RENAMED = [
    ("sharing", "strangers", "unmanaged", '"refuse"', '"kill"'),
    ("kubernetes", "tell_per_s", "status_writes_per_s", "2.5", "-1"),
    ("kubernetes", "tell_every_s", "status_repeat_s", "30", "0"),
    ("kubernetes", "tell_scheduled", "scheduled_event", '"pod"', '"node"'),
]


def load(folder: Path, section: str, text: str) -> tuple[Config, list[str]]:
    (folder / "config.toml").write_text(f"[{section}]\n{text}\n")
    with capture_logs() as lines:
        config = load_config(folder)
    return config, [line["event"] for line in lines if line["log_level"] == "warning"]


@pytest.mark.parametrize(("section", "old", "new", "value", "wrong"), RENAMED)
def test_deprecated_setting_means_the_same_and_warns(
    tmp_path: Path, section: str, old: str, new: str, value: str, wrong: str
) -> None:
    by_new_name, warnings = load(tmp_path, section, f"{new} = {value}")
    assert by_new_name != Config()
    assert warnings == []
    by_old_name, warnings = load(tmp_path, section, f"{old} = {value}")
    assert by_old_name == by_new_name
    assert warnings == [f"{section}.{old} in config.toml is deprecated; rename it to {section}.{new}"]


@pytest.mark.parametrize(("section", "old", "new", "value", "wrong"), RENAMED)
def test_setting_is_refused_when_both_names_are_given(
    tmp_path: Path, section: str, old: str, new: str, value: str, wrong: str
) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, section, f"{new} = {value}\n{old} = {value}")
    assert caught.value.field == f"config.toml: {section}.{old}"
    assert str(caught.value).endswith(f"is the old name of {section}.{new}, which is given too (remove it)")


@pytest.mark.parametrize(("section", "old", "new", "value", "wrong"), RENAMED)
def test_invalid_value_is_refused_under_the_name_in_the_file(
    tmp_path: Path, section: str, old: str, new: str, value: str, wrong: str
) -> None:
    for name in (old, new):
        with pytest.raises(Invalid) as caught:
            load(tmp_path, section, f"{name} = {wrong}")
        assert caught.value.field == f"config.toml: {section}.{name}"
