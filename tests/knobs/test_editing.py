"""What an edit makes of a file, and when it is refused."""

from __future__ import annotations

from textwrap import dedent

import pytest

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, KnobEdit, Reading, Request, edit


def text(script: str) -> bytes:
    return dedent(script).lstrip("\n").encode()


def after(script: str | bytes, *wanted: str, dialect: Dialect = Dialect.BASH, **options: object) -> str:
    content = text(script) if isinstance(script, str) else script
    requests = [
        Request(item[1:], None)
        if item.startswith("!")
        else Request(item.partition("=")[0], item.partition("=")[2])
        for item in wanted
    ]
    edited = edit(Reading.of(content, dialect), requests, **options)  # type: ignore[arg-type]
    return edited.content.decode()


def refused(script: str | bytes, *wanted: str, **options: object) -> KnobRefused:
    with pytest.raises(KnobRefused) as caught:
        after(script, *wanted, **options)  # type: ignore[arg-type]
    return caught.value


ADDED = [
    ("export A=1\nsrv\n", "K=2", "export A=1\nexport K=2\nsrv\n"),
    ("#!/bin/bash\nset -e\nsrv", "K=2", "#!/bin/bash\nset -e\nexport K=2\nsrv"),
    ("a=1; srv\n", "K=2", "export K=2\na=1; srv\n"),
    (
        "if [ a ]; then\n  srv --x 1\nelse\n  srv --x 2\nfi\n",
        "K=2",
        "export K=2\nif [ a ]; then\n  srv --x 1\nelse\n  srv --x 2\nfi\n",
    ),
    ("f() {\n  exec srv\n}\nf\n", "K=2", "f() {\n  exec srv\n}\nexport K=2\nf\n"),
    ("export A=1 \\\n  B=2\nsrv\n", "K=2", "export A=1 \\\n  B=2\nexport K=2\nsrv\n"),
    (
        "if [ a ]; then\n  export A=1\nfi\nA=1 \\\n  srv\n",
        "K=2",
        "if [ a ]; then\n  export A=1\nfi\nexport K=2\nA=1 \\\n  srv\n",
    ),
    ("cat > x <<E\nexport A=1\nE\nsrv\n", "K=2", "cat > x <<E\nexport A=1\nE\nexport K=2\nsrv\n"),
    ("export A=1\n", "K=a b", "export A=1\nexport K='a b'\n"),
    ("docker run -d img srv\n", "K=2", "docker run -d -e K=2 img srv\n"),
    ("srv --a 1\n", "--k=2", "srv --a 1 --k 2\n"),
    ("srv --a 1\n", "--k=", "srv --a 1 --k\n"),
    ("srv --a 1 > log 2>&1 &\n", "--k=2", "srv --a 1 --k 2 > log 2>&1 &\n"),
    ("srv --a 1 2>&1 | tee log\n", "--k=2", "srv --a 1 --k 2 2>&1 | tee log\n"),
    ("srv \\\n  --a 1 \\\n  --b 2\n", "--k=x;y", "srv \\\n  --a 1 \\\n  --b 2 \\\n  --k 'x;y'\n"),
    ('srv \\\n  --a 1 \\\n  "$@"\n', "--k=2", 'srv \\\n  --a 1 \\\n  --k 2 \\\n  "$@"\n'),
    ('exec srv --a 1 "$@"\n', "--k=2", 'exec srv --a 1 --k 2 "$@"\n'),
    ('A=(--a 1)\nsrv "${A[@]}"\n', "--k=2", 'A=(--a 1)\nsrv "${A[@]}" --k 2\n'),
]


@pytest.mark.parametrize(("script", "wanted", "expected"), ADDED)
def test_add(script: str, wanted: str, expected: str) -> None:
    assert after(script.encode(), wanted, add=True) == expected
    assert "type --add" in refused(script.encode(), wanted).hint


def test_add_keeps_line_endings() -> None:
    assert (
        after(b"export A=1\r\nsrv --x 1 # go\r\n", "K=2", add=True)
        == "export A=1\r\nexport K=2\r\nsrv --x 1 # go\r\n"
    )


def test_add_sets_what_is_there() -> None:
    assert after("export K=1\nsrv\n", "K=2", add=True) == "export K=2\nsrv\n"


TAKEN_OUT = [
    ("export K=1\nsrv\n", "srv\n"),
    ("export K=1 # why\nsrv\n", "# why\nsrv\n"),
    ("export K=1; export B=2\nsrv\n", "export B=2\nsrv\n"),
    ("export B=2; export K=1\nsrv\n", "export B=2\nsrv\n"),
    ("export K=1 B=2\nsrv\n", "export B=2\nsrv\n"),
    ("export K=1 && srv\n", ": && srv\n"),
    ("K=1; export K\nsrv\n", "export K\nsrv\n"),
    ("  K=1 srv\n", "  srv\n"),
    ("K=1 \\\n  srv\n", "  srv\n"),
    ("export \\\n  K=1 \\\n  B=2\nsrv\n", "export \\\n  B=2\nsrv\n"),
    ("export \\\n  B=2 \\\n  K=1\nsrv\n", "export \\\n  B=2\nsrv\n"),
    (': "${K:=1}"\nexport K\nsrv\n', "export K\nsrv\n"),
    ("env -i K=1 srv\n", "env -i srv\n"),
    ("docker run -e K=1 img srv\n", "docker run img srv\n"),
    ("docker run \\\n  -e K=1 \\\n  img srv\n", "docker run \\\n  img srv\n"),
    ("srun --export=ALL,K=1,B=2 srv\n", "srun --export=ALL,B=2 srv\n"),
]


@pytest.mark.parametrize(("script", "expected"), TAKEN_OUT)
def test_unset(script: str, expected: str) -> None:
    assert after(script.encode(), "!K") == expected


FLAGS_OUT = [
    ("srv --k 1 --b 2\n", "srv --b 2\n"),
    ("srv \\\n  --k \\\n    1 \\\n  --b 2\n", "srv \\\n  --b 2\n"),
    ("srv \\\n  --b 2 \\\n  --k 1\n", "srv \\\n  --b 2\n"),
    ("srv \\\n  --b 2 \\\n  --k 1", "srv \\\n  --b 2"),
    ("A=(--k 1 --b 2)\nsrv ${A[@]}\n", "A=(--b 2)\nsrv ${A[@]}\n"),
    ('A="--k 1 --b 2"\nsrv $A\n', 'A="--b 2"\nsrv $A\n'),
    ('A="--b 2 --k"\nsrv $A\n', 'A="--b 2"\nsrv $A\n'),
]


@pytest.mark.parametrize(("script", "expected"), FLAGS_OUT)
def test_unset_flag(script: str, expected: str) -> None:
    assert after(script.encode(), "!--k") == expected


ARMS = """
    export K=1
    if [ "$X" ]; then
      export K=2
    fi
    srv
"""


def test_an_arm_is_refused_and_can_be_pointed_at() -> None:
    error = refused(ARMS, "K=5")
    assert error.exit_code == 1
    assert "'K'" in error.message
    assert "--line" in error.hint
    assert error.values["occurrences"] == [
        {"line": 1, "text": "export K=1", "reason": "may decide"},
        {"line": 3, "text": "export K=2", "reason": "under a condition; may decide"},
    ]
    assert "  export K=5\nfi" in after(ARMS, "K=5", line=3)
    assert after(ARMS, "K=5", line=1).startswith("export K=5\n")
    assert "line 2" in refused(ARMS, "K=5", line=2).message
    refused(ARMS, "K=5", force=True)


def test_the_only_command_of_an_arm() -> None:
    assert after(ARMS, "!K", line=3) == text(ARMS).decode().replace("  export K=2", "  :")


def test_dynamic_is_refused_and_can_be_forced() -> None:
    script = "export K=$(date)\nsrv\n"
    assert "$(date)" in refused(script, "K=5").message
    assert after(script, "K=5", force=True) == "export K=5\nsrv\n"
    assert after(script, "K=5", line=1) == "export K=5\nsrv\n"


def test_a_comment_can_not_be_pointed_at() -> None:
    assert "commented out" in refused("# export K=1\nsrv\n", "K=2", line=1).message


def test_a_mistyped_name_is_guessed() -> None:
    error = refused("export SGLANG_TARGET_CTAS=1\nsrv --mem-fraction 2\n", "SGLANG_TARGET_CTA=2")
    assert "did you mean 'SGLANG_TARGET_CTAS'?" in error.hint
    assert "'--mem-fraction'" in refused("export A=1\nsrv --mem-fraction 2\n", "!--mem-fractoin").hint
    assert "--add" in refused("export A=1\nsrv\n", "OTHER=2").hint


def test_names_need_not_be_text() -> None:
    content = b"\xff\xe0=1\n"
    edited = edit(Reading.of(content, Dialect.ENV_DOCKER), [Request("\udcff\udce0", "2")])
    assert edited.content == b"\xff\xe0=2\n"


def test_requests_follow_each_other() -> None:
    script = "export A=1\nexport B=2\nsrv --x 1\n"
    assert after(script, "!A", "B=3", "--x=2", "C=4", add=True) == "export B=3\nexport C=4\nsrv --x 2\n"


def test_a_later_refusal_refuses_all() -> None:
    refused("export A=1\nsrv\n", "A=2", "B=3")


def test_edits_tell_what_changed() -> None:
    content = b"export A=1\nexport B=2\nsrv --x 1 --y\n"
    edited = edit(
        Reading.of(content, Dialect.BASH), [Request("--y", None), Request("A", "3"), Request("B", None)]
    )
    assert edited.edits == (
        KnobEdit("--y", "flag", "", None),
        KnobEdit("A", "env", "1", "3"),
        KnobEdit("B", "env", "2", None),
    )


def test_a_string_of_flags_is_told_by_its_flags() -> None:
    edited = edit(Reading.of(b'ARGS="--x 1 --y 2"\nsrv $ARGS\n', Dialect.BASH), [Request("--x", "3")])
    assert edited.edits == (KnobEdit("--x", "flag", "1", "3"),)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("--o.a.b=7", 'srv --o \'{"a": {"b": 7}, "c": "x"}\'\n'),
        ("--o.c=y z", 'srv --o \'{"a": {"b": 2}, "c": "y z"}\'\n'),
        ("--o.a=null", 'srv --o \'{"a": null, "c": "x"}\'\n'),
    ],
)
def test_one_key_of_json(request_: str, expected: str) -> None:
    assert after('srv --o \'{"a": {"b": 2}, "c": "x"}\'\n', request_) == expected


@pytest.mark.parametrize(
    "value", ["$(id)", "`id`", "a;b", "a\nb", "!x", "*", "~/x", "$HOME", "a b", "", "'", '"', "\\", "#", "é"]
)
@pytest.mark.parametrize(
    "script",
    ["export K=1\nsrv\n", 'export K="1"\nsrv\n', "export K='1'\nsrv\n", "export K=$'1'\nsrv\n", "K=1 srv\n"],
)
def test_values_arrive_literally(script: str, value: str) -> None:
    content = after(script, f"K={value}").encode()
    assert Reading.of(content, Dialect.BASH).decided()["K"].value == value


def test_the_shell_is_asked() -> None:
    asked: list[bytes] = []

    def check(content: bytes, dialect: Dialect) -> str:
        asked.append(content)
        return "line 1: oh" if b"2" in content else ""

    error = refused("export K=1\nsrv\n", "K=2", check=check)
    assert "line 1: oh" in error.message
    assert len(asked) == 2
    assert after("export K=1\nsrv\n", "K=1", check=check) == "export K=1\nsrv\n"


def test_text_that_can_not_be_read_is_not_edited() -> None:
    assert "can't be read" in refused('export K=1\nsrv "\n', "K=2").message
    refused("if true; then\nexport K=1\nsrv\n", "K=2")
    refused("export A=1\nsrv\nexport K=1 )\nexport K=2\n", "K=3")


def test_a_unit_without_a_section_is_warned_of() -> None:
    assert Reading.of(b"Environment=K=1\n", Dialect.UNIT).warnings


def test_a_shell_in_a_unit_is_read_and_not_edited() -> None:
    content = b"[Service]\nExecStart=/bin/sh -c 'A=1 exec srv --x \"a b\"'\n"
    decided = Reading.of(content, Dialect.UNIT).decided()
    assert (decided["A"].value, decided["--x"].value) == ("1", "a b")
    error = refused(content, "--x=2", dialect=Dialect.UNIT)
    assert "more than one shell" in error.message
    assert "knob edit" in error.hint


def test_what_stands_behind_an_exec_is_no_launch() -> None:
    reading = Reading.of(b"exec srv --x 1\nsrv --x 2\n", Dialect.BASH)
    assert [launch.line for launch in reading.launches] == [1]


@pytest.mark.parametrize("giver", ["read -r KB <<< word", "printf -v KB %s word"])
@pytest.mark.parametrize("export", ["export KB", "declare -x KB", "set -a"])
def test_a_knob_that_something_else_gives_a_value_too_is_not_gone(giver: str, export: str) -> None:
    lines = (export, giver) if export == "set -a" else (giver, export)
    text = "\n".join((*lines, "KB='v' srv --id 1", "")).encode()
    with pytest.raises(KnobRefused) as caught:
        edit(Reading.of(text, Dialect.BASH), [Request("KB", None)])
    assert "would not be gone" in caught.value.message
    assert "gives it a value on line" in caught.value.message
