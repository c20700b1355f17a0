"""Who is to blame for faults of cards: the card or the program."""

from __future__ import annotations

import pytest

from gpusquad.core.containment.ledger import CardFault, FaultLedger, Suspect
from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.model.card_faults import FaultClass, class_of_trouble, class_of_xid

MINUTE_US = 60_000_000


class Cluster:
    """Adds faults a minute apart."""

    def __init__(self, **rules) -> None:
        self.ledger = FaultLedger(ContainmentRules(**rules))
        self.minute = 0

    def fault(self, card: str, *jobs: str, kind: FaultClass = "doubtful", ran: int = 1, cause: str = "Xid 62",
              attempt: int | None = None) -> bool:  # fmt: skip
        """A job ``ann/train/3`` is the third of ann's program train. Each fault is one of a new attempt by default."""
        self.minute += 1
        number = self.minute if attempt is None else attempt
        on_card = tuple(Suspect(job, groups_of(job), ran * MINUTE_US, job.partition("/")[0], number) for job in jobs)
        return self.ledger.add(CardFault(self.minute * MINUTE_US, card, cause, kind, on_card))

    def blamed(self, job: str) -> tuple[str, ...]:
        suspicion = self.ledger.suspicion_of_job(job) or self.ledger.suspicion_of_group(groups_of(job))
        return suspicion.cards if suspicion is not None else ()


def groups_of(job: str):
    return (("program", job.rpartition("/")[0]),)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize(
    ("xid", "expected"), [(13, "program"), (31, "program"), (62, "card"), (79, "card"), (48, "card"), (95, "card"),
                          (32, "doubtful"), (999, "doubtful"), (63, None), (94, None)]
)  # fmt: skip
def test_class_of_xid(xid, expected):
    assert class_of_xid(xid) == expected


def test_trouble_without_a_known_xid_is_the_cards():
    assert class_of_trouble("the card is lost: GPU is lost") == "card"
    assert class_of_trouble("Xid 79, fallen off the bus") == "card"
    assert class_of_trouble("Xid 31") == "doubtful"


def test_job_is_suspected_after_faults_on_two_cards(cluster):
    cluster.fault("A", "ann/train/1")
    assert not cluster.blamed("ann/train/1")
    cluster.fault("A", "ann/train/1")
    assert not cluster.blamed("ann/train/1"), "twice the same card"
    cluster.fault("B", "ann/train/1")
    assert cluster.blamed("ann/train/1") == ("A", "B")


def test_jobs_of_one_program_are_suspected_together(cluster):
    cluster.fault("A", "ann/train/1")
    cluster.fault("B", "ann/train/2")
    assert cluster.blamed("ann/train/3") == ("A", "B")
    assert not cluster.blamed("ann/other/1")


def test_job_is_not_suspected_if_its_second_card_faults_with_others(cluster):
    cluster.fault("B", "bob/infer/1")
    cluster.fault("A", "ann/train/1")
    cluster.fault("B", "ann/train/1")
    assert not cluster.blamed("ann/train/1")
    assert cluster.ledger.bad_card("B") is not None
    assert cluster.ledger.bad_card("A") is None


def test_two_poison_programs_do_not_cover_for_each_other(cluster):
    for card in ("A", "B", "C"):
        cluster.fault(card, "ann/x/1")
        cluster.fault(card, "bob/y/1")
    assert cluster.blamed("ann/x/1") == ("A", "B", "C")
    cluster.ledger.suspect("ann/x/1", None, cluster.minute * MINUTE_US)
    assert cluster.ledger.bad_card("A") is None


def test_faults_of_a_suspected_program_do_not_count_against_cards(cluster):
    cluster.fault("A", "ann/x/1")
    cluster.fault("B", "ann/x/2")
    assert cluster.ledger.suspect("ann/x/2", groups_of("ann/x/2")[0], 0) == {"A", "B"}
    assert cluster.ledger.is_suspected(groups_of("ann/x/9"))
    cluster.fault("A", "bob/y/1")
    assert cluster.ledger.bad_card("A") is None


def test_programs_of_one_tenant_do_not_make_a_card_bad_until_one_has_run_well(cluster):
    cluster.fault("A", "ann/train/1")
    cluster.fault("A", "ann/infer/1")
    assert cluster.ledger.bad_card("A") is None
    cluster.ledger.clear_groups(groups_of("ann/train/1"), cluster.minute * MINUTE_US)
    assert cluster.ledger.bad_card("A") is not None


@pytest.mark.parametrize("second", ["ann/x/2", "ann/y/1"])
def test_release_is_no_evidence_against_a_card(cluster, second):
    """Its user wishes to try again; nobody has seen that the program runs well."""
    cluster.fault("A", "ann/x/1")
    cluster.fault("A", second)
    cluster.ledger.clear_job("ann/x/1", cluster.minute * MINUTE_US)
    cluster.ledger.forgive_groups(groups_of("ann/x/1"), cluster.minute * MINUTE_US)
    assert cluster.ledger.bad_card("A") is None


def test_later_faults_of_a_suspected_program_never_count_against_cards(cluster):
    cluster.fault("A", "ann/x/1")
    cluster.fault("B", "ann/x/2")
    cluster.ledger.suspect("ann/x/2", groups_of("ann/x/2")[0], cluster.minute * MINUTE_US)
    cluster.fault("C", "ann/x/3")
    cluster.ledger.forgive_groups(groups_of("ann/x/1"), cluster.minute * MINUTE_US)
    cluster.ledger.clear_groups(groups_of("ann/x/1"), cluster.minute * MINUTE_US)
    cluster.fault("C", "bob/y/1")
    assert cluster.ledger.bad_card("C") is None


def test_later_faults_of_a_suspected_job_never_count_against_cards(cluster):
    cluster.ledger.suspect("ann/x/1", None, 0)
    cluster.fault("A", "ann/x/1")
    cluster.ledger.clear_job("ann/x/1", cluster.minute * MINUTE_US)
    cluster.fault("A", "bob/y/1")
    assert cluster.ledger.bad_card("A") is None


def test_good_run_clears_the_program_but_not_the_job_that_faulted(cluster):
    cluster.fault("A", "ann/train/1")
    cluster.ledger.clear_groups(groups_of("ann/train/2"), cluster.minute * MINUTE_US)
    cluster.fault("B", "ann/train/3")
    assert not cluster.blamed("ann/train/3")
    cluster.fault("C", "ann/train/1")
    assert cluster.ledger.suspicion_of_job("ann/train/1") is not None


def test_released_job_starts_with_a_clean_record(cluster):
    cluster.fault("A", "ann/train/1")
    cluster.ledger.clear_job("ann/train/1", cluster.minute * MINUTE_US)
    cluster.fault("B", "ann/train/1")
    assert cluster.ledger.suspicion_of_job("ann/train/1") is None


def test_late_faults_that_only_the_card_can_have_are_not_the_jobs(cluster):
    cluster.fault("A", "ann/train/1", kind="card", ran=600)
    cluster.fault("B", "ann/train/1", kind="card", ran=600)
    assert not cluster.blamed("ann/train/1")
    cluster.fault("C", "ann/train/1", kind="card")
    cluster.fault("D", "ann/train/1", kind="card")
    assert cluster.blamed("ann/train/1") == ("C", "D")


def test_neighbours_on_a_shared_card_share_the_blame(cluster):
    cluster.fault("A", "ann/train/1", "bob/infer/1")
    cluster.fault("B", "ann/train/1", "bob/infer/1")
    assert not cluster.blamed("bob/infer/1")
    cluster.fault("C", "ann/train/1")
    assert cluster.blamed("ann/train/1")
    assert not cluster.blamed("bob/infer/1")


def test_xids_of_programs_do_not_make_a_card_bad(cluster):
    cluster.fault("A", "ann/train/1", kind="program")
    cluster.fault("A", "bob/infer/1", kind="program")
    assert cluster.ledger.bad_card("A") is None
    assert cluster.ledger.doubted_card("A") is not None


@pytest.mark.parametrize("suspected", [False, True])
def test_fault_of_a_divided_card_counts_once_for_each_attempt(suspected):
    ledger = FaultLedger()
    if suspected:
        ledger.suspect("J", None, 0)
    first, second = (CardFault(0, "A", "Xid 62", "doubtful", (Suspect("J", (), 0, attempt=n),)) for n in range(2))
    assert [ledger.add(fault) for fault in (first, first, second)] == [True, False, True]


def test_faults_are_forgotten_after_a_day(cluster):
    cluster.fault("A", "ann/train/1")
    cluster.minute += 25 * 60
    cluster.fault("B", "ann/train/1")
    assert not cluster.blamed("ann/train/1")


def test_nothing_is_suspected_when_it_is_disabled():
    cluster = Cluster(suspect_cards=0)
    for card in "ABCD":
        cluster.fault(card, "ann/train/1")
    assert not cluster.blamed("ann/train/1")


def test_gang_that_damages_all_its_cards_at_once_is_suspected(cluster):
    """After one attempt for faults that programs can cause, after two for those that a node can cause."""
    for card in "ABCD":
        cluster.fault(card, "ann/train/1", attempt=0)
    assert cluster.blamed("ann/train/1") == ("A", "B", "C", "D")
    for attempt in range(2):
        assert not cluster.blamed("bob/gang/1")
        for card in "EFGH":
            cluster.fault(card, "bob/gang/1", kind="card", attempt=attempt)
    assert cluster.blamed("bob/gang/1") == ("E", "F", "G", "H")


def test_neighbour_that_started_last_is_the_likely_cause(cluster):
    second_us = 1_000_000
    for number, card in enumerate("ABC"):
        innocent = Suspect("eve/good/1", groups_of("eve/good/1"), 60 * second_us, "eve", number)
        poison = Suspect("bob/bad/1", groups_of("bob/bad/1"), second_us, "bob", number)
        cluster.ledger.add(CardFault(number * MINUTE_US, card, "Xid 32", "doubtful", (innocent, poison)))
    assert cluster.blamed("bob/bad/1")
    assert not cluster.blamed("eve/good/1")
