"""Which lines stayed from one version to the next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knobledger.report.blame import _kept

_lines = st.lists(st.sampled_from([b"a", b"b", b"c", b""]), max_size=12)


@given(_lines, _lines)
def test_blocks_are_equal_lines_in_order_and_apart(old: list[bytes], new: list[bytes]) -> None:
    a = b = 0
    for i, j, size in _kept(old, new):
        assert i >= a
        assert j >= b
        assert old[i : i + size] == new[j : j + size]
        a, b = i + size, j + size
    assert a <= len(old)
    assert b <= len(new)


@given(_lines, _lines, _lines)
def test_all_but_what_was_put_in_stays(head: list[bytes], put_in: list[bytes], tail: list[bytes]) -> None:
    stayed = sum(size for _, _, size in _kept(head + tail, head + put_in + tail))
    assert stayed == len(head) + len(tail)
