from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.hosts import wire

NONCE = "knob-0123456789abcdef"
TAGS = st.text("abcdefghij.", min_size=1, max_size=12).filter(lambda tag: tag != "end")
PAYLOADS = st.one_of(st.binary(max_size=80), st.just(f"\n{NONCE} end 3\nok \n".encode()))


def framed(frames: list[tuple[str, bytes]]) -> bytes:
    return b"".join(b"%s %s %d\n%s\n" % (NONCE.encode(), tag.encode(), len(p), p) for tag, p in frames)


@given(
    frames=st.lists(st.tuples(TAGS, PAYLOADS)), before=st.binary(max_size=80), after=st.binary(max_size=80)
)
def test_frames_survive_noise_before_and_after(
    frames: list[tuple[str, bytes]], before: bytes, after: bytes
) -> None:
    complete = [*frames, ("end", b"ok ")]
    reply = wire.parse(before + framed(complete) + after, NONCE)
    assert list(reply.frames) == complete
    assert reply.complete


@given(frames=st.lists(st.tuples(TAGS, PAYLOADS), min_size=1), data=st.data())
def test_a_reply_that_was_cut_is_never_taken_for_complete(
    frames: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    whole = framed([*frames, ("end", b"ok ")])
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    reply = wire.parse(cut, NONCE)
    # Only the newline after the last payload may be missing without harm, and even that is waited for.
    assert not reply.complete
    assert list(reply.frames) == frames[: len(reply.frames)]
    assert not wire.is_complete(cut, f"{NONCE} end ".encode()) or any(b" end " in p for _, p in frames)


@given(content=st.binary(max_size=200))
def test_content_of_unknown_length(content: bytes) -> None:
    raw = b"%s content -\n%s\n" % (NONCE.encode(), content) + framed([("end", b"ok ")])
    assert wire.parse(raw, NONCE).raw("content") == content


@given(st.text().filter(lambda text: "\0" not in text) | st.binary().map(wire.decode))
def test_text_of_a_host_survives(text: str) -> None:
    if "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
        assert wire.decode(wire.encode(text)) == text


@given(st.binary())
def test_bytes_of_a_host_survive(raw: bytes) -> None:
    if b"\0" not in raw:
        assert wire.encode(wire.decode(raw)) == raw


def test_the_command_line_has_nothing_that_a_login_shell_could_read_in_another_way() -> None:
    request = wire.request({"path": "/it's $HOME\n!x"}, ("a'b",), b"content")
    assert request.command.startswith("exec /bin/sh -c '")
    assert request.command.count("'") == 2
    assert not set(request.command) & set("!\n\\`#~^")
    assert "path" not in request.command


@pytest.mark.parametrize("shell", ["fish", "csh", "tcsh", "zsh", "ksh", "mksh"])
def test_it_runs_under_other_login_shells(shell: str) -> None:
    # Not in the list of needed tools: whoever has one of these gets the test.
    program = shutil.which(shell)
    if program is None:
        return
    request = wire.command(("printf", "%s", "it's"), b"")
    done = subprocess.run(
        [program, "-c", request.command], input=request.stdin, capture_output=True, check=True
    )
    assert wire.parse(done.stdout, request.nonce).raw("out") == b"it's"


def test_the_script_is_sent_without_its_comments_and_is_posix_sh() -> None:
    sent = wire.script().decode()
    assert not any(line.startswith("#") for line in sent.splitlines())
    assert len(sent) < 21000
    assert "<<" not in sent, "stripping indentation would break a here-document"
    source = files("knobledger.hosts").joinpath("transaction.sh").read_text("utf-8")
    for shell in ("dash", "bash", "busybox"):
        if program := shutil.which(shell):
            argv = [program, "sh", "-n"] if shell == "busybox" else [program, "-n"]
            for text in (sent, source, wire.script_for_looks().decode()):
                subprocess.run(argv, input=text.encode(), check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "sh", "-"], input=source.encode(), check=True)


def test_a_look_is_sent_without_what_only_changes_call() -> None:
    whole, look = wire.script().decode(), wire.script_for_looks().decode()
    sent = wire.request({"mode": "read"}).stdin.decode()
    assert look in sent
    assert whole not in sent
    for mode in ("replace", "rehearse", "tidy", "prune"):
        assert whole in wire.request({"mode": mode}).stdin.decode()
    assert len(look) < len(whole) / 2
    left_out = [line for line in whole.splitlines() if line not in look.splitlines()]
    defined = {line.partition("(")[0] for line in left_out if re.match(r"[a-z_]+\(\) \{", line)}
    assert {"replace", "lock", "swap_rename", "dress", "backup_file"} <= defined
    reached = {"read_file", "list"}
    while (
        more := {
            name
            for caller in reached
            for name in re.findall(r"\b[a-z_]+\b", _body(look, caller))
            if f"\n{name}() {{" in f"\n{whole}"
        }
        - reached
    ):
        reached |= more
    assert {"read_file", "resolve", "find_mount", "find_running"} <= reached
    assert not reached & defined


def _body(script: str, function: str) -> str:
    return script.partition(f"\n{function}() {{")[2].partition("\n}\n")[0]
