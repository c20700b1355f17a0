"""``gpusquad measure``: with series that lie in a folder, and with workers beside a card that does not exist."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpusquad.cli import _measure_run, measure
from gpusquad.cli._measure_run import UNFINISHED, MeasureOptions, read_commands
from gpusquad.gpu.nvml import NvmlError
from gpusquad.measure import series_files, session
from gpusquad.measure.launcher import PodOptions
from gpusquad.measure.workloads import CATALOGUE
from gpusquad.model.errors import Invalid
from tests.canned.jobs import HOSTILE
from tests.measure.fakes import BROKEN, OTHER, QUICK, FakeCardLauncher
from tests.measure.sample import AT_US, sample


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing measured yet."""
    monkeypatch.setenv("GPUSQUAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "interference"


@pytest.fixture
def equipped(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    """A machine with a card, PyTorch and MPS, as far as is looked at before measuring; workers are real processes."""

    class Card:
        def __init__(self, card: str) -> None:
            if not card.isdigit():
                raise NvmlError("nvmlDeviceGetHandleByIndex_v2: error 2")

        def model(self) -> str:
            return "Fake"

    monkeypatch.chdir(repository)  # workers import their workloads from here
    monkeypatch.setattr(_measure_run, "CardReader", Card)
    monkeypatch.setattr(_measure_run, "find_spec", lambda name: object())
    monkeypatch.setattr(_measure_run, "LocalLauncher", FakeCardLauncher)
    monkeypatch.setattr(_measure_run.shutil, "which", lambda name: f"/usr/bin/{name}")


# -- showing ---------------------------------------------------------------------------------------------------------


def test_the_newest_series_is_shown(gsq, folder):
    series_files.save(sample(), folder)
    series_files.save(sample(driver="700.1", at_us=AT_US + 10**6), folder)
    shown = gsq("measure", "show").stdout
    assert "driver 700.1 · mps · 40.0 GB in all · 5 repeats" in shown
    row = next(line for line in shown.splitlines() if line.startswith("transformer-inference"))
    assert row.split()[1:] == ["0.68▼", "0.48▼", "0.50▼", "0.52", "0.41▼", "0.63▼"]
    assert "oom" in next(line for line in shown.splitlines() if line.startswith("transformer-training"))
    assert "cnn + stream + matmul  all" in shown
    assert "In 13 of 15 pairs one loses more than the other:" in shown


def test_narrow_terminals_get_numbers_for_names(gsq, folder, monkeypatch):
    series_files.save(sample(), folder)
    monkeypatch.setenv("COLUMNS", "80")
    shown = gsq("measure", "show").stdout.splitlines()
    heads = next(line for line in shown if line.split()[:3] == ["1", "2", "3"])
    assert heads.split() == ["1", "2", "3", "4", "5", "6"]
    assert any(line.startswith("6 matmul ") for line in shown)


def test_a_file_by_its_path_or_its_name(gsq, folder, tmp_path):
    path = series_files.save(sample(), folder)
    elsewhere = series_files.save(sample(driver="1.2.3"), tmp_path / "elsewhere")
    assert "driver 600.10" in gsq("measure", "show", path.name).stdout
    assert "driver 1.2.3" in gsq("measure", "show", elsewhere).stdout
    assert "driver 1.2.3" in gsq("measure", "show", "--folder", tmp_path / "elsewhere").stdout


def test_pages_and_pictures(gsq, folder, tmp_path):
    pytest.importorskip("matplotlib")
    series_files.save(sample(), folder)
    page, picture = tmp_path / "deep" / "x.html", tmp_path / "x.png"
    done = gsq("measure", "show", "--html", page, "--png", picture)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"Wrote {page}" in done.stderr
    assert f"Wrote {picture}" in done.stderr


def test_json_has_the_figures_and_the_tests(gsq, folder):
    path = series_files.save(sample(), folder)
    data = json.loads(gsq("measure", "show", "--json").stdout)
    assert data["file"] == str(path)
    assert data["measured"]["setting"]["driver"] == "600.10"
    assert len(data["asymmetries"]) == 15
    assert {"mean", "low", "high", "p", "adjusted_p"} == set(data["diagonals"][0]["loss"])


@pytest.mark.parametrize("words", [["show"], ["show", "none.json"], ["compare", "a.json", "b.json"]])
def test_nothing_to_show(gsq, folder, words):
    assert str(folder) in gsq("measure", *words, code=2).stderr


def test_a_broken_file_is_told(gsq, tmp_path):
    (tmp_path / "x.json").write_text('{"format": 1, "set', encoding="utf-8")
    assert "is incomplete or not JSON" in gsq("measure", "show", tmp_path / "x.json", code=2).stderr


def test_broken_files_beside_the_newest_are_named(gsq, folder):
    series_files.save(sample(), folder)
    (folder / "half.json").write_text("{", encoding="utf-8")
    done = gsq("measure", "show")
    assert "driver 600.10" in done.stdout
    assert f"Skipped {folder / 'half.json'}: is incomplete or not JSON" in done.stderr


def test_hostile_names_are_made_safe(gsq, folder):
    from tests.measure.charts.test_heatmaps import renamed

    series_files.save(renamed(sample(), HOSTILE), folder)
    for words in (["show"], ["list"]):
        assert "\x1b" not in gsq("measure", *words).stdout


def test_the_list(gsq, folder):
    assert "no series measured yet" in gsq("measure", "list").stdout
    old, new = series_files.save(sample(), folder), series_files.save(sample(at_us=AT_US + 10**6), folder)
    (folder / "half.json").write_text("{", encoding="utf-8")
    shown = gsq("measure", "list").stdout
    assert shown.index(new.name[:30]) < shown.index("Skipped half.json: is incomplete or not JSON")
    data = json.loads(gsq("measure", "list", "--json").stdout)
    assert [item["file"] for item in data["items"]] == [str(new), str(old)]
    assert [item["file"] for item in data["skipped"]] == [str(folder / "half.json")]


def test_comparing(gsq, folder):
    old = series_files.save(sample(), folder)
    new = series_files.save(sample(driver="700", shift=0.1, at_us=AT_US + 10**6), folder)
    shown = gsq("measure", "compare", old.name, new).stdout.splitlines()
    assert shown[0] == "driver 600.10 before, 700 now"
    assert shown[1].startswith("cnn in cnn beside matmul: 0.67 of its speed alone before, 0.77 now (faster;")
    assert len(json.loads(gsq("measure", "compare", old, new, "--json").stdout)["changes"]) == 1
    sliced = series_files.save(sample(sharing="time-slicing"), folder)
    assert (
        "sharing is mps in one and time-slicing in the other" in gsq("measure", "compare", old, sliced, code=2).stderr
    )


# -- measuring -------------------------------------------------------------------------------------------------------


def quick(*more: object) -> list[object]:
    """The least that is a series."""
    return ["measure", "--workloads", f"{QUICK},{OTHER}", "--repeats", "2", "--window", "20ms", *more]


def test_a_series_from_workers_to_the_table(gsq, equipped, folder, tmp_path):
    done = gsq(*quick("--html", tmp_path / "x.html"))
    kept = series_files.latest(folder)
    assert kept is not None
    assert {solo.workload for solo in kept.measured.solos} == {QUICK, OTHER}
    assert len(kept.measured.co_runs) == 3
    assert kept.measured.setting.gpu == "Fake"
    assert f"Wrote {kept.path}" in done.stderr
    assert QUICK in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Fake: driver 1 · time-slicing" in done.stdout
    assert list((folder / UNFINISHED).iterdir()) == []  # nothing is left to go on with


def test_the_second_series_is_held_against_the_first(gsq, equipped, monkeypatch):
    series = iter([sample(), sample(shift=0.2, at_us=AT_US + 10**6)])
    monkeypatch.setattr(session, "measure", lambda *_: next(series))
    assert "Compared with" not in gsq(*quick()).stdout
    shown = gsq(*quick()).stdout
    assert "Compared with the series of" in shown
    assert "cnn in cnn beside matmul: 0.67 of its speed alone before, 0.87 now" in shown


def test_json_says_what_changed_and_where_it_lies(gsq, equipped, monkeypatch, folder):
    series_files.save(sample(), folder)
    monkeypatch.setattr(session, "measure", lambda *_: sample(shift=0.2, at_us=AT_US + 10**6))
    data = json.loads(gsq(*quick("--json")).stdout)
    assert Path(data["file"]).parent == folder
    assert len(data["comparison"]["changes"]) == 1
    assert (data["windows_left"], data["failed"]) == (0, [])


def test_what_the_budget_cuts_off_is_taken_up_again(gsq, equipped, folder):
    done = gsq(*quick("--budget", "0s"), code=2)
    assert "the time budget was too short" in done.stderr
    assert len(list((folder / UNFINISHED).iterdir())) == 1
    gsq(*quick("--resume"))
    assert list((folder / UNFINISHED).iterdir()) == []
    assert "no unfinished series with these settings" in gsq(*quick("--resume"), code=2).stderr


def test_windows_that_are_left_are_counted(gsq, equipped, monkeypatch):
    real = session.measure

    def of_one_repeat(series: session.Series, *rest: Any):
        from dataclasses import replace

        return real(replace(series, wanted=replace(series.wanted, repeats=1)), *rest)

    monkeypatch.setattr(session, "measure", of_one_repeat)
    assert "5 windows are left. To continue, use --resume" in gsq(*quick()).stderr


def test_a_workload_that_fails_is_named(gsq, equipped, folder):
    words = quick()
    words[2] = f"{QUICK},{BROKEN}"
    done = gsq(*words)
    assert f"Failed: {BROKEN}: " in done.stderr
    assert "a mistake" in done.stderr
    assert len(list((folder / UNFINISHED).iterdir())) == 1


def test_stopping_by_hand_tells_how_to_go_on(gsq, equipped, monkeypatch):
    def stop(*_: Any):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "measure", stop)
    assert "--resume with the same options" in gsq(*quick(), code=130).stderr


def test_options_reach_the_engine(gsq, equipped, monkeypatch, tmp_path):
    seen: list[session.Series] = []

    def keep(series: session.Series, *_: Any):
        seen.append(series)
        return sample()

    monkeypatch.setattr(session, "measure", keep)
    gsq("measure", "--workloads", "cnn,stream", "--workload", "mine=python 'my train.py' -n 1",
        "--pattern", r"it (\d+)", "--sharing", "mps", "--splits", "--triples", "1", "--memory", "12GB",
        "--repeats", "3", "--window", "500ms", "--budget", "10m", "--card", "1", "--out", tmp_path / "own")  # fmt: skip
    series = seen[0]
    assert series.wanted.workloads == ("cnn", "stream", "mine")
    assert (series.wanted.repeats, series.wanted.triples, series.wanted.splits_milli) == (3, 1, (250, 500, 750))
    assert (series.sharing, series.card, series.budget_s) == ("mps", "1", 600)
    assert (series.options.length_s, series.options.memory_bytes) == (0.5, 12 * 10**9)
    own = ("mine", "--pattern", r"it (\d+)", "--command", "python", "my train.py", "-n", "1")
    assert series.options.arguments == {"mine": own}
    assert len(series_files.all_of(tmp_path / "own").kept) == 1


def test_what_is_measured_when_nothing_is_said():
    assert measure._workloads(None, has_commands=False) == tuple(CATALOGUE)
    assert measure._workloads(None, has_commands=True) == ()
    assert measure._workloads("cnn, stream", has_commands=False) == ("cnn", "stream")
    assert measure._workloads("none", has_commands=True) == ()
    assert measure._pod("kubernetes", "image", "ml", "n1") == PodOptions("image", "ml", node="n1")


@pytest.mark.parametrize("text", ["mine", "=python x", "mine=", 'mine=python "x', "cnn=python x"])
def test_commands_that_are_none(text):
    with pytest.raises(Invalid) as refused:
        read_commands([text])
    assert refused.value.field == "workload"


def test_two_programs_of_one_name():
    with pytest.raises(Invalid, match="is already a workload"):
        read_commands(["a=x", "a=y"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workloads", "cnn,foo"], "'foo' is not in the catalogue (choose from cnn, vgg16,"),
        (["--workloads", ","], "names no workload"),
        (["--splits"], "splits: requires MPS"),
        (["--memory", "12XB"], "'XB' is not a unit"),
        (["--pattern", "("], "is not a valid regular expression"),
        (["--card", "cat"], "this machine has no GPU 'cat' (list them with nvidia-smi -L)"),
        (["--engine", "kubernetes"], "add --image"),
        (
            ["--engine", "kubernetes", "--image", "x", "--card", "1"],
            "cannot be chosen for a pod, which sees only its own card",
        ),
        (["--html", "."], "is a directory"),
        (["--sharing", "mig"], "--sharing"),
        (["--repeats", "0"], "--repeats"),
    ],
)
def test_clear_errors(gsq, equipped, words, told):
    assert told in " ".join(gsq("measure", *words, code=2).stderr.split())


def test_without_a_gpu(gsq, monkeypatch):
    monkeypatch.setenv("GPUSQUAD_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so")
    assert "found no GPU or no NVIDIA driver" in gsq("measure", code=2).stderr


def test_without_pytorch(gsq, equipped, monkeypatch):
    monkeypatch.setattr(_measure_run, "find_spec", lambda name: None)
    assert "-m pip install torch" in gsq("measure", code=2).stderr
    _measure_run.check(MeasureOptions(Path(), (), {"mine": ("true",)}))  # programs of one's own need none


def test_without_mps(gsq, equipped, monkeypatch):
    monkeypatch.setattr(_measure_run.shutil, "which", lambda name: None)
    assert "nvidia-cuda-mps-control is not installed" in gsq("measure", "--sharing", "mps", code=2).stderr
    pod = ["measure", "--engine", "kubernetes", "--image", "x"]
    assert "kubectl is not installed" in gsq(*pod, code=2).stderr


def test_what_the_shell_offers(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert measure._names("vgg") == ["vgg16", "vgg11"]
    assert measure._names("cnn,str") == ["cnn,stream"]
    path = series_files.save(sample(), folder)
    (tmp_path / "mine.json").write_text("{}", encoding="utf-8")
    assert measure._files("") == ["home", "mine.json", path.name]
    assert measure._files("example") == [path.name]
