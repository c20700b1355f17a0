"""Modes: built-in modes, mode files of users, and refusal of invalid files."""

from pathlib import Path

import pytest

from gpusquad.core.state.lanes import DEFAULT_LANES
from gpusquad.core.state.policies import PreemptionConfig
from gpusquad.model.errors import Invalid
from gpusquad.modes import load_lanes, load_mode, mode_names

BUILT_IN = ("auto", "fair", "fifo", "hybrid", "jct", "predictive", "predictive-fifo", "slo", "standard")


@pytest.fixture(autouse=True)
def no_user_modes(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GPUSQUAD_MODES", raising=False)


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_built_in_modes_are_listed_and_have_a_summary():
    assert mode_names() == list(BUILT_IN)
    assert all(load_mode(name).summary for name in BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_mode_gives_its_policies(name):
    mode = load_mode(name)
    policies = mode.policies()
    assert (policies.names["order"], policies.names["plan"]) == (mode.order, mode.plan)
    assert [lane.name for lane in policies.lanes] == [lane.name for lane in DEFAULT_LANES]


def test_no_job_loses_much_work_to_another_in_the_default_mode():
    policies = load_mode("standard").policies()
    assert policies.preemption.overstay == "checkpointed"
    assert [(lane.min_gpus, lane.max_lost_s) for lane in policies.lanes] == [(8, 300), (0, 3600)]


def test_default_lanes_of_the_code_are_those_of_the_file():
    assert load_lanes() == DEFAULT_LANES


def test_policy_of_a_mode_can_be_replaced():
    policies = load_mode("jct").policies(place="spread")
    assert policies.names["place"] == "spread"
    assert policies.names["order"] == load_mode("jct").order


def test_slo_mode_preempts_by_priority():
    policies = load_mode("slo").policies()
    assert policies.preemption.by == "priority"
    assert policies.names["preempt"] == "priority"


def test_mode_file_with_all_fields_is_read(tmp_path):
    path = write(tmp_path, "mine", """
        version = 1
        summary = "ours"
        order = "las:quantum_s=600"
        plan = "conservative"
        place = "spread"
        divide = "slo"
        [preempt]
        by = "order"
        min_run_s = 1.5
        most_per_job = 7
        lanes = ["night"]
        [[lanes]]
        name = "night"
        max_gpus = 4
        priorities = ["low"]
        tenants = ["a", "b"]
        limit_ratio = "50%"
        preemptible = false
        [[lanes]]
        name = "day"
        [[tenants]]
        name = "a"
        weight = 2
        guaranteed_gpus = 8
        limit_gpus = 16
        reclaim_s = 60
    """)  # fmt: skip
    mode = load_mode(path)
    assert (mode.name, mode.order, mode.divide) == ("mine", "las:quantum_s=600", "slo")
    assert mode.preemption == PreemptionConfig("order", 1.5, 7)
    assert [(lane.name, lane.preemptible, lane.limit_ratio) for lane in mode.lanes] == [
        ("night", True, 0.5), ("day", False, 1.0)]  # fmt: skip
    assert (mode.tenants[0].weight, mode.tenants[0].limit_gpus, mode.tenants[0].reclaim_s) == (2.0, 16, 60.0)
    assert mode.policies().tenants == mode.tenants


def test_mode_folders_of_the_environment_come_before_the_config_folder(tmp_path, monkeypatch):
    write(tmp_path / "config" / "gpusquad" / "modes", "night", 'order = "las"')
    write(tmp_path / "config" / "gpusquad" / "modes", "fair", 'order = "sjf"')
    write(tmp_path / "one", "fair", 'order = "drf"')
    monkeypatch.setenv("GPUSQUAD_MODES", f"{tmp_path / 'nowhere'}:{tmp_path / 'one'}")
    assert load_mode("night").order == "las"
    assert load_mode("fair").order == "drf"
    assert mode_names() == sorted((*BUILT_IN, "night"))


def test_mode_name_cannot_leave_the_mode_folders(tmp_path, monkeypatch):
    write(tmp_path, "secret", "")
    (tmp_path / "modes").mkdir()
    monkeypatch.setenv("GPUSQUAD_MODES", str(tmp_path / "modes"))
    with pytest.raises(Invalid, match="does not exist"):
        load_mode("../secret")


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ('oder = "fifo"', "mode bad.oder", "did you mean 'order'"),
        ('order = "sfj"', "mode bad.order", "did you mean 'sjf'"),
        ('order = "zzz"', "mode bad.order", "choose from"),
        ('plan = "easy:backfil=shortest"', "mode bad.plan", "backfil"),
        ('plan = "easy:reservations=0"', "mode bad.plan", "less than one"),
        ("order = 3", "mode bad.order", "expected text"),
        ('[preempt]\nby = "prioritty"', "mode bad.preempt.by", "did you mean 'priority'"),
        ("[preempt]\nmin_run = 1", "mode bad.preempt.min_run", "did you mean 'min_run_s'"),
        ("[preempt]\nmin_run_s = -1", "mode bad.preempt.min_run_s", "below 0"),
        ("[preempt]\nmin_run_s = nan", "mode bad.preempt.min_run_s", "finite"),
        ('[preempt]\nlanes = ["smal"]', "mode bad.preempt.lanes", "did you mean 'small'"),
        ("[[lanes]]\nmin_gpus = 1", "mode bad.lanes[0].name", "missing"),
        ('[[lanes]]\nname = "a"\npriorities = ["hi"]', "mode bad.lanes[0].priorities", "neither a priority class"),
        ('[[lanes]]\nname = "a"\nmin_gpus = 4\nmax_gpus = 2', "mode bad.lanes[0].lane.a", "matches no job"),
        ('[[lanes]]\nname = "a"\n[[lanes]]\nname = "a"', "mode bad.lanes[1].name", "twice"),
        ('[[tenants]]\nname = "a"\nweight = 0', "mode bad.tenants[0].tenant.a.weight", "greater than zero"),
        ("lanes = 3", "mode bad.lanes", "expected a list"),
        ("version = 2", "mode bad.version", "is unknown"),
        ("order =", "mode", "not TOML"),
    ],
)
def test_invalid_mode_file_is_refused_with_the_field_and_a_suggestion(tmp_path, text, field, message):
    with pytest.raises(Invalid) as caught:
        load_mode(write(tmp_path, "bad", text))
    assert caught.value.field == field
    assert message in str(caught.value)


def test_unknown_mode_name_and_missing_file_are_refused(tmp_path):
    with pytest.raises(Invalid, match="did you mean 'jct'"):
        load_mode("jtc")
    with pytest.raises(Invalid, match="does not exist"):
        load_mode(tmp_path / "none.toml")


def test_default_lane_file_equals_the_default_of_the_core():
    assert load_lanes() == DEFAULT_LANES
    assert [(lane.name, lane.min_gpus) for lane in DEFAULT_LANES] == [("large", 8), ("small", 0)]


def test_preemptible_lanes_are_a_parameter(tmp_path):
    assert [(lane.preemptible, lane.max_lost_s) for lane in load_lanes()] == [(True, 300), (True, None)]
    assert [lane.preemptible for lane in load_lanes(preemptible=["large"])] == [True, False]
    with pytest.raises(Invalid, match="lane 'huge' does not exist"):
        load_lanes(preemptible=["huge"])
    with pytest.raises(Invalid, match=r"rules\.toml\.lanes: is missing"):
        load_lanes(write(tmp_path, "rules", ""))
