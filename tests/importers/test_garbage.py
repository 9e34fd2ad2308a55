"""What is no benchmark file: an error that names file and line, and nothing is imported."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_formats import DATA, ORIGIN

from knobledger.errors import BadBenchmark
from knobledger.importers import read, table

FILES = {path.name: path for path in sorted(DATA.rglob("*")) if path.suffix in (".json", ".jsonl", ".csv")}
GOOD = (DATA / "sglang-serving-0.4.jsonl").read_text(encoding="utf-8")
VLLM = json.loads((DATA / "vllm-serve-old.json").read_text(encoding="utf-8"))


def changed(**values: object) -> bytes:
    return json.dumps({**VLLM, **values}).encode()


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"", 1, "the file is empty"),
        (b" \n\n", 1, "the file is empty"),
        (b"hello\n", 1, "no JSON: Expecting value"),
        (b"\xff\xfe\x00", 1, "not UTF-8 text (byte 0xff)"),
        (GOOD.encode() + b"\xe9\n", 2, "not UTF-8 text (byte 0xe9)"),
        (GOOD.encode() + GOOD.encode()[:300], 2, "no JSON: "),
        (GOOD.encode() + b"\n\n\nERROR: connection reset\n", 5, "no JSON: Expecting value"),
        (b"[]", 1, "the file is empty"),
        (b"3\n", 1, "an object is expected, not '3'"),
        (
            b'{"hello": 1, "world": 2}',
            1,
            "no benchmark format that is known; its keys begin with: hello, world",
        ),
        (b"{}", 1, "its keys begin with: none"),
        (b"[" * 100_000, 1, "no JSON that can be read: RecursionError"),
        (b'{"a": ' + b"9" * 5000 + b"}", 1, "no JSON that can be read: ValueError"),
        (
            GOOD.encode() + json.dumps(VLLM).encode(),
            2,
            "vllm_serve after sglang_serving: a file holds one format",
        ),
        (b'{\n"model_id": "m",\n"x": }', 3, "no JSON: Expecting value, in the value that begins on line 1"),
        (changed(output_throughput="fast"), 1, "output_throughput is 'fast', not a number"),
        (changed(output_throughput=True), 1, "output_throughput is True, not a number"),
        (changed(output_throughput=[1]), 1, "output_throughput is a list, not a number"),
        (changed(completed=3.5), 1, "completed is 3.5, not a whole number"),
        (changed(completed=-1), 1, "completed is -1, not a whole number"),
        (changed(date="yesterday"), 1, "date is 'yesterday', not a time such as"),
        (changed(duration=1e300), 1, "not a time such as"),
        (changed(duration=-5), 1, "a run of -5 seconds"),
        (b"model_id,request_throughput,completed\na,1\n", 2, "3 columns expected"),
        (b"model_id,request_throughput,completed\na,1,2,3\n", 2, "3 columns expected"),
        (b'model_id,request_throughput,completed\n"a,1,2\n', 2, "no CSV"),
        (b'{"benchmarks": []}', 1, "benchmarks is empty"),
        (b'{"benchmarks": [3]}', 1, "benchmarks[0] is no object"),
        (b'{"benchmarks": [{"config": 3}]}', 1, "benchmarks[0].config is 3, not an object"),
        (b'{"run_name": "a", "batch_size": null, "latency": 1}', 1, "batch_size is missing"),
        (
            b'{"run_name": "a", "batch_size": 4, "latency": 1, "output_throughput": {}}',
            1,
            "is a dict, not a number",
        ),
        (
            b'{"benchmarks": [{"config": {"strategy": {"streams": 4}}, "metrics": {}}]}',
            1,
            "no metric that is known",
        ),
        (b"| a | b |\n|---|---|\n| 1 | 2 |\n", 1, "a Markdown table"),
    ],
)
def test_garbage_is_refused_by_file_and_line(content: bytes, line: int, what: str) -> None:
    with pytest.raises(BadBenchmark) as refused:
        read(content, ORIGIN)
    assert refused.value.message.startswith(f"result.json:{line}: ")
    assert what in refused.value.message
    assert refused.value.values == {"file": "result.json", "line": line}
    assert refused.value.hint


def outcome(content: bytes) -> str:
    """`read`, or the message of the refusal; any other error is a bug."""
    try:
        read(content, ORIGIN)
    except BadBenchmark as refused:
        return refused.message
    return "read"


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_cut_or_damaged_file_is_read_whole_or_refused(name: str, data: st.DataObject) -> None:
    content = FILES[name].read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(start + 40, len(content))))
    new = data.draw(
        st.one_of(st.binary(max_size=8), st.sampled_from([b"NaN", b"null", b"-1", b"{}", b"[]", b"1e999"]))
    )
    cut = data.draw(st.booleans())
    assert outcome(content[:start] + (b"" if cut else new + content[end:])).startswith(
        ("read", "result.json:")
    )


JUNK = st.one_of(
    *(st.none(), st.booleans(), st.just(float("nan")), st.floats(), st.integers(), st.text(max_size=3)),
    *(st.just([]), st.just([1]), st.just({}), st.just({"unit": "ms", "avg": 1})),
)


@given(st.sampled_from([name for name in sorted(FILES) if not name.endswith(".csv")]), st.data())
def test_any_value_in_any_place_is_read_or_refused(name: str, data: st.DataObject) -> None:
    value = json.JSONDecoder().raw_decode(FILES[name].read_text(encoding="utf-8"))[0]
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JUNK)
            break
        place = place[key]
    assert outcome(json.dumps(value).encode()).startswith(("read", "result.json:1: "))


@given(st.binary(max_size=200))
def test_bytes_are_no_surprise(content: bytes) -> None:
    for reader in (read, table.read):
        with pytest.raises(BadBenchmark):
            reader(content, ORIGIN)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert len(read(b"\xef\xbb\xbf" + GOOD.encode(), ORIGIN)) == 1
