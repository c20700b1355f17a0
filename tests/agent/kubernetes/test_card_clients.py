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


class Noted(NoSharing):
    """A quota that notes what it is told."""

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
        self.attached = {holder: told for holder, told in self.attached.items() if holder.owner in owners}

    @property
    def owners(self) -> set[str]:
        return {holder.owner for holder in self.attached}


def test_a_container_gets_what_each_of_them_adds():
    first = Noted(Attachment({"A": "1"}, (Mount("/a", "/x"),), notes=("one",)))
    second = Noted(Attachment({"B": "2"}, (Mount("/b", "/y"),), (DeviceNode("/dev/a", "/dev/b"),), ("two",)))
    got = CardClients([first, second]).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
    assert got == Attachment(
        {"A": "1", "B": "2"}, (Mount("/a", "/x"), Mount("/b", "/y")), (DeviceNode("/dev/a", "/dev/b"),), ("one", "two")
    )


@pytest.mark.parametrize(("passes_users", "expected"), [(False, None), (True, (1000, 1000))])
def test_users_are_told_where_it_matters(passes_users: bool, expected: tuple[int, int] | None):
    quota = Noted()
    CardClients([quota], passes_users).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
    [holder] = quota.attached
    assert holder == Holder("uid-of-p", "main", "", expected)


def test_whoever_has_ended_or_gone_is_forgotten_and_nobody_else():
    quota = Noted()
    clients = CardClients([quota])
    pods = {name: pod(name, [MAIN]) for name in ("stays", "ends", "goes")}
    for each in pods.values():
        clients.attach(each, MAIN, [CARD], SHARE)
    clients.follow(pods.values())
    assert quota.owners == {"uid-of-stays", "uid-of-ends", "uid-of-goes"}
    clients.follow([pods["stays"], replace(pods["ends"], has_ended=True)])
    assert quota.owners == {"uid-of-stays"}
    clients.follow([])
    assert quota.owners == set()


def test_one_that_is_younger_than_the_list_of_pods_stays():
    quota = Noted()
    clients = CardClients([quota])
    clients.attach(pod("new", [MAIN]), MAIN, [CARD], SHARE)
    clients.follow([pod("old", [MAIN])])  # as they were before
    assert quota.owners == {"uid-of-new"}
    clients.follow([pod("old", [MAIN])])  # as they are now: it has gone
    assert quota.owners == set()


def test_a_pod_that_comes_while_others_are_forgotten_is_not_among_them():
    """Both are done one after the other, whoever comes first."""
    entered, leave = threading.Event(), threading.Event()

    class Slow(Noted):
        def release_all_but(self, owners: set[str]) -> None:
            entered.set()
            assert leave.wait(60)
            super().release_all_but(owners)

    quota = Slow()
    clients = CardClients([quota])
    forgetting = threading.Thread(target=clients.follow, args=([pod("old", [MAIN])],))
    forgetting.start()
    assert entered.wait(60)
    coming = threading.Thread(target=clients.attach, args=(pod("new", [MAIN]), MAIN, [CARD], SHARE))
    coming.start()
    leave.set()
    forgetting.join()
    coming.join()
    assert quota.owners == {"uid-of-new"}


def test_a_change_of_standing_is_told_once():
    quota = Noted()
    clients = CardClients([quota])
    calm = pod("p", [MAIN])
    urgent = replace(calm, annotations={PRIORITY: "urgent"})
    clients.attach(calm, MAIN, [CARD], SHARE)
    for each in (calm, urgent, urgent, calm):
        clients.follow([each])
    assert quota.changes == [("uid-of-p/main", 2), ("uid-of-p/main", 0)]


def test_a_new_agent_tells_what_may_have_changed_before_it_came():
    quota = Noted()
    CardClients([quota]).follow([pod("p", [MAIN], annotations={PRIORITY: "high"})])
    assert quota.changes == [("uid-of-p/main", 1)]


def test_a_goal_that_cannot_be_read_is_told_once_and_harms_nobody(caplog: pytest.LogCaptureFixture):
    quota = Noted()
    clients = CardClients([quota])
    wrong = pod("p", [MAIN], annotations={SLO: "p99=soon"})
    clients.attach(wrong, MAIN, [CARD], SHARE)
    for _ in range(3):
        clients.follow([wrong])
    assert list(quota.attached.values()) == [SharingParams()]
    [line] = [record.getMessage() for record in caplog.records]
    assert f"{SLO}.p99" in line
    clients.follow([replace(wrong, annotations={SLO: "p99=20ms"})])
    assert len(quota.changes) == len(caplog.records) == 1


def test_who_cannot_be_kept_to_its_part_is_refused():
    with pytest.raises(Invalid, match="no room"):
        CardClients([Noted(problem=Invalid("card", "no room"))]).attach(pod("p", [MAIN]), MAIN, [CARD], SHARE)
