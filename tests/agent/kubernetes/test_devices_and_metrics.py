"""Tests of device files, quota files, pod processes, metrics and options of the node agent."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path

import pytest

from gpusquad.agent.inventory import CardInfo
from gpusquad.agent.kubernetes.__main__ import _JsonLines, _parser, _sharing, main
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.device_nodes import NvidiaDeviceNodes, SimulatedDeviceNodes
from gpusquad.agent.kubernetes.metrics import Metrics
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pod_processes import PodProcesses
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Container
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.gpu.api import QUOTA_PATH, Attachment, Holder, Mount, QuotaFile, SharingParams
from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from tests.agent.kubernetes.fake_kubelet import pod

UID = "0123abcd-1234-5678-9abc-0123456789ab"


def card_info(index: int, pci: str) -> CardInfo:
    return CardInfo(f"GPU-{index}", index, "H100", 80, 132, 0, pci)


def test_nvidia_device_files_use_the_device_minor_of_the_driver(tmp_path: Path):
    dev, driver = tmp_path / "dev", tmp_path / "gpus"
    (driver / "0000:18:00.0").mkdir(parents=True)
    (driver / "0000:18:00.0" / "information").write_text("Model: \t H100\nDevice Minor: \t 3\n")
    dev.mkdir()
    for name in ("nvidiactl", "nvidia-uvm"):
        (dev / name).touch()
    nodes = NvidiaDeviceNodes(dev, driver).of([card_info(0, "00000000:18:00.0"), card_info(1, "00000000:2A:00.0")])
    assert [node.inside for node in nodes] == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidia1"]
    assert nodes[2].outside == str(dev / "nvidia3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_simulated_card_is_a_null_device(tmp_path: Path):
    cards = SimulatedInventory(2, tmp_path).cards
    SimulatedDeviceNodes(tmp_path / "devices", cards)
    nodes = SimulatedDeviceNodes(tmp_path / "devices", cards).of(cards)  # after a restart
    assert [node.inside for node in nodes] == ["/dev/gpusquad0", "/dev/gpusquad1"]
    found = os.stat(nodes[1].outside)
    assert stat.S_ISCHR(found.st_mode)
    assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (1, 3)


def test_quota_file_is_written_for_each_holder_until_it_is_released(tmp_path: Path):
    quota = QuotaFile(folder=tmp_path)
    cards = [Card("A", memory_bytes=80), Card("B", memory_bytes=40)]
    whole = quota.attach(cards, Holder("u1", "main", "j"), None, SharingParams())
    assert whole == Attachment(mounts=(Mount(QUOTA_PATH, str(tmp_path / "u1" / "main.json"), read_only=True),))
    assert json.loads((tmp_path / "u1" / "main.json").read_text()) == {
        "job": "j", "owner": "u1", "part": "main",
        "cards": [{"card": "A", "memory_bytes": 80, "sm_milli": 1000},
                  {"card": "B", "memory_bytes": 40, "sm_milli": 1000}],
    }  # fmt: skip
    quota.attach(cards[:1], Holder("u2", "main"), Share(10, 0), SharingParams())
    quota.attach(cards[:1], Holder("u2", "side"), Share(0, 250), SharingParams())
    limits = [json.loads((tmp_path / "u2" / f"{name}.json").read_text())["cards"] for name in ("main", "side")]
    assert limits == [
        [{"card": "A", "memory_bytes": 10, "sm_milli": 1000}], [{"card": "A", "memory_bytes": 20, "sm_milli": 250}],
    ]  # fmt: skip
    quota.release_all_but({"u2"})
    assert [folder.name for folder in tmp_path.iterdir()] == ["u2"]


def write_process(proc: Path, pid: int, cgroup: str, ticks: int) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup").write_text(f"0::/kubepods/{cgroup}/abc\n")
    rest = ["S", "1", *["0"] * 9, str(ticks), "0", *["0"] * 6, "77", "0", "5"]
    (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(rest)} 0 0\n")


@pytest.mark.parametrize("cgroup", [f"pod{UID}", f"kubepods-pod{UID.replace('-', '_')}.slice"])
def test_pod_processes_are_found_by_cgroup_and_measured_between_looks(tmp_path: Path, cgroup: str):
    proc, now_s = tmp_path / "proc", [0.0]
    write_process(proc, 7, cgroup, 0)
    write_process(proc, 8, "podffffffff-1234-5678-9abc-0123456789ab", 0)
    processes = PodProcesses(proc, lambda: now_s[0])
    pods = [pod("p", [Container("main", 1)], uid=UID)]
    listed = [ListedPod("default", "p", {"main": ("SIM-1::0",)})]
    [first] = processes.look(pods, listed)
    assert (first.pid, first.name, first.job, first.cards, first.cpu_ratio) == (
        7,
        "a (b) c",
        "default/p",
        ("SIM-1",),
        None,
    )
    write_process(proc, 7, cgroup, os.sysconf("SC_CLK_TCK"))
    now_s[0] = 2.0
    [second] = processes.look(pods, listed)
    assert second.cpu_ratio == 0.5
    assert (processes.owner(7), processes.owner(8)) == ("default/p", None)
    assert processes.look(pods, []) == []


def test_metrics_have_the_pod_of_each_card(tmp_path: Path):
    write_process(tmp_path / "proc", 7, f"pod{UID}", 0)
    cards, counts = NodeCards(SimulatedInventory(2, tmp_path)), EventCounters()
    counts.add("allocations")
    metrics, now_s = Metrics(cards, 3, counts), [0.0]
    processes = PodProcesses(tmp_path / "proc", lambda: now_s[0])
    pods, listed = [pod("p", [Container("main", 1)], uid=UID)], [ListedPod("default", "p", {"main": ("SIM-1::2",)})]
    for ticks in (0, os.sysconf("SC_CLK_TCK") // 2):
        write_process(tmp_path / "proc", 7, f"pod{UID}", ticks)
        metrics.take(cards.look(processes.look(pods, listed)), processes, listed)
        now_s[0] += 1.0
    lines = metrics.text().splitlines()
    labels = 'UUID="SIM-1",gpu="1",namespace="default",pod="p",container="main"'
    for line in (
        'gpusquad_agent_cards{ok="true"} 2', "gpusquad_agent_slots 6", "gpusquad_agent_slots_used 1",
        "gpusquad_agent_allocations_total 1", "gpusquad_agent_mismatches_total 0",
        f"gpusquad_pod_gpu_utilisation_ratio{{{labels}}} 0.5",
        f"gpusquad_pod_gpu_memory_bytes{{{labels}}} {5 * os.sysconf('SC_PAGE_SIZE')}",
        'gpusquad_gpu_utilisation_ratio{UUID="SIM-0",gpu="0"} 0',
    ):  # fmt: skip
        assert line in lines
    names = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    assert [name for index, name in enumerate(names) if name not in names[max(index - 1, 0) : index]] == list(
        dict.fromkeys(names)
    )


def test_log_line_is_a_json_object():
    record = logging.makeLogRecord({"msg": "allocated %s", "args": ("it",), "levelname": "INFO", "slots": ["A::0"]})
    line = json.loads(_JsonLines().format(record))
    assert (line["message"], line["level"], line["slots"]) == ("allocated it", "info", ["A::0"])


@pytest.mark.parametrize("slots", ["0", "49", "x"])
def test_invalid_number_of_slots_is_rejected(slots: str):
    with pytest.raises(SystemExit):
        _parser().parse_args(["--node", "n", "--slots", slots])


@pytest.mark.parametrize(("flag", "message"), [
    ("--fail-open-ms=100", "use 500 to"), ("--fail-open-ms=soon", "not a whole number"),
    ("--context-bytes=-1", "use auto, or 0 to"),
])  # fmt: skip
def test_invalid_sharing_option_is_rejected_with_a_cure(flag: str, message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        _parser().parse_args(["--node", "n", flag])
    assert message in capsys.readouterr().err


def test_sharing_options_have_defaults_and_can_be_set():
    defaults = _sharing(_parser().parse_args(["--node", "n"]))
    assert (defaults.fail_open_ms, defaults.context_bytes, defaults.strangers) == (1000, "auto", "report")
    flags = ["--fail-open-ms=0", "--context-bytes=536870912", "--unmanaged=refuse"]
    given = _sharing(_parser().parse_args(["--node", "n", *flags]))
    assert (given.fail_open_ms, given.context_bytes, given.strangers) == (0, 2**29, "refuse")


def test_agent_accepts_deprecated_option_with_a_warning(caplog: pytest.LogCaptureFixture):
    assert _sharing(_parser().parse_args(["--node", "n", "--strangers=share"])).strangers == "share"
    assert "use --unmanaged" in caplog.text


def test_agent_exits_with_2_when_the_kubeconfig_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--node", "n", "--kubeconfig", str(tmp_path / "none"), "--folder", str(tmp_path)]) == 2
