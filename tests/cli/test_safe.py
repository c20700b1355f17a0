"""Text from strangers cannot act on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.cli._sanitize import log_line, one_line

HARMFUL = {"Cc", "Cs", "Zl", "Zp"}
TURNS = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


@given(st.text())
def test_nothing_that_acts_is_left(text):
    for sign in one_line(text):
        assert unicodedata.category(sign) not in HARMFUL
        assert sign not in TURNS
    for sign in log_line(text):
        assert sign == "\t" or unicodedata.category(sign) not in HARMFUL
        assert sign not in TURNS


@given(st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126)))
def test_plain_text_stays(text):
    assert one_line(text) == log_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\t c", "a b c"),
        ("\x1b[31mred", "^[[31mred"),
        ("\x1b]0;title\x07", "^[]0;title^G"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202egnp", "abc\\u202egnp"),
        ("größe 训练", "größe 训练"),
    ],
)
def test_what_becomes_of_it(text, shown):
    assert one_line(text) == shown


def test_colours_in_logs_are_dropped_and_other_sequences_shown():
    assert log_line("\x1b[1;31mERROR\x1b[0m\tx\x1b[2Jy\x08") == "ERROR\tx^[[2Jy^H"
