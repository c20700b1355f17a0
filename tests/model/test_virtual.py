"""Names and sizes of virtual cards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.sm_groups import SMS_PER_GROUP, sm_groups
from gpusquad.model.virtual import MAX_PARTS, part_named, parts_of, physical

card_ids = st.text(min_size=1).filter(lambda text: part_named(text) is None and "\n" not in text)


@given(card_ids, st.integers(2, MAX_PARTS))
def test_virtual_card_name_identifies_its_card(card, count):
    for part in parts_of(card, count):
        assert part_named(part.id) == part
        assert physical(part.id) == card


@pytest.mark.parametrize("name", ["GPU-1", "GPU-1.0of4", "GPU-1.5of4", "GPU-1.1of1", "GPU-1.1of17", ".1of4", "1of4"])
def test_other_names_are_whole_cards(name):
    assert part_named(name) is None
    assert physical(name) == name


@given(st.integers(2, MAX_PARTS), st.integers(1, 64), st.integers(0, 2**40))
def test_virtual_cards_are_disjoint_equal_and_fit_the_card(count, groups, memory_bytes):
    parts = parts_of("GPU-1", count)
    assert sum(part.of_bytes(memory_bytes) for part in parts) <= memory_bytes
    if groups < count:
        with pytest.raises(Invalid, match="SM groups"):
            parts[0].of_groups(groups)
        return
    ranges = [part.of_groups(groups) for part in parts]
    used = [group for first, group_count in ranges for group in range(first, first + group_count)]
    assert len(set(used)) == len(used)
    assert max(used) < groups
    assert len({group_count for _, group_count in ranges}) == 1


@given(st.integers(8, 1000))
def test_sm_groups_never_exceed_the_sms_of_the_card(sms):
    assert 1 <= sm_groups(sms) * SMS_PER_GROUP <= max(sms, SMS_PER_GROUP)


def test_card_with_132_sms_has_15_groups():
    assert sm_groups(132) == 15
