"""Outgoing webhooks: notices go into a spool first, and are then sent for a short time; the rest waits for later commands.

No change ever fails or waits long for one. A notice may arrive twice; its `id` says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from knobledger.errors import KnobError
from knobledger.hosts.sections import Hook
from knobledger.ledger.writing import private_folder, write_once, write_over
from knobledger.notices import Notice, slack

PATIENCE_S = 3.0
"""how long a command may be held up by webhooks, all together"""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 3600.0
"""between two tries of one notice; the pause doubles"""
KEPT_S = 3 * 86400.0
"""after which a notice that nobody took is dropped"""
MOST_WAITING = 500
_FOLDER = "notify"


class _Waiting(Struct):
    """One notice for one webhook, as it lies in the spool."""

    path: Path
    hook: str
    body: dict[str, Any]
    since: float
    """when it was put there, seconds of the epoch"""
    tries: int = 0
    due: float = 0.0

    def keep(self) -> None:
        kept = {
            "hook": self.hook,
            "body": self.body,
            "since": self.since,
            "tries": self.tries,
            "due": self.due,
        }
        write_over(self.path, json.dumps(kept).encode(), mode=0o600, durable=False)


def tell(root: Path, hooks: Mapping[str, Hook], notices: Sequence[Notice]) -> list[str]:
    """Puts notices into the spool and sends what is due. Sentences for the footer; never raises but for a bug.

    Returns after `PATIENCE_S` at the latest, and at Ctrl-C.
    """
    try:
        folder = root / ".knobledger" / _FOLDER
        if not notices and not folder.is_dir():
            return []
        private_folder(root)
        folder.mkdir(mode=0o700, exist_ok=True)
        _put(folder, hooks, notices)
        return _send(root, folder, hooks)
    except KeyboardInterrupt:
        return ["interrupted while webhooks were told: the rest goes with a later command"]
    except (OSError, KnobError, ValueError) as error:
        return [f"webhooks were not told: {error}"]


def _put(folder: Path, hooks: Mapping[str, Hook], notices: Sequence[Notice]) -> None:
    now = time.time()
    for notice in notices:
        # What every command would notice anew is told once.
        if notice.kind == "expiring" and not write_once(folder / f"said-{notice.id[:32]}", b"", mode=0o600):
            continue
        for name, hook in hooks.items():
            if notice.kind in hook.on:
                path = folder / f"{notice.at.replace(':', '')}-{notice.id[:16]}-{name}.json"
                _Waiting(path, name, notice.body, now).keep()


def _send(root: Path, folder: Path, hooks: Mapping[str, Hook]) -> list[str]:
    end = time.monotonic() + PATIENCE_S
    notes: list[str] = []
    with _alone(folder, end) as alone:
        if not alone:
            return []  # another command is at it, and takes what it finds
        due: dict[str, deque[_Waiting]] = {}
        for waiting in _spooled(folder, hooks):
            if waiting.due <= time.time():
                due.setdefault(waiting.hook, deque()).append(waiting)
        failures: dict[str, str] = {}
        threads = [
            threading.Thread(
                target=_deliver, args=(root, hooks[name], items, end, failures), daemon=True, name=name
            )
            for name, items in due.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                failures.setdefault(thread.name, "no answer in time")
        for name, reason in failures.items():
            left = sum(1 for item in due[name] if item.path.exists())
            notes.append(
                f"webhook {name!r} took no notice ({reason}); {max(left, 1)} wait for a later command"
            )
    return notes


@contextmanager
def _alone(folder: Path, end: float) -> Iterator[bool]:
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    yield False
                    return
                time.sleep(0.05)
        yield True
    finally:
        os.close(fd)


def _spooled(folder: Path, hooks: Mapping[str, Hook]) -> Iterator[_Waiting]:
    """Oldest first. What is too old, too much, damaged or for a webhook that is gone is dropped."""
    paths = sorted(folder.glob("*.json"))
    for path in paths[:-MOST_WAITING]:
        path.unlink(missing_ok=True)
    for path in paths[-MOST_WAITING:]:
        try:
            item = _Waiting(path, **json.loads(path.read_bytes()))
            wanted = item.hook in hooks and time.time() - item.since < KEPT_S
        except (ValueError, TypeError):
            wanted = False
        except OSError:
            continue
        if wanted:
            yield item
        else:
            path.unlink(missing_ok=True)


def _deliver(root: Path, hook: Hook, items: deque[_Waiting], end: float, failures: dict[str, str]) -> None:
    """One webhook's notices in their order; the first that is not taken ends it."""
    for item in items:
        left = end - time.monotonic()
        if left <= 0:
            return
        # Written first: a command that dies in between must not try again at once for ever.
        item.tries += 1
        item.due = time.time() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (item.tries - 1))
        try:
            item.keep()
            reason = _post(_url(root, hook), slack(item.body) if hook.format == "slack" else item.body, left)
        except (OSError, KnobError, ValueError) as error:
            reason = _without_url(error)
        if reason:
            failures[item.hook] = reason
            return
        with suppress(OSError):
            item.path.unlink(missing_ok=True)


def _url(root: Path, hook: Hook) -> str:
    if hook.url_file is None:
        return hook.url or ""
    return (root / Path(hook.url_file).expanduser()).read_text("utf-8").strip()


def _without_url(error: Exception) -> str:
    """A webhook's URL may be a secret of its own."""
    said = str(getattr(error, "reason", "") or getattr(error, "strerror", "") or type(error).__name__)
    return re.sub(r"https?://\S+", "its URL", said)


def _post(url: str, body: Mapping[str, Any], timeout_s: float) -> str:
    """Why it was not taken; empty if it was. Redirects are not followed: they would carry it elsewhere."""
    import http.client
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any) -> None:
            del args

    if not url.startswith(("https://", "http://")):
        return "its URL is neither http nor https"
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "knobledger"},
        method="POST",
    )
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=timeout_s) as answer:
            return "" if 200 <= answer.status < 300 else f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code}"
    except http.client.HTTPException as error:
        return f"no answer in HTTP: {type(error).__name__}"
