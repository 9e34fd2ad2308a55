"""`knob live` against real processes on this machine."""

from __future__ import annotations

import os
import time

import pytest
from watched import KNOB, SCRIPT, Watched, eventually

from knobledger.services.started import Environment, flag_value, runs

WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"
TITLED = (
    "import sys, setproctitle\nsetproctitle.setproctitle('sglang::scheduler_TP0')\n"
    "print('ready', flush=True)\nsys.stdin.read()\n"
)
WORKERS = """\
import os, subprocess, sys
titled = "import sys, setproctitle; setproctitle.setproctitle('sglang::worker'); print(1, flush=True); sys.stdin.read()"
plain = "import sys; print(1, flush=True); sys.stdin.read()"
for code, value in zip((titled, plain, plain), sys.argv[1:]):
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "KNOB": value},
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
""".replace("KNOB", KNOB)


def test_a_knob_that_the_process_has(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WAITS, script=True)
    target = watched.live(KNOB)
    [knob], [process] = target["knobs"], target["processes"]
    assert (knob["state"], knob["value"], knob["agrees"]) == ("present", "512", True)
    assert knob["file"] == {"state": "set", "value": "512", "place": "line 2"}
    assert knob["processes"] == [
        {"pid": pid, "state": "present", "value": "512", "reason": "", "relatives": []}
    ]
    assert (process["pid"], process["parent"]) == (pid, os.getpid())
    assert "--port 30001" in process["command"]


def test_file_process_and_flags_when_no_name_is_given(watched: Watched) -> None:
    watched.write(SCRIPT)
    watched.start(WAITS, script=True)
    knobs = {knob["name"]: knob for knob in watched.live()["knobs"]}
    assert set(knobs) == {KNOB, "HF_TOKEN", "--port", "--api-key"}
    assert all(knob["agrees"] and knob["state"] == "present" for knob in knobs.values())
    assert knobs["--port"]["value"] == "30001"


def test_no_secret_is_shown_or_kept(watched: Watched) -> None:
    watched.write(SCRIPT)
    watched.start(WAITS, script=True)
    said = "".join("".join(map(str, watched.say("live", "gpu1/decode", *more))) for more in ((), ("--json",)))
    assert "<secret " in said
    for secret in ("planted0token0value", "planted0key0value"):
        assert secret not in said
        assert secret not in watched.everything_written()


def test_what_was_written_after_the_start_is_not_in_the_process(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WAITS, script=True)
    assert watched.knob(KNOB)["agrees"] is True
    time.sleep(0.2)
    watched.write(watched.script.read_text().replace("=512", "=768"))
    target = watched.live(KNOB)
    [knob], [process] = target["knobs"], target["processes"]
    assert (knob["value"], knob["file"]["value"], knob["agrees"]) == ("512", "768", False)
    assert (process["pid"], process["after_write"]) == (pid, False)
    _, said, _ = watched.say("live", "gpu1/decode", KNOB)
    assert "started before the file was written: it has the old value" in said
    assert "NOT as written" in said


def test_a_process_that_started_after_the_write(watched: Watched) -> None:
    watched.write(SCRIPT)
    os.utime(watched.script, (time.time() - 60, time.time() - 60))
    watched.start(WAITS, env={KNOB: "512"})
    assert [p["after_write"] for p in watched.live(KNOB)["processes"]] == [True]


def test_a_knob_that_is_absent(watched: Watched) -> None:
    watched.write(SCRIPT)
    watched.start(WAITS)
    knob = watched.knob(KNOB)
    assert (knob["state"], knob["value"], knob["agrees"]) == ("absent", None, False)
    knob = watched.knob("NOWHERE_SET")
    assert (knob["state"], knob["file"]["state"], knob["agrees"]) == ("absent", "absent", True)


def test_an_overwritten_environment_is_unreadable_not_absent(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(TITLED, env={KNOB: "512"})
    knob = watched.knob(KNOB)
    assert (knob["state"], knob["value"], knob["agrees"]) == ("unreadable", None, None)
    assert [told["reason"] for told in knob["processes"]] == ["overwritten"]
    flag = watched.knob("--knob=--port")
    assert (flag["state"], flag["agrees"]) == ("unreadable", None)
    [process] = watched.live(KNOB)["processes"]
    assert (process["pid"], process["command"]) == (pid, "sglang::scheduler_TP0")


def test_parent_and_siblings_speak_for_the_unreadable(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WORKERS, ["512", "512", "512"], env={KNOB: "512"})
    knob = watched.knob(KNOB)
    assert (knob["state"], knob["value"], knob["agrees"]) == ("present", "512", True)
    [unread] = [told for told in knob["processes"] if told["state"] == "unreadable"]
    said = [(kin["relation"], kin["value"]) for kin in unread["relatives"]]
    assert said == [("parent", "512"), ("sibling", "512"), ("sibling", "512")]
    assert unread["relatives"][0]["pid"] == pid
    _, text, _ = watched.say("live", "gpu1/decode", KNOB)
    assert f"parent {pid} has 512; 2 siblings have 512" in text


def test_workers_that_differ(watched: Watched) -> None:
    watched.write(SCRIPT)
    watched.start(WORKERS, ["512", "512", "256"], env={KNOB: "512"})
    knob = watched.knob(KNOB)
    assert (knob["state"], knob["value"], knob["agrees"]) == ("present", None, False)
    states = sorted((told["state"], told["value"] or "") for told in knob["processes"])
    assert states == [("present", "256"), ("present", "512"), ("present", "512"), ("unreadable", "")]


def test_the_shell_that_runs_the_script_is_not_counted(watched: Watched) -> None:
    watched.write(SCRIPT.replace("exec ", ""))
    watched.start(WAITS, script=True)
    target = watched.live(KNOB)
    [knob] = target["knobs"]
    assert (knob["state"], knob["agrees"]) == ("present", True)
    assert [process["runs_script"] for process in target["processes"]] == [True, False]


def test_a_process_of_another_service_with_the_same_name_is_not_asked(watched: Watched) -> None:
    watched.write(SCRIPT)
    other = watched.start(WAITS, env={KNOB: "999"})
    pid = watched.start(WAITS, env={KNOB: "512"})
    target = watched.live(KNOB)
    assert [process["pid"] for process in target["processes"]] == [pid] != [other]
    assert target["knobs"][0]["value"] == "512"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_what_may_not_be_read_is_unreadable(watched: Watched) -> None:
    # A process that has made itself undumpable belongs to root in /proc; another user can't read it.
    watched.write(SCRIPT)
    watched.start(WAITS, env={KNOB: "512"})
    for folder in (watched.folder, *watched.folder.parents):
        if folder != folder.parent and not os.stat(folder).st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o055)
    child = os.fork()
    if child == 0:
        # The look itself as nobody; its result through the exit code.
        try:
            os.setgroups([])
            os.setuid(65534)
            from knobledger.hosts.config import Config
            from knobledger.hosts.local import LocalHost
            from knobledger.knobs import Masker
            from knobledger.services.live import judge, see

            config = Config.load(watched.root)
            where = config.target("gpu1/decode")
            sight = see(LocalHost("gpu1"), config.service("gpu1/decode"), where, (KNOB,))
            [knob] = judge(sight, Masker(b"k" * 32)).knobs
            os._exit(7 if [t.reason for t in knob.told] == ["no permission"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_service_that_is_down(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WAITS)
    watched.stop()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    target = watched.live(KNOB)
    assert target["processes"] == []
    assert target["knobs"][0]["state"] == "unreadable"
    assert "no process of gpu1/decode runs" in target["remarks"][0]
    assert watched.events("seen_live") == []


def test_a_log_that_calls_it_unknown(watched: Watched) -> None:
    watched.configure(f'log = "{watched.folder}/log"\n')
    watched.write(SCRIPT + "export VLLM_NOT_A_KNOB=1\n")
    (watched.folder / "log").write_text(
        "WARNING 11-30 [envs.py:1] Unknown vLLM environment variable detected: VLLM_NOT_A_KNOB_2\n"
        "WARNING 11-30 [envs.py:1] Unknown vLLM environment variable detected: VLLM_NOT_A_KNOB\n"
    )
    watched.start(WAITS, env={"VLLM_NOT_A_KNOB": "1"})
    said = watched.knob("VLLM_NOT_A_KNOB")["unknown_to_program"]
    assert said is not None
    assert said.endswith("detected: VLLM_NOT_A_KNOB")
    assert watched.knob("VLLM_NOT")["unknown_to_program"] is None


def test_what_was_seen_is_an_event(watched: Watched) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WORKERS, ["512", "512", "256"], env={KNOB: "512"})
    watched.live(KNOB)
    [event] = watched.events("seen_live")
    assert (event.target, event.service, event.path) == ("gpu1/decode", "gpu1/decode", str(watched.script))
    [knob] = event.knobs
    assert (knob.name, knob.written, knob.state, knob.value) == (KNOB, "512", "present", None)
    assert {(v.state, v.value, len(v.pids)) for v in knob.values} == {
        ("present", "512", 2),
        ("present", "256", 1),
        ("unreadable", None, 1),
    }
    assert event.processes[0].pid == pid
    assert watched.say("verify")[0] == 0
    assert watched.say("log", "--kind", "seen_live")[0] == 0


def test_a_service_that_can_not_be_found_says_what_to_add(watched: Watched) -> None:
    watched.write(SCRIPT)
    path = watched.root / "hosts.toml"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("pid")))
    code, out, _ = watched.say("live", "gpu1/decode")
    assert code == 1
    assert "neither a unit nor a pid command" in out


@pytest.mark.parametrize(
    ("raw", "values", "closed"),
    [
        (None, {}, "no permission"),
        (b"", {}, ""),
        (b"A=1\0B=x y\0", {"A": "1", "B": "x y"}, ""),
        (b"A=1\0A=2\0", {"A": "1"}, ""),
        (b"A=1\nB=2\0", {"A": "1\nB=2"}, ""),
        (b"\0" * 300, {}, "overwritten"),
        (b"worker_TP0\0\0\0\0", {}, "overwritten"),
        (b"worker --flag=3 A=1\0\0\0", {}, "overwritten"),
        # The title ran over the first entries: what follows it may be the rest of a longer name.
        (b"title\0RGET_CTAS=512\0B=2\0", {"B": "2"}, "overwritten"),
        (b"BASH_FUNC_x%%=() { :; }\0A=1\0", {"BASH_FUNC_x%%": "() { :; }", "A": "1"}, ""),
    ],
)
def test_environments(raw: bytes | None, values: dict[str, str], closed: str) -> None:
    found = Environment.of(raw)
    assert (dict(found.values), found.closed) == (values, closed)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("p --tp 8", "8"),
        ("p --tp=8", "8"),
        ("p --tp", ""),
        ("p --tp --other", ""),
        ("p --tp -x", ""),
        ("p --tp -1", "-1"),
        ("p --tp 4 --tp 8", "8"),
        ("p --tpx 8", None),
        ("p", None),
    ],
)
def test_flags_on_a_command_line(line: str, value: str | None) -> None:
    assert flag_value(line.split(), "--tp") == value


def test_who_runs_the_script() -> None:
    assert runs(["bash", "/srv/s.sh"], "/srv/s.sh")
    assert runs(["/bin/sh", "-e", "s.sh"], "/srv/s.sh")
    assert runs(["bash", "-e", "-x", "a/../s.sh"], "/srv/a/../s.sh")
    assert runs(["bash", "./b/s.sh", "/srv/other.sh"], "/srv/b/s.sh")
    assert not runs(["bash", "other.sh", "/srv/s.sh"], "/srv/s.sh")
    assert not runs(["python3", "/srv/s.sh"], "/srv/s.sh")
    assert not runs(["bash", "/srv/other.sh"], "/srv/s.sh")
    assert not runs(["vim", "/srv/s.sh"], "/srv/s.sh")
    assert not runs([], "/srv/s.sh")
