"""``gpusquad policies`` and what stands around the verbs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpusquad
from gpusquad import registry
from gpusquad.cli import app
from gpusquad.modes import mode_names


def run(*arguments: str, code: int = 0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def test_every_policy_is_listed_with_its_summary_and_parameters():
    shown = run("policies").stdout
    for one in registry.describe():
        assert one.name in shown
        assert one.summary, f"{one.kind} {one.name} has no docstring"
    assert "backfill=order (order | shortest | merit)" in shown
    assert "binds=always (always | overstayed | never)" in shown  # its choices have a name of their own in the code
    assert all(mode in shown for mode in mode_names())


def test_json_has_the_same():
    data = json.loads(run("policies", "--json").stdout)
    assert {(p["kind"], p["name"]) for p in data["policies"]} == {(d.kind, d.name) for d in registry.describe()}
    easy = next(p for p in data["policies"] if p["name"] == "easy")
    assert {"name": "reservations", "type": "int", "default": 1} in easy["parameters"]
    assert [mode["name"] for mode in data["modes"]] == mode_names()


@pytest.mark.parametrize("kind", ["order", "plan", "place", "divide", "predictor", "reader", "mode"])
def test_one_kind_alone(kind):
    data = json.loads(run("policies", kind, "--json").stdout)
    assert {p["kind"] for p in data["policies"]} == ({kind} if kind != "mode" else set())
    assert bool(data["modes"]) == (kind == "mode")


def test_a_kind_that_is_none():
    assert "unknown kind 'oder'" in run("policies", "oder", code=2).stderr


@pytest.fixture
def own_modes(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GPUSQUAD_MODES", raising=False)
    folder = tmp_path / "gpusquad" / "modes"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("text", ["order = = fifo", 'version = 1\norder = "nope"\n', "\x00"])
@pytest.mark.parametrize("kind", [(), ("mode",)])
def test_a_broken_mode_file_hides_no_other(own_modes: Path, text: str, kind: tuple[str, ...]):
    (own_modes / "night.toml").write_text(text)
    (own_modes / "day.toml").write_text('version = 1\nsummary = "By day."\n')
    (own_modes / "folder.toml").mkdir()
    shown = run("policies", *kind)
    assert "By day." in shown.stdout
    assert "fair" in shown.stdout
    assert f"warning: {own_modes / 'night.toml'}: mode" in shown.stderr
    assert shown.stderr.count("warning") == 1
    listed = json.loads(run("policies", *kind, "--json").stdout)["modes"]
    assert [mode["name"] for mode in listed] == [name for name in mode_names() if name != "night"]


def test_version_and_help():
    assert gpusquad.__version__ in run("--version").stdout
    assert "simulate" in run("--help").stdout
