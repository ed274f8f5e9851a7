"""Nothing from a message reaches a terminal raw."""

from hypothesis import given
from hypothesis import strategies as st

from topology.model.printable import printable


@given(st.text(st.characters()), st.integers(3, 200))
def test_whatever_the_text_it_is_printable_and_short(text: str, length: int) -> None:
    shown = printable(text, length)
    assert shown.isprintable()
    assert len(shown) <= length
    shown.encode()


def test_control_characters_are_escaped_and_plain_text_stays() -> None:
    assert printable("A-17 ünïcode") == "A-17 ünïcode"
    assert printable("a\x1b[31mred\nb\u202e\ud800") == "a\\x1b[31mred\\nb\\u202e\\ud800"


def test_a_long_text_loses_its_middle() -> None:
    assert printable("a" * 50 + "b" * 50, 11) == "aaaaa…bbbbb"


def test_what_has_no_text_is_named() -> None:
    class Rude:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert printable(Rude()) == "<Rude that cannot be shown>"
