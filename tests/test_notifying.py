"""Webhooks, told by a real HTTP server; and that none of its moods fails a change or holds it up."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knobledger import notifying
from knobledger.author import Author
from knobledger.drafting import Options
from knobledger.errors import BadConfig, KnobError
from knobledger.event import stamp
from knobledger.events.arming import Armed, Arming
from knobledger.hosts.config import Config
from knobledger.names import EventId, TargetName
from workspaces import HOSTS, KNOB, SCRIPT, SERVE, Bench

SECRET = "hf_abcdefghijklmnopqrstuvwxyz012345"


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it is sent; answers as its mood is."""

    daemon_threads = True

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.asked = 0
        self.status = 200
        self.location = ""
        self.free = threading.Event()
        self.free.set()
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook-s3cret"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.asked += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.free.wait(20)
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if self.server.status == 200:
            self.server.got.append(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.free.set()
            server.shutdown()
            thread.join()


def bench_with(folder: Path, hook: str) -> Bench:
    bench = Bench(folder / "ws")
    (bench.root / "hosts.toml").write_text(f"{HOSTS}\n[notify.ops]\n{hook}\n")
    return bench


def spool(bench: Bench) -> list[Path]:
    return sorted((bench.root / ".knobledger" / "notify").glob("*.json"))


def later(bench: Bench) -> None:
    """Makes what waits due, as time would."""
    for path in spool(bench):
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "due": 0}))


def test_what_is_told(tmp_path: Path, receiver: Receiver) -> None:
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    change = bench.set((KNOB, "512"), why="faster")
    assert [body["notice"] for body in receiver.got] == ["planned", "approved", "applied"]
    planned = receiver.got[0]
    assert planned["plan"] == change.id == planned["id"]
    assert planned["targets"] == ["gpu1/decode"]
    assert planned["edits"] == [{"target": "gpu1/decode", "name": KNOB, "before": "256", "after": "512"}]
    assert planned["why"] == "faster"
    assert planned["actor"] == "anna"
    assert f"knob approve {change.id[:8]}" in planned["command"]
    assert spool(bench) == []
    # an event is told once
    with bench.open() as workspace:
        workspace.plans()
    assert len(receiver.got) == 3


def test_only_what_is_asked_for(tmp_path: Path, receiver: Receiver) -> None:
    bench = bench_with(tmp_path, f'url = "{receiver.url}"\non = ["applied"]')
    bench.set((KNOB, "512"))
    assert [body["notice"] for body in receiver.got] == ["applied"]


def test_a_change_that_failed(tmp_path: Path, receiver: Receiver) -> None:
    bench = bench_with(tmp_path, f'url = "{receiver.url}"\non = ["failed", "rolled_back"]')
    plan = bench.plan((KNOB, "512"))
    bench.host.put(SCRIPT, SERVE + b"# by hand\n", mode="0755")
    with pytest.raises(KnobError):
        bench.apply(plan.id)
    [told] = receiver.got
    assert told["notice"] == "failed"
    assert told["reason"]


def test_slack(tmp_path: Path, receiver: Receiver) -> None:
    """Nobody's text becomes a mention or a link. The URL is a secret: it comes from a file."""
    bench = bench_with(tmp_path, 'url_file = "slack-url"\nformat = "slack"\non = ["planned"]')
    (bench.root / "slack-url").write_text(f"{receiver.url}\n")
    bench.plan((KNOB, "512"), why="<!channel> & <http://evil|here>")
    [told] = receiver.got
    assert "&lt;!channel&gt; &amp; &lt;http://evil|here&gt;" in told["text"]
    assert "<" not in told["text"]
    assert told["blocks"][0]["text"]["type"] == "plain_text"


def test_no_secret_is_told(tmp_path: Path, receiver: Receiver) -> None:
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    bench.host.put(SCRIPT, SERVE.replace(b"NCCL_DEBUG=WARN", f"HF_TOKEN={SECRET}".encode()), mode="0755")
    other = "hf_zyxwvutsrqponmlkjihgfedcba543210"
    bench.set(("HF_TOKEN", other), why=f"the old one was {SECRET}")
    assert len(receiver.got) == 3
    assert SECRET not in json.dumps(receiver.got)
    assert other not in json.dumps(receiver.got)


def test_a_server_that_is_down(tmp_path: Path, receiver: Receiver) -> None:
    dead = Receiver()
    dead.server_close()
    bench = bench_with(tmp_path, f'url = "{dead.url}"')
    with bench.open() as workspace:
        workspace.note("nothing to tell", None)
    assert bench.set((KNOB, "512")).is_change
    assert len(spool(bench)) == 3
    with bench.open() as workspace:
        plan = workspace.revert("@", Options())
    assert any("webhook 'ops' took no notice" in note for note in workspace.notes)
    assert "s3cret" not in " ".join(workspace.notes)
    # it comes back, elsewhere: a later command brings what waits, in order
    (bench.root / "hosts.toml").write_text(f'{HOSTS}\n[notify.ops]\nurl = "{receiver.url}"\n')
    later(bench)
    with bench.open() as workspace:
        workspace.plans()
    assert [body["notice"] for body in receiver.got] == ["planned", "approved", "applied", "planned"]
    assert receiver.got[-1]["plan"] == plan.id  # type: ignore[union-attr]
    assert spool(bench) == []


def test_a_server_that_answers_500(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 500
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    bench.plan((KNOB, "512"))
    assert receiver.asked == 1
    with bench.open() as workspace:
        workspace.plans()
    assert receiver.asked == 1, "it is not asked again at once"
    kept = json.loads(spool(bench)[0].read_bytes())
    assert kept["tries"] == 1
    assert kept["due"] > time.time() + 10
    assert spool(bench)[0].stat().st_mode & 0o077 == 0
    receiver.status = 200
    later(bench)
    with bench.open() as workspace:
        workspace.plans()
    assert [body["notice"] for body in receiver.got] == ["planned"]


def test_a_server_that_hangs(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes only after the change is done: nothing waits for it."""
    monkeypatch.setattr(notifying, "PATIENCE_S", 0.3)
    receiver.free.clear()
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    assert bench.set((KNOB, "512")).is_change
    assert not receiver.free.is_set()
    assert receiver.got == []
    assert f"{KNOB}=512".encode() in bench.live
    assert len(spool(bench)) == 3


def test_a_redirect_is_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    with Receiver() as elsewhere:
        thread = threading.Thread(target=elsewhere.serve_forever, args=(0.02,))
        thread.start()
        receiver.status, receiver.location = 307, elsewhere.url
        bench = bench_with(tmp_path, f'url = "{receiver.url}"')
        bench.plan((KNOB, "512"))
        elsewhere.shutdown()
        thread.join()
        assert (receiver.asked, elsewhere.asked) == (1, 0)


def test_what_is_no_http(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 smtp.example.org ready\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        bench = bench_with(tmp_path, f'url = "http://127.0.0.1:{server.getsockname()[1]}/"')
        bench.plan((KNOB, "512"))
        thread.join()
    assert len(spool(bench)) == 1


def test_a_spool_that_can_not_be_written(tmp_path: Path, receiver: Receiver) -> None:
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    folder = bench.root / ".knobledger" / "notify"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file in its place")
    assert bench.set((KNOB, "512")).is_change


def test_what_is_old_or_broken_is_dropped(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 500
    bench = bench_with(tmp_path, f'url = "{receiver.url}"')
    bench.plan((KNOB, "512"))
    [path] = spool(bench)
    path.write_text(
        json.dumps({**json.loads(path.read_bytes()), "since": time.time() - notifying.KEPT_S - 1})
    )
    path.with_name("0.json").write_text("{")
    path.with_name("1.json").write_text('{"hook": "gone", "body": {}, "since": 1}')
    with bench.open() as workspace:
        workspace.plans()
    assert spool(bench) == []


def test_a_confirmation_that_is_about_to_expire(tmp_path: Path, receiver: Receiver) -> None:
    """Whichever command notices tells it, once."""
    bench = bench_with(tmp_path, f'url = "{receiver.url}"\non = ["expiring"]')
    change = bench.set((KNOB, "512"))
    with bench.open() as workspace:
        facts = workspace.desk.author.signs()
        where = {"plan": EventId(change.id), "target": TargetName("gpu1/decode")}
        workspace.desk.write(Arming(**facts, **where, window_s=600, token="x"))  # type: ignore[arg-type]
        deadline = stamp(datetime.now(UTC) + timedelta(seconds=600))
        workspace.desk.write(
            Armed(**workspace.desk.author.signs(), **where, deadline=deadline, scheduler="process")  # type: ignore[arg-type]
        )
    assert receiver.got == []
    for _ in range(2):
        with bench.open() as workspace:
            workspace.author = Author("anna", now=lambda: datetime.now(UTC) + timedelta(seconds=500))
            workspace.plans()
    [told] = receiver.got
    assert told["notice"] == "expiring"
    assert told["command"] == f"knob confirm {change.id[:8]}"
    assert "puts itself back at" in told["reason"]


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("", "either url or url_file"),
        ('url = "https://a"\nurl_file = "b"', "either url or url_file"),
        ('url = "file:///etc/passwd"', "must begin with https://"),
        ('url = "https://a"\nformt = "slack"', "did you mean 'format'"),
        ('url = "https://a"\non = ["plannd"]', "notify.ops.on"),
    ],
)
def test_mistakes_in_hosts_toml(tmp_path: Path, hook: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Config.parse(f"[notify.ops]\n{hook}\n", tmp_path)
    assert said in caught.value.message
