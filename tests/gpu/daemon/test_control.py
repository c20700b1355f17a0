"""Requests to a card daemon and its replies."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.gpu.daemon.__main__ import Daemon, ask, coefficients, keep_facts, kept_facts, options_of
from gpusquad.gpu.daemon.client import UNKNOWN_CURVE, GpuClientAccount, GpuClientSpec
from gpusquad.gpu.daemon.control import Control, facts_from, plain
from gpusquad.gpu.daemon.process import now_us as clock_us
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.gpu.daemon.watchdog import watched
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.squad import DivideState, ShareableCard, Squad, SquadMember, solo_speed
from gpusquad.model.units import US_PER_S
from tests.gpu.daemon.loads import curve
from tests.gpu.daemon.memory_region import MemoryRegion

FULL = GpuClientSpec(
    "a", 2.0, 1, Slo(latency_us=20_000, availability_ratio=0.999), curve(0.5), 10**6, 10**7, 123, 3000.0, 90.0,
    app="vgg16", beside={"googlenet": 0.6}, costs={"googlenet": 0.5},
)  # fmt: skip


def make_control() -> tuple[Control, SquadLoop]:
    squads = SquadLoop(MemoryRegion(), ShareableCard(), "equal", TableRates())
    return Control(squads, lambda slot: {"tenant": f"/folder/{slot}"}), squads


def send(control: Control, **request) -> dict:
    return json.loads(control.answer(json.dumps(request), 1000))


def test_client_is_attached_changed_and_detached():
    control, squads = make_control()
    assert send(control, do="attach", tenant={"id": "a", "weight": 2})["tenant"] == "/folder/0"
    assert send(control, do="change", tenant={"id": "a", "slo": {"latency_us": 5000}})["ok"]
    assert squads.facts("a") == GpuClientSpec("a", weight=2.0, slo=Slo(latency_us=5000))
    assert send(control, do="latencies", id="a", us=[4000, 6000])["ok"]
    (client,) = send(control, do="status")["tenants"]
    assert (client["id"], client["attainment"], client["slo"]) == ("a", 0.5, {"latency_us": 5000})
    assert send(control, do="change", tenant={"id": "a", "slo": None})["ok"]
    assert squads.facts("a").slo is None
    assert send(control, do="detach", id="a")["ok"]
    assert send(control, do="status")["tenants"] == []


def test_repeated_attach_changes_only_the_given_fields():
    control, squads = make_control()
    first = send(control, do="attach", tenant={"id": "a", "weight": 2, "work_us": 5})
    assert send(control, do="attach", tenant={"id": "b"})["slot"] == 1
    assert send(control, do="attach", tenant={"id": "a", "weight": 3, "sm_milli": 250, "is_time_sliced": True}) == first
    expected = GpuClientSpec("a", weight=3.0, work_us=5.0, sm_milli=250, is_time_sliced=True)
    assert squads.clients() == {0: expected, 1: GpuClientSpec("b")}


def test_client_is_held_for_the_requested_time_beside_neighbours():
    control, squads = make_control()
    for name in ("a", "b"):
        send(control, do="attach", tenant={"id": name, "quota_bytes": 7})
    squads.step(1000)
    assert send(control, do="hold", id="a", for_us=5000)["ok"]  # at 1000
    for now_us, is_held in ((2000, True), (5999, True), (6000, False)):
        squads.step(now_us)
        client = next(iter(json.loads(control.answer('{"do": "status"}', now_us))["tenants"]))
        assert client["is_held"] is is_held
        grant = squads._clients[0].grant
        assert (grant.credit_us == 0, grant.quota_bytes, grant.borrows and is_held) == (is_held, 7, False)


def test_time_sliced_client_has_all_sms_in_its_slices():
    control, squads = make_control()
    for name in ("a", "b"):
        send(control, do="attach", tenant={"id": name, "is_time_sliced": name == "b"})
    squads._decide = lambda snapshot: Squad(  # type: ignore[method-assign]
        (SquadMember(0, groups=0b0011), SquadMember(1, groups=0b1100)), "strict", 1000, "", DivideState()
    )
    squads.step(1000)
    assert [squads._clients[slot].grant.mask for slot in (0, 1)] == [0b0011, 0]


def test_clients_stay_on_their_virtual_cards():
    control, squads = make_control()
    parts = {"a": 0b0011, "b": 0b0011, "c": 0b1100}
    for name, within in parts.items():
        assert send(control, do="attach", tenant={"id": name, "within": within})["ok"]
    for policy in ("equal", "slo", "hybrid"):
        send(control, do="policy", policy=policy)
        squads.step(1000)
        assert not squads.failure
        for client in squads._clients.values():
            assert client.grant.virtual_card_mask == parts[client.facts.id]
            assert client.grant.mask & ~parts[client.facts.id] == 0


def test_daemon_identifies_itself_and_stops_on_request():
    squads = SquadLoop(MemoryRegion(), ShareableCard(), "equal", TableRates())
    control = Control(squads, about={"version": "1", "context_bytes": 5})
    assert send(control, do="hello") == {"ok": True, "version": "1", "context_bytes": 5}
    assert send(control, do="status")["context_bytes"] == 5
    assert not control.is_stopped
    assert send(control, do="stop") == {"ok": True}
    assert control.is_stopped


def test_full_disk_is_reported_at_attach():
    control, squads = make_control()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    squads.attach = full  # type: ignore[method-assign]
    answer = send(control, do="attach", tenant={"id": "a"})
    assert not answer["ok"]
    assert "No space" in answer["error"]


def test_policy_is_set_and_an_unknown_one_is_rejected():
    control, _ = make_control()
    assert send(control, do="policy", policy="slo:margin=1.2") == {
        "ok": True,
        "policy": "slo:margin=1.2",
        "before": "equal",
    }
    wrong = send(control, do="policy", policy="slow")
    assert not wrong["ok"]
    assert "slo" in wrong["cure"]


def test_unmanaged_processes_are_listed():
    control, _ = make_control()
    listed = [{"pid": 5, "name": "x"}, {"pid": 6, "memory_bytes": 9}]
    assert send(control, do="processes", listed=listed, ours=[5])["strangers"] == [6]


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{", '{"do": "dance"}', '{"do": 5}', '{"do": "attach"}', '{"do": "attach", "tenant": {"id": ""}}',
     '{"do": "attach", "tenant": {"id": "a", "weight": -1}}', '{"do": "attach", "tenant": {"id": "a", "curve": [[1]]}}',
     '{"do": "attach", "tenant": {"id": "a", "colour": 1}}', '{"do": "attach", "tenant": {"id": "a", "slo": 5}}',
     '{"do": "detach", "id": "b"}', '{"do": "latencies", "id": "b", "us": 4}', '{"do": "status", "x": 1}',
     '{"do": "attach", "tenant": {"id": "a", "within": 65536}}', '{"do": "hold", "id": "b", "for_us": 5}',
     '{"do": "hold", "id": "b"}', '{"do": "hold", "id": "b", "for_us": 1e12}',
     '{"do": "change", "tenant": {"id": "b"}}', '{"do": "processes", "listed": [{"pid": "x"}]}'],
)  # fmt: skip
def test_invalid_request_is_answered_with_an_error(line):
    answer = json.loads(make_control()[0].answer(line, 0))
    assert not answer["ok"]
    assert answer["error"]


@given(st.text(max_size=200))
def test_arbitrary_text_is_answered_with_an_error(line):
    assert not json.loads(make_control()[0].answer(line, 0))["ok"]


def test_client_specs_are_read_as_written(tmp_path):
    assert facts_from(json.loads(json.dumps(plain(FULL))), None) == FULL
    keep_facts(tmp_path / "facts.json", {3: (FULL, 7), 5: (GpuClientSpec("b"), 9)})
    assert kept_facts(tmp_path / "facts.json") == {3: (FULL, 7), 5: (GpuClientSpec("b"), 9)}
    assert kept_facts(tmp_path / "none.json") == {}
    (tmp_path / "bad.json").write_text("[")
    assert kept_facts(tmp_path / "bad.json") == {}


def test_coefficients_are_read_and_checked(tmp_path):
    (tmp_path / "rho.json").write_text('{"a": {"b": 0.3}}')
    assert coefficients(tmp_path / "rho.json").rho == {("a", "b"): 0.3}
    (tmp_path / "rho.json").write_text('{"a": {"b": 3}}')
    with pytest.raises(Invalid):
        coefficients(tmp_path / "rho.json")
    assert coefficients(None) == TableRates()


def test_options_have_defaults(tmp_path):
    options = options_of(["--card", "0", "--folder", str(tmp_path), "--policy", "jct"])
    assert (options.policy, options.groups, options.strangers, options.fail_open_ms) == ("jct", 15, "report", 1000)


def test_rates_of_unknown_neighbours_are_equal_shares():
    squads = SquadLoop(MemoryRegion(), ShareableCard(), "equal", TableRates())
    for name in ("a", "b", "c"):
        squads.attach(GpuClientSpec(name, curve=curve(1.0)), 0)
    first, *others = [GpuClientAccount(slot, facts, 0).snapshot(0) for slot, facts in squads.clients().items()]
    speed = TableRates()(first, 1000, [(other, 1000) for other in others])
    assert speed == pytest.approx(1 / 3)
    assert TableRates()(first, 500, []) == solo_speed(first, 500)


def test_rates_given_by_a_client_take_precedence_over_predicted_rates():
    control, squads = make_control()
    send(control, do="attach", tenant={"id": "a", "app": "vgg16", "curve": [[500, 0.5], [1000, 1.0]]})
    send(control, do="attach", tenant={"id": "b", "app": "googlenet", "beside": {"vgg16": 0.7}})
    vgg16, googlenet = (GpuClientAccount(slot, facts, 0).snapshot(0) for slot, facts in squads.clients().items())
    assert TableRates()(googlenet, 1000, [(vgg16, 1000)]) == pytest.approx(0.7)
    assert TableRates()(vgg16, 1000, [(googlenet, 1000)]) == pytest.approx(0.5)  # unknown: rivals
    with_rate = replace(googlenet, neighbour_rates={"vgg16": 0.4})
    assert TableRates()(vgg16, 1000, [(with_rate, 1000)]) == pytest.approx(0.4)
    send(control, do="change", tenant={"id": "a", "beside": {"googlenet": 0.45}, "curve": None})
    changed = squads.facts("a")
    assert (changed.beside, changed.curve, changed.app) == ({"googlenet": 0.45}, UNKNOWN_CURVE, "vgg16")


@pytest.mark.parametrize("name", ["beside", "costs"])
@pytest.mark.parametrize("rates", [[], {"x": "fast"}, {"x": -0.1}, {str(n): 0.5 for n in range(300)}, {"x": 10**400}])
def test_neighbour_rates_are_validated_at_attach(name, rates):
    assert send(make_control()[0], do="attach", tenant={"id": "a", name: rates})["field"].startswith(f"tenant.{name}")


@pytest.fixture
def daemon(tmp_path):
    control, squads = make_control()
    running = Daemon(squads, control, tmp_path / "control.sock")
    thread = threading.Thread(target=running.run, daemon=True)
    real_listen = running._listen
    ready = threading.Event()

    def listen() -> socket.socket:
        server = real_listen()
        ready.set()
        return server

    running._listen = listen
    thread.start()
    assert ready.wait(10)
    yield tmp_path / "control.sock"
    running.stop()
    with suppress(OSError), socket.socket(socket.AF_UNIX) as last:  # wakes it up, if it has not noticed the stop yet
        last.connect(str(tmp_path / "control.sock"))
    thread.join(10)
    assert not thread.is_alive()
    assert not (tmp_path / "control.sock").exists()


def test_daemon_answers_on_its_socket(daemon):
    assert ask(daemon, {"do": "attach", "tenant": {"id": "a"}})["slot"] == 0
    assert ask(daemon, {"do": "policy", "policy": "jct"})["ok"]
    status = ask(daemon, {"do": "status"})
    assert (status["policy"], [client["id"] for client in status["tenants"]]) == ("jct", ["a"])


def test_daemon_survives_invalid_requests(daemon):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(daemon))
        caller.sendall(b"\xff\xfe\n{\n")
        with caller.makefile("rb") as answers:
            assert [json.loads(answers.readline())["ok"] for _ in range(2)] == [False, False]
    assert ask(daemon, {"do": "status"})["ok"]


def test_deadline_and_remaining_work_count_down_between_daemons(tmp_path: Path) -> None:
    spec = GpuClientSpec("a", deadline_in_us=100 * US_PER_S, remaining_us=90 * US_PER_S)
    for _ in range(2):  # nor between later daemons
        keep_facts(tmp_path / "facts.json", {3: (spec, 0)})
        spec, stored_us = kept_facts(tmp_path / "facts.json")[3]
        now = GpuClientAccount(3, spec, stored_us, 60 * US_PER_S).snapshot(70 * US_PER_S)
        assert (now.deadline_in_us, now.remaining_us) == (30 * US_PER_S, 30 * US_PER_S)
    late = GpuClientAccount(3, spec, stored_us, 95 * US_PER_S)
    assert late.snapshot(95 * US_PER_S).remaining_us == 0
    late.tell(spec, 100 * US_PER_S)
    assert late.snapshot(100 * US_PER_S).remaining_us == 90 * US_PER_S


def test_stored_specs_without_a_valid_time_count_from_now(tmp_path: Path) -> None:
    """Older daemons stored no time, and before a reboot the clock was ahead."""
    (tmp_path / "facts.json").write_text('{"3": {"id": "a"}, "4": {"id": "b", "told_at_us": 9000000000000000}}')
    before_us = clock_us()
    stored = kept_facts(tmp_path / "facts.json")
    assert [facts.id for facts, _ in stored.values()] == ["a", "b"]
    assert all(before_us <= stored_us <= clock_us() for _, stored_us in stored.values())


def test_hanging_daemon_ends_and_logs_where_it_hung(tmp_path: Path) -> None:
    """A policy may be third-party code. A hanging daemon would prevent the start of the next one."""
    program = (
        "from pathlib import Path\n"
        "from gpusquad.gpu.daemon import watchdog\n"
        "def endless():\n"
        "    while True: pass\n"
        f"with watchdog.watched(Path({str(tmp_path / 'log')!r}), 0.05) as still_here:\n"
        "    still_here()\n"
        "    endless()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGALRM
    assert "in endless" in (tmp_path / "log").read_text()


def test_watchdog_does_not_end_a_running_daemon() -> None:
    with watched(within_s=60.0) as still_here:
        still_here()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_every_iteration_resets_the_watchdog(tmp_path: Path) -> None:
    control, squads = make_control()
    calls: list[int] = []

    def still_here() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            running.stop()

    running = Daemon(squads, control, tmp_path / "control.sock", still_here=still_here)
    running.run()
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_daemon_ends_when_its_socket_is_gone(tmp_path: Path, is_replaced: bool) -> None:
    """Its folder was removed, or another daemon has its own socket there, which is left alone."""
    control, squads = make_control()
    path = tmp_path / "control.sock"

    def remove() -> None:
        path.unlink(missing_ok=True)
        if is_replaced:
            path.touch()
        running._found_us = 0  # makes the check of the socket due

    running = Daemon(squads, control, path, still_here=remove)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert path.exists() == is_replaced
