"""Which mutants need no reason of their own, as the change itself shows that nothing is different."""

from __future__ import annotations

import pytest

from mutation.results import Survivor


@pytest.mark.parametrize(
    ("was", "now", "words", "letters"),
    [
        ('raise Refused("not here")', 'raise Refused("XXnot hereXX")', True, False),
        ('raise Refused("not here")', 'raise Refused("NOT HERE")', True, False),
        ('raise Refused(f"no {name.x} here")', 'raise Refused(f"NO {NAME.X} HERE")', False, False),
        ('mode = "set"', 'mode = "SET"', False, False),
        ('yield "later parent", at', 'yield "LATER PARENT", at', False, False),
        ('ask("SELECT at FROM event")', 'ask("select at from event")', False, True),
        ('ask("SELECT at FROM event")', 'ask("SELECT AT FROM EVENT")', False, True),
        ('ask("SELECT at FROM event")', 'ask("XXSELECT at FROM eventXX")', False, False),
        ("\"AND b.kind IN ('x', 'y z')\"", "\"and b.kind in ('x', 'y z')\"", False, True),
        ("\"AND b.kind IN ('x', 'y z')\"", "\"AND B.KIND IN ('X', 'Y Z')\"", False, False),
        ('said += " LIMIT :limit"', 'said += " limit :limit"', False, True),
        ('said += " LIMIT :limit"', 'said += " LIMIT :LIMIT"', False, False),
        ('ask("SELECT ?", "a b")', 'ask("SELECT ?", "A B")', False, False),
    ],
)
def test_other_letters(was: str, now: str, words: bool, letters: bool) -> None:
    one = Survivor("knobledger.ledger.rows.x_add__mutmut_1", was, now)
    assert (one.only_words, one.only_letters_of_sql) == (words, letters)
