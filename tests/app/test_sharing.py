"""Who keeps jobs to their parts of this machine's cards, and what happens where nobody can."""

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
PATIENCE_S = 60.0


def by_equal(card: str) -> str:
    return "equal"


def test_simulated_cards_have_nobody(tmp_path: Path) -> None:
    made = make_sharing(SharingConfig(), tmp_path, CARDS, True, by_equal)
    assert (type(made), "simulated" in made.absence) == (NoSharing, True)


def test_parts_are_only_written_down_where_that_is_wanted(tmp_path: Path) -> None:
    made = make_sharing(SharingConfig(enforce=False), tmp_path, CARDS, False, by_equal)
    assert isinstance(made, QuotaFile)
    assert "sharing.enforce" in made.absence


def test_without_the_library_jobs_still_run_and_it_is_said_once(tmp_path: Path, monkeypatch) -> None:
    def fails(settings: CardSharingSettings) -> Path:
        raise Invalid("gcc", "is not installed", "apt-get install gcc")

    monkeypatch.setattr(sharing, "client_library", fails)
    with capture_logs() as lines:
        made = make_sharing(SharingConfig(), tmp_path, CARDS, False, by_equal)
    assert isinstance(made, QuotaFile)
    assert "gcc: is not installed (apt-get install gcc)" in made.absence
    assert [line["because"] for line in lines] == ["gcc: is not installed (apt-get install gcc)"]


def test_the_settings_reach_whoever_keeps_the_cards(tmp_path: Path, monkeypatch) -> None:
    seen: list[CardSharingSettings] = []
    monkeypatch.setattr(sharing, "client_library", seen.append)
    config = SharingConfig(mps="off", unmanaged="share", folder=str(tmp_path / "f"), library_folder="/opt/x", idle_s=3,
                           fail_open_ms=0, context_bytes=2**29)  # fmt: skip
    made = make_sharing(config, tmp_path, CARDS, False, lambda card: f"slo of {card}")
    assert (type(made), made.absence) == (SquadQuota, "")
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
    assert list(tmp_path.iterdir()) == []  # nothing is started before the first tenant


def test_two_services_on_one_machine_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "also-a").symlink_to(tmp_path / "a")
    assert folder_of(tmp_path / "a") == folder_of(tmp_path / "also-a") != folder_of(tmp_path / "b")
    same = tmp_path / "said by both"
    assert folder_of(tmp_path / "a", same).parent == folder_of(tmp_path / "b", same).parent == same
    assert folder_of(tmp_path / "a", same) != folder_of(tmp_path / "b", same)


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
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, text: str, field: str) -> None:
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


def test_a_time_that_is_too_short_is_told_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[sharing]\nfail_open_ms = 100\n")
    with pytest.raises(Invalid, match=r"100 is out of range .*use 500 to 3600000, or 0"):
        load_config(tmp_path)


def test_what_is_not_set_is_as_it_was() -> None:
    assert (SharingConfig().fail_open_ms, SharingConfig().context_bytes) == (1000, "auto")
    assert (CardSharingSettings().fail_open_ms, CardSharingSettings().context_bytes) == (1000, "auto")


class FakeSharing(NoSharing):
    def __init__(self) -> None:
        self.asked: list[tuple[str, list[int], set[int]]] = []
        self.tended = 0
        self.by_tenant: dict[str, list[int]] = {}
        self.heard = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def maintain(self) -> None:
        self.tended += 1

    def client_pids(self, card_id: str) -> dict[str, list[int]]:
        return self.by_tenant

    def report_processes(self, card_id: str, listed: Sequence[UnmanagedProcess], ours: Sequence[int]) -> Sequence[int]:
        self.asked.append((card_id, [one.pid for one in listed], set(ours)))
        self.heard.set()
        assert self.may_answer.wait(PATIENCE_S)
        return [one.pid for one in listed if one.pid not in ours]


def process(pid: int, job: str | None = None, name: str = "python") -> dict:
    return {"pid": pid, "name": name, "memory_bytes": 2**30, "job": job, "attempt": 0 if job else None}


def samples(**cards: list[dict]) -> dict:
    named = {name.replace("_", "."): processes for name, processes in cards.items()}
    return {"kind": "samples", "cards": [{"id": f"GPU-{name}", "processes": of} for name, of in named.items()]}


@pytest.fixture
def squads() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def watch(squads: FakeSharing):
    made = SquadWatch(squads)
    yield made
    squads.may_answer.set()
    made.close()


def test_a_stranger_is_told_of_once_for_as_long_as_it_stays(squads: FakeSharing, watch: SquadWatch) -> None:
    with capture_logs() as lines:
        for processes in ([process(4), process(5, "job")], [process(4), process(6)], [], [process(4)]):
            watch.see(samples(a=processes))
            watch.see(samples(a=processes))
    assert [(line["card"], line["pid"], line["name"]) for line in lines] == [
        ("GPU-a", 4, "python"), ("GPU-a", 6, "python"), ("GPU-a", 4, "python"),
    ]  # fmt: skip
    assert squads.asked[1] == ("GPU-a", [4, 5], {5})
    assert squads.asked[4] == ("GPU-a", [], set()), "that it left is told too"


def test_one_that_is_seen_once_may_be_a_jobs_of_whom_nobody_has_heard_yet(
    squads: FakeSharing, watch: SquadWatch
) -> None:
    with capture_logs() as lines:
        for message in (samples(a=[], b=[]), samples(a=[process(4)], b=[]), samples(a=[process(4, "job")], b=[])):
            watch.see(message)
    assert lines == []
    assert [ours for card, _, ours in squads.asked if card == "GPU-a"] == [set(), {4}, {4}]


def test_a_stranger_is_never_ours_because_nobody_has_looked(squads: FakeSharing, watch: SquadWatch) -> None:
    """Neither the first time, for it may be older than we are, nor after a card did not tell."""
    untold = {"kind": "samples", "cards": [{"id": "GPU-a", "processes": None}]}
    for message in (samples(a=[process(4)]), untold, samples(a=[process(4)])):
        watch.see(message)
    assert [ours for _, _, ours in squads.asked] == [set(), set()]


def test_the_server_of_mps_is_no_stranger_and_virtual_cards_are_one_card(
    squads: FakeSharing, watch: SquadWatch
) -> None:
    server = process(9, name="nvidia-cuda-mps")
    watch.see(samples(a_1of2=[server, process(5, "job")], a_2of2=[server, process(6, "other")]))
    assert squads.asked == [("GPU-a", [9, 5, 6], {9, 5, 6})]


def test_a_process_too_small_to_be_in_the_way_is_none_to_the_daemon_either(squads, watch) -> None:
    for _ in range(2):
        watch.see(samples(a=[process(4) | {"memory_bytes": 2**20}, process(5)]))
    assert squads.asked[1] == ("GPU-a", [4, 5], {4})


def test_a_process_of_a_job_that_shed_the_library_is_marked_for_the_scheduler(squads: FakeSharing) -> None:
    now_s = [0.0]
    watch = SquadWatch(squads, lambda: now_s[0])
    squads.by_tenant = {"job.0/0": [5]}
    message = samples(a_1of2=[process(5, "job"), process(7, "job")], b=[process(7, "other")])
    assert watch.marked(message) == message
    for _ in range(2):
        watch.see(message)
        now_s[0] += GRACE_S
    first, second = watch.marked(message)["cards"]
    assert [(one["pid"], one["unheld"]) for one in first["processes"]] == [(5, False), (7, True)]
    assert second == message["cards"][1]
    watch.see(samples(a_1of2=[process(5, "job")]))
    assert watch.marked(message) == message
    watch.close()


def test_a_process_of_a_job_that_shed_the_library_is_a_stranger(squads: FakeSharing) -> None:
    now_s = [0.0]
    watch = SquadWatch(squads, lambda: now_s[0])
    squads.by_tenant = {"job.0/0": [5], "job.0/1": [6]}
    of_jobs = [process(5, "job"), process(6, "job"), process(7, "job"), process(8, "whole")]
    with capture_logs() as lines:
        watch.see(samples(a=of_jobs))
        assert squads.asked[-1][2] == {5, 6, 7, 8}, "it may be about to load it"
        now_s[0] += GRACE_S
        watch.see(samples(a=of_jobs))
        assert squads.asked[-1][2] == {5, 6, 8}, "one of whom no part was given here is not looked for"
    assert [(line["pid"], line["job"]) for line in lines] == [(7, "job")]
    squads.by_tenant["job.0/0"] = [5, 7]
    watch.see(samples(a=of_jobs))
    assert squads.asked[-1][2] == {5, 6, 7, 8}
    squads.by_tenant = {}  # the daemon does not answer
    now_s[0] += GRACE_S
    watch.see(samples(a=of_jobs))
    assert squads.asked[-1][2] == {5, 6, 7, 8}
    watch.close()


def test_a_daemon_that_does_not_answer_holds_up_no_samples(squads: FakeSharing, watch: SquadWatch) -> None:
    squads.may_answer.clear()
    watch.hear(samples(a=[process(4)]))
    assert squads.heard.wait(PATIENCE_S)
    for _ in range(100):
        watch.hear(samples(a=[process(4)]))
    watch.hear({"kind": "card_ok", "card": "GPU-a"})
    squads.may_answer.set()
    watch.close()
    assert len(squads.asked) == 2
    assert squads.tended == 2
