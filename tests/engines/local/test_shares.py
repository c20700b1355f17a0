"""Parts of cards: given before a gang starts, told to its tasks, changed while it runs, taken back at its end."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.local import attempt_watcher
from gpusquad.engines.local.engine import LocalEngine
from gpusquad.engines.local.shares import ShareEnvironment, Shares, has_parts
from gpusquad.gpu.api import Attachment, Holder, NoSharing
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.job import Share, Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.harness import PATIENCE_S, Bench, News, eventually, launch

GIB = 2**30
CARD = Card("GPU-a", "H200", 140 * GIB, 132)
HALF = Share(8 * GIB, 500)


class FakeQuota(NoSharing):
    """Remembers what it was asked; answers when it may."""

    absence = ""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.tenants: dict[tuple[str, str], SharingParams] = {}
        self.problems: list[Exception] = []
        self.env: dict[str, str] = {"LD_PRELOAD": "/lib/ours.so", "GPUSQUAD_TENANT": "/run/tenants/3"}
        self.notes: tuple[str, ...] = ()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_asked = threading.Event()
        self.busy: dict[str, threading.Event] = {}
        """By owner: set when what it has on the card is done."""

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        self.calls.append(("attach", tuple(cards), holder, share, sharing_params))
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        if self.problems:
            raise self.problems.pop(0)
        self.tenants[holder.owner, holder.part] = sharing_params
        return Attachment(env=self.env, notes=self.notes)

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        self.calls.append(("change", holder.owner, holder.part, sharing_params))
        if (holder.owner, holder.part) in self.tenants:
            self.tenants[holder.owner, holder.part] = sharing_params

    def release_all_but(self, owners: set[str]) -> None:
        self.calls.append(("release_all_but", owners))
        self.tenants = {key: sharing_params for key, sharing_params in self.tenants.items() if key[0] in owners}

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        self.calls.append(("pause", [f"{holder.owner}/{holder.part}" for holder in holders], within_s))
        assert self.busy.get(holders[0].owner, self.may_answer).wait(PATIENCE_S)
        if self.problems:
            raise self.problems.pop(0)
        return True

    def pauses(self) -> list[tuple]:
        return [call[1:] for call in self.calls if call[0] == "pause"]

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        self.calls.append(("drain", holder.owner, holder.part))
        return True

    @property
    def owners(self) -> set[str]:
        return {owner for owner, _ in self.tenants}


@pytest.fixture
def quota() -> FakeQuota:
    return FakeQuota()


@pytest.fixture
def bench(home: Path, tmp_path: Path, quota: FakeQuota) -> Iterator[Bench]:
    made = Bench(
        lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD], share_note="as it may be"), tmp_path
    )
    made.engine.recover([])
    eventually(lambda: quota.calls)  # from here on it knows all gangs
    yield made
    for event in (quota.may_answer, *quota.busy.values()):
        event.set()
    made.close()


def shared(*commands: str, env: dict[str, str] | None = None) -> tuple[TaskLaunch, ...]:
    return tuple(
        TaskLaunch(rank, "worker", rank, "node", (CARD.id,), ("/bin/sh", "-c", command), share=HALF, env=env or {})
        for rank, command in enumerate(commands)
    )


def test_tasks_get_the_environment_of_their_share(bench: Bench, quota: FakeQuota) -> None:
    """Ours win over the user's, and what the user wants preloaded is loaded behind ours."""
    told = bench.folder / "told"
    quota.env |= {"CUDA_MPS_PIPE_DIRECTORY": "/run/pipes"}
    # The shell itself complains of a library that is not there, and runs on.
    say = f'echo "$LD_PRELOAD $GPUSQUAD_TENANT $CUDA_MPS_PIPE_DIRECTORY $OWN" > {told}'
    own = {"LD_PRELOAD": "/lib/theirs.so", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mine", "OWN": "kept"}
    sharing_params = SharingParams(2.0, 1, Slo(latency_us=20_000), 5_000_000)
    bench.launch("job", tasks=shared(say, env=own), sharing_params=sharing_params)
    assert bench.reports.ended("job").how == "succeeded"
    assert told.read_text() == "/lib/ours.so:/lib/theirs.so /run/tenants/3 /run/pipes kept\n"
    assert quota.calls[1] == ("attach", (CARD,), Holder("job.0", "0", "job"), HALF, sharing_params)


def test_each_task_gets_its_own_share_and_notes_are_reported(bench: Bench, quota: FakeQuota) -> None:
    quota.notes = ("time sliced: there is no MPS here",)
    bench.launch("job", tasks=shared("true", "true"), attempt=3)
    assert bench.reports.started("job", 3).note == "as it may be; time sliced: there is no MPS here"
    holders = [call[2] for call in quota.calls if call[0] == "attach"]
    assert [(holder.owner, holder.part) for holder in holders] == [("job.3", "0"), ("job.3", "1")]


def test_slow_daemon_start_does_not_delay_other_gangs(bench: Bench, quota: FakeQuota) -> None:
    quota.may_answer.clear()
    bench.launch("waits", tasks=shared("true"))
    assert quota.is_asked.wait(PATIENCE_S)
    bench.launch("whole", "true", cards=(CARD.id,))
    assert bench.reports.ended("whole").how == "succeeded"
    assert not bench.reports.ends("waits")
    quota.may_answer.set()
    assert bench.reports.ended("waits").how == "succeeded"


def test_gang_fails_with_the_reason_when_its_share_cannot_be_given(bench: Bench, quota: FakeQuota) -> None:
    ran = bench.folder / "ran"
    quota.problems = [Invalid("share.memory", "140 GiB are taken", "ask for less")]
    bench.launch("job", tasks=shared(f"touch {ran}"))
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("failed", True)
    assert "share.memory: 140 GiB are taken (ask for less)" in end.cause
    assert not ran.exists()
    assert bench.restart().all == []
    bench.engine.recover([("job", 0)])
    assert bench.reports.ended("job").cause == end.cause


@pytest.mark.parametrize("problem", [RuntimeError("the moon"), NotReady("card GPU-a", "its daemon ended: the moon")])
def test_other_start_failures_are_retryable(bench: Bench, quota: FakeQuota, problem: Exception) -> None:
    quota.problems = [problem]
    bench.launch("job", tasks=shared("true"))
    end = bench.reports.ended("job")
    assert (end.how, end.never_started, "the moon" in end.cause) == ("lost", True, True)


def test_a_card_that_is_not_here_is_named(bench: Bench) -> None:
    task = TaskLaunch(0, "worker", 0, "node", ("GPU-b",), ("true",), share=HALF)
    bench.launch("job", tasks=(task,))
    assert "GPU-b" in bench.reports.ended("job").cause


def test_a_gang_that_is_stopped_meanwhile_never_starts_and_keeps_nothing(bench: Bench, quota: FakeQuota) -> None:
    ran = bench.folder / "ran"
    quota.may_answer.clear()
    bench.launch("job", tasks=shared(f"touch {ran}"))
    assert quota.is_asked.wait(PATIENCE_S)
    bench.engine.stop("job", 0, "not wanted", 0.0)
    assert bench.reports.ended("job").how == "stopped"
    quota.may_answer.set()
    eventually(lambda: quota.calls[-1] == ("release_all_but", set()))
    assert not quota.tenants
    assert not ran.exists()


def test_shares_are_released_before_the_next_start(bench: Bench, quota: FakeQuota) -> None:
    news = bench.news()
    bench.launch("stays", tasks=shared(f"echo here > {news.path}; sleep 600"))
    assert news.next() == "here"
    bench.launch("ends", tasks=shared("true"))
    bench.reports.ended("ends")
    bench.launch("next", tasks=shared("true"))
    bench.reports.ended("next")
    kinds = [(call[0], call[2].owner if call[0] == "attach" else call[1]) for call in quota.calls]
    came = kinds.index(("attach", "next.0"))
    assert ("release_all_but", {"stays.0"}) in kinds[:came]


def test_gangs_found_after_a_restart_keep_their_parts_and_others_lose_theirs(bench: Bench, quota: FakeQuota) -> None:
    news = bench.news()
    bench.launch("stays", tasks=shared(f"echo here > {news.path}; sleep 600"))
    bench.launch("forgotten", tasks=shared("trap 'exit 0' TERM; echo there > " + str(news.path) + "; sleep 600 & wait"))
    assert {news.next(), news.next()} == {"here", "there"}
    bench.restart()
    quota.tenants["long-gone.0", "0"] = SharingParams()
    assert quota.owners == {"stays.0", "forgotten.0", "long-gone.0"}
    before = len(quota.calls)
    bench.engine.recover([("stays", 0)])
    bench.reports.started("stays")
    eventually(lambda: quota.owners == {"stays.0"})
    kept = [call[1] for call in quota.calls[before:] if call[0] == "release_all_but"]
    assert kept[0] == {"stays.0", "forgotten.0"}  # it still ran
    assert kept[-1] == {"stays.0"}
    bench.engine.stop("stays", 0, "enough", 0.0)
    bench.reports.ended("stays")
    eventually(lambda: not quota.tenants)


def test_nothing_is_taken_back_before_all_gangs_are_known(home: Path, tmp_path: Path, quota: FakeQuota) -> None:
    made = Bench(lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD]), tmp_path)
    try:
        made.launch("job", tasks=shared("true"))
        made.reports.ended("job")
        made.launch("next", tasks=shared("true"))
        made.reports.ended("next")
        assert [call[0] for call in quota.calls] == ["attach", "attach"]
    finally:
        made.close()


def test_share_of_an_attempt_that_ended_during_downtime_is_released(
    home: Path, tmp_path: Path, quota: FakeQuota
) -> None:
    """Until all gangs are known, such parts are not given back: nobody is to fail for that."""
    quota.problems = [Invalid("tenant.quota_bytes", "8 of 0 bytes that nobody holds", "ask for less")]
    made = Bench(lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD]), tmp_path)
    try:
        made.launch("job", tasks=shared("true"))
        eventually(lambda: not quota.problems)
        made.engine.recover([])
        assert made.reports.ended("job").how == "succeeded"
    finally:
        made.close()


def test_new_slo_reaches_every_task(bench: Bench, quota: FakeQuota) -> None:
    news = bench.news()
    bench.launch("job", tasks=shared(f"echo here > {news.path}; sleep 600", "sleep 600"))
    assert news.next() == "here"
    urgent = SharingParams(weight=3.0, priority=2)
    bench.engine.change("job", 0, 2, urgent)
    eventually(lambda: quota.tenants == {("job.0", "0"): urgent, ("job.0", "1"): urgent})


def test_peak_of_each_task_comes_from_the_card_manager(bench: Bench, quota: FakeQuota) -> None:
    assert list(bench.engine.peak_memory_bytes("job", 1, 2)) == [0, 0]
    held = {("job.1", "0"): 5, ("job.1", "1"): 7}
    quota.peak_memory_bytes = lambda holder: held[holder.owner, holder.part]  # type: ignore[attr-defined]
    assert list(bench.engine.peak_memory_bytes("job", 1, 2)) == [5, 7]


def test_the_work_of_tasks_that_do_not_end_is_taken_off_the_card_before_they_are_killed(
    bench: Bench, quota: FakeQuota
) -> None:
    news = bench.news()
    deaf = f"trap '' TERM; echo here > {news.path}; while :; do sleep 1; done"
    bench.launch("job", tasks=shared(deaf, deaf))
    assert [news.next(), news.next()] == ["here", "here"]
    bench.engine.stop("job", 0, "enough", 1.0)
    assert bench.reports.ended("job").how == "stopped"
    both = [("drain", "job.0", "0"), ("drain", "job.0", "1")]
    eventually(lambda: [call for call in quota.calls if call[0] == "drain"] == both)


def test_work_on_the_card_finishes_before_sigterm(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody else waits for that."""
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * PATIENCE_S)
    quota.busy["job.0"] = threading.Event()
    told = start(bench, "job", "other")
    bench.engine.stop("job", 0, "enough", 600.0)
    eventually(lambda: quota.pauses() == [(["job.0/0"], 600.0)])
    bench.engine.stop("other", 0, "enough", 600.0)
    assert told.next() == "other is told"
    assert bench.reports.ended("other").how == "stopped"
    quota.busy["job.0"].set()
    assert told.next() == "job is told"
    end = bench.reports.ended("job")
    assert (end.how, end.cause) == ("stopped", "enough")


@pytest.mark.parametrize(("grace_s", "waits_s"), [(600.0, 0.3), (0.1, 0.1)])
def test_stop_proceeds_when_a_card_hangs(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch, grace_s: float, waits_s: float
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 0.3)
    quota.busy["job.0"] = threading.Event()
    told = start(bench, "job")
    bench.engine.stop("job", 0, "enough", grace_s)
    assert told.next() == "job is told"
    assert bench.reports.ended("job").how == "stopped"
    assert quota.pauses() == [(["job.0/0"], waits_s)]


def test_stop_proceeds_when_waiting_for_the_card_fails(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * PATIENCE_S)
    told = start(bench, "job")
    quota.problems = [RuntimeError("the moon")]
    bench.engine.stop("job", 0, "enough", 600.0)
    assert told.next() == "job is told"


def test_stop_without_grace_does_not_wait(bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * PATIENCE_S)
    start(bench, "job", "late")
    bench.engine.stop("job", 0, "now", 0.0)
    assert bench.reports.ended("job").how == "stopped"
    assert quota.pauses() == []
    quota.busy["late.0"] = threading.Event()
    bench.engine.stop("late", 0, "please", 600.0)
    eventually(quota.pauses)
    bench.engine.stop("late", 0, "now", 0.0)
    assert bench.reports.ended("late").cause == "please"
    assert len(quota.pauses()) == 1


def test_stop_is_sent_when_the_service_ends_meanwhile(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * PATIENCE_S)
    quota.busy["job.0"] = threading.Event()
    told = start(bench, "job")
    bench.engine.stop("job", 0, "enough", 600.0)
    eventually(quota.pauses)
    bench.restart()
    assert told.next() == "job is told"
    bench.engine.recover([("job", 0)])
    assert bench.reports.ended("job").cause == "enough"


def start(bench: Bench, *names: str) -> News:
    """Gangs that say when they are told to end, and do."""
    news = bench.news()
    for name in names:
        says = f"trap 'echo {name} is told > {news.path}; exit' TERM; echo {name} > {news.path}; sleep 600 & wait"
        bench.launch(name, tasks=shared(says))
        assert news.next() == name
        bench.reports.started(name)
    return news


def test_tasks_that_end_in_their_grace_time_are_left_alone(bench: Bench, quota: FakeQuota) -> None:
    news = bench.news()
    bench.launch("job", tasks=shared(f"echo here > {news.path}; sleep 600"))
    assert news.next() == "here"
    bench.engine.stop("job", 0, "enough", 600.0)
    assert bench.reports.ended("job").how == "stopped"
    assert not [call for call in quota.calls if call[0] == "drain"]


def test_error_in_one_call_does_not_end_the_loop() -> None:
    class Broken(FakeQuota):
        def release_all_but(self, owners: set[str]) -> None:
            raise RuntimeError("the moon")

    shares = Shares(Broken(), {CARD.id: CARD})
    shares.start()
    answers: list[ShareEnvironment | Exception] = []
    shares.keep_only([])
    shares.give(launch("job", tasks=shared("true"), run_as=(1000, 100)), answers.append)
    shares.close()
    assert [type(answer) for answer in answers] == [ShareEnvironment]


def test_user_of_the_tasks_is_passed_on(quota: FakeQuota) -> None:
    shares = Shares(quota, {CARD.id: CARD})
    shares.start()
    shares.give(launch("job", tasks=shared("true"), run_as=(1000, 100)), lambda given: None)
    shares.close()
    assert quota.calls[0][2].run_as == (1000, 100)


@pytest.mark.parametrize(
    ("card", "share", "simulated", "expected"),
    [
        ("GPU-a", HALF, False, True),
        ("GPU-a", HALF, True, False),
        ("GPU-a", None, False, False),
        ("GPU-a.1of2", None, False, True),
    ],
)
def test_shares_and_virtual_cards_are_passed_on(
    card: str, share: Share | None, simulated: bool, expected: bool
) -> None:
    task = TaskLaunch(0, "worker", 0, "node", (card,), ("true",), share=share)
    made: Launch = launch("job", tasks=(task,), simulated=simulated)
    assert has_parts(made) is expected
