"""Tests of attaching containers to card quotas and releasing them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.pods import Container
from gpusquad.gpu.api import Attachment, DeviceNode, Holder, Mount, NoSharing
from gpusquad.kube.names import PRIORITY, SLO
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Share
from gpusquad.model.sharing_params import SharingParams
from tests.agent.kubernetes.fake_kubelet import pod

CARD = Card("SIM-0", "Simulated", 2**34, 132)
SHARE = Share(2**30, 250)
MAIN = Container("main", 1, run_as=(1000, 1000))


class RecordingQuota(NoSharing):
    """Quota that records its calls."""

    def __init__(self, attachment: Attachment | None = None, problem: Exception | None = None) -> None:
        self.attached: dict[Holder, SharingParams] = {}
        self.changes: list[tuple[str, int]] = []
        self.attachment, self.problem = attachment or Attachment(), problem

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        assert (list(cards), share) == ([CARD], SHARE)
        if self.problem is not None:
            raise self.problem
        self.attached[holder] = sharing_params
        return self.attachment

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        self.changes.append((f"{holder.owner}/{holder.part}", sharing_params.priority))

    def release_all_but(self, owners: set[str]) -> None:
        self.attached = {holder: params for holder, params in self.attached.items() if holder.owner in owners}

    @property
    def owners(self) -> set[str]:
        return {holder.owner for holder in self.attached}


def test_attachments_of_all_quotas_are_merged():
    first = RecordingQuota(Attachment({"A": "1"}, (Mount("/a", "/x"),), notes=("one",)))
    second = RecordingQuota(Attachment({"B": "2"}, (Mount("/b", "/y"),), (DeviceNode("/dev/a", "/dev/b"),), ("two",)))
    merged = CardClients([first, second]).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
    assert merged == Attachment(
        {"A": "1", "B": "2"}, (Mount("/a", "/x"), Mount("/b", "/y")), (DeviceNode("/dev/a", "/dev/b"),), ("one", "two")
    )


@pytest.mark.parametrize(("passes_users", "expected"), [(False, None), (True, (1000, 1000))])
def test_user_of_the_container_is_passed_only_when_enabled(passes_users: bool, expected: tuple[int, int] | None):
    quota = RecordingQuota()
    CardClients([quota], passes_users).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
    [holder] = quota.attached
    assert holder == Holder("uid-of-p", "main", "", expected)


def test_only_ended_and_deleted_pods_are_released():
    quota = RecordingQuota()
    clients = CardClients([quota])
    pods = {name: pod(name, [MAIN]) for name in ("stays", "ends", "goes")}
    for attached in pods.values():
        clients.attach(attached, MAIN, [CARD], SHARE)
    clients.follow(pods.values())
    assert quota.owners == {"uid-of-stays", "uid-of-ends", "uid-of-goes"}
    clients.follow([pods["stays"], replace(pods["ends"], has_ended=True)])
    assert quota.owners == {"uid-of-stays"}
    clients.follow([])
    assert quota.owners == set()


def test_pod_that_is_newer_than_the_list_is_not_released():
    quota = RecordingQuota()
    clients = CardClients([quota])
    clients.attach(pod("new", [MAIN]), MAIN, [CARD], SHARE)
    clients.follow([pod("old", [MAIN])])  # from before the new pod was attached
    assert quota.owners == {"uid-of-new"}
    clients.follow([pod("old", [MAIN])])  # from after it: the pod is gone
    assert quota.owners == set()


def test_pod_attached_during_a_release_is_not_released():
    """Attaching and releasing run one after the other, in either order."""
    entered, leave = threading.Event(), threading.Event()

    class SlowQuota(RecordingQuota):
        def release_all_but(self, owners: set[str]) -> None:
            entered.set()
            assert leave.wait(60)
            super().release_all_but(owners)

    quota = SlowQuota()
    clients = CardClients([quota])
    follow_thread = threading.Thread(target=clients.follow, args=([pod("old", [MAIN])],))
    follow_thread.start()
    assert entered.wait(60)
    attach_thread = threading.Thread(target=clients.attach, args=(pod("new", [MAIN]), MAIN, [CARD], SHARE))
    attach_thread.start()
    leave.set()
    follow_thread.join()
    attach_thread.join()
    assert quota.owners == {"uid-of-new"}


def test_changed_sharing_params_are_passed_on_once():
    quota = RecordingQuota()
    clients = CardClients([quota])
    normal = pod("p", [MAIN])
    urgent = replace(normal, annotations={PRIORITY: "urgent"})
    clients.attach(normal, MAIN, [CARD], SHARE)
    for each in (normal, urgent, urgent, normal):
        clients.follow([each])
    assert quota.changes == [("uid-of-p/main", 2), ("uid-of-p/main", 0)]


def test_new_agent_passes_on_params_of_known_pods():
    quota = RecordingQuota()
    CardClients([quota]).follow([pod("p", [MAIN], annotations={PRIORITY: "high"})])
    assert quota.changes == [("uid-of-p/main", 1)]


def test_invalid_slo_is_logged_once_and_ignored(caplog: pytest.LogCaptureFixture):
    quota = RecordingQuota()
    clients = CardClients([quota])
    invalid = pod("p", [MAIN], annotations={SLO: "p99=soon"})
    clients.attach(invalid, MAIN, [CARD], SHARE)
    for _ in range(3):
        clients.follow([invalid])
    assert list(quota.attached.values()) == [SharingParams()]
    [line] = [record.getMessage() for record in caplog.records]
    assert f"{SLO}.p99" in line
    clients.follow([replace(invalid, annotations={SLO: "p99=20ms"})])
    assert len(quota.changes) == len(caplog.records) == 1


def test_attach_fails_when_a_quota_refuses():
    with pytest.raises(Invalid, match="no room"):
        CardClients([RecordingQuota(problem=Invalid("card", "no room"))]).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
