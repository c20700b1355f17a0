"""Jobs that damage cards or are lost again and again, and cards under suspicion, in virtual time."""

from __future__ import annotations

import pytest

from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.errors import Conflict
from gpusquad.server.notify.messages import write
from gpusquad.server.notify.rules import kind_of
from gpusquad.server.services.cluster.card_suspects import COOL_DOWN_US
from gpusquad.server.views import job_view
from gpusquad.store import audit, events, people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World, kinds, last_cause

MINUTE_S = 60


class Machine(World):
    """One node; tests report faults and self-tests as its agent does."""

    def fault(self, card: str, cause: str = "Xid 32", kind: str = "doubtful", event: bool = True) -> None:
        self.tell(card, cause, kind, event)
        self.settle()

    def tell(self, card: str, cause: str, kind: str, event: bool = True) -> None:
        """``event``: reported once. Otherwise the card has it whenever it is read."""
        said = {"kind": "card_fault", "card": card, "cause": cause, "class": kind, "event": event}
        self.scheduler.watcher.hear(said)

    def self_test(self, card: str, passed: bool | None = True, detail: str = "fine") -> None:
        """As the agent: the card is healthy again if it passed."""
        if passed:
            self.scheduler.watcher.hear({"kind": "card_ok", "card": card})
        elif passed is False:
            cause = f"self-test failed: {detail}"
            self.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": cause, "class": "card"})
        self.sample({card: {"passed": passed, "detail": detail, "at_us": self.clock.at_us + 1, "took_s": 1.0}})

    def sample(self, results=()) -> None:
        cards = [
            {"id": card.id, "self_test": dict(results).get(card.id)} for card in self.scheduler.node_service.cards()
        ]
        self.scheduler.watcher.hear({"kind": "samples", "at_us": self.clock.at_us, "cards": cards, "runs": []})
        self.settle()

    def card_of(self, job_id: str) -> str:
        placement = self.scheduler.row(job_id).placement
        assert placement is not None
        return placement["tasks"][0]["cards"][0]

    def cards_of(self, job_id: str) -> list[str]:
        placement = self.scheduler.row(job_id).placement
        assert placement is not None
        return [card for task in placement["tasks"] for card in task["cards"]]

    def test_wanted(self) -> None:
        """As the agent: test what the service asks for, without a word about recovery."""
        for card in self.scheduler.suspects.wanted():
            self.sample({card: {"passed": True, "detail": "fine", "at_us": self.clock.at_us + 1, "took_s": 1.0}})

    def out(self) -> list[str]:
        return [card.id for card in self.scheduler.node_service.cards() if card.state == "cordoned"]

    def why(self, job_id: str) -> str:
        return "; ".join(reason.message for reason in self.scheduler.queries.why(job_id).reasons)

    def step_s(self, seconds: float = 1) -> None:
        self.at(self.clock.at_us + round(seconds * SECOND_US))

    def actions(self) -> list[tuple[str, str]]:
        with self.database.read() as c:
            return [(row.action, row.target) for row in reversed(audit.find(c, actor="gpusquad").items)]


@pytest.fixture
def machine(tmp_path, database) -> Machine:
    return Machine(tmp_path, "1x8", database)


def poison(machine: Machine, **file) -> str:
    job_id = machine.submit(**{"name": "poison", "gpus": 1, "command": ["poison"]} | file)
    machine.settle()
    return job_id


# -- suspected jobs ----------------------------------------------------------------------------------------------------


def test_poison_job_takes_two_cards_out_until_they_are_tested_and_is_held(machine: Machine) -> None:
    job_id, honest = poison(machine), machine.submit(name="honest", command=["train"])
    machine.settle()
    faulted = []
    for _ in range(2):
        faulted.append(machine.card_of(job_id))
        machine.step_s()
        machine.fault(faulted[-1])
    assert len(set(faulted)) == 2
    assert machine.out() == sorted(faulted)
    assert (machine.state(job_id), machine.state(honest)) == ("held", "running")
    assert f"Xid 32 on {faulted[0]}" in last_cause(machine, job_id)
    assert "gpusquad release" in last_cause(machine, job_id)
    for card in faulted:
        machine.self_test(card)
    assert machine.out() == []
    machine.step_s(24 * 3600)
    assert machine.state(job_id) == "held"
    assert [action for action, _ in machine.actions()] == ["card.self_test", "card.self_test"]


def test_released_job_is_tried_again_and_held_after_two_more_cards(machine: Machine) -> None:
    job_id = poison(machine)
    for _ in range(2):
        for _ in range(2):
            assert machine.state(job_id) == "running"
            card = machine.card_of(job_id)
            machine.step_s()
            machine.fault(card)
            machine.self_test(card)
        assert machine.state(job_id) == "held"
        machine.scheduler.release(job_id, ADA)
        machine.settle()
    assert machine.state(job_id) == "running"
    assert machine.scheduler.row(job_id).losses is None


@pytest.mark.parametrize("restarts", [False, True])
def test_release_of_one_of_a_sweep_cordons_no_healthy_card(machine: Machine, restarts: bool) -> None:
    jobs = [poison(machine) for _ in range(10)]
    running = [job_id for job_id in jobs if machine.state(job_id) == "running"]
    for job_id in running:
        machine.step_s()
        machine.fault(machine.card_of(job_id))
    assert {machine.state(job_id) for job_id in jobs} == {"held"}
    jobs += [poison(machine) for _ in range(2)]
    for job_id in jobs[-2:]:
        machine.fault(machine.card_of(job_id))
    for card in machine.scheduler.node_service.cards():
        machine.self_test(card.id)
    if restarts:
        machine.scheduler = machine.make()
        machine.settle()
    for job_id in jobs[:4]:
        machine.scheduler.release(job_id, ADA)
        machine.settle()
        for _ in range(2):
            machine.step_s(20)
            machine.fault(machine.card_of(job_id))
        assert machine.state(job_id) == "held"
    assert "card.cordon" not in {action for action, _ in machine.actions()}


@pytest.mark.parametrize("alike", [True, False])
def test_twenty_poison_jobs_of_a_tenant_take_out_at_most_two_cards(machine: Machine, alike: bool) -> None:
    jobs = [poison(machine, command=["poison" if alike else f"poison {chr(97 + i)}"]) for i in range(20)]
    most, faults = 0, 0
    for _ in range(200):
        running = [job_id for job_id in jobs if machine.state(job_id) == "running"]
        for job_id in running:
            if machine.state(job_id) == "running":
                machine.fault(machine.card_of(job_id))
                faults += 1
            most = max(most, len(machine.out()))
        for card in machine.out():
            machine.self_test(card)
        machine.step_s(5)
    assert {machine.state(job_id) for job_id in jobs} == {"held"}
    assert most == 2
    assert machine.out() == []
    assert faults <= (8 if alike else 3 * len(jobs))


def test_pending_jobs_of_a_suspected_batch_do_not_start(machine: Machine) -> None:
    jobs = [poison(machine, gpus=4) for _ in range(5)]
    assert [machine.state(job_id) for job_id in jobs] == ["running"] * 2 + ["pending"] * 3
    for job_id in jobs[:2]:
        machine.fault(machine.card_of(job_id))
    assert [machine.state(job_id) for job_id in jobs] == ["held"] * 5
    assert "of the same program" in machine.why(jobs[4])
    other = machine.submit(Who("bob", "default", "member"), name="honest", command=["train"])
    machine.settle()
    assert machine.state(other) == "running"


def test_gang_is_suspected_after_two_attempts_whose_faulty_cards_differ(machine: Machine) -> None:
    gang = poison(machine, gpus=2, count=2)
    machine.fault(machine.card_of(gang))
    assert machine.state(gang) == "running"
    machine.fault(machine.card_of(gang))
    assert machine.state(gang) == "held"


def fault_all(machine: Machine, cause: str, kind: str) -> None:
    """All cards fault within moments, before anybody has stopped the job."""
    for card in machine.scheduler.node_service.cards():
        machine.tell(card.id, cause, kind)
    machine.settle()


def test_job_that_damages_all_cards_at_once_takes_two_out_and_is_held(machine: Machine) -> None:
    gang = poison(machine, gpus=8)
    fault_all(machine, "Xid 32", "doubtful")
    assert machine.state(gang) == "held"
    assert len(machine.out()) == 2
    assert "suspected of causing card faults" in machine.why(gang)


def test_job_that_breaks_all_cards_is_held_after_two_attempts(machine: Machine) -> None:
    gang = poison(machine, gpus=8)
    fault_all(machine, "Xid 79", "card")
    assert (machine.state(gang), len(machine.out())) == ("pending", 2)
    machine.test_wanted()
    assert machine.out() == [], "one event on several cards: each returns when it has passed its test"
    assert machine.state(gang) == "running"
    machine.step_s()
    fault_all(machine, "Xid 79", "card")
    assert (machine.state(gang), len(machine.out())) == ("held", 1)
    machine.test_wanted()
    assert machine.out() == []


def test_small_gang_takes_at_most_two_cards_out_and_is_held_after_two_attempts(machine: Machine) -> None:
    gang = poison(machine, gpus=2, count=2)
    for expected in ("running", "held"):
        for card in machine.cards_of(gang):
            machine.tell(card, "Xid 79", "card")
        machine.settle()
        assert machine.state(gang) == expected
        assert len(machine.out()) <= 2
    machine.test_wanted()
    assert machine.out() == []


def test_sweep_that_causes_faults_of_cards_takes_two_out_until_they_are_tested(machine: Machine) -> None:
    jobs = [poison(machine) for _ in range(10)]
    most = 0
    for job_id in jobs[:8]:
        machine.fault(machine.card_of(job_id), "Xid 79", "card")
        most = max(most, len(machine.out()))
    assert {machine.state(job_id) for job_id in jobs} == {"held"}
    assert most == 2
    assert len(machine.scheduler.suspects.wanted()) == 8, "each is tested"
    machine.test_wanted()
    assert (machine.out(), machine.scheduler.suspects.wanted()) == ([], [])


def test_jobs_whose_first_faults_came_before_the_suspicion_are_held_when_they_have_left(machine: Machine) -> None:
    """Also the one that still leaves its card then."""
    jobs = [poison(machine) for _ in range(10)]
    machine.engine.slow_to_stop = True
    for job_id in jobs[:8]:
        machine.tell(machine.card_of(job_id), "Xid 79", "card")
    machine.settle()
    for job_id in jobs[:8]:
        machine.engine.end(job_id, 0, "stopped", "its card has a fault")
    machine.settle()
    assert [machine.state(job_id) for job_id in jobs] == ["held"] * 10


def test_requeued_job_with_a_promised_start_is_held_with_its_batch(machine: Machine) -> None:
    machine.submit(name="honest", gpus=6, command=["train"], estimate=3600)
    machine.settle()
    jobs = [poison(machine) for _ in range(4)]
    for job_id in jobs[:2]:
        machine.fault(machine.card_of(job_id), "Xid 79", "card")
    assert [machine.state(job_id) for job_id in jobs] == ["held"] * 4
    assert machine.scheduler.context.state.timeline.reservations == {}


@pytest.mark.parametrize("event", [True, False])
def test_only_a_card_that_answers_well_is_used_beyond_the_limit(machine: Machine, event: bool) -> None:
    """A card that its driver reports as lost is out of use, whoever ran on it."""
    jobs = [poison(machine) for _ in range(8)]
    for job_id in jobs:
        machine.fault(machine.card_of(job_id), "the card is lost", "card", event)
    assert len(machine.out()) == (2 if event else 8)


def test_lost_card_does_not_return_by_an_earlier_check(machine: Machine) -> None:
    jobs = [poison(machine) for _ in range(3)]
    cards = [machine.card_of(job_id) for job_id in jobs]
    for card in cards:
        machine.fault(card, "Xid 79", "card")
    machine.fault(cards[2], "the card is lost", "card", event=False)
    machine.test_wanted()
    assert machine.out() == [cards[2]]


def test_broken_cards_do_not_use_up_the_limit_of_their_tenant(machine: Machine) -> None:
    jobs = [poison(machine, command=[f"poison {letter}"]) for letter in "ghi"]
    cards = [machine.card_of(job_id) for job_id in jobs]
    for card in cards[:2]:
        machine.fault(card, "Xid 79", "card")
        machine.fault(card, "the card is lost", "card", event=False)
    machine.fault(cards[2])
    assert machine.out() == cards


def test_card_that_fails_its_check_is_cordoned(machine: Machine) -> None:
    jobs = [poison(machine) for _ in range(3)]
    cards = [machine.card_of(job_id) for job_id in jobs]
    for card in cards:
        machine.fault(card, "Xid 79", "card")
    machine.self_test(cards[2], passed=False, detail="wrong words")
    assert cards[2] in machine.out()
    assert cards[2] not in machine.scheduler.suspects.wanted()


def test_exonerated_job_is_judged_anew(machine: Machine) -> None:
    job_id = poison(machine)
    first = machine.card_of(job_id)
    machine.fault(first)
    machine.fault(machine.card_of(job_id))
    machine.self_test(first, passed=False, detail="3 words are wrong")
    for _ in range(2):
        machine.step_s(60)
        assert machine.state(job_id) == "running"
        machine.fault(machine.card_of(job_id))
    assert machine.state(job_id) == "held"


def test_retry_of_a_program_that_causes_xids_on_two_cards_is_held(machine: Machine) -> None:
    job_id = poison(machine, retries={"count": 5, "backoff": 30})
    first = machine.card_of(job_id)
    machine.fault(first, "Xid 31", "program")
    assert (machine.out(), machine.state(job_id)) == ([], "running")
    machine.engine.end(job_id, 0, "failed", "exit code 1")
    blocker = machine.submit(name="honest", command=["train"])
    machine.settle()
    machine.step_s(60)
    assert machine.card_of(job_id) != first
    assert machine.card_of(blocker) == first
    machine.fault(machine.card_of(job_id), "Xid 31", "program")
    machine.engine.end(job_id, 1, "failed", "exit code 1")
    machine.settle()
    assert machine.state(job_id) == "held"
    assert "Xid 31" in last_cause(machine, job_id)
    assert kinds(machine, job_id).count("card_fault") == 2
    assert machine.out() == []


# -- bad cards ---------------------------------------------------------------------------------------------------------


def test_card_that_faults_with_unrelated_jobs_is_cordoned_and_its_jobs_are_not_blamed(machine: Machine) -> None:
    jobs = []
    bad = ""
    for user in ("ann", "bob"):
        with machine.database.write() as c:
            people.put_tenant(c, TenantRow(user))
        machine.scheduler.reload_tenants()
        job_id = machine.submit(Who(user, user, "member"), name="honest", command=["train"])
        machine.settle()
        jobs.append(job_id)
        bad = bad or machine.card_of(job_id)
        assert machine.card_of(job_id) == bad
        machine.fault(bad)
        assert machine.card_of(job_id) != bad
        machine.self_test(bad)
    assert machine.out() == [bad]
    (card,) = [card for card in machine.scheduler.node_service.cards() if card.id == bad]
    assert "unrelated jobs" in card.cause
    assert [machine.state(job_id) for job_id in jobs] == ["running", "running"]
    machine.fault(machine.card_of(jobs[1]))
    assert "suspected" not in machine.why(jobs[1]), "one of its two cards is bad"
    machine.step_s(60)
    assert machine.state(jobs[1]) == "running"
    machine.scheduler.node_service.uncordon(bad)
    assert bad not in machine.out()


def test_bad_card_is_cordoned_where_there_is_one_tenant(machine: Machine) -> None:
    first = machine.submit(name="one", command=["train"])
    machine.settle()
    bad = machine.card_of(first)
    machine.fault(bad)
    machine.step_s(3600)  # it runs well elsewhere
    machine.self_test(bad)
    second = machine.submit(name="two", command=["train"])
    machine.settle()
    assert machine.card_of(second) == bad
    machine.fault(bad)
    machine.self_test(bad)
    assert machine.out() == [bad]


def test_poison_programs_of_several_tenants_do_not_empty_the_machine(machine: Machine) -> None:
    for user in ("ann", "bob"):
        with machine.database.write() as c:
            people.put_tenant(c, TenantRow(user))
    machine.scheduler.reload_tenants()
    jobs = [
        machine.submit(Who(user, user, "member"), name=f"poison {letter}", command=[f"poison {letter}"])
        for letter in "ghijklmn" for user in ("ann", "bob")
    ]  # fmt: skip
    machine.settle()
    most = 0
    for _ in range(200):
        for job_id in jobs:
            if machine.state(job_id) == "running":
                machine.fault(machine.card_of(job_id))
            most = max(most, len(machine.out()))
        for card in machine.out():
            machine.self_test(card)
        machine.step_s(5)
    assert {machine.state(job_id) for job_id in jobs} == {"held"}
    assert most <= 5
    assert machine.out() == []


def test_card_that_fails_its_self_test_is_cordoned_and_the_job_continues(machine: Machine) -> None:
    job_id = poison(machine)
    first = machine.card_of(job_id)
    machine.fault(first)
    machine.fault(machine.card_of(job_id))
    assert machine.state(job_id) == "held"
    machine.self_test(first, passed=False, detail="3 words are wrong")
    assert machine.state(job_id) == "running"
    (card,) = [card for card in machine.scheduler.node_service.cards() if card.id == first]
    assert card.state == "cordoned"
    assert "3 words are wrong" in card.cause
    machine.scheduler = machine.make()
    machine.settle()
    assert first in machine.out(), "also after a restart"


def test_fault_that_only_the_card_can_have_is_treated_as_before(machine: Machine) -> None:
    job_id = poison(machine)
    card = machine.card_of(job_id)
    machine.fault(card, "Xid 79", "card")
    machine.sample()
    assert machine.out() == [card]
    machine.scheduler.watcher.hear({"kind": "card_ok", "card": card})
    machine.settle()
    assert machine.out() == []


def test_fatal_fault_survives_a_restart_until_the_card_has_passed_a_self_test(machine: Machine) -> None:
    card = machine.card_of(poison(machine))
    machine.fault(card, "Xid 79", "card")
    for _ in range(2):
        machine.scheduler = machine.make()
        machine.settle()
        assert (machine.out(), machine.scheduler.suspects.wanted()) == ([card], [card])
        assert "Xid 79" in machine.scheduler.node_service.cards()[0].cause
        machine.scheduler.watcher.hear({"kind": "card_ok", "card": card})
        machine.settle()
        assert machine.out() == [card], "that it answers does not show that it is good"
    machine.self_test(card)
    assert machine.out() == []
    machine.scheduler = machine.make()
    machine.settle()
    assert machine.out() == []


def test_nothing_starts_on_a_faulty_card_before_the_first_report_after_a_restart(tmp_path, database) -> None:
    machine = Machine(tmp_path, "1x1", database)
    job_id = machine.submit(name="train")
    machine.settle()
    card = machine.card_of(job_id)
    machine.fault(card, "Xid 79", "card")
    machine.scheduler = machine.make()
    machine.settle()
    assert (machine.state(job_id), machine.out()) == ("pending", [card])


def test_administrator_gives_a_faulty_card_back_after_a_restart(machine: Machine) -> None:
    card = machine.card_of(poison(machine))
    machine.fault(card, "Xid 79", "card")
    machine.scheduler = machine.make()
    machine.settle()
    machine.scheduler.node_service.uncordon(card)
    machine.settle()
    assert (machine.out(), machine.scheduler.suspects.wanted()) == ([], [])
    machine.scheduler = machine.make()
    machine.settle()
    assert machine.out() == []


def test_cure_for_cards_that_are_out_of_use_names_each_way_once(machine: Machine) -> None:
    cards = [card.id for card in machine.scheduler.node_service.cards()]
    machine.scheduler.node_service.cordon(cards[0], ADA)
    machine.fault(cards[1], "Xid 79", "card")
    machine.scheduler.suspects.suspect(cards[2], "two jobs hung on it")
    machine.settle()
    job_id = machine.submit(name="train", gpus=8)
    machine.settle()
    (reason,) = machine.scheduler.queries.why(job_id).reasons
    assert reason.cure.count("gpusquad uncordon") == 1
    assert reason.cure.count("returns by itself") == 2


# -- cards suspected by others -----------------------------------------------------------------------------------------


def test_suspected_card_is_out_of_use_until_it_passes_a_self_test(machine: Machine) -> None:
    asked = []
    machine.scheduler.suspects.on_wanted = asked.append
    card = machine.scheduler.node_service.cards()[0].id
    machine.scheduler.suspects.suspect(card, "two jobs hung on it")
    machine.settle()
    assert machine.out() == [card]
    assert asked == [[card]]
    job_id = poison(machine)
    assert machine.card_of(job_id) != card
    machine.scheduler = machine.make()
    machine.settle()
    assert (machine.out(), machine.scheduler.suspects.wanted()) == ([card], [card]), "also after a restart"
    machine.self_test(card)
    assert (machine.out(), machine.scheduler.suspects.wanted()) == ([], [])
    assert machine.actions() == [("card.suspect", card), ("card.self_test", card)]
    (status, *_) = machine.scheduler.node_service.cards()
    assert status.self_test is not None
    assert status.self_test["passed"] is True


def test_suspected_card_that_fails_is_cordoned(machine: Machine) -> None:
    card = machine.scheduler.node_service.cards()[0].id
    machine.scheduler.suspects.suspect(card, "two jobs hung on it")
    machine.settle()
    machine.self_test(card, passed=False, detail="wrong words")
    (status, *_) = machine.scheduler.node_service.cards()
    assert (status.state, machine.scheduler.suspects.wanted()) == ("cordoned", [])
    assert "self-test failed" in status.cause


@pytest.mark.parametrize("answers", [True, False])
def test_card_that_cannot_be_tested_returns_after_a_cool_down(machine: Machine, answers: bool) -> None:
    card = machine.scheduler.node_service.cards()[0].id
    machine.scheduler.suspects.suspect(card, "two jobs hung on it")
    machine.settle()
    if answers:
        machine.self_test(card, passed=None, detail="no driver")
        assert "cool-down" in machine.scheduler.node_service.cards()[0].cause
    machine.step_s(COOL_DOWN_US / SECOND_US - 1)
    machine.sample()
    assert machine.out() == [card]
    machine.step_s(2)
    machine.sample()
    assert machine.out() == []


def test_unknown_card_is_not_suspected(machine: Machine) -> None:
    machine.scheduler.suspects.suspect("GPU-x", "two jobs hung on it")
    machine.settle()
    assert machine.scheduler.suspects.wanted() == []


def test_unrelated_programs_that_fail_on_one_card_have_it_tested(machine: Machine) -> None:
    card = ""
    for user in ("ann", "bob"):
        with machine.database.write() as c:
            people.put_tenant(c, TenantRow(user))
        machine.scheduler.reload_tenants()
        job_id = machine.submit(Who(user, user, "member"), name="broken", command=["train"])
        machine.settle()
        card = machine.card_of(job_id)
        machine.fault(card, "Xid 31", "program")
        machine.engine.end(job_id, 0, "failed", "exit code 1")
        machine.settle()
    assert machine.scheduler.suspects.wanted() == [card]
    machine.self_test(card)
    assert machine.out() == []


# -- losses ------------------------------------------------------------------------------------------------------------


def lose(machine: Machine, job_id: str, cause: str = "its node died") -> None:
    machine.engine.end(job_id, machine.scheduler.row(job_id).attempt, "lost", cause)
    machine.settle()


def test_gang_that_is_lost_every_ten_minutes_does_not_hold_up_the_queue(machine: Machine) -> None:
    gang = machine.submit(name="gang", gpus=8, estimate=7200)
    machine.settle()
    behind = machine.submit(name="behind", gpus=8, estimate=600)
    machine.engine.run_us["behind"] = 600 * SECOND_US
    machine.settle()
    lost_at: list[float] = []
    while machine.state(gang) != "held" or not machine.scheduler.row(gang).stop:
        machine.step_s(10)
        row = machine.scheduler.row(gang)
        if row.state == "running" and machine.clock.at_us - (row.started_us or 0) >= 600 * SECOND_US:
            lose(machine, gang)
            lost_at.append(machine.clock.at_us / SECOND_US)
        assert machine.clock.at_us < 24 * 3600 * SECOND_US
    assert len(lost_at) == 8
    started = machine.scheduler.row(behind).started_us
    assert started is not None
    assert started / SECOND_US == lost_at[1], "it starts at the second loss"
    assert machine.state(behind) == "succeeded"
    assert "lost 8 times" in machine.why(gang)
    assert "its node died" in machine.why(gang)


def test_gang_in_backoff_has_no_reservation_and_why_says_when_it_is_tried_again(machine: Machine) -> None:
    gang = machine.submit(name="gang", gpus=8, estimate=600)
    machine.settle()
    for _ in range(4):
        machine.step_s(600)
        lose(machine, gang)
        machine.step_s(5)
    assert machine.why(gang) == "lost 4 times, the last time because: its node died; next attempt in 35s; held after 8"
    assert machine.scheduler.context.state.timeline.reservations == {}
    small = machine.submit(name="small", gpus=1, estimate=10_000)
    machine.settle()
    assert machine.state(small) == "running"


def in_backoff(machine: Machine) -> str:
    job_id = machine.submit(name="gang", estimate=3600)
    machine.settle()
    for _ in range(4):
        machine.step_s(60)
        lose(machine, job_id)
    assert machine.state(job_id) == "held"
    return job_id


def test_release_in_backoff_tries_the_job_now_and_keeps_its_losses(machine: Machine) -> None:
    job_id = in_backoff(machine)
    (reason,) = machine.scheduler.queries.why(job_id).reasons
    assert reason.cure == "wait, or try it now with gpusquad release"
    machine.scheduler.release(job_id, ADA)
    machine.settle()
    row = machine.scheduler.row(job_id)
    assert (row.state, row.release_us, len(row.losses or ())) == ("running", None, 4)
    with machine.database.read() as c:
        (told,) = [one for one in events.of_job(c, job_id) if one.kind == "released"]
    assert told.cause == "released by ada, without waiting for its next attempt any longer"
    assert machine.scheduler.context.job(job_id).eligible_us == machine.clock.at_us, "its place counts from now"


def test_hold_in_backoff_ends_with_its_release(machine: Machine) -> None:
    job_id = in_backoff(machine)
    machine.scheduler.hold(job_id, ADA)
    machine.settle()
    assert machine.why(job_id) == "held by ada"
    assert job_view(machine.scheduler.row(job_id))["next_attempt_s"] is None
    machine.step_s(3600)
    assert machine.state(job_id) == "held"
    machine.scheduler.release(job_id, ADA)
    machine.settle()
    assert machine.state(job_id) == "running"


def test_update_in_backoff_applies_to_the_next_attempt(machine: Machine) -> None:
    job_id = in_backoff(machine)
    machine.scheduler.update(job_id, JobChange(priority="low", limit_us=120 * SECOND_US), ADA)
    machine.step_s(600)
    job = machine.scheduler.context.job(job_id)
    assert (machine.state(job_id), job.priority, job.limit_us) == ("running", "low", 120 * SECOND_US)


def test_hold_of_a_contained_job_is_refused_with_its_reason(machine: Machine) -> None:
    """Otherwise its release would not clear its record."""
    job_id = poison(machine)
    for _ in range(2):
        machine.fault(machine.card_of(job_id))
    with pytest.raises(Conflict, match="held already: suspected of causing card faults"):
        machine.scheduler.hold(job_id, ADA)


def test_checkpointing_job_that_makes_progress_keeps_its_place_however_often_it_is_lost(machine: Machine) -> None:
    gang = machine.submit(name="gang", gpus=8, estimate=7200)
    machine.settle()
    for attempt in range(20):
        assert machine.state(gang) == "running"
        machine.step_s(600)
        run = {"job": gang, "attempt": attempt, "step": 100 * attempt, "total": 10**6, "progress_at_us": 1}
        machine.scheduler.watcher.hear({"kind": "samples", "at_us": machine.clock.at_us, "cards": [], "runs": [run]})
        machine.settle()
        lose(machine, gang)
    assert machine.state(gang) == "running"


def test_gang_that_cannot_start_is_held_after_the_cap(tmp_path, database) -> None:
    machine = Machine(tmp_path, "1x8", database, containment=ContainmentRules(max_losses=3))
    job_id = machine.submit(name="never")
    machine.settle()
    for _ in range(3):
        machine.step_s(60)
        lose(machine, job_id, "no space left on device")
    assert machine.state(job_id) == "held"
    assert "lost 3 times" in last_cause(machine, job_id)


def test_losses_survive_a_restart(machine: Machine) -> None:
    job_id = machine.submit(name="gang")
    machine.settle()
    machine.step_s(600)
    lose(machine, job_id)
    machine.engine.running.clear()
    machine.scheduler = machine.make()
    assert len(machine.scheduler.row(job_id).losses or ()) == 1


def test_poison_job_is_held_although_the_service_restarts_between_its_faults(machine: Machine) -> None:
    job_id = poison(machine)
    first = machine.card_of(job_id)
    machine.fault(first)
    machine.self_test(first)
    machine.scheduler = machine.make()
    machine.settle()
    assert machine.card_of(job_id) != first
    machine.fault(machine.card_of(job_id))
    assert machine.state(job_id) == "held"
    assert "suspected of causing card faults" in machine.why(job_id)


SHARE = {"gpus": None, "share": {"memory": "8GiB", "sm": 0.25}}


def test_poison_job_on_shared_cards_is_held_although_the_service_restarts(machine: Machine) -> None:
    job_id = poison(machine, **SHARE)
    first = machine.card_of(job_id)
    machine.fault(first)
    machine.scheduler = machine.make()
    machine.settle()
    assert machine.card_of(job_id) != first
    machine.fault(machine.card_of(job_id))
    assert machine.state(job_id) == "held"
    assert "suspected of causing card faults" in machine.why(job_id)


def test_neighbours_share_the_blame_for_one_fault_also_after_a_restart(machine: Machine) -> None:
    with machine.database.write() as c:
        people.put_tenant(c, TenantRow("other"))
    machine.scheduler.reload_tenants()
    jobs = [poison(machine, **SHARE)]
    jobs.append(machine.submit(Who("eve", "other", "member"), name="train", command=["train"], **SHARE))
    machine.settle()
    card = machine.card_of(jobs[0])
    assert machine.card_of(jobs[1]) == card
    machine.fault(card)
    machine.scheduler = machine.make()
    machine.settle()
    losses = [machine.scheduler.row(job_id).losses for job_id in jobs]
    assert [loss["blame"] for (loss,) in filter(None, losses)] == [0.5, 0.5]
    ledger = machine.scheduler._containment.ledger
    assert ledger.doubted_card(card) is None, "unrelated jobs had the same fault, and not two"
    (fault,) = ledger._faults
    assert {one.job for one in fault.on_card} == set(jobs)


def test_late_fault_that_only_the_card_can_have_is_no_blame_after_a_restart(machine: Machine) -> None:
    job_id = machine.submit(name="train", estimate=36_000)
    machine.settle()
    for _ in range(4):
        machine.step_s(3 * 3600)
        machine.fault(machine.card_of(job_id), "Xid 79", "card")
        machine.step_s(60)
        machine.scheduler = machine.make()
        machine.settle()
    assert machine.state(job_id) == "running"


def notices_of(machine: Machine, job_id: str) -> list[tuple[str, str]]:
    """Kind and title of the notices of a job."""
    with machine.database.read() as c:
        happened = events.of_job(c, job_id)
    found = [(kind_of(one.kind, one.state, one.attempt, one.data, one.cause), one) for one in happened]
    row = machine.scheduler.row(job_id)
    return [(kind, write(kind, row, one).title) for kind, one in found if kind in ("lost", "retried", "failed", "held")]


def test_each_loss_of_a_card_is_one_notice(machine: Machine) -> None:
    job_id = machine.submit(name="train", gpus=1)
    machine.settle()
    for _ in range(2):
        machine.step_s(ContainmentRules().early_us / SECOND_US + 1)  # later faults are not blamed on its program
        machine.fault(machine.card_of(job_id), "Xid 79", "card")
    assert notices_of(machine, job_id) == [
        ("lost", "train was lost"),
        ("lost", "train was lost and is tried again in 10s"),
    ]


def test_loss_after_a_long_run_is_one_notice_too(machine: Machine) -> None:
    job_id = machine.submit(name="train", gpus=1)
    machine.settle()
    for _ in range(2):
        machine.fault(machine.card_of(job_id), "Xid 79", "card")
        machine.step_s(86_400)
    assert notices_of(machine, job_id) == [
        ("lost", "train was lost"),
        ("lost", "train was lost and is tried again"),
    ]
