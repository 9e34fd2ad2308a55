"""Reproducers as evidence: rounds, exits, ends of output, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knobledger.errors import Refused, Usage
from knobledger.probing import KEPT, rounds
from workspaces import Bench

SLUG = "hang"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "ws", env={**os.environ, "KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"})
    with bench.open() as workspace:
        workspace.open_hypothesis(SLUG, "it hangs", [])
    return bench


def test_all_rounds_pass_and_contradict(bench: Bench) -> None:
    with bench.open() as workspace:
        report = workspace.probe(SLUG, ["true"], times=24, contradicts_if="pass", supports_if="fail")
        found = workspace.hypothesis(SLUG).to_json()["hypothesis"]
    assert (report.event.passes, len(report.event.runs), report.exit_code) == (24, 24, 0)
    [evidence] = found["contradicts"]
    assert evidence["text"] == "24 of 24 rounds pass: true"
    assert (evidence["weight"], evidence["source"]) == ("experiment", "probed")
    assert evidence["rests_on"] == report.id


def test_one_failure_supports(bench: Bench, tmp_path: Path) -> None:
    line = f"echo x >>{tmp_path}/n; test $(wc -l <{tmp_path}/n) -ne 2 || {{ echo stuck >&2; exit 7; }}"
    with bench.open() as workspace:
        report = workspace.probe(SLUG, ["sh", "-c", line], times=3, supports_if="fail")
        assert [item.event.text[:19] for item in workspace.find_hypothesis(SLUG).on("supports")] == [
            "2 of 3 rounds pass:"
        ]
    assert [run.exit for run in report.event.runs] == [0, 7, 0]
    assert report.event.runs[1].output == "stuck\n"


def test_an_outcome_that_means_nothing_is_no_evidence(bench: Bench) -> None:
    with bench.open() as workspace:
        report = workspace.probe(SLUG, ["false"], contradicts_if="pass")
        one = workspace.find_hypothesis(SLUG)
    assert report.to_json()["evidence"] is None
    assert (one.on("supports"), one.on("contradicts"), len(one.probes)) == ([], [], 1)


def test_what_can_not_be_run_is_refused_and_not_recorded(bench: Bench) -> None:
    with bench.open() as workspace:
        with pytest.raises(Refused, match="no such file"):
            workspace.probe(SLUG, ["/nowhere/harness"], contradicts_if="pass")
        for wrong in ({}, {"supports_if": "pass", "contradicts_if": "pass"}):
            with pytest.raises(Usage):
                workspace.probe(SLUG, ["true"], **wrong)  # type: ignore[arg-type]
        assert workspace.find_hypothesis(SLUG).probes == []


def test_secrets_of_the_environment_and_of_the_output_are_masked(bench: Bench) -> None:
    with bench.open(DB_PASSWORD="correct-horse-battery") as workspace:
        line = 'echo "I am $DB_PASSWORD"; echo HF_TOKEN=hf_abcdefghijkl'
        report = workspace.probe(SLUG, ["sh", "-c", line], contradicts_if="pass")
    [run] = report.event.runs
    assert run.output.startswith("I am <secret ")
    assert "hf_abcdefghijkl" not in run.output + report.event.command


def test_only_the_end_of_much_output_is_kept_and_no_pipe_fills_up() -> None:
    code = "import sys; sys.stdout.write('x' * 3_000_000 + 'end')"
    [run] = rounds([sys.executable, "-c", code], 1, env=os.environ)
    assert len(run.output) == KEPT
    assert run.output.endswith(b"end")


def test_a_round_that_takes_too_long_is_ended_with_all_its_children(tmp_path: Path) -> None:
    line = f"sleep 300 & echo $! >{tmp_path}/child; wait"
    [run] = rounds(["sh", "-c", line], 1, env=os.environ, limit_s=0.5)
    assert (run.exit, run.passed) == (None, False)
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end and _alive(child):
        time.sleep(0.05)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_signal_is_an_exit_code() -> None:
    [run] = rounds(["sh", "-c", "kill -TERM $$"], 1, env=os.environ)
    assert run.exit == 128 + signal.SIGTERM


def test_ctrl_c_keeps_the_rounds_that_are_done(bench: Bench, tmp_path: Path) -> None:
    counter = tmp_path / "rounds"
    line = f"echo x >>{counter}; test $(wc -l <{counter}) -lt 3 || sleep 300"
    argv = [
        *(
            sys.executable,
            "-m",
            "knobledger",
            "-C",
            str(bench.root),
            "probe",
            SLUG,
            "--contradicts-if",
            "pass",
        ),
        *("--times", "9", "--", "sh", "-c", line),
    ]
    running = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **bench.env}, text=True
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and not (counter.exists() and counter.read_text().count("x") == 3):
        time.sleep(0.05)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    assert "interrupted: 9 rounds were asked for" in out
    with bench.open() as workspace:
        [probe] = workspace.find_hypothesis(SLUG).probes
        assert [run.exit for run in probe.event.runs] == [0, 0]
        [evidence] = workspace.find_hypothesis(SLUG).on("contradicts")
    assert evidence.event.text.startswith("2 of 2 rounds pass (interrupted; 9 were asked for): sh -c ")
