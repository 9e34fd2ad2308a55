"""What a caller may ask for, before anything is looked at."""

from __future__ import annotations

import pytest

from knobledger.asking import each_once
from knobledger.errors import Usage
from knobledger.knobs import Masker, Request

MASKER = Masker(b"k" * 32)


def test_a_knob_is_asked_for_once() -> None:
    each_once([Request("A", "1"), Request("B", None), Request("--a", ""), Request("--x.a", "1")], MASKER)
    for second, said in (
        (Request("A", "2"), "'A=1' and 'A=2'"),
        (Request("A", None), "'A=1' and '--unset A'"),
    ):
        with pytest.raises(Usage) as caught:
            each_once([Request("A", "1"), Request("B", "1"), second], MASKER)
        assert caught.value.message == f"'A' is asked for twice: {said}"


def test_values_of_secrets_are_not_told() -> None:
    with pytest.raises(Usage) as caught:
        each_once([Request("API_KEY", "first-hunter2"), Request("API_KEY", "then-hunter2")], MASKER)
    assert "hunter2" not in caught.value.message
