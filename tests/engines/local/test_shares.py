"""Tests of shares: attached before a gang starts, passed to its tasks, changed while it runs, released at its end."""

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
from tests.engines.harness import TIMEOUT_S, Bench, TaskPipe, eventually, launch

GIB = 2**30
CARD = Card("GPU-a", "H200", 140 * GIB, 132)
HALF = Share(8 * GIB, 500)


class FakeQuota(NoSharing):
    """Records its calls; answers when ``may_answer`` is set."""

    absence = ""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.clients: dict[tuple[str, str], SharingParams] = {}
        self.problems: list[Exception] = []
        self.env: dict[str, str] = {"LD_PRELOAD": "/lib/ours.so", "GPUSQUAD_TENANT": "/run/tenants/3"}
        self.notes: tuple[str, ...] = ()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.attach_called = threading.Event()
        self.busy: dict[str, threading.Event] = {}
        """By owner: set when its work on the card is done."""

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        self.calls.append(("attach", tuple(cards), holder, share, sharing_params))
        self.attach_called.set()
        assert self.may_answer.wait(TIMEOUT_S)
        if self.problems:
            raise self.problems.pop(0)
        self.clients[holder.owner, holder.part] = sharing_params
        return Attachment(env=self.env, notes=self.notes)

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        self.calls.append(("change", holder.owner, holder.part, sharing_params))
        if (holder.owner, holder.part) in self.clients:
            self.clients[holder.owner, holder.part] = sharing_params

    def release_all_but(self, owners: set[str]) -> None:
        self.calls.append(("release_all_but", owners))
        self.clients = {key: sharing_params for key, sharing_params in self.clients.items() if key[0] in owners}

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        self.calls.append(("pause", [f"{holder.owner}/{holder.part}" for holder in holders], within_s))
        assert self.busy.get(holders[0].owner, self.may_answer).wait(TIMEOUT_S)
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
        return {owner for owner, _ in self.clients}


@pytest.fixture
def quota() -> FakeQuota:
    return FakeQuota()


@pytest.fixture
def bench(home: Path, tmp_path: Path, quota: FakeQuota) -> Iterator[Bench]:
    created = Bench(
        lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD], share_note="as it may be"), tmp_path
    )
    created.engine.recover([])
    eventually(lambda: quota.calls)  # from now on all gangs are known
    yield created
    for event in (quota.may_answer, *quota.busy.values()):
        event.set()
    created.close()


def sharing_tasks(*commands: str, env: dict[str, str] | None = None) -> tuple[TaskLaunch, ...]:
    return tuple(
        TaskLaunch(rank, "worker", rank, "node", (CARD.id,), ("/bin/sh", "-c", command), share=HALF, env=env or {})
        for rank, command in enumerate(commands)
    )


def test_tasks_get_the_environment_of_their_share(bench: Bench, quota: FakeQuota) -> None:
    """They override the user's variables; the user's LD_PRELOAD is appended."""
    output = bench.folder / "told"
    quota.env |= {"CUDA_MPS_PIPE_DIRECTORY": "/run/pipes"}
    # The shell prints a warning about the missing library and continues.
    write_env = f'echo "$LD_PRELOAD $GPUSQUAD_TENANT $CUDA_MPS_PIPE_DIRECTORY $OWN" > {output}'
    user_env = {"LD_PRELOAD": "/lib/theirs.so", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mine", "OWN": "kept"}
    sharing_params = SharingParams(2.0, 1, Slo(latency_us=20_000), 5_000_000)
    bench.launch("job", tasks=sharing_tasks(write_env, env=user_env), sharing_params=sharing_params)
    assert bench.reports.ended("job").how == "succeeded"
    assert output.read_text() == "/lib/ours.so:/lib/theirs.so /run/tenants/3 /run/pipes kept\n"
    assert quota.calls[1] == ("attach", (CARD,), Holder("job.0", "0", "job"), HALF, sharing_params)


def test_each_task_gets_its_own_share_and_notes_are_reported(bench: Bench, quota: FakeQuota) -> None:
    quota.notes = ("time sliced: there is no MPS here",)
    bench.launch("job", tasks=sharing_tasks("true", "true"), attempt=3)
    assert bench.reports.started("job", 3).note == "as it may be; time sliced: there is no MPS here"
    holders = [call[2] for call in quota.calls if call[0] == "attach"]
    assert [(holder.owner, holder.part) for holder in holders] == [("job.3", "0"), ("job.3", "1")]


def test_slow_daemon_start_does_not_delay_other_gangs(bench: Bench, quota: FakeQuota) -> None:
    quota.may_answer.clear()
    bench.launch("waits", tasks=sharing_tasks("true"))
    assert quota.attach_called.wait(TIMEOUT_S)
    bench.launch("whole", "true", cards=(CARD.id,))
    assert bench.reports.ended("whole").how == "succeeded"
    assert not bench.reports.ends("waits")
    quota.may_answer.set()
    assert bench.reports.ended("waits").how == "succeeded"


def test_gang_fails_with_the_reason_when_its_share_cannot_be_given(bench: Bench, quota: FakeQuota) -> None:
    ran = bench.folder / "ran"
    quota.problems = [Invalid("share.memory", "140 GiB are taken", "ask for less")]
    bench.launch("job", tasks=sharing_tasks(f"touch {ran}"))
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
    bench.launch("job", tasks=sharing_tasks("true"))
    end = bench.reports.ended("job")
    assert (end.how, end.never_started, "the moon" in end.cause) == ("lost", True, True)


def test_unknown_card_is_named_in_the_cause(bench: Bench) -> None:
    task = TaskLaunch(0, "worker", 0, "node", ("GPU-b",), ("true",), share=HALF)
    bench.launch("job", tasks=(task,))
    assert "GPU-b" in bench.reports.ended("job").cause


def test_gang_stopped_while_attaching_never_starts_and_keeps_no_share(bench: Bench, quota: FakeQuota) -> None:
    ran = bench.folder / "ran"
    quota.may_answer.clear()
    bench.launch("job", tasks=sharing_tasks(f"touch {ran}"))
    assert quota.attach_called.wait(TIMEOUT_S)
    bench.engine.stop("job", 0, "not wanted", 0.0)
    assert bench.reports.ended("job").how == "stopped"
    quota.may_answer.set()
    eventually(lambda: quota.calls[-1] == ("release_all_but", set()))
    assert not quota.clients
    assert not ran.exists()


def test_shares_are_released_before_the_next_start(bench: Bench, quota: FakeQuota) -> None:
    pipe = bench.pipe()
    bench.launch("stays", tasks=sharing_tasks(f"echo here > {pipe.path}; sleep 600"))
    assert pipe.next() == "here"
    bench.launch("ends", tasks=sharing_tasks("true"))
    bench.reports.ended("ends")
    bench.launch("next", tasks=sharing_tasks("true"))
    bench.reports.ended("next")
    kinds = [(call[0], call[2].owner if call[0] == "attach" else call[1]) for call in quota.calls]
    next_start = kinds.index(("attach", "next.0"))
    assert ("release_all_but", {"stays.0"}) in kinds[:next_start]


def test_only_recovered_gangs_keep_their_shares_after_a_restart(bench: Bench, quota: FakeQuota) -> None:
    pipe = bench.pipe()
    bench.launch("stays", tasks=sharing_tasks(f"echo here > {pipe.path}; sleep 600"))
    bench.launch(
        "forgotten", tasks=sharing_tasks("trap 'exit 0' TERM; echo there > " + str(pipe.path) + "; sleep 600 & wait")
    )
    assert {pipe.next(), pipe.next()} == {"here", "there"}
    bench.restart()
    quota.clients["long-gone.0", "0"] = SharingParams()
    assert quota.owners == {"stays.0", "forgotten.0", "long-gone.0"}
    before = len(quota.calls)
    bench.engine.recover([("stays", 0)])
    bench.reports.started("stays")
    eventually(lambda: quota.owners == {"stays.0"})
    kept = [call[1] for call in quota.calls[before:] if call[0] == "release_all_but"]
    assert kept[0] == {"stays.0", "forgotten.0"}  # still running
    assert kept[-1] == {"stays.0"}
    bench.engine.stop("stays", 0, "enough", 0.0)
    bench.reports.ended("stays")
    eventually(lambda: not quota.clients)


def test_no_share_is_released_before_recovery(home: Path, tmp_path: Path, quota: FakeQuota) -> None:
    created = Bench(lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD]), tmp_path)
    try:
        created.launch("job", tasks=sharing_tasks("true"))
        created.reports.ended("job")
        created.launch("next", tasks=sharing_tasks("true"))
        created.reports.ended("next")
        assert [call[0] for call in quota.calls] == ["attach", "attach"]
    finally:
        created.close()


def test_refused_share_is_retried_after_recovery(home: Path, tmp_path: Path, quota: FakeQuota) -> None:
    """Before recovery, shares of ended attempts are not released yet, so a refusal may be temporary."""
    quota.problems = [Invalid("tenant.quota_bytes", "8 of 0 bytes that nobody holds", "ask for less")]
    created = Bench(lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD]), tmp_path)
    try:
        created.launch("job", tasks=sharing_tasks("true"))
        eventually(lambda: not quota.problems)
        created.engine.recover([])
        assert created.reports.ended("job").how == "succeeded"
    finally:
        created.close()


def test_new_slo_reaches_every_task(bench: Bench, quota: FakeQuota) -> None:
    pipe = bench.pipe()
    bench.launch("job", tasks=sharing_tasks(f"echo here > {pipe.path}; sleep 600", "sleep 600"))
    assert pipe.next() == "here"
    urgent = SharingParams(weight=3.0, priority=2)
    bench.engine.change("job", 0, 2, urgent)
    eventually(lambda: quota.clients == {("job.0", "0"): urgent, ("job.0", "1"): urgent})


def test_peak_of_each_task_comes_from_the_card_manager(bench: Bench, quota: FakeQuota) -> None:
    assert list(bench.engine.peak_memory_bytes("job", 1, 2)) == [0, 0]
    held = {("job.1", "0"): 5, ("job.1", "1"): 7}
    quota.peak_memory_bytes = lambda holder: held[holder.owner, holder.part]  # type: ignore[attr-defined]
    assert list(bench.engine.peak_memory_bytes("job", 1, 2)) == [5, 7]


def test_tasks_that_ignore_sigterm_are_drained_before_they_are_killed(bench: Bench, quota: FakeQuota) -> None:
    pipe = bench.pipe()
    ignores_term = f"trap '' TERM; echo here > {pipe.path}; while :; do sleep 1; done"
    bench.launch("job", tasks=sharing_tasks(ignores_term, ignores_term))
    assert [pipe.next(), pipe.next()] == ["here", "here"]
    bench.engine.stop("job", 0, "enough", 1.0)
    assert bench.reports.ended("job").how == "stopped"
    expected = [("drain", "job.0", "0"), ("drain", "job.0", "1")]
    eventually(lambda: [call for call in quota.calls if call[0] == "drain"] == expected)


def test_work_on_the_card_finishes_before_sigterm(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other gangs do not wait for it."""
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * TIMEOUT_S)
    quota.busy["job.0"] = threading.Event()
    pipe = start(bench, "job", "other")
    bench.engine.stop("job", 0, "enough", 600.0)
    eventually(lambda: quota.pauses() == [(["job.0/0"], 600.0)])
    bench.engine.stop("other", 0, "enough", 600.0)
    assert pipe.next() == "other is told"
    assert bench.reports.ended("other").how == "stopped"
    quota.busy["job.0"].set()
    assert pipe.next() == "job is told"
    end = bench.reports.ended("job")
    assert (end.how, end.cause) == ("stopped", "enough")


@pytest.mark.parametrize(("grace_s", "expected_wait_s"), [(600.0, 0.3), (0.1, 0.1)])
def test_stop_proceeds_when_a_card_hangs(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch, grace_s: float, expected_wait_s: float
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 0.3)
    quota.busy["job.0"] = threading.Event()
    pipe = start(bench, "job")
    bench.engine.stop("job", 0, "enough", grace_s)
    assert pipe.next() == "job is told"
    assert bench.reports.ended("job").how == "stopped"
    assert quota.pauses() == [(["job.0/0"], expected_wait_s)]


def test_stop_proceeds_when_waiting_for_the_card_fails(
    bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * TIMEOUT_S)
    pipe = start(bench, "job")
    quota.problems = [RuntimeError("the moon")]
    bench.engine.stop("job", 0, "enough", 600.0)
    assert pipe.next() == "job is told"


def test_stop_without_grace_does_not_wait(bench: Bench, quota: FakeQuota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * TIMEOUT_S)
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
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 10 * TIMEOUT_S)
    quota.busy["job.0"] = threading.Event()
    pipe = start(bench, "job")
    bench.engine.stop("job", 0, "enough", 600.0)
    eventually(quota.pauses)
    bench.restart()
    assert pipe.next() == "job is told"
    bench.engine.recover([("job", 0)])
    assert bench.reports.ended("job").cause == "enough"


def start(bench: Bench, *names: str) -> TaskPipe:
    """Start gangs that write a line on SIGTERM and exit."""
    pipe = bench.pipe()
    for name in names:
        command = f"trap 'echo {name} is told > {pipe.path}; exit' TERM; echo {name} > {pipe.path}; sleep 600 & wait"
        bench.launch(name, tasks=sharing_tasks(command))
        assert pipe.next() == name
        bench.reports.started(name)
    return pipe


def test_tasks_that_end_within_their_grace_are_not_drained(bench: Bench, quota: FakeQuota) -> None:
    pipe = bench.pipe()
    bench.launch("job", tasks=sharing_tasks(f"echo here > {pipe.path}; sleep 600"))
    assert pipe.next() == "here"
    bench.engine.stop("job", 0, "enough", 600.0)
    assert bench.reports.ended("job").how == "stopped"
    assert not [call for call in quota.calls if call[0] == "drain"]


def test_error_in_one_call_does_not_end_the_loop() -> None:
    class BrokenQuota(FakeQuota):
        def release_all_but(self, owners: set[str]) -> None:
            raise RuntimeError("the moon")

    shares = Shares(BrokenQuota(), {CARD.id: CARD})
    shares.start()
    answers: list[ShareEnvironment | Exception] = []
    shares.keep_only([])
    shares.give(launch("job", tasks=sharing_tasks("true"), run_as=(1000, 100)), answers.append)
    shares.close()
    assert [type(answer) for answer in answers] == [ShareEnvironment]


def test_user_of_the_tasks_is_passed_on(quota: FakeQuota) -> None:
    shares = Shares(quota, {CARD.id: CARD})
    shares.start()
    shares.give(launch("job", tasks=sharing_tasks("true"), run_as=(1000, 100)), lambda given: None)
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
def test_has_parts_is_true_for_shares_and_virtual_cards_on_real_gpus(
    card: str, share: Share | None, simulated: bool, expected: bool
) -> None:
    task = TaskLaunch(0, "worker", 0, "node", (card,), ("true",), share=share)
    gang: Launch = launch("job", tasks=(task,), simulated=simulated)
    assert has_parts(gang) is expected
