"""`knob observe` against a real HTTP server with prometheus_client's exposition."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from metricsd import FAILED, INFLIGHT, RUNNING, page, serving
from watched import KNOB, SCRIPT, Watched, eventually

from knobledger.hosts.memory import MemoryHost
from knobledger.report.plot import plot
from knobledger.services.scrape import Wanted
from knobledger.services.scrape import look as scrape

FAST = ("--for", "2s", "--every", "0.1s")
"""twice the samples that are needed, since a busy machine misses some"""
FEW = ("--for", "0.3s", "--every", "0.1s")


def observe(watched: Watched, pages: Callable[[int], bytes | None], *argv: str) -> tuple[int, dict[str, Any]]:
    with serving(pages) as server:
        watched.configure(f'metrics = "{server.url}"\n')
        watched.write(SCRIPT)
        code, out, err = watched.say("observe", "gpu1/decode", *argv, "--json")
    assert out, err
    return code, dict(json.loads(out))


def inflight(values: list[float]) -> Callable[[int], bytes]:
    return lambda n: page(inflight=values[min(n, len(values) - 1)])


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([0.0, 2, 4, 0, 3, 0] * 5, "rotating"),
        ([float(n) for n in range(0, 60, 2)], "growing"),
    ],
)
def test_what_a_queue_does(watched: Watched, values: list[float], shape: str) -> None:
    code, found = observe(watched, inflight(values), INFLIGHT, *FAST)
    assert (code, found["class"], found["ended"]) == (0, shape, "complete")
    seen = [sample["value"] for sample in found["samples"] if sample["value"] is not None]
    assert seen == values[: len(seen)]
    assert (found["peak"], found["last"]) == (max(seen), seen[-1])
    [event] = watched.events("observed_metric")
    assert (event.shape, event.metric, event.interval_s) == (shape, INFLIGHT, 0.1)
    assert event.values == tuple(sample["value"] for sample in found["samples"])
    assert watched.say("verify")[0] == 0


def test_ranks_are_summed_and_can_be_picked(watched: Watched) -> None:
    def pages(_: int) -> bytes:
        return page({"0": 20, "1": 33})

    _, found = observe(watched, pages, RUNNING, *FEW)
    assert (found["peak"], len(found["series"])) == (53, 2)
    _, found = observe(watched, pages, RUNNING, *FEW, "--label", "tp_rank=1")
    assert (found["peak"], found["series"]) == (33, ['engine_type="decode",tp_rank="1"'])
    code, found = observe(watched, pages, RUNNING, *FEW, "--label", "tp_rank=7")
    assert code == 1
    assert "tp_rank=0, tp_rank=1" in found["error"]["hint"]


def test_that_ranks_were_summed_is_said(watched: Watched) -> None:
    with serving(lambda _: page({"0": 20, "1": 33})) as server:
        watched.configure(f'metrics = "{server.url}"\n')
        watched.write(SCRIPT)
        code, out, err = watched.say("observe", "gpu1/decode", RUNNING, *FEW)
    assert code == 0
    assert 'the sum of 2 series (tp_rank="0"; tp_rank="1"); --label picks' in out
    assert "too few samples" in out
    assert "peak 53   median 53   last 53" in out
    assert "Ctrl-C keeps what was sampled" in err
    assert "\x1b" not in out + err


def test_a_counter_has_a_rate_and_its_resets_are_noticed(watched: Watched) -> None:
    ranks = [{"0": 5.0 + n, "1": 100.0 + 2 * n} for n in range(6)] + [
        {"0": n, "1": 112.0 + n} for n in range(40)
    ]
    code, found = observe(watched, lambda n: page(failed=ranks[n]), FAILED, *FAST)
    assert (code, found["type"], found["class"], len(found["resets"])) == (0, "counter", "counting", 1)
    assert found["rate"] == pytest.approx(found["increase"] / 2.0, rel=0.3)
    assert watched.events("observed_metric")[0].resets == 1


def test_a_counter_by_the_name_without_its_total(watched: Watched) -> None:
    code, found = observe(watched, lambda _: page(), FAILED.removesuffix("_total"), *FEW)
    assert (code, found["metric"], found["class"]) == (0, FAILED, "still")


def test_a_missing_metric_names_the_nearest(watched: Watched) -> None:
    code, found = observe(watched, lambda _: page(), "vllm:num_runing_reqs", *FEW)
    assert (code, found["error"]["kind"]) == (1, "unknown")
    assert found["error"]["nearest"][0] == RUNNING
    assert watched.events("observed_metric") == []


def test_a_server_that_goes_in_the_middle(watched: Watched) -> None:
    code, found = observe(watched, lambda n: page(inflight=2) if n < 6 else None, INFLIGHT, *FAST)
    assert (code, found["ended"], found["class"]) == (23, "gone", "pinned")
    assert [sample["value"] for sample in found["samples"]][-1] is None
    assert "the samples before that are kept" in found["message"]
    [event] = watched.events("observed_metric")
    assert (event.ended, event.peak) == ("gone", 2)


def test_a_server_that_comes_back_leaves_a_hole(watched: Watched) -> None:
    code, found = observe(watched, lambda n: b"}" if n in (3, 4) else page(inflight=2), INFLIGHT, *FAST)
    assert (code, found["ended"]) == (0, "complete")
    assert found["missing"] >= 2


def test_nobody_listens(watched: Watched) -> None:
    watched.configure('metrics = "http://127.0.0.1:1/metrics"\n')
    watched.write(SCRIPT)
    code, out, err = watched.say("observe", "gpu1/decode", INFLIGHT, *FEW)
    assert (code, out) == (23, "")
    assert "connection refused" in err
    assert watched.events("observed_metric") == []


def test_a_page_that_is_none(watched: Watched) -> None:
    code, found = observe(watched, lambda _: b"<html>{</html>", INFLIGHT, *FEW)
    assert (code, found["error"]["kind"]) == (23, "no_metrics")
    watched.configure()
    code, out, _ = watched.say("observe", "gpu1/decode", INFLIGHT, *FEW, "--json")
    assert code == 1
    assert "no metrics address" in out


def test_ctrl_c_keeps_what_was_sampled(watched: Watched) -> None:
    with serving(lambda _: page(inflight=2)) as server:
        watched.configure(f'metrics = "{server.url}"\n')
        watched.write(SCRIPT)
        argv = [sys.executable, "-m", "knobledger", "observe", "gpu1/decode", INFLIGHT, "--for", "60s"]
        process = subprocess.Popen(
            [*argv, "--every", "0.1s", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        eventually(lambda: server.served >= 6, 20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    found = json.loads(out)
    assert (found["ended"], found["class"]) == ("interrupted", "pinned")
    assert "these are kept" in found["message"]
    [event] = watched.events("observed_metric")
    assert len(event.values) == len(found["samples"]) >= 5


def test_after_a_restart_it_is_part_of_the_change(watched: Watched) -> None:
    waits = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"
    with serving(lambda _: page({"0": 53})) as server:
        watched.configure(f'metrics = "{server.url}"\n')
        watched.write(SCRIPT)
        watched.start(waits, env={KNOB: "512"})
        after = ("observe", "gpu1/decode", RUNNING, *FEW, "--after-restart", "--json")
        assert "no change of 'gpu1/decode' is recorded" in watched.say(*after)[1]
        time.sleep(1.1)  # the file's time is known to the second
        change = watched.ask("set", "gpu1/decode", f"{KNOB}=768", "--go-ahead")["change"]
        code, out, _ = watched.say(*after)
        assert code == 1
        assert "it is not restarted yet" in out
        watched.start(waits, env={KNOB: "768"})
        assert watched.ask(*after[:-1])["change"] == change
    [event] = watched.events("observed_metric")
    assert (event.plan, event.peak) == (change, 53)
    [entry] = watched.ask("log", "--kind", "observed_metric", "--knob", KNOB)["entries"]
    assert entry["id"]
    [seen] = watched.ask("show", change)["observed"]
    assert (seen["peak"], seen["metric"]) == (53, RUNNING)
    assert f"after the restart, {event.at[:10]}" in watched.say("show", change)[1]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--for", "1s", "--every", "10ms"), "shorter than 0.1 s"),
        (("--for", "1s", "--every", "2s"), "one sample"),
        (("--for", "30h"), "more than 7200"),
        (("--for", "soon"), "no duration"),
        (("--for", "1s", "--label", "x"), "no label"),
        ((), "--for"),
    ],
)
def test_usage(watched: Watched, argv: tuple[str, ...], says: str) -> None:
    watched.configure('metrics = "http://127.0.0.1:1/metrics"\n')
    watched.write(SCRIPT)
    code, _, err = watched.say("observe", "gpu1/decode", INFLIGHT, *argv)
    assert code == 2
    assert says in err


def test_it_goes_through_the_host() -> None:
    """The address is dialled by the host, not by this machine."""

    def answer(stream: Any) -> None:
        stream.recv(65536)
        body = page(inflight=7)
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        stream.close()

    def service(stream: Any) -> None:
        threading.Thread(target=answer, args=(stream,), daemon=True).start()

    host = MemoryHost("gpu1", services={("10.9.8.7", 30001): service})
    found = scrape(host, "http://10.9.8.7:30001/metrics", Wanted(INFLIGHT), timeout_s=5)
    assert (found.kind, dict(found.series)) == ("gauge", {"": 7.0})


@pytest.mark.parametrize("width", [12, 60, 80, 200])
def test_a_plot_is_as_wide_as_it_may_be(width: int) -> None:
    values = [float(n % 7) for n in range(85)]
    lines = plot(values, width)
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("6 ┤")
    assert lines[-1].startswith("0 ┤")


def test_a_plot_keeps_its_peak_and_its_holes() -> None:
    values = [0.0] * 500
    values[333] = 53.0
    lines = plot(values, 40)
    assert sum(cell not in " ┤53⠀" for cell in lines[0]) == 1
    assert plot([None, None], 40) == ()
    assert plot([1.0, None, None, 1.0], 40, height=1)[0].endswith("┤⡇⢸")
