"""Tests of card sharing on this machine: quota enforcement, its fallbacks, and detection of unmanaged processes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpusquad.app import sharing
from gpusquad.app.config import SharingConfig, load_config
from gpusquad.app.sharing import SquadWatch, folder_of, make_sharing
from gpusquad.gpu.api import NoSharing, QuotaFile
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.gpu.attach.unmanaged import GRACE_S
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid

CARDS = (Card("GPU-a", "H200", 140 * 2**30, 132),)
TIMEOUT_S = 60.0


def equal_policy(card: str) -> str:
    return "equal"


def test_simulated_cards_are_not_shared(tmp_path: Path) -> None:
    card_sharing = make_sharing(SharingConfig(), tmp_path, CARDS, True, equal_policy)
    assert (type(card_sharing), "simulated" in card_sharing.absence) == (NoSharing, True)


def test_quota_is_only_recorded_when_enforcement_is_off(tmp_path: Path) -> None:
    card_sharing = make_sharing(SharingConfig(enforce=False), tmp_path, CARDS, False, equal_policy)
    assert isinstance(card_sharing, QuotaFile)
    assert "sharing.enforce" in card_sharing.absence


def test_quota_is_only_recorded_and_logged_once_without_the_library(tmp_path: Path, monkeypatch) -> None:
    def fail(settings: CardSharingSettings) -> Path:
        raise Invalid("gcc", "is not installed", "apt-get install gcc")

    monkeypatch.setattr(sharing, "client_library", fail)
    with capture_logs() as lines:
        card_sharing = make_sharing(SharingConfig(), tmp_path, CARDS, False, equal_policy)
    assert isinstance(card_sharing, QuotaFile)
    assert "gcc: is not installed (apt-get install gcc)" in card_sharing.absence
    assert [line["because"] for line in lines] == ["gcc: is not installed (apt-get install gcc)"]


def test_config_is_passed_to_the_card_manager(tmp_path: Path, monkeypatch) -> None:
    seen: list[CardSharingSettings] = []
    monkeypatch.setattr(sharing, "client_library", seen.append)
    config = SharingConfig(mps="off", unmanaged="share", folder=str(tmp_path / "f"), library_folder="/opt/x", idle_s=3,
                           fail_open_ms=0, context_bytes=2**29)  # fmt: skip
    card_sharing = make_sharing(config, tmp_path, CARDS, False, lambda card: f"slo of {card}")
    assert (type(card_sharing), card_sharing.absence) == (SquadQuota, "")
    [settings] = seen
    assert (settings.folder, settings.has_mps, settings.strangers) == (
        folder_of(tmp_path, tmp_path / "f"),
        False,
        "share",
    )
    assert (settings.library_folder, settings.idle_s, settings.policy_for("GPU-a")) == (
        Path("/opt/x"),
        3,
        "slo of GPU-a",
    )
    assert (settings.fail_open_ms, settings.context_bytes) == (0, 2**29)
    assert settings.uuid_of("GPU-a.1of2") == "GPU-a"
    assert list(tmp_path.iterdir()) == []  # nothing is started before the first client


def test_services_on_one_machine_use_separate_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "also-a").symlink_to(tmp_path / "a")
    assert folder_of(tmp_path / "a") == folder_of(tmp_path / "also-a") != folder_of(tmp_path / "b")
    base = tmp_path / "said by both"
    assert folder_of(tmp_path / "a", base).parent == folder_of(tmp_path / "b", base).parent == base
    assert folder_of(tmp_path / "a", base) != folder_of(tmp_path / "b", base)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('unmanaged = "kill"', "unmanaged"),
        ('strangers = "kill"', "strangers"),
        ('unmanaged = "share"\nstrangers = "refuse"', "strangers"),
        ('mps = "on"', "mps"),
        ("idle_s = 0", "idle_s"),
        ("part = 1", "part"),
        ("fail_open_ms = 100", "fail_open_ms"),
        ("context_bytes = -1", "context_bytes"),
        ('context_bytes = "500MiB"', "context_bytes"),
    ],
)
def test_invalid_setting_is_rejected_by_name(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "config.toml").write_text(f"[sharing]\n{text}\n")
    with pytest.raises(Invalid) as caught:
        load_config(tmp_path)
    assert caught.value.field == f"config.toml: sharing.{field}"


@pytest.mark.parametrize(("name", "warnings"), [("unmanaged", 0), ("strangers", 1)])
def test_config_accepts_deprecated_name_with_a_warning(tmp_path: Path, name: str, warnings: int) -> None:
    (tmp_path / "config.toml").write_text(f'[sharing]\n{name} = "refuse"\n')
    with capture_logs() as lines:
        assert load_config(tmp_path).sharing.unmanaged == "refuse"
    assert [line["log_level"] for line in lines] == ["warning"] * warnings
    assert all("rename it to sharing.unmanaged" in line["event"] for line in lines)


def test_short_fail_open_time_is_rejected_with_the_allowed_range(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[sharing]\nfail_open_ms = 100\n")
    with pytest.raises(Invalid, match=r"100 is out of range .*use 500 to 3600000, or 0"):
        load_config(tmp_path)


def test_config_and_card_settings_have_the_same_defaults() -> None:
    assert (SharingConfig().fail_open_ms, SharingConfig().context_bytes) == (1000, "auto")
    assert (CardSharingSettings().fail_open_ms, CardSharingSettings().context_bytes) == (1000, "auto")


class FakeSharing(NoSharing):
    def __init__(self) -> None:
        self.reports: list[tuple[str, list[int], set[int]]] = []
        self.maintained = 0
        self.pids_by_client: dict[str, list[int]] = {}
        self.reported = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def maintain(self) -> None:
        self.maintained += 1

    def client_pids(self, card_id: str) -> dict[str, list[int]]:
        return self.pids_by_client

    def report_processes(self, card_id: str, listed: Sequence[UnmanagedProcess], ours: Sequence[int]) -> Sequence[int]:
        self.reports.append((card_id, [process.pid for process in listed], set(ours)))
        self.reported.set()
        assert self.may_answer.wait(TIMEOUT_S)
        return [process.pid for process in listed if process.pid not in ours]


def process(pid: int, job: str | None = None, name: str = "python") -> dict:
    return {"pid": pid, "name": name, "memory_bytes": 2**30, "job": job, "attempt": 0 if job else None}


def samples(**cards: list[dict]) -> dict:
    by_card = {name.replace("_", "."): processes for name, processes in cards.items()}
    return {
        "kind": "samples",
        "cards": [{"id": f"GPU-{name}", "processes": listed} for name, listed in by_card.items()],
    }


@pytest.fixture
def fake() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def watch(fake: FakeSharing):
    created = SquadWatch(fake)
    yield created
    fake.may_answer.set()
    created.close()


def test_unmanaged_process_is_logged_once_until_it_leaves(fake: FakeSharing, watch: SquadWatch) -> None:
    with capture_logs() as lines:
        for processes in ([process(4), process(5, "job")], [process(4), process(6)], [], [process(4)]):
            watch.see(samples(a=processes))
            watch.see(samples(a=processes))
    assert [(line["card"], line["pid"], line["name"]) for line in lines] == [
        ("GPU-a", 4, "python"), ("GPU-a", 6, "python"), ("GPU-a", 4, "python"),
    ]  # fmt: skip
    assert fake.reports[1] == ("GPU-a", [4, 5], {5})
    assert fake.reports[4] == ("GPU-a", [], set()), "the empty list is reported too"


def test_new_process_counts_as_managed_until_the_next_look(fake: FakeSharing, watch: SquadWatch) -> None:
    with capture_logs() as lines:
        for message in (samples(a=[], b=[]), samples(a=[process(4)], b=[]), samples(a=[process(4, "job")], b=[])):
            watch.see(message)
    assert lines == []
    assert [ours for card, _, ours in fake.reports if card == "GPU-a"] == [set(), {4}, {4}]


def test_process_without_an_earlier_look_counts_as_unmanaged(fake: FakeSharing, watch: SquadWatch) -> None:
    """At the first look, when it may be older than the service, and after a look without a process list."""
    no_process_list = {"kind": "samples", "cards": [{"id": "GPU-a", "processes": None}]}
    for message in (samples(a=[process(4)]), no_process_list, samples(a=[process(4)])):
        watch.see(message)
    assert [ours for _, _, ours in fake.reports] == [set(), set()]


def test_mps_server_is_managed_and_virtual_cards_are_reported_as_one(fake: FakeSharing, watch: SquadWatch) -> None:
    server = process(9, name="nvidia-cuda-mps")
    watch.see(samples(a_1of2=[server, process(5, "job")], a_2of2=[server, process(6, "other")]))
    assert fake.reports == [("GPU-a", [9, 5, 6], {9, 5, 6})]


def test_process_with_little_memory_is_not_reported_as_unmanaged(fake, watch) -> None:
    for _ in range(2):
        watch.see(samples(a=[process(4) | {"memory_bytes": 2**20}, process(5)]))
    assert fake.reports[1] == ("GPU-a", [4, 5], {4})


def test_job_process_without_the_library_is_marked_in_samples(fake: FakeSharing) -> None:
    now_s = [0.0]
    watch = SquadWatch(fake, lambda: now_s[0])
    fake.pids_by_client = {"job.0/0": [5]}
    message = samples(a_1of2=[process(5, "job"), process(7, "job")], b=[process(7, "other")])
    assert watch.marked(message) == message
    for _ in range(2):
        watch.see(message)
        now_s[0] += GRACE_S
    first, second = watch.marked(message)["cards"]
    assert [(process_view["pid"], process_view["unheld"]) for process_view in first["processes"]] == [
        (5, False),
        (7, True),
    ]
    assert second == message["cards"][1]
    watch.see(samples(a_1of2=[process(5, "job")]))
    assert watch.marked(message) == message
    watch.close()


def test_job_process_without_the_library_counts_as_unmanaged(fake: FakeSharing) -> None:
    now_s = [0.0]
    watch = SquadWatch(fake, lambda: now_s[0])
    fake.pids_by_client = {"job.0/0": [5], "job.0/1": [6]}
    job_processes = [process(5, "job"), process(6, "job"), process(7, "job"), process(8, "whole")]
    with capture_logs() as lines:
        watch.see(samples(a=job_processes))
        assert fake.reports[-1][2] == {5, 6, 7, 8}, "the process may still load the library"
        now_s[0] += GRACE_S
        watch.see(samples(a=job_processes))
        assert fake.reports[-1][2] == {5, 6, 8}, "jobs without a share on this card are not checked"
    assert [(line["pid"], line["job"]) for line in lines] == [(7, "job")]
    fake.pids_by_client["job.0/0"] = [5, 7]
    watch.see(samples(a=job_processes))
    assert fake.reports[-1][2] == {5, 6, 7, 8}
    fake.pids_by_client = {}  # the daemon does not answer
    now_s[0] += GRACE_S
    watch.see(samples(a=job_processes))
    assert fake.reports[-1][2] == {5, 6, 7, 8}
    watch.close()


def test_samples_are_not_delayed_when_a_daemon_does_not_answer(fake: FakeSharing, watch: SquadWatch) -> None:
    fake.may_answer.clear()
    watch.hear(samples(a=[process(4)]))
    assert fake.reported.wait(TIMEOUT_S)
    for _ in range(100):
        watch.hear(samples(a=[process(4)]))
    watch.hear({"kind": "card_ok", "card": "GPU-a"})
    fake.may_answer.set()
    watch.close()
    assert len(fake.reports) == 2
    assert fake.maintained == 2
