"""Attachments of shared, isolated and virtual-card clients, and the errors when attaching fails."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpusquad.gpu.api import Attachment, Holder, QuotaFile, SharingParams
from gpusquad.gpu.attach import card_manager
from gpusquad.gpu.attach.card_manager import cards_of
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.gpu.daemon.wire import SOCKET, ask
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.job import Share, Slo
from tests.gpu.attach.conftest import CARD, MIB, Place, attach, clients, holder, until
from tests.gpu.attach.fake_mps import FakeMps

PIPES, PRIORITY = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_CLIENT_PRIORITY"


def test_attach_of_a_whole_card_starts_no_daemon(place: Place) -> None:
    quota = place.quota()
    assert quota.attach([CARD], holder("a"), None, SharingParams()) == Attachment()
    assert not quota.status(CARD.id)["running"]


def test_shared_clients_are_in_one_mps_pool_and_isolated_ones_are_not(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    some = attach(quota, "a").env
    urgent = attach(quota, "b", sharing_params=SharingParams(priority=1)).env
    prompt = attach(quota, "c", sharing_params=SharingParams(slo=Slo(latency_us=1000))).env
    alone = attach(quota, "d", isolation="isolated").env
    assert len({some[PIPES], urgent[PIPES], prompt[PIPES]}) == 1
    assert [env[PRIORITY] for env in (some, urgent, prompt)] == ["1", "0", "0"]
    assert not Path(alone[PIPES]).exists()
    assert PRIORITY not in alone
    assert mps.count("-d") == 1
    seen = clients(quota)
    assert [seen[name]["isolation"] for name in ("a/0", "d/0")] == ["shared", "isolated"]
    assert [seen[name]["is_time_sliced"] for name in ("a/0", "d/0")] == [False, True]
    assert quota.status(CARD.id)["mps"] == "pool of 3"


def test_mps_pool_stops_with_its_last_client(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    attach(quota, "a")
    attach(quota, "b", isolation="isolated")
    quota.release_all_but({"a", "b"})
    assert mps.count("quit") == 0
    quota.release_all_but({"b"})
    assert mps.count("quit") == 1


def test_attachment_stays_the_same_when_sharing_params_change(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    attachment = attach(quota, "a")
    quota.change(holder("a"), SharingParams(priority=2))
    assert attach(place.quota(has_mps=True), "a", sharing_params=SharingParams(priority=2)) == attachment
    assert clients(quota)["a/0"]["priority"] == 2


def test_app_and_measured_rates_reach_the_daemon(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    known = SharingParams(app="vgg16", curve=((500, 0.6), (1000, 1.0)), solo_per_s=12.5, rate_beside={"cnn": 0.55},
                     neighbour_rates={"cnn": 0.7})  # fmt: skip
    attach(quota, "a", sharing_params=known)
    seen = clients(quota)["a/0"]
    assert (seen["app"], seen["beside"], seen["costs"]) == ("vgg16", {"cnn": 0.55}, {"cnn": 0.7})
    assert seen["solo_per_s"] == 12.5
    quota.change(holder("a"), replace(known, curve=(), rate_beside={}))
    assert clients(quota)["a/0"]["beside"] == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start clients of other users")
def test_client_of_another_user_does_not_join_the_pool(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    attach(quota, "a", run_as=(1001, 1001))
    other = attach(quota, "b", run_as=(1002, 1002))
    assert not Path(other.env[PIPES]).exists()
    assert "1002" in other.notes[0]
    assert "1002" in clients(quota)["b/0"]["note"]
    assert Path(other.env["GPUSQUAD_TENANT"]).stat().st_uid == 1002
    assert attach(quota, "c", run_as=(1001, 1001)).notes == ()


def test_clients_are_time_sliced_with_a_note_when_mps_does_not_start(place: Place, mps: FakeMps) -> None:
    mps.put("broken", "")
    quota = place.quota(has_mps=True)
    attachment = attach(quota, "a")
    assert "cannot start" in attachment.notes[0]
    assert not Path(attachment.env[PIPES]).exists()
    assert "cannot start" in str(quota.status(CARD.id)["mps"])


def test_drain_terminates_mps_clients_with_the_given_pids(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    peer = place.peer(attach(quota, "a"))
    mps.put("clients", f"{peer.process.pid}\n")
    assert quota.drain(holder("a"), pids=[peer.process.pid])
    assert f"terminate_client 77 {peer.process.pid}" in mps.commands


def test_drain_terminates_processes_reported_by_the_shim(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    peer = place.peer(attach(quota, "a"))
    until(lambda: clients(quota)["a/0"]["pids"] == [peer.process.pid], "its process is not reported")
    mps.put("clients", f"{peer.process.pid}\n")
    quota.drain(holder("a"))
    assert f"terminate_client 77 {peer.process.pid}" in mps.commands


def test_peak_memory_survives_process_daemon_and_service(place: Place) -> None:
    quota = place.quota()
    peer = place.peer(attach(quota, "a"))
    assert quota.peak_memory_bytes(holder("a")) == 0
    result, key = peer(f"alloc({60 * MIB})")
    assert (result, peer(f"free({key})")) == (0, 0)
    until(lambda: quota.peak_memory_bytes(holder("a")) == 60 * MIB, "the peak is not reported")
    peer.kill()
    quota.stop(CARD.id)
    later = place.quota()
    assert later.peak_memory_bytes(holder("a")) == 60 * MIB
    assert later.peak_memory_bytes(holder("b")) == 0


def test_container_gets_mounts_instead_of_ld_preload(place: Place, mps: FakeMps, tmp_path: Path) -> None:
    quota = place.quota(has_mps=True, where="container", shm=tmp_path)
    attachment = attach(quota, "a")
    by_path = {mount.inside: mount for mount in attachment.mounts}
    assert Path(by_path["/etc/ld.so.preload"].outside).read_text().split() == ["/usr/lib/gpusquad/libgpusquad.so"]
    assert Path(by_path["/usr/lib/gpusquad/libgpusquad.so"].outside).read_bytes()
    client = by_path["/run/gpusquad/tenant"]
    assert not client.read_only
    assert Path(client.outside).stat().st_mode & 0o777 == 0o666  # the user of the image is unknown
    assert Path(by_path["/run/gpusquad/tenants"].outside, Path(client.outside).name).samefile(client.outside)
    assert by_path["/run/gpusquad/decisions"].read_only
    assert by_path["/run/gpusquad/tenants"].read_only
    assert not by_path[attachment.env[PIPES]].read_only
    assert by_path["/dev/shm"].outside == str(tmp_path)
    assert "LD_PRELOAD" not in attachment.env
    alone = attach(quota, "b", isolation="isolated")
    assert len(alone.mounts) == 5


def test_mounted_files_keep_their_inodes(place: Place) -> None:
    quota = place.quota(where="container")
    first = attach(quota, "a")
    before = [Path(mount.outside).stat().st_ino for mount in first.mounts]
    quota.stop(CARD.id)
    again = place.quota(where="container")
    attach(again, "b")
    again.set_policy(CARD.id, "jct")
    assert attach(again, "a") == first
    assert [Path(mount.outside).stat().st_ino for mount in first.mounts] == before


SECOND = Card(f"{CARD.id}.2of3", CARD.model, CARD.memory_bytes // 3, 16)


def test_virtual_card_gets_sm_groups_and_memory_of_its_card(place: Place, mps: FakeMps) -> None:
    quota, second = place.quota(has_mps=True), SECOND
    attachment = quota.attach([second], holder("a"), None, SharingParams())
    assert "GPUSQUAD_TENANT" in attachment.env
    [client] = clients(quota).values()
    assert mps.count("-d") == 1
    assert (client["quota_bytes"], client["within"], client["sm_milli"]) == (CARD.memory_bytes // 3, 0b1100, 0)
    assert quota.status(second.id)["card"] == CARD.id
    assert list(quota.policies()) == [CARD.id]
    with pytest.raises(Invalid, match=r"gpus: 2 virtual cards for one task \(request gpus: 1\)"):
        quota.attach([second, second], holder("b"), None, SharingParams())


@pytest.mark.parametrize(("share", "guaranteed_milli"), [(None, 333), (Share(sm_milli=500), 166), (Share(MIB), 0)])
def test_time_sliced_virtual_card_gets_a_share_of_time_instead_of_sms(
    place: Place, share: Share | None, guaranteed_milli: int
) -> None:
    quota = place.quota()  # without MPS clients never run concurrently: own SMs would only slow them down
    attachment = quota.attach([SECOND], holder("a"), share, SharingParams())
    [client] = clients(quota).values()
    assert (client["within"], client["sm_milli"], client["is_time_sliced"]) == (0, guaranteed_milli, True)
    assert "time-sliced with the other virtual cards on all SMs" in attachment.notes[-1]
    assert quota.attach([SECOND], holder("a"), share, SharingParams()) == attachment


def test_weight_and_priority_change_when_the_memory_change_is_refused(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a", 600)
    attach(quota, "b", 300)
    quota.change(holder("b"), SharingParams(weight=3.0, priority=1, memory_bytes=600 * MIB))
    seen = clients(quota)["b/0"]
    assert (seen["weight"], seen["priority"], seen["quota_bytes"]) == (3.0, 1, 300 * MIB)


def test_share_beyond_the_free_memory_is_refused(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a", 800)
    with pytest.raises(Invalid, match="request less") as refused:
        attach(quota, "b", 300)
    assert not isinstance(refused.value, NotReady)  # the request itself is wrong
    with pytest.raises(Invalid, match="one card only"):
        quota.attach([CARD, CARD], holder("b"), Share(MIB), SharingParams())
    assert set(clients(quota)) == {"a/0"}


def test_share_not_larger_than_a_cuda_context_is_refused(place: Place) -> None:
    attachment = attach(place.quota(), "a", 30)
    quota = place.quota(context_bytes=30 * MIB)
    assert attach(quota, "a", 30) == attachment  # attached before the setting changed
    with pytest.raises(Invalid, match=r"31\.5 MB does not exceed the 31\.5 MB .*context_bytes") as refused:
        attach(quota, "b", 30)
    assert refused.value.field == "share.memory"
    attach(quota, "b", 31)
    with pytest.raises(Invalid, match=r"share: 2\.9% of the card's memory: .* does not exceed") as refused:
        quota.attach([CARD], holder("c"), Share(sm_milli=29), SharingParams())  # 29.7 of 1,024 MiB
    assert refused.value.field == "share", "the share does not set memory"
    quota.attach([CARD], holder("c"), Share(sm_milli=1), SharingParams())  # no memory quota that a context could fill


def test_attach_is_not_ready_beside_an_unmanaged_process(place: Place) -> None:
    quota = place.quota(strangers="refuse")
    attach(quota, "a")
    assert quota.report_processes(CARD.id, [UnmanagedProcess(4321, "game", MIB)], ()) == (4321,)
    with pytest.raises(NotReady, match="4321 game"):
        attach(quota, "b")
    assert quota.report_processes(CARD.id, [], ()) == ()
    attach(quota, "b")
    assert set(clients(quota)) == {"a/0", "b/0"}


def test_share_is_not_enforced_when_attach_fails_and_strict_is_off(place: Place, tmp_path: Path) -> None:
    quota = place.quota(QuotaFile(folder=tmp_path / "quota"), strict=False)
    attach(quota, "a", 800)
    attachment = attach(quota, "b", 300)
    assert "share is not enforced" in attachment.notes[0]
    assert Path(attachment.mounts[0].outside).exists()
    quota.release_all_but({"a"})
    assert not Path(attachment.mounts[0].outside).exists()


def test_failed_daemon_start_reports_its_cause(place: Place) -> None:
    quota = place.quota(groups_of=lambda card: 99)
    with pytest.raises(NotReady, match="99 is not a number of SM groups"):
        attach(quota, "a")


def test_attach_is_not_ready_when_its_folder_cannot_be_created(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    quota = place.quota(folder=tmp_path / "file" / "below")
    with pytest.raises(NotReady, match="cannot use its folder"):
        attach(quota, "a")
    place.quotas.clear()


def test_policy_is_validated_and_stored_without_a_daemon(place: Place) -> None:
    quota = place.quota(policy=lambda card: "jct" if card == CARD.id else "equal")
    assert quota.policies() == {CARD.id: "jct"}
    with pytest.raises(Invalid, match="slow"):
        quota.set_policy(CARD.id, "slow")
    with pytest.raises(Invalid, match=CARD.id):
        quota.set_policy("other", "slo")
    assert quota.set_policy(CARD.id, "slo") == "slo"
    assert place.quota().policies() == {CARD.id: "slo"}
    status = quota.status(CARD.id)
    assert (status["running"], status["policy"], status["tenants"]) == (False, "slo", [])


def test_unknown_stored_policy_falls_back_to_the_default(place: Place) -> None:
    quota = place.quota(policy="jct")
    quota.set_policy(CARD.id, "slo")
    (place.settings.card_folder(CARD.id) / "policy").write_text("of-a-package-that-is-gone\n")
    attach(quota, "a")
    assert quota.status(CARD.id)["policy"] == "jct"


def test_unknown_default_policy_falls_back_to_equal(place: Place) -> None:
    quota = place.quota(policy="of-a-package-that-is-gone")
    attach(quota, "a")
    assert quota.status(CARD.id)["policy"] == "equal"


def test_daemon_of_another_version_is_replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = place.quota()
    attachment = attach(quota, "a")
    socket = place.settings.card_folder(CARD.id) / SOCKET
    before = ask(socket, {"do": "hello"})
    monkeypatch.setattr(card_manager, "version", lambda: "another")
    assert attach(place.quota(), "a") == attachment
    after = ask(socket, {"do": "hello"})
    assert before["pid"] != after["pid"]
    assert after["version"] == "another"


def test_unmanaged_processes_are_passed_to_the_daemon(place: Place, mps: FakeMps) -> None:
    quota = place.quota(has_mps=True)
    listed = [UnmanagedProcess(5, "x"), UnmanagedProcess(6, "y", 9), UnmanagedProcess(77, "nvidia-cuda-mps-server")]
    assert quota.report_processes(CARD.id, listed, [5]) == ()
    attach(quota, "a")
    assert quota.report_processes(CARD.id, listed, [5]) == (6,)
    assert quota.status(CARD.id)["strangers"] == [{"pid": 6, "name": "y", "memory_bytes": 9}]


def test_failed_daemon_start_is_not_retried_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quota = place.quota()
    attach(quota, "a")
    quota.stop(CARD.id)
    starts: list[object] = []

    def fails(self: card_manager.CardManager) -> None:
        starts.append(self)
        raise Invalid("gcc", "is not installed")

    with monkeypatch.context() as patched:
        patched.setattr(card_manager.CardManager, "start", fails)
        quota.maintain()
        quota.maintain()
        quota.release_all_but(set())
    assert len(starts) == 1
    assert sum("gcc" in record.getMessage() for record in caplog.records) == 1
    attach(quota, "b", 1000)  # attach starts the daemon at once; the memory of the released client is free
    assert set(clients(quota)) == {"b/0"}


def test_hanging_daemon_is_waited_for_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = place.quota()
    attach(quota, "a")
    starts: list[object] = []

    def hangs(self: card_manager.CardManager) -> None:
        starts.append(self)
        raise Invalid("card", "no daemon answered")

    with monkeypatch.context() as patched:
        patched.setattr(card_manager.CardManager, "start", hangs)
        for weight in (2.0, 3.0, 4.0):
            quota.change(holder("a"), SharingParams(weight=weight))
        quota.maintain()
    assert len(starts) == 1
    assert clients(quota)["a/0"]["weight"] == 1.0


def test_maintain_skips_a_card_that_failed_while_it_waited_for_the_lock(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    quota.stop(CARD.id)

    class LockOfAFailingThread:
        def __enter__(self) -> None:
            quota._retry_at_s[CARD.id] = float("inf")

        def __exit__(self, *_: object) -> None: ...

    quota._managers[CARD.id].lock, before = LockOfAFailingThread(), quota._managers[CARD.id].lock  # type: ignore[assignment]
    quota.maintain()
    quota._managers[CARD.id].lock = before
    assert not quota.status(CARD.id)["running"]


def test_client_unknown_to_its_daemon_does_not_disable_the_card(place: Place) -> None:
    quota = place.quota()
    attach(quota, "a")
    ask(place.settings.card_folder(CARD.id) / SOCKET, {"do": "detach", "id": "a/0"})
    quota.change(holder("a"), SharingParams(weight=2.0))
    quota.release_all_but(set())
    assert quota.status(CARD.id)["mps"] == "none: jobs are time-sliced"
    attach(quota, "b", 1000)
    quota.change(holder("b"), SharingParams(weight=2.0))
    assert clients(quota)["b/0"]["weight"] == 2.0


def test_failed_release_is_repeated_when_the_daemon_answers_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = place.quota()
    attach(quota, "a")
    attach(quota, "b")
    with monkeypatch.context() as patched:
        patched.setattr(card_manager.CardManager, "ask", no_answer)
        quota.release_all_but({"b"})
    assert set(clients(quota)) == {"a/0", "b/0"}
    quota._retry_at_s.clear()  # the retry delay has passed
    quota.maintain()
    assert set(clients(quota)) == {"b/0"}


def no_answer(self: card_manager.CardManager, question: object) -> dict:
    raise Invalid("card", "no daemon answered")


def test_folders_are_readable_by_all_when_the_pool_creates_them(place: Place, mps: FakeMps) -> None:
    before = os.umask(0o077)
    try:
        attach(place.quota(has_mps=True), "a")
    finally:
        os.umask(before)
    modes = {place.settings.folder / below: 0o755 for below in ("", "cards")}
    assert {folder: folder.stat().st_mode & 0o777 for folder in modes} == modes


def test_policy_is_checked_once_for_all_cards(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service has many cards and sets the policies of all of them when it starts."""
    monkeypatch.setattr(card_manager, "_good_policies", set())
    checked: list[str] = []
    monkeypatch.setattr(card_manager.CardManager, "_check", lambda self, policy: checked.append(policy))
    quota = SquadQuota(place.settings, [Card(f"GPU-{number}", "x", MIB, 64) for number in range(8)])
    for card in quota.policies():
        quota.set_policy(card, "slo")
    assert checked == ["slo"]


def test_daemon_imports_nothing_from_the_working_directory(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('somebody else')\n")
    monkeypatch.chdir(tmp_path)
    attach(place.quota(), "a")


def test_cards_of_finds_valid_card_folders(place: Place) -> None:
    attach(place.quota(), "a")
    assert cards_of(place.settings) == [CARD]
    broken = replace(place.settings).card_folder("other")
    broken.mkdir()
    (broken / "card.json").write_text("{")
    assert cards_of(place.settings) == [CARD]
    with pytest.raises(Invalid):
        place.settings.card_folder("..")


def test_no_daemon_is_started_for_a_card_without_clients(place: Place) -> None:
    quota = place.quota()
    quota.set_policy(CARD.id, "slo")
    quota.release_all_but(set())
    quota.maintain()
    assert not quota.status(CARD.id)["running"]


def test_release_all_but_keeps_an_owner_with_a_slash(place: Place) -> None:
    quota = place.quota()
    client = Holder("job/1", "0")
    quota.attach([CARD], client, Share(MIB), SharingParams())
    quota.release_all_but({"job/1"})
    assert set(clients(quota)) == {"job/1/0"}
