"""Tests of when a card is reported faulty and when it is reported ok again."""

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import CardReading


def healthy(errors=0):
    return CardReading("A", ecc_uncorrected=errors)


def faulty(cause="gone"):
    return CardReading("A", trouble=cause)


def messages_of(health, steps):
    """(second, kind) of every message."""
    return [(second, message["kind"]) for second, reading in steps for message in health.see(reading, second)]


def repeat(reading, first, last):
    return [(second, reading) for second in range(first, last + 1)]


def test_card_is_reported_ok_once_after_thirty_good_seconds():
    assert messages_of(CardHealth(["A"]), repeat(healthy(), 0, 200)) == [(30, "card_ok")]


def test_lost_card_is_ok_again_after_thirty_good_seconds():
    steps = repeat(healthy(), 0, 40) + repeat(faulty(), 41, 60) + repeat(healthy(), 61, 100)
    assert messages_of(CardHealth(["A"]), steps) == [(30, "card_ok"), (41, "card_fault"), (91, "card_ok")]


def test_another_fault_restarts_the_recovery_time():
    steps = repeat(faulty(), 0, 0) + repeat(healthy(), 1, 20) + repeat(faulty(), 21, 21) + repeat(healthy(), 22, 60)
    assert messages_of(CardHealth(["A"]), steps) == [(0, "card_fault"), (52, "card_ok")]


def test_event_is_a_fault_even_if_the_card_answers_well():
    health = CardHealth(["A"])
    messages_of(health, repeat(healthy(), 0, 40))
    fault = {"kind": "card_fault", "card": "A", "cause": "Xid 79", "class": "card", "event": True}
    assert health.fault("A", "Xid 79", 40.5) == [fault]
    assert health.fault("A", "Xid 79", 40.51) == [], "a program may cause it many times at once"
    assert health.fault("A", "Xid 79", 50.5) == [fault], "an administrator may have given the card to another job"
    assert messages_of(health, repeat(healthy(), 51, 100)) == [(81, "card_ok")]


def test_event_of_an_unknown_card_is_ignored():
    assert CardHealth(["A"]).fault("B", "Xid 79", 0) == []


def test_new_uncorrected_errors_are_a_fault_and_old_ones_are_not():
    health = CardHealth(["A"])
    assert messages_of(health, repeat(healthy(5), 0, 40)) == [(30, "card_ok")]
    (fault,) = health.see(healthy(7), 41)
    assert fault == {"kind": "card_fault", "card": "A", "cause": "2 new uncorrected memory errors (ECC), 7 in all",
                     "class": "card"}  # fmt: skip
    assert messages_of(health, repeat(healthy(7), 42, 100)) == [(72, "card_ok")]
    assert messages_of(health, repeat(healthy(0), 101, 200)) == []  # the driver was loaded again


def test_second_cause_is_reported_too():
    health = CardHealth(["A"])
    reported = [health.see(faulty(cause), 0) for cause in ("lost", "lost", "needs a reset")]
    assert [[message["cause"] for message in causes] for causes in reported] == [["lost"], [], ["needs a reset"]]


def test_recovery_time_doubles_for_an_intermittent_fault():
    health, second, back_after = CardHealth(["A"]), 0, []
    for _ in range(9):
        assert [message["kind"] for message in health.see(faulty(), second)] == ["card_fault"]
        failed = second
        while not health.see(healthy(), second := second + 1):
            pass
        back_after.append(second - failed - 1)
        second += 1
    assert back_after == [30, 60, 120, 240, 480, 960, 1920, 1920, 1920]
    health.see(faulty(), second + 3600)
    assert messages_of(health, repeat(healthy(), second + 3601, second + 3700)) == [(second + 3631, "card_ok")]


@given(
    st.lists(
        st.sampled_from([healthy(), faulty("a"), faulty("b"), healthy(1), healthy(2), CardReading("A"), "event"]),
        max_size=200,
    )
)
def test_ok_is_reported_after_thirty_good_seconds_and_never_twice_in_a_row(steps):
    health, bad_s, last = CardHealth(["A"]), 0, None
    for second, step in enumerate(steps):
        messages = health.fault("A", "Xid 48", second) if step == "event" else health.see(step, second)
        for message in messages:
            if message["kind"] == "card_ok":
                assert last != "card_ok"
                assert second - bad_s >= 30
            else:
                bad_s = second
            last = message["kind"]
