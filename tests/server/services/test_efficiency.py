"""EfficiencyService: what GPU-hours were used for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.server.answers import CardStatus
from gpusquad.server.services.usage import efficiency
from gpusquad.server.services.usage.efficiency import EfficiencyService
from gpusquad.server.services.usage.slot_grid import LOOKS, GangWait, SlotGrid, held
from gpusquad.store import attempts, audit, jobs, samples
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.database import Database
from gpusquad.store.jobs import JobRow
from gpusquad.store.samples import SampleRow

HOUR_US = 3600 * 1_000_000
MINUTE_US = 60 * 1_000_000
NOW_US = 100 * HOUR_US
CARDS = [CardStatus(f"n{node}/{at}", f"n{node}", at, "H100", 2**36, "free") for node in range(2) for at in range(4)]
START_US = NOW_US - HOUR_US


@pytest.fixture
def database(tmp_path: Path, empty_store: Path) -> Iterator[Database]:
    path = tmp_path / "efficiency.db"
    path.write_bytes(empty_store.read_bytes())
    database = Database(path)
    yield database
    database.close()


def service_of(database: Database, cards: list[CardStatus] = CARDS) -> EfficiencyService:
    return EfficiencyService(database, lambda: NOW_US, lambda: cards)


def add_samples(database: Database, busy: dict[str, float | None], since_us: int = START_US) -> None:
    """Store one sample per minute with the utilisation of each card."""
    with database.write() as c:
        for at_us in range(since_us, NOW_US, MINUTE_US):
            samples.append(c, at_us, [SampleRow(card, busy_ratio=ratio) for card, ratio in busy.items()])


def add_attempt(
    database: Database, job_id: str, cards: list[str], start_us: int, end_us: int | None, how: str = ""
) -> None:
    with database.write() as c:
        attempts.open(c, AttemptRow(job_id, 0, "a", "ann", start_us, None, 1000 * len(cards), cards))
        if end_us is not None:
            attempts.close(c, job_id, 0, end_us, how or "succeeded")


def add_pending_job(database: Database, job_id: str, gpus: int, count: int, since_us: int) -> None:
    core = {"id": job_id, "gpus": gpus, "count": count}
    row = JobRow(job_id, job_id, "a", "ann", submitted_us=since_us, gpus=gpus * count, gpu_milli=1000, core=core)
    with database.write() as c:
        jobs.insert(c, [row])


def test_allocated_hours_are_split_into_busy_and_idle_by_samples(database: Database) -> None:
    add_samples(database, {card.id: 0.25 if card.id == "n0/0" else 0.0 for card in CARDS})
    add_attempt(database, "j", ["n0/0", "n0/1"], START_US, NOW_US - HOUR_US // 2)
    found = service_of(database).over(1)
    assert found.total.busy == pytest.approx(0.125), "a quarter of the half hour in which it was allocated"
    assert found.total.reserved_idle == pytest.approx(0.875)
    assert found.total.taken_outside == pytest.approx(0.125), "and a quarter of the rest"
    assert found.total.idle == pytest.approx(6.875)
    assert found.nodes["n1"].idle == pytest.approx(4.0)
    assert found.total.unknown == 0


def test_activity_on_an_unallocated_card_counts_as_taken_outside(database: Database) -> None:
    add_samples(database, {card.id: 1.0 if card.id == "n1/3" else 0.0 for card in CARDS})
    found = service_of(database).over(1)
    assert found.total.taken_outside == pytest.approx(1.0)
    assert found.total.idle == pytest.approx(7.0)


def test_hours_without_samples_are_unknown(database: Database) -> None:
    add_samples(database, {card.id: 0.0 for card in CARDS[:4]}, NOW_US - HOUR_US // 2)
    add_samples(database, {card.id: None for card in CARDS[4:]})
    found = service_of(database).over(1)
    assert found.total.unknown == pytest.approx(6.0)
    assert found.nodes["n0"].unknown == pytest.approx(2.0)


def test_free_cards_are_idle_waiting_or_fragmented_while_a_gang_waits(database: Database) -> None:
    add_samples(database, {card.id: 0.0 for card in CARDS})
    add_attempt(database, "j", ["n0/0"], START_US - 1, None)
    add_pending_job(database, "wide", 4, 1, NOW_US - HOUR_US // 2)
    found = service_of(database).over(1)
    assert found.total.idle == pytest.approx(3.5)
    assert found.nodes["n0"].fragmented == pytest.approx(1.5), (
        "three of four cards of the node are free, and it needs four"
    )
    assert found.nodes["n1"].idle_waiting == pytest.approx(2.0)
    add_pending_job(database, "wider", 4, 2, START_US)
    found = service_of(database).over(1)
    assert found.total.fragmented == pytest.approx(3.5 + 1.5), "it needs two whole nodes, and one is partly allocated"


def test_cordoned_and_drained_cards_count_as_unhealthy(database: Database) -> None:
    add_samples(database, {card.id: 0.0 for card in CARDS})
    with database.write() as c:
        audit.append(c, NOW_US - 50 * HOUR_US, "root", "card.cordon", "n0/2")
        audit.append(c, NOW_US - HOUR_US // 2, "root", "card.uncordon", "n0/2")
        audit.append(c, NOW_US - HOUR_US // 4, "root", "node.drain", "n1")
        audit.append(c, NOW_US - HOUR_US // 4, "root", "job.cancel", "n1")
    found = service_of(database).over(1)
    assert found.nodes["n0"].unhealthy == pytest.approx(0.5)
    assert found.nodes["n1"].unhealthy == pytest.approx(1.0)


def test_faulty_card_counts_as_unhealthy_since_its_last_run_was_lost(database: Database) -> None:
    cards = [*CARDS[:-1], CardStatus("n1/3", "n1", 3, "H100", 2**36, "cordoned")]
    add_samples(database, {card.id: 0.0 for card in cards})
    add_attempt(database, "j", ["n1/2", "n1/3"], START_US, NOW_US - HOUR_US // 2, "lost")
    found = service_of(database, cards).over(1)
    assert found.total.unhealthy == pytest.approx(0.5)
    assert found.total.reserved_idle == pytest.approx(1.0)


def test_all_hours_are_counted_once(database: Database) -> None:
    add_samples(database, {card.id: 0.4 for card in CARDS[:6]})
    add_attempt(database, "j", ["n0/0", "n0/1", "n0/2"], START_US, None)
    add_attempt(database, "k", ["n0/0"], START_US, None)
    add_pending_job(database, "wide", 4, 1, START_US)
    found = service_of(database).over(1).total
    assert sum(getattr(found, name) for name in found.__slots__) == pytest.approx(8.0)


def test_past_slots_are_read_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add_samples(database, {card.id: 0.5 for card in CARDS})
    clock, read_spans = [NOW_US], []
    service = EfficiencyService(database, lambda: clock[0], lambda: CARDS)
    read_busy = efficiency.store.busy
    monkeypatch.setattr(
        efficiency.store, "busy", lambda c, cards, *span: read_spans.append(span) or read_busy(c, cards, *span)
    )
    first = service.over(1)
    assert len(read_spans) == 6
    read_spans.clear()
    assert service.over(1) is first, "cached for a moment"
    clock[0] += efficiency.FRESH_US
    assert service.over(1).until_us == clock[0]
    assert len(read_spans) == 2, "only slots that may still change, and new ones"


@pytest.mark.parametrize(("hours", "cards", "slot_s"), [(24, 8, 600), (24, 1000, 1800), (168, 1000, 6 * 3600)])
def test_slots_are_longer_for_many_cards_or_a_long_period(hours: int, cards: int, slot_s: int) -> None:
    assert efficiency._slot_us(hours, cards) == slot_s * 1_000_000


def test_samples_query_uses_the_primary_key(database: Database) -> None:
    """The query plan is one range per card, without a scan or a sort."""
    with database.read() as c:
        plan = c.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT card, avg(busy_ratio) FROM samples WHERE card IN ('a', 'b') AND at_us >= 1 "
            "AND at_us < 2 GROUP BY card"
        ).all()
    assert [row[3] for row in plan] == ["SEARCH samples USING PRIMARY KEY (card=? AND at_us>? AND at_us<?)"]


spans = st.tuples(st.integers(-20, 120), st.integers(1, 100)).map(
    lambda span: (span[0] * MINUTE_US, span[1] * MINUTE_US)
)


@given(st.lists(st.tuples(st.integers(0, 5), spans), max_size=8), st.lists(st.tuples(st.integers(1, 8), spans)))
def test_every_interval_is_counted_in_one_of_five_categories(allocations: list, pending: list) -> None:
    grid = SlotGrid(0, 10 * MINUTE_US, 6, 55 * MINUTE_US)
    allocated = [([card], start_us, start_us + duration_us) for card, (start_us, duration_us) in allocations]
    queue = [
        GangWait(str(number), gpus, start_us, start_us + duration_us)
        for number, (gpus, (start_us, duration_us)) in enumerate(pending)
    ]
    found = held(grid, np.array([0, 0, 0, 1, 1, 1]), allocated, [], queue, lambda ids: {})
    total = found.given + found.shut + found.fragmented + found.idle_waiting + found.idle
    assert total.shape == (6, 6)
    assert total[:, :5] == pytest.approx(np.full((6, 5), 600.0))
    assert total[:, 5] == pytest.approx(np.full(6, 300.0)), "future time is not counted"
    assert (found.fragmented >= 0).all()
    assert LOOKS * grid.look_s == pytest.approx(600)
