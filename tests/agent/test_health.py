"""When a card is taken out and when it comes back."""

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import CardReading


def well(errors=0):
    return CardReading("A", ecc_uncorrected=errors)


def ill(cause="gone"):
    return CardReading("A", trouble=cause)


def walk(health, steps):
    """(second, kind) of everything said."""
    return [(second, message["kind"]) for second, reading in steps for message in health.see(reading, second)]


def seconds(reading, first, last):
    return [(second, reading) for second in range(first, last + 1)]


def test_card_is_reported_ok_once_after_being_well_for_a_while():
    assert walk(CardHealth(["A"]), seconds(well(), 0, 200)) == [(30, "card_ok")]


def test_a_lost_card_comes_back_after_thirty_good_seconds():
    steps = seconds(well(), 0, 40) + seconds(ill(), 41, 60) + seconds(well(), 61, 100)
    assert walk(CardHealth(["A"]), steps) == [(30, "card_ok"), (41, "card_fault"), (91, "card_ok")]


def test_a_relapse_starts_the_time_again():
    steps = seconds(ill(), 0, 0) + seconds(well(), 1, 20) + seconds(ill(), 21, 21) + seconds(well(), 22, 60)
    assert walk(CardHealth(["A"]), steps) == [(0, "card_fault"), (52, "card_ok")]


def test_event_is_a_fault_even_if_the_card_answers_well():
    health = CardHealth(["A"])
    walk(health, seconds(well(), 0, 40))
    assert health.fault("A", "Xid 79", 40.5) == [{"kind": "card_fault", "card": "A", "cause": "Xid 79"}]
    assert health.fault("A", "Xid 79", 50.5) == []
    assert walk(health, seconds(well(), 51, 100)) == [(81, "card_ok")]


def test_an_event_of_a_card_that_is_not_ours_is_ignored():
    assert CardHealth(["A"]).fault("B", "Xid 79", 0) == []


def test_new_uncorrected_errors_are_a_fault_and_old_ones_are_not():
    health = CardHealth(["A"])
    assert walk(health, seconds(well(5), 0, 40)) == [(30, "card_ok")]
    (fault,) = health.see(well(7), 41)
    assert fault == {"kind": "card_fault", "card": "A", "cause": "2 new uncorrected memory errors (ECC), 7 in all"}
    assert walk(health, seconds(well(7), 42, 100)) == [(72, "card_ok")]
    assert walk(health, seconds(well(0), 101, 200)) == []  # the driver was loaded again


def test_second_cause_is_reported_too():
    health = CardHealth(["A"])
    said = [health.see(ill(cause), 0) for cause in ("lost", "lost", "needs a reset")]
    assert [[message["cause"] for message in messages] for messages in said] == [["lost"], [], ["needs a reset"]]


def test_recovery_time_doubles_for_an_intermittent_fault():
    health, second, back_after = CardHealth(["A"]), 0, []
    for _ in range(9):
        assert [message["kind"] for message in health.see(ill(), second)] == ["card_fault"]
        failed = second
        while not health.see(well(), second := second + 1):
            pass
        back_after.append(second - failed - 1)
        second += 1
    assert back_after == [30, 60, 120, 240, 480, 960, 1920, 1920, 1920]
    health.see(ill(), second + 3600)
    assert walk(health, seconds(well(), second + 3601, second + 3700)) == [(second + 3631, "card_ok")]


@given(
    st.lists(st.sampled_from([well(), ill("a"), ill("b"), well(1), well(2), CardReading("A"), "event"]), max_size=200)
)
def test_ok_only_after_thirty_good_seconds_and_never_twice_in_a_row(steps):
    health, bad_s, last = CardHealth(["A"]), 0, None
    for second, step in enumerate(steps):
        said = health.fault("A", "Xid 48", second) if step == "event" else health.see(step, second)
        for message in said:
            if message["kind"] == "card_ok":
                assert last != "card_ok"
                assert second - bad_s >= 30
            else:
                bad_s = second
            last = message["kind"]
