"""`--flag.key=VALUE` where the file has `--flag '{"key": ...}'`: one key edited inside the JSON text."""

from __future__ import annotations

import json

from knobledger.knobs.occurrence import Request
from knobledger.knobs.reading import Reading


def as_whole_value(reading: Reading, request: Request) -> Request:
    """The request for the whole flag that does what a request for one of its keys asks; else the request itself."""
    name = request.name
    if request.value is None or not name.startswith("--") or "." not in name:
        return request
    if any(site.name == name for site in reading.sites):
        return request
    flag, _, rest = name.partition(".")
    decided = reading.decided().get(flag)
    if decided is None or decided.value is None or not decided.value.lstrip().startswith("{"):
        return request
    text = _with(decided.value, rest.split("."), _literal(request.value))
    return request if text is None else Request(flag, text)


def _literal(value: str) -> str:
    """VALUE as JSON: itself if it is JSON, else a string."""
    try:
        json.loads(value)
    except ValueError:
        return json.dumps(value, ensure_ascii=False)
    return value


def _with(text: str, keys: list[str], value: str) -> str | None:
    """`text` with the member's value exchanged and all else as it is; None if it is not there."""
    try:
        json.loads(text)
    except ValueError:
        return None
    at, end = _space(text, 0), len(text)
    for key in keys:
        if text[at : at + 1] != "{":
            return None
        found = _member(text, at, key)
        if found is None:
            return None
        at, end = found
    return text[:at] + value + text[end:]


def _member(text: str, at: int, wanted: str) -> tuple[int, int] | None:
    """Where the value of one member of the object at `at` begins and ends."""
    decoder = json.JSONDecoder()
    at = _space(text, at + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at = _space(text, _space(text, at) + 1)
        _, end = decoder.raw_decode(text, at)
        if key == wanted:
            return at, end
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)
    return None


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
