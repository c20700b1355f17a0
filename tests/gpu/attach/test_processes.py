"""GPU clients as real processes. Their limits survive crashes of the daemon and restarts of the service."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gpusquad.gpu.api import Attachment, SharingParams
from gpusquad.gpu.daemon.wire import SOCKET, ask
from gpusquad.model.job import Slo
from tests.gpu.attach.conftest import CARD, LONGEST_S, MIB, Place, attach, clients, holder, until
from tests.gpu.attach.fake_mps import FakeMps

OUT_OF_MEMORY = 2
FOREVER = [["kernels", 10**6, "legacy", 0, "add", 200]]


def daemon_pid(place: Place) -> int:
    return ask(place.settings.card_folder(CARD.id) / SOCKET, {"do": "hello"})["pid"]


def kill_daemon(place: Place) -> int:
    pid = daemon_pid(place)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not place.quotas[0].status(CARD.id)["running"], "the daemon did not die")
    return pid


def test_allocation_beyond_the_memory_quota_fails(place: Place) -> None:
    quota = place.quota()
    peer = place.peer(attach(quota, "a", 100))
    assert peer(f"alloc({80 * MIB})")[0] == 0
    assert peer(f"alloc({30 * MIB})")[0] == OUT_OF_MEMORY
    assert peer("total()") == 100 * MIB
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 80 * MIB, "its memory is not reported")


def test_two_clients_of_a_card_are_gated_and_both_progress(place: Place) -> None:
    quota = place.quota()
    both = [place.player(attach(quota, name)) for name in ("a", "b")]
    for player in both:
        player.stage()
        player.send("stage.play(given)", FOREVER)

    def are_divided() -> bool:
        seen = clients(quota)
        return all(seen[name]["attained_us"] > 0 and seen[name]["gated"] for name in ("a/0", "b/0"))

    until(are_divided, "a client is not gated or does not progress")


def test_training_yields_to_a_service_and_runs_in_its_pauses(place: Place) -> None:
    """The shim decides alone when the training runs: the daemon is stopped."""
    quota = place.quota(policy="slo", fail_open_ms=60_000)
    service = place.player(attach(quota, "service", sharing_params=SharingParams(slo=Slo(latency_us=20_000))))
    training = place.player(attach(quota, "training"))
    unmanaged = place.player(Attachment())  # not gated: its work shows that time passes
    for player in (service, training, unmanaged):
        player.stage()
    work = ["kernels", 40, "legacy", 0, "add", 200]
    training.on_stage([work, ["sync"]])
    until(lambda: clients(quota)["training/0"]["yields_to"] == ["service/0"], "the training does not yield")
    pid = daemon_pid(place)
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            service.on_stage([["await_value", "legacy", 1, 7], ["kernel", "legacy", 2]])  # busy until the value is set
            training.on_stage([work])
            unmanaged.on_stage([work, ["sync"]])
            assert not training("stage.is_done('legacy')")
            service.on_stage([["stream", "aside", False], ["set", "aside", 1, 7], ["wait_stream", "legacy"]])
            training.on_stage([["sync"]])
            service.on_stage([["set_now", "legacy", 1, 0], ["destroy", "aside"]])
    finally:
        os.kill(pid, signal.SIGCONT)
    assert training("stage.cells()")[0] == 4 * 40


def test_context_is_charged_to_the_quota_when_context_bytes_is_set(place: Place) -> None:
    quota = place.quota(context_bytes=30 * MIB)
    peer = place.peer(attach(quota, "a", 100))
    until(lambda: clients(quota)["a/0"]["used_bytes"] == 30 * MIB, "the context is not charged")
    assert peer(f"alloc({71 * MIB})")[0] == OUT_OF_MEMORY
    assert peer(f"alloc({70 * MIB})")[0] == 0


def test_new_fail_open_time_applies_to_a_running_client(place: Place) -> None:
    """The client started with a fail-open time of one hour. The new setting is half a second."""
    quota = place.quota(fail_open_ms=3_600_000)
    player = place.player(attach(quota, "a"))
    player.stage()
    before = daemon_pid(place)
    place.quota(fail_open_ms=500).maintain()
    pid = daemon_pid(place)
    assert pid != before
    ask(place.settings.card_folder(CARD.id) / SOCKET, {"do": "hold", "id": "a/0", "for_us": 60_000_000})
    until(lambda: clients(quota)["a/0"]["is_held"], "the client is not held")
    player.send("stage.play(given)", [["kernel", "legacy", 0], ["sync"]])
    os.kill(pid, signal.SIGSTOP)
    try:
        player.answer()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert player("stage.cells()")[0] == 1
    assert clients(quota)["a/0"]["is_held"]  # the daemon did not release it


def test_new_daemon_takes_over_the_clients_of_a_killed_one(place: Place) -> None:
    quota = place.quota()
    attachment = attach(quota, "a", 100, SharingParams(weight=3.0, slo=Slo(latency_us=20_000)))
    peer = place.peer(attachment)
    assert peer(f"alloc({60 * MIB})")[0] == 0
    before = kill_daemon(place)
    assert peer(f"alloc({50 * MIB})")[0] == OUT_OF_MEMORY  # the region keeps the quota
    quota.maintain()
    assert daemon_pid(place) != before
    until(lambda: clients(quota)["a/0"]["used_bytes"] >= 60 * MIB, "its memory is not reported")
    assert clients(quota)["a/0"]["weight"] == 3.0
    assert clients(quota)["a/0"]["slo"] == {"latency_us": 20_000}
    assert attach(quota, "a", 100) == attachment


def test_attach_restarts_a_dead_daemon(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    kill_daemon(place)
    attach(quota, "b")
    assert set(clients(quota)) == {"a/0", "b/0"}


def test_restarted_service_knows_attached_clients(place: Place) -> None:
    attachment = attach(place.quota(), "a", 100)
    pid = daemon_pid(place)
    again = place.quota()
    assert daemon_pid(place) == pid
    assert attach(again, "a", 100) == attachment
    again.change(holder("a"), SharingParams(weight=5.0, priority=1))
    assert (clients(again)["a/0"]["weight"], clients(again)["a/0"]["priority"]) == (5.0, 1)
    again.change(holder("nobody"), SharingParams())


def test_running_daemon_is_replaced_when_its_settings_change(place: Place) -> None:
    attachment = attach(place.quota(), "a", 100, SharingParams(weight=3.0))
    peer = place.peer(attachment)
    assert peer(f"alloc({60 * MIB})")[0] == 0
    before = daemon_pid(place)
    again = place.quota(strangers="refuse", idle_s=2 * LONGEST_S)
    again.maintain()
    assert daemon_pid(place) != before
    assert again.status(CARD.id)["rule"] == "refuse"
    until(lambda: clients(again)["a/0"]["used_bytes"] >= 60 * MIB, "its memory is not reported")
    assert clients(again)["a/0"]["weight"] == 3.0
    assert peer(f"alloc({50 * MIB})")[0] == OUT_OF_MEMORY
    now = daemon_pid(place)
    again.set_policy(CARD.id, "slo")
    again.maintain()
    assert daemon_pid(place) == now, "a new policy restarted the daemon"


def test_release_all_but_frees_the_memory_of_other_clients(place: Place) -> None:
    first = place.quota()
    attach(first, "a", 600)
    attachment = attach(first, "b", 100)
    again = place.quota()
    again.release_all_but({"b"})
    assert set(clients(again)) == {"b/0"}
    attach(again, "c", 600)  # the memory of a is free
    assert set(again.clients(CARD.id)) == {"b/0", "c/0"}
    assert attach(again, "b", 100) == attachment


def test_clients_are_released_while_no_daemon_runs(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a", 600)
    kill_daemon(place)
    quota.release_all_but(set())
    assert clients(quota) == {}
    attach(quota, "b", 600)


def test_policy_survives_a_daemon_crash(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    assert quota.status(CARD.id)["policy"] == "equal"
    assert quota.set_policy(CARD.id, "slo:margin=1.3") == "slo:margin=1.3"
    assert quota.status(CARD.id)["policy"] == "slo:margin=1.3"
    kill_daemon(place)
    again = place.quota()
    again.maintain()
    assert again.status(CARD.id)["policy"] == "slo:margin=1.3"
    assert again.set_policy(CARD.id, None) == "equal"
    assert again.status(CARD.id)["policy"] == "equal"


def test_drain_holds_launches_and_waits_for_work_in_flight(place: Place) -> None:
    quota = place.quota()
    player = place.player(attach(quota, "a"))
    player.stage()
    player.send("stage.play(given)", FOREVER)
    until(lambda: clients(quota)["a/0"]["attained_us"] > 0, "the client does not run")
    assert quota.drain(holder("a"), within_s=60.0)
    seen = clients(quota)["a/0"]
    assert seen["is_held"]
    assert seen["in_flight"] == 0
    assert quota.drain(holder("nobody"))


def test_pause_waits_for_work_in_flight_and_then_releases_the_client(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    player = place.player(attach(quota, "a"))
    player.stage()
    player.send("stage.play(given)", FOREVER)
    until(lambda: clients(quota)["a/0"]["attained_us"] > 0, "the client does not run")
    assert quota.pause([holder("nobody"), holder("a")], within_s=60.0)
    seen = clients(quota)["a/0"]
    assert (seen["is_held"], seen["in_flight"]) == (True, 0)
    until(lambda: not clients(quota)["a/0"]["is_held"], "the pause does not end")
    before_us = clients(quota)["a/0"]["attained_us"]
    until(lambda: clients(quota)["a/0"]["attained_us"] > before_us, "the client does not continue")
    assert not mps.count("terminate_client")


def test_neighbour_in_the_mps_pool_survives_a_kill_after_drain(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    killed, neighbour = (place.player(attach(quota, name)) for name in ("a", "b"))
    for player in (killed, neighbour):
        player.stage()
        player.send("stage.play(given)", FOREVER)
    until(lambda: all(client["attained_us"] > 0 for client in clients(quota).values()), "the clients do not run")
    mps.put("clients", f"{killed.process.pid}\n{neighbour.process.pid}\n")
    assert quota.drain(holder("a"), within_s=60.0)
    commands = [line for line in mps.commands if line.startswith("terminate_client")]
    assert [line.split()[2] for line in commands] == [str(killed.process.pid)]
    killed.kill()
    before_us = clients(quota)["b/0"]["attained_us"]
    until(lambda: clients(quota)["b/0"]["attained_us"] > before_us + 1_000_000, "the neighbour does not continue")
    assert neighbour.process.poll() is None


def test_client_outside_the_mps_pool_is_not_paused(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    attach(quota, "a", isolation="isolated")
    attach(quota, "b")
    assert [quota.is_pooled(holder(name)) for name in ("a", "b", "nobody")] == [False, True, False]
    assert quota.pause([holder("a")], within_s=60.0)
    assert not clients(quota)["a/0"]["is_held"]


def test_pause_fails_when_the_daemon_hangs_or_is_dead(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    attach(quota, "a")
    pid = daemon_pid(place)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not quota.pause([holder("a")], within_s=0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    kill_daemon(place)
    assert not quota.pause([holder("a")], within_s=60.0)


def test_daemon_ends_after_idle_s_without_clients(place: Place) -> None:
    quota = place.quota(idle_s=1.0)
    attach(quota, "a")
    quota.release_all_but(set())
    until(lambda: not quota.status(CARD.id)["running"], "the daemon does not end")
    attach(quota, "b")
    assert set(clients(quota)) == {"b/0"}


def test_second_daemon_of_a_card_exits(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    pid = daemon_pid(place)
    manager = quota._known(CARD.id)
    assert manager._spawn().wait(60) == 3
    assert daemon_pid(place) == pid


def test_attach_works_when_the_socket_path_is_too_long(place: Place, tmp_path: Path) -> None:
    quota = place.quota(folder=tmp_path / ("long" * 30))
    attach(quota, "a")
    assert set(clients(quota)) == {"a/0"}
