"""Decoding of log bytes into whole characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.server.log_text import whole_text


@given(st.text(), st.lists(st.integers(0, 400)))
def test_text_cut_anywhere_is_joined_unchanged(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    joined, at = "", 0
    for end in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        if end <= at:
            continue
        part, used = whole_text(data[at:end])
        joined, at = joined + part, at + used
    assert joined == data.decode()
    assert at == len(data)


@given(st.binary())
def test_any_bytes_are_decoded_completely(data: bytes) -> None:
    text, used = whole_text(data)
    assert len(data) - used <= 3
    assert text == data[:used].decode("utf-8", "replace")
    assert whole_text(data, is_last=True) == (data.decode("utf-8", "replace"), len(data))


@given(st.binary(min_size=4))
def test_at_least_one_byte_is_used(data: bytes) -> None:
    assert whole_text(data)[1] > 0
